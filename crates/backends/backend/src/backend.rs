//! The backend interface.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use crate::{
    Allocator, Allocators, BackendContext, BackendId, Cache, Capability, Configure, CpuLevel,
    CreationOptions, HandleFactory, ImportedMemory, Lifecycle, MemoryManager, NodeView,
    OptimisationViews, Optimiser, OptionDef, OptionSetting, ProfilingContext, PropertyValue,
    Refusal, Stream, TensorHandle, TensorMemory, Tolerance, Workload, WorkloadMemory, WorkloadPlan,
    WorkloadSpec,
};
use std::path::Path;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::Graph;
use tenon_tensor::{Tensor, TensorType};

/// A backend. Stateless and cheap to create; objects that it creates may outlive it.
///
/// Identity, support, plan and workload are required. What a backend can do beside that are traits of
/// their own ([`Configure`], [`Optimiser`], [`TensorMemory`], [`WorkloadMemory`], [`Allocators`],
/// [`Lifecycle`]): it implements one and returns itself from the method for it. Callers use the methods
/// of `dyn Backend`.
pub trait Backend: Send + Sync {
    /// Its name.
    fn id(&self) -> BackendId;

    /// A description in one line, for `tenon backends`.
    fn description(&self) -> String;

    /// The library it was loaded from; `None` when it is built in.
    fn library(&self) -> Option<&Path> {
        None
    }

    /// Its capabilities.
    fn capabilities(&self) -> Vec<Capability> {
        Vec::new()
    }

    /// The accuracy of its results where it differs from the usual one, for each element type of outputs
    /// ([`Tolerance::check`]). Its options may change it.
    fn tolerances(&self) -> Vec<Tolerance> {
        Vec::new()
    }

    /// The device that prepared constants and substituted nodes are made for, such as `sm_90`: not empty, at most
    /// [`MAX_TARGET`](crate::MAX_TARGET) bytes. A package records it, and loads only where it is the same. `None` if they work
    /// on every device. Its options may change it, to compile for another device.
    fn target(&self) -> Option<String> {
        None
    }

    /// Gives it a cache for what it makes when models are loaded. Called before plans and workloads are made, also of
    /// configured backends; the first cache stays.
    fn set_cache(&self, cache: Arc<dyn Cache>) {
        let _ = cache;
    }

    /// Whether the node is supported, and if not, the reason. A node with ranges is supported for sizes in them; for
    /// those of an instance it is queried again, without ranges, and may be refused.
    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal>;

    /// The requirements of a workload, and its constants in prepared form. A constant whose prepared form
    /// `spec` has, in the layout that the workload would read, is not prepared again. Deterministic. Of a plan for ranges
    /// only the prepared constants are used: each instance is planned for its sizes.
    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan>;

    /// Creates the workload, or refuses it like [`Backend::supports`]. A constant whose prepared
    /// form is missing or of an unknown layout is prepared again; if its plain form is absent, too,
    /// that is an error of kind `Unsupported`.
    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>>;

    /// The plan and the workload of one specification in one call, for sizes that become known when a model runs. The
    /// types of `spec` are those of shape inference. A refusal is an error of kind `Unsupported`.
    fn planned_workload(&self, spec: &WorkloadSpec) -> Result<(WorkloadPlan, Box<dyn Workload>)> {
        spec.check_support(self)?;
        Ok((self.plan(spec, CpuLevel::default())?, self.workload(spec)?))
    }

    /// The elements of the constant input `input` of `spec`, computed from the prepared form of
    /// [`Backend::plan`] for the same operator; `None` for layouts that are unknown or have no
    /// exact inverse.
    fn plain(&self, spec: &WorkloadSpec, input: usize) -> Result<Option<Tensor>> {
        let _ = (spec, input);
        Ok(None)
    }

    /// Options, if it has some.
    fn configure(&self) -> Option<&dyn Configure> {
        None
    }

    /// Replacement of several nodes by one, if it does that.
    fn optimiser(&self) -> Option<&dyn Optimiser> {
        None
    }

    /// Memory for tensors, if it does not work in plain memory of the caller.
    fn tensor_memory(&self) -> Option<&dyn TensorMemory> {
        None
    }

    /// Memory that the workloads of a model share, if it has such.
    fn workload_memory(&self) -> Option<&dyn WorkloadMemory> {
        None
    }

    /// Allocators, if it has one or uses that of a caller.
    fn allocators(&self) -> Option<&dyn Allocators> {
        None
    }

    /// Observation of runtimes and their models, if it needs that.
    fn lifecycle(&self) -> Option<&dyn Lifecycle> {
        None
    }
}

