//! Contents of packages and models, for reading: host programs, placement, memory plans, transfers;
//! verification.
//!
//! ```
//! use tenon::Compiler;
//! use tenon::inspect::{Contents, MemoryReport, program_text};
//!
//! # let onnx = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits/digits.onnx");
//! let package = Compiler::new().compile_file(onnx)?.to_neff()?;
//! println!("{}", program_text(&package)?);
//! let report = MemoryReport::new(&Contents::read(&package)?)?;
//! assert!(report.arena_bytes >= report.live_bytes);
//! # Ok::<(), tenon::Error>(())
//! ```

mod memory_report;
mod program;
mod reference_time;
mod verify;

pub use memory_report::{MemoryReport, MemoryRow};
pub use program::{decode_module, decode_program, program_text};
pub use reference_time::ReferenceTime;
pub use verify::{PackageCheck, verify_file, verify_opened, verify_package};

pub use tenon_bef::Module;
pub use tenon_dma::Access;
pub use tenon_litert::SIGNATURES as LITERT_SIGNATURES;
pub use tenon_neff::{Contents, MemoryTraffic, PackageVariable, PlacementReport, Port, Role};
pub use tenon_onnx::{Dimension, Signature as OnnxSignature, ValueSignature as OnnxValue};
pub use tenon_runtime::{DescriptorRow, PackageTransfers, TransferOutcome};
