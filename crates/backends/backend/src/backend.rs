//! The interface of a backend.

use crate::{
    Allocator, BackendContext, BackendId, Capability, CpuLevel, CreationOptions, HandleFactory,
    ImportedMemory, MemoryManager, NamedValue, NodeView, OptimisationViews, OptionDef,
    OptionSetting, ProfilingContext, Refusal, TensorHandle, Workload, WorkloadPlan, WorkloadSpec,
};
use std::path::Path;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::Graph;
use tenon_tensor::{Tensor, TensorType};

/// Who computes. Stateless and cheap to make; what it makes may outlive it.
///
/// Identity, support, plan and workload are what every backend says; the rest has an answer for
/// backends that have nothing to say.
pub trait Backend: Send + Sync {
    /// Its name.
    fn id(&self) -> BackendId;

    /// What it is, in a line, for `tenon backends`.
    fn description(&self) -> String;

    /// The library it was loaded from; `None` when it is built in.
    fn library(&self) -> Option<&Path> {
        None
    }

    /// Its named properties.
    fn capabilities(&self) -> Vec<Capability> {
        Vec::new()
    }

    /// The options it knows, with their defaults.
    fn options(&self) -> Vec<OptionDef> {
        Vec::new()
    }

    /// The same backend with other values of its model options. Asked with options that
    /// [`Backend::options`] lists, of their kinds, and never with none.
    fn configured(&self, options: &[OptionSetting]) -> Result<Arc<dyn Backend>> {
        let _ = options;
        Err(absent(self, "model options"))
    }

    /// Whether it has a workload for the node, and if not, why.
    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal>;

    /// What it makes of a subgraph whose nodes were all placed on it. The answer is checked
    /// ([`OptimisationViews::check`]) before anything is done with it.
    fn optimise(&self, subgraph: &Graph) -> Result<OptimisationViews> {
        Ok(OptimisationViews::untouched(subgraph))
    }

    /// What the workload will need, and its constants prepared for it. Deterministic.
    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan>;

    /// Makes the workload, or refuses it as [`Backend::supports`] would. A constant whose prepared
    /// form is missing, or of a layout unknown here, is prepared again; when its plain form is left
    /// out that is an error of kind `Unsupported`.
    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>>;

    /// The elements of the constant input `input` of `spec`, from the prepared form that
    /// [`Backend::plan`] made of it for the same operator; `None` for layouts that are unknown here
    /// or have no exact inverse.
    fn plain(&self, spec: &WorkloadSpec, input: usize) -> Result<Option<Tensor>> {
        let _ = (spec, input);
        Ok(None)
    }

    /// The memory that the workloads of one model share; asked once a model, before its workloads.
    fn memory_manager(&self) -> Result<Option<Arc<dyn MemoryManager>>> {
        Ok(None)
    }

    /// A workload whose own memory is that of `memory`, which this backend made.
    fn workload_in(
        &self,
        spec: &WorkloadSpec,
        memory: &Arc<dyn MemoryManager>,
    ) -> Result<Box<dyn Workload>> {
        let _ = memory;
        self.workload(spec)
    }

    /// What lives as long as a runtime and hears of its models. An error of kind `Unsupported` says
    /// that what the backend needs is not on this machine: the runtime goes on without the backend.
    fn context(&self, options: &CreationOptions) -> Result<Option<Box<dyn BackendContext>>> {
        let _ = options;
        Ok(None)
    }

    /// Its counters, sampled while a runtime profiles.
    fn profiling(&self) -> Result<Option<Box<dyn ProfilingContext>>> {
        Ok(None)
    }

    /// The allocator it takes memory from unless told otherwise, when others may use it too.
    fn allocator(&self) -> Option<Arc<dyn Allocator>> {
        None
    }

    /// The same backend, taking its memory from `allocator`.
    fn with_allocator(&self, allocator: Arc<dyn Allocator>) -> Result<Arc<dyn Backend>> {
        let _ = allocator;
        Err(absent(self, "custom allocator"))
    }

    /// The kinds of tensor memory it works with, best first; none for plain memory of the caller.
    fn handle_factories(&self) -> Vec<HandleFactory> {
        Vec::new()
    }

    /// A tensor in memory of one of its [`Backend::handle_factories`].
    fn tensor_handle(&self, factory: &str, ty: &TensorType) -> Result<Box<dyn TensorHandle>> {
        let _ = ty;
        Err(absent(self, "tensor memory of its own").found(factory))
    }

    /// A tensor of one of its [`Backend::handle_factories`], made of memory of others, of a source
    /// that the factory imports.
    ///
    /// # Safety
    /// The memory is as large as the tensor, initialised, and there as long as the tensor is. Nobody
    /// else writes it while a workload reads the tensor, or touches it while one writes.
    unsafe fn import_tensor(
        &self,
        factory: &str,
        ty: &TensorType,
        memory: ImportedMemory,
    ) -> Result<Box<dyn TensorHandle>> {
        let _ = (ty, memory);
        Err(absent(self, "tensors made of memory of others").found(factory))
    }
}

impl dyn Backend + '_ {
    /// The value of a capability, `None` when it is not listed.
    pub fn capability(&self, name: &str) -> Option<NamedValue> {
        let mut all = self.capabilities().into_iter();
        all.find(|capability| capability.name == name)
            .map(|capability| capability.value)
    }

    /// `spec` with the plain form of every constant, and no prepared one: what other backends
    /// compute with. Where the layout of a constant has no inverse, its input and layout.
    pub fn with_plain_constants(
        &self,
        spec: &WorkloadSpec,
    ) -> Result<std::result::Result<WorkloadSpec, (usize, String)>> {
        let mut plain = spec.clone();
        for (index, input) in plain.inputs.iter_mut().enumerate() {
            let Some(input) = input else { continue };
            let prepared = input.prepared.take();
            if let (None, Some((layout, _))) = (&input.constant, prepared) {
                match self.plain(spec, index)? {
                    Some(constant) => input.constant = Some(constant),
                    None => return Ok(Err((index, layout))),
                }
            }
        }
        Ok(Ok(plain))
    }

    /// Whether a capability is listed with exactly this value.
    pub fn has(&self, name: &str, value: &NamedValue) -> bool {
        self.capability(name).as_ref() == Some(value)
    }
}

fn absent(backend: &(impl Backend + ?Sized), what: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("backend {} has no {what}", backend.id()),
    )
}