/// The optional traits, with the answers of a backend that lacks them.
impl dyn Backend + '_ {
    /// Its options with their defaults.
    pub fn options(&self) -> Vec<OptionDef> {
        self.configure().map_or_else(Vec::new, Configure::options)
    }

    /// The same backend with other values of its model options, see [`Configure::configured`].
    pub fn configured(&self, options: &[OptionSetting]) -> Result<Arc<dyn Backend>> {
        let configure = self.configure();
        let configure = configure.ok_or_else(|| absent(self, "model options"))?;
        configure.configured(options)
    }

    /// An optimised form of a subgraph, see [`Optimiser::optimise`]; the same without.
    pub fn optimise(&self, subgraph: &Graph) -> Result<OptimisationViews> {
        match self.optimiser() {
            Some(optimiser) => optimiser.optimise(subgraph),
            None => Ok(OptimisationViews::untouched(subgraph)),
        }
    }

    /// The kinds of its tensor memory, by preference; empty for plain memory of the caller.
    pub fn handle_factories(&self) -> Vec<HandleFactory> {
        let memory = self.tensor_memory();
        memory.map_or_else(Vec::new, TensorMemory::handle_factories)
    }

    /// Creates a tensor, see [`TensorMemory::tensor_handle`].
    pub fn tensor_handle(&self, factory: &str, ty: &TensorType) -> Result<Box<dyn TensorHandle>> {
        self.require_tensor_memory(factory)?
            .tensor_handle(factory, ty)
    }

    /// Creates a tensor from imported memory.
    ///
    /// # Safety
    /// As for [`TensorMemory::import_tensor`].
    pub unsafe fn import_tensor(
        &self,
        factory: &str,
        ty: &TensorType,
        memory: ImportedMemory,
    ) -> Result<Box<dyn TensorHandle>> {
        let own = self.require_tensor_memory(factory)?;
        // SAFETY: the caller guarantees the condition of this function.
        unsafe { own.import_tensor(factory, ty, memory) }
    }

    fn require_tensor_memory(&self, factory: &str) -> Result<&dyn TensorMemory> {
        let memory = self.tensor_memory();
        memory.ok_or_else(|| absent(self, "dedicated tensor memory").found(factory))
    }

    /// A stream, see [`TensorMemory::stream`].
    pub fn stream(
        &self,
        memory: Option<&Arc<dyn MemoryManager>>,
    ) -> Result<Option<Box<dyn Stream>>> {
        match self.tensor_memory() {
            Some(own) => own.stream(memory),
            None => Ok(None),
        }
    }

    /// A memory manager for the workloads of one model, see [`WorkloadMemory::memory_manager`].
    pub fn memory_manager(&self) -> Result<Option<Arc<dyn MemoryManager>>> {
        match self.workload_memory() {
            Some(memory) => memory.memory_manager(),
            None => Ok(None),
        }
    }

    /// A workload that allocates its memory from `memory`, which this backend created.
    pub fn workload_in(
        &self,
        spec: &WorkloadSpec,
        memory: &Arc<dyn MemoryManager>,
    ) -> Result<Box<dyn Workload>> {
        match self.workload_memory() {
            Some(own) => own.workload_in(spec, memory),
            None => self.workload(spec),
        }
    }

    /// Its default allocator, if other backends may use it.
    pub fn allocator(&self) -> Option<Arc<dyn Allocator>> {
        self.allocators()?.allocator()
    }

    /// The same backend with `allocator` as the allocator of its memory.
    pub fn with_allocator(&self, allocator: Arc<dyn Allocator>) -> Result<Arc<dyn Backend>> {
        let allocators = self.allocators();
        let allocators = allocators.ok_or_else(|| absent(self, "custom allocator"))?;
        allocators.with_allocator(allocator)
    }

    /// A context that lives as long as a runtime, see [`Lifecycle::context`].
    pub fn context(&self, options: &CreationOptions) -> Result<Option<Box<dyn BackendContext>>> {
        match self.lifecycle() {
            Some(lifecycle) => lifecycle.context(options),
            None => Ok(None),
        }
    }

    /// Its counters, sampled while a runtime profiles.
    pub fn profiling(&self) -> Result<Option<Box<dyn ProfilingContext>>> {
        match self.lifecycle() {
            Some(lifecycle) => lifecycle.profiling(),
            None => Ok(None),
        }
    }
}

impl dyn Backend + '_ {
    /// The value of a capability; `None` if it is not listed.
    pub fn capability(&self, name: &str) -> Option<PropertyValue> {
        let mut all = self.capabilities().into_iter();
        all.find(|capability| capability.name == name)
            .map(|capability| capability.value)
    }

    /// `spec` with every constant in plain form, for other backends. The error is input and layout
    /// of a constant whose layout has no inverse.
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

    /// Whether it implements every operator exactly, from plain constants.
    pub fn is_reference(&self) -> bool {
        self.has(crate::REFERENCE_IMPLEMENTATION, &PropertyValue::Bool(true))
    }

    /// Whether its queries and plans take ranges of sizes.
    pub fn takes_dynamic_shapes(&self) -> bool {
        self.has(crate::DYNAMIC_SHAPES, &PropertyValue::Bool(true))
    }

    /// Whether a capability is listed with exactly this value.
    pub fn has(&self, name: &str, value: &PropertyValue) -> bool {
        self.capability(name).as_ref() == Some(value)
    }
}

pub(crate) fn absent(backend: &(impl Backend + ?Sized), what: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("backend {} has no {what}", backend.id()),
    )
}
