//! Backends of one model, whose workloads share the model's memory manager.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use crate::{
    Allocator, Allocators, Backend, BackendId, Capability, CpuLevel, HandleFactory, ImportedMemory,
    MemoryManager, NodeView, Refusal, Registry, Stream, TensorHandle, TensorMemory, Tolerance,
    Workload, WorkloadPlan, WorkloadSpec,
};
use std::path::Path;
use std::sync::Arc;
use tenon_base::Result;
use tenon_tensor::{Tensor, TensorType};

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

    fn plain(&self, spec: &WorkloadSpec, input: usize) -> Result<Option<Tensor>> {
        self.backend.plain(spec, input)
    }

    fn tensor_memory(&self) -> Option<&dyn TensorMemory> {
        Some(self)
    }

    fn allocators(&self) -> Option<&dyn Allocators> {
        Some(self)
    }
}

impl TensorMemory for Managed {
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

impl Allocators for Managed {
    fn allocator(&self) -> Option<Arc<dyn Allocator>> {
        self.backend.allocator()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reason, WorkloadMemory};
    use std::any::Any;
    use tenon_base::{Error, ErrorKind};
    use tenon_graph::Attributes;
    use tenon_graph::operator::operator;

    /// A backend with a memory manager, whose prepared constants are inverted to 7.
    struct Inverting;

    struct Memory;

    impl MemoryManager for Memory {
        fn acquire(&self) -> Result<()> {
            Ok(())
        }

        fn release(&self) {}

        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    impl Backend for Inverting {
        fn id(&self) -> BackendId {
            "Inverting".into()
        }

        fn description(&self) -> String {
            "a test".into()
        }

        fn supports(&self, _: &NodeView<'_>) -> Result<(), Refusal> {
            Err(Reason::UnknownOperator.into())
        }

        fn plan(&self, _: &WorkloadSpec, _: CpuLevel) -> Result<WorkloadPlan> {
            Ok(WorkloadPlan::default())
        }

        fn workload(&self, _: &WorkloadSpec) -> Result<Box<dyn Workload>> {
            Err(Error::new(ErrorKind::Unsupported, "there is no workload"))
        }

        fn plain(&self, _: &WorkloadSpec, _: usize) -> Result<Option<Tensor>> {
            Tensor::scalar(7.0f32).map(Some)
        }

        fn workload_memory(&self) -> Option<&dyn WorkloadMemory> {
            Some(self)
        }
    }

    impl WorkloadMemory for Inverting {
        fn memory_manager(&self) -> Result<Option<Arc<dyn MemoryManager>>> {
            Ok(Some(Arc::new(Memory)))
        }
    }

    #[test]
    fn prepared_constants_of_a_backend_with_memory_are_inverted() {
        let mut registry = Registry::new();
        registry.register(Arc::new(Inverting)).unwrap();
        let (model, memories) = registry.for_model().unwrap();
        assert_eq!(memories.len(), 1);
        let spec = WorkloadSpec {
            op: operator("Relu").unwrap(),
            attributes: Attributes::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            ranges: None,
        };
        let backend = model.find(&"Inverting".into()).unwrap();
        let plain = backend.plain(&spec, 0).unwrap().unwrap();
        assert_eq!(plain.as_slice::<f32>().unwrap(), [7.0]);
    }
}
