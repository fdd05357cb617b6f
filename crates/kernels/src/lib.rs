//! Kernel libraries: what the programs of packages are made of.
//!
//! A package's program has two kernels: `tenon.workload` calls a backend, `tenon.dma` moves data.
//! Both are bound at load to the [`Variables`] of the package, checked once against every rule of
//! `docs/package.md` ("Members"), and then run on the [`Memory`] of one execution.

mod access;
mod attributes;
mod dma;
mod dma_engines;
pub mod host;
mod memory;
mod order;
mod variables;
mod workload;

pub use access::{Access, accesses};
pub use dma::Movements;
pub use dma_engines::{Engine, EngineProgram, Engines, engine_library};
pub use memory::{Memory, MoveBinding, WorkloadBinding};
pub use order::verify_order;
pub use tenon_dma::VariableId;
pub use variables::{PreparedForm, Span, Storage, Variable, Variables};

use tenon_executor::KernelDef;

/// The kernels of a package's program.
pub fn package_library() -> [KernelDef; 2] {
    [workload::definition(), dma::definition()]
}
