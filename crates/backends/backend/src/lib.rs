//! The backend interface: support queries with reasons of refusal, preparation of constants at
//! compile time, and workloads.
//!
//! A backend is stateless and short-lived; objects that it creates may outlive it (backends 7.1).

mod allocator;
mod backend;
mod cache;
mod context;
mod device_tensor;
mod discovery;
mod evaluate;
mod export;
mod features;
mod handles;
mod identity;
mod library;
mod loaded;
mod managed;
mod marshal;
mod memory;
mod options;
mod owned;
mod problem;
mod ranges;
mod registry;
mod stream;
mod subgraph;
mod support;
mod tolerance;
mod views;
mod workload;

pub use allocator::{Allocation, Allocator};
pub use backend::Backend;
pub use cache::{CACHE_BYTES, CACHE_VARIABLE, Cache, CacheEntry, CacheFile, MAX_KEY, UserCache};
pub use context::{BackendContext, CounterDef, MemoryManager, NetworkId, ProfilingContext};
pub use device_tensor::DeviceTensor;
pub use discovery::{
    BACKEND_PATH_VARIABLE, Discovery, backend_folders, discover, is_backend_file_name,
};
pub use evaluate::{evaluate, supports};
pub use export::export;
pub use features::{Allocators, Configure, Lifecycle, Optimiser, TensorMemory, WorkloadMemory};
pub use handles::{
    CrossingKind, EdgeStrategy, HandleFactory, ImportedMemory, MemorySource, MemorySources,
    TensorHandle, common_source, edge_strategy, is_reachable, preferred_factory,
};
pub use identity::{BackendId, Capability, MAX_TARGET, PropertyValue};
pub use library::{BackendLibrary, is_compatible};
pub use managed::ModelMemory;
pub use memory::{Inputs, MAX_OUTPUTS, OperandPair, Operands, Outputs, RawOperand};
pub use options::{
    CreationOptions, OptionAssignment, OptionDef, OptionScope, OptionSetting, settings,
};
pub use owned::OwnedOperands;
pub use problem::{LoadError, LoadWarning};
pub use ranges::{DYNAMIC_SHAPES, ExtentRange, NodeRanges, OperandRanges};
pub use registry::{ContextEntry, PROTECTED_CONTENT, REFERENCE_IMPLEMENTATION, Registry};
pub use stream::{Event, Stream};
pub use subgraph::Subgraph;
pub use support::{NodeView, Reason, Refusal};
pub use tenon_base::CpuLevel;
pub use tolerance::Tolerance;
pub use views::{FailedPart, OptimisationViews, Substitution};
pub use workload::{
    InPlace, InputSpec, Prepared, Workload, WorkloadPart, WorkloadPlan, WorkloadSpec,
};

/// The structs of `include/tenon/backend.h`, for [`export_backend`].
pub use tenon_backend_abi as abi;
