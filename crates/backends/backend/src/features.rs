//! What a backend can do beside computing nodes: optional traits of [`Backend`].

#![allow(unsafe_code, reason = "backends that import memory")]

use crate::backend::absent;
use crate::{
    Allocator, Backend, BackendContext, CreationOptions, HandleFactory, ImportedMemory,
    MemoryManager, OptimisationViews, OptionDef, OptionSetting, ProfilingContext, Stream,
    TensorHandle, Workload, WorkloadSpec,
};
use std::sync::Arc;
use tenon_base::Result;
use tenon_graph::Graph;
use tenon_tensor::TensorType;

/// A backend with options.
pub trait Configure: Backend {
    /// Its options with their defaults.
    fn options(&self) -> Vec<OptionDef>;

    /// The same backend with other values of its model options. `options` is not empty and contains
    /// only options of [`Configure::options`] with values of their kinds.
    fn configured(&self, options: &[OptionSetting]) -> Result<Arc<dyn Backend>>;
}

/// A backend that replaces several nodes by one.
pub trait Optimiser: Backend {
    /// An optimised form of a subgraph whose nodes were all placed on this backend. The result is
    /// checked ([`OptimisationViews::check`]) before it is used.
    fn optimise(&self, subgraph: &Graph) -> Result<OptimisationViews>;
}

/// A backend whose operands are in memory that it describes.
pub trait TensorMemory: Backend {
    /// The kinds of its tensor memory, by preference.
    fn handle_factories(&self) -> Vec<HandleFactory>;

    /// Creates a tensor in the memory of one of its [`TensorMemory::handle_factories`].
    fn tensor_handle(&self, factory: &str, ty: &TensorType) -> Result<Box<dyn TensorHandle>>;

    /// Creates a tensor of one of its [`TensorMemory::handle_factories`] from imported memory, of a
    /// source that the factory imports.
    ///
    /// # Safety
    /// The memory must be as large as the tensor, initialised, and valid as long as the tensor. No
    /// other code may write it while a workload reads the tensor, or access it while a workload
    /// writes the tensor.
    unsafe fn import_tensor(
        &self,
        factory: &str,
        ty: &TensorType,
        memory: ImportedMemory,
    ) -> Result<Box<dyn TensorHandle>> {
        let _ = (ty, memory);
        Err(absent(self, "import of memory").found(factory))
    }

    /// A stream for executions of a model with this memory manager; `None` if workloads are done when their
    /// `execute` returns.
    fn stream(&self, memory: Option<&Arc<dyn MemoryManager>>) -> Result<Option<Box<dyn Stream>>> {
        let _ = memory;
        Ok(None)
    }
}

/// A backend whose workloads share memory of their model.
pub trait WorkloadMemory: Backend {
    /// A memory manager for the workloads of one model; called once per model, before its workloads
    /// are created.
    fn memory_manager(&self) -> Result<Option<Arc<dyn MemoryManager>>>;

    /// A workload that allocates its memory from `memory`, which this backend created.
    fn workload_in(
        &self,
        spec: &WorkloadSpec,
        memory: &Arc<dyn MemoryManager>,
    ) -> Result<Box<dyn Workload>> {
        let _ = memory;
        self.workload(spec)
    }
}

/// A backend with an allocator, its own or that of a caller.
pub trait Allocators: Backend {
    /// Its default allocator, if other backends may use it.
    fn allocator(&self) -> Option<Arc<dyn Allocator>> {
        None
    }

    /// The same backend with `allocator` as the allocator of its memory.
    fn with_allocator(&self, allocator: Arc<dyn Allocator>) -> Result<Arc<dyn Backend>> {
        let _ = allocator;
        Err(absent(self, "custom allocator"))
    }
}

/// A backend that observes runtimes.
pub trait Lifecycle: Backend {
    /// A context that lives as long as a runtime and receives callbacks on its models. An error of
    /// kind `Unsupported` means that the device is unavailable on this machine: the runtime
    /// continues without the backend.
    fn context(&self, options: &CreationOptions) -> Result<Option<Box<dyn BackendContext>>> {
        let _ = options;
        Ok(None)
    }

    /// Its counters, sampled while a runtime profiles.
    fn profiling(&self) -> Result<Option<Box<dyn ProfilingContext>>> {
        Ok(None)
    }
}
