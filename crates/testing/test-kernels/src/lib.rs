//! Kernels for tests of the executor: `tfrt_test`, `vt` and `tfrt_tutorial`, and native functions
//! (bef 4.2). Tests and `tenon exec` load them; a runtime never does.
#![forbid(unsafe_code)]

mod asynchronous;
mod atomics;
mod benchmark;
mod errors;
mod locations;
mod native;
mod resources;
mod scalars;
mod statistics;
mod text;
mod tutorial;
mod values;
mod vt;

pub use native::library as natives;

use tenon_base::{Error, ErrorKind};
use tenon_executor::KernelDef;

/// All kernels.
pub fn library() -> Vec<KernelDef> {
    let families = [
        scalars::kernels(),
        text::kernels(),
        values::kernels(),
        asynchronous::kernels(),
        atomics::kernels(),
        errors::kernels(),
        locations::kernels(),
        resources::kernels(),
        benchmark::kernels(),
        vt::kernels(),
        tutorial::kernels(),
    ];
    families.into_iter().flatten().collect()
}

/// The error of a failed kernel.
fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::ExecutionFailed, message)
}
