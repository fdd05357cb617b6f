//! Host programs without a package, as BEF bytes or MLIR text: translated, rewritten and run.
//!
//! ```
//! use tenon::host_program::{Direction, ProgramInput, TranslateOptions, translate};
//!
//! let text = "func.func @f() -> i32 {\n  %0 = tfrt.constant.i32 7\n  tfrt.return %0 : i32\n}\n";
//! let input = ProgramInput::new("f.mlir", text.into());
//! let bef = translate(&input, &TranslateOptions::new(Direction::MlirToBef));
//! assert!(bef.succeeded && bef.output.starts_with(&[0x0B, 0xEF, 0]));
//! let input = ProgramInput::new("f.bef", bef.output);
//! let back = translate(&input, &TranslateOptions::new(Direction::BefToMlir));
//! assert_eq!(back.output, text.as_bytes());
//! ```

mod execute;
mod first_error_writer;
mod input;
mod inputs;
mod kernels;
mod report;
mod rewrite;
mod trace;
mod translate;
mod verifier;

pub use execute::{Driver, ExecOptions, Execution, execute};
pub use input::ProgramInput;
pub use inputs::Translation;
pub use kernels::{Kernels, kernels};
pub use rewrite::{RewriteOptions, rewrite};
pub use translate::{Direction, TranslateOptions, translate};

pub use tenon_bef::{Diagnostic, PrintOptions};
pub use tenon_executor::{AllocatorKind, KernelDef, Log, Registry};
pub use tenon_kernels::shared_library;

use tenon_base::Error;

/// The message of an error without its location.
fn words(error: &Error) -> String {
    let all = error.single().to_string();
    let place = format!("{}: ", error.location());
    all.strip_prefix(&place).map_or(all.clone(), str::to_owned)
}
