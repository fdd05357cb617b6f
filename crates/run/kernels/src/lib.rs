//! Kernel libraries for host programs.
//!
//! The dialects of the original, [`tfrt`], [`ts`] and [`dht`], are [`host_library`]
//! (`docs/kernels.md`); any program may name them.
//!
//! A package's program has three kernels: `tenon.workload` calls a backend, `tenon.dma` moves data, and so does
//! `tenon.movement` in packages with symbols. They are bound at load to the [`Variables`] of the package, checked once
//! against every rule of `docs/package.md` ("Members"), and then run on the [`Memory`] of one execution. A host
//! function, which calls the subgraphs of a package, has [`host_function_kernels`] as well.

mod access;
mod attributes;
mod call;
pub mod dht;
mod dma;
mod dma_engines;
pub mod host;
mod host_function;
mod memory;
mod movement;
mod order;
mod shared_library;
mod sized;
mod tensor_placement;
pub mod tfrt;
pub mod ts;
mod variables;
mod workload;

pub use access::{Access, accesses, written_variables};
pub use call::{WorkloadCall, workload_backend, workload_call};
pub use dma::Movements;
pub use dma_engines::{Engine, EngineProgram, Engines, engine_library};
pub use host_function::{HostTensor, TensorList, host_function_kernels, size_names, value_names};
pub use memory::{BoundPorts, Memory, MoveBinding, WorkloadBinding};
pub use movement::ConcatOperands;
pub use order::verify_order;
pub use shared_library::shared_library;
pub use sized::{
    BoundKernels, InstanceKernels, KernelTemplates, OperandKey, SizedKernels, depends_on_sizes,
};
pub use tenon_dma::VariableId;
pub use tensor_placement::{DeviceMemory, TensorPlacements};
pub use variables::{PreparedForm, Span, Storage, Variable, Variables};

use tenon_executor::KernelDef;

/// The kernels of a package's program.
pub fn package_library() -> [KernelDef; 3] {
    [
        workload::definition(),
        dma::definition(),
        movement::definition(),
    ]
}

/// The kernels of the original's dialects: scalars, calls, loops, shapes and host tensors.
pub fn host_library() -> Vec<KernelDef> {
    let dialects = [tfrt::library(), ts::library(), dht::library()];
    dialects.into_iter().flatten().collect()
}
