//! Backends of one model, whose workloads share the model's memory manager.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use crate::{
    Allocator, Backend, BackendId, Capability, CpuLevel, HandleFactory, ImportedMemory,
    MemoryManager, NodeView, Refusal, Registry, Stream, TensorHandle, Tolerance, Workload,
    WorkloadPlan, WorkloadSpec,
};
use std::path::Path;
use std::sync::Arc;
use tenon_base::Result;
use tenon_tensor::TensorType;

/// A backend with the memory of one model, in the calls of loading a model.
struct Managed {
    backend: Arc<dyn Backend>,
    memory: Arc<dyn MemoryManager>,
}

impl Backend for Managed {
    fn id(&self) -> BackendId {
        self.backend.id()
    }

    fn description(&self) -> String {
        self.backend.description()
    }

    fn library(&self) -> Option<&Path> {
        self.backend.library()
    }

    fn capabilities(&self) -> Vec<Capability> {
        self.backend.capabilities()
    }

    fn target(&self) -> Option<String> {
        self.backend.target()
    }

    fn tolerances(&self) -> Vec<Tolerance> {
        self.backend.tolerances()
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        self.backend.supports(node)
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        self.backend.plan(spec, cpu)
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        self.backend.workload_in(spec, &self.memory)
    }

    fn allocator(&self) -> Option<Arc<dyn Allocator>> {
        self.backend.allocator()
    }

    fn handle_factories(&self) -> Vec<HandleFactory> {
        self.backend.handle_factories()
    }

    fn tensor_handle(&self, factory: &str, ty: &TensorType) -> Result<Box<dyn TensorHandle>> {
        self.backend.tensor_handle(factory, ty)
    }

    unsafe fn import_tensor(
        &self,
        factory: &str,
        ty: &TensorType,
        memory: ImportedMemory,
    ) -> Result<Box<dyn TensorHandle>> {
        // SAFETY: the memory is valid as `import_tensor` requires, which is a requirement of this
        // function, too.
        unsafe { self.backend.import_tensor(factory, ty, memory) }
    }

    fn stream(&self, _: Option<&Arc<dyn MemoryManager>>) -> Result<Option<Box<dyn Stream>>> {
        self.backend.stream(Some(&self.memory))
    }
}

/// The memory managers of one model.
pub type ModelMemory = Vec<Arc<dyn MemoryManager>>;

impl Registry {
    /// The backends of one model. Backends with memory managers have created one, which all
    /// workloads of this registry share.
    pub fn for_model(&self) -> Result<(Registry, ModelMemory)> {
        let mut model = Registry::new().with_allocators_of(self);
        let mut memories = Vec::new();
        for backend in self.iter() {
            let backend = backend.clone();
            model.register(match backend.memory_manager()? {
                None => backend,
                Some(memory) => {
                    memories.push(memory.clone());
                    Arc::new(Managed { backend, memory })
                }
            })?;
        }
        Ok((model, memories))
    }
}
