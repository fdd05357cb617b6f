//! Host programs by themselves, as BEF bytes or MLIR text: translated, rewritten and run.

mod execute;
mod input;
mod inputs;
mod kernels;
mod report;
mod rewrite;
mod trace;
mod translate;
mod verifier;
mod watched_output;

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

/// What an error says behind its place.
fn words(error: &Error) -> String {
    let all = error.single().to_string();
    let place = format!("{}: ", error.location());
    all.strip_prefix(&place).map_or(all.clone(), str::to_owned)
}
