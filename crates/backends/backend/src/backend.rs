//! The backend interface.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use crate::{
    Allocator, BackendContext, BackendId, Cache, Capability, CpuLevel, CreationOptions,
    HandleFactory, ImportedMemory, MemoryManager, NodeView, OptimisationViews, OptionDef,
    OptionSetting, ProfilingContext, PropertyValue, Refusal, Stream, TensorHandle, Tolerance,
    Workload, WorkloadPlan, WorkloadSpec,
};
use std::path::Path;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::Graph;
use tenon_tensor::{Tensor, TensorType};

/// A backend. Stateless and cheap to create; objects that it creates may outlive it.
///
/// Identity, support, plan and workload are required; the other methods have defaults for backends
/// without the feature.
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

    /// Its options with their defaults.
    fn options(&self) -> Vec<OptionDef> {
        Vec::new()
    }

    /// The same backend with other values of its model options. `options` is not empty and contains
    /// only options of [`Backend::options`] with values of their kinds.
    fn configured(&self, options: &[OptionSetting]) -> Result<Arc<dyn Backend>> {
        let _ = options;
        Err(absent(self, "model options"))
    }

    /// Whether the node is supported, and if not, the reason. A node with ranges is supported for sizes in them; for
    /// those of an instance it is queried again, without ranges, and may be refused.
    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal>;

    /// An optimised form of a subgraph whose nodes were all placed on this backend. The result is
    /// checked ([`OptimisationViews::check`]) before it is used.
    fn optimise(&self, subgraph: &Graph) -> Result<OptimisationViews> {
        Ok(OptimisationViews::untouched(subgraph))
    }

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

    /// A memory manager for the workloads of one model; called once per model, before its workloads
    /// are created.
    fn memory_manager(&self) -> Result<Option<Arc<dyn MemoryManager>>> {
        Ok(None)
    }

    /// A workload that allocates its memory from `memory`, which this backend created.
    fn workload_in(
        &self,
        spec: &WorkloadSpec,
        memory: &Arc<dyn MemoryManager>,
    ) -> Result<Box<dyn Workload>> {
        let _ = memory;
        self.workload(spec)
    }

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

    /// Its default allocator, if other backends may use it.
    fn allocator(&self) -> Option<Arc<dyn Allocator>> {
        None
    }

    /// The same backend with `allocator` as the allocator of its memory.
    fn with_allocator(&self, allocator: Arc<dyn Allocator>) -> Result<Arc<dyn Backend>> {
        let _ = allocator;
        Err(absent(self, "custom allocator"))
    }

    /// The kinds of its tensor memory, by preference; empty for plain memory of the caller.
    fn handle_factories(&self) -> Vec<HandleFactory> {
        Vec::new()
    }

    /// Creates a tensor in the memory of one of its [`Backend::handle_factories`].
    fn tensor_handle(&self, factory: &str, ty: &TensorType) -> Result<Box<dyn TensorHandle>> {
        let _ = ty;
        Err(absent(self, "dedicated tensor memory").found(factory))
    }

    /// Creates a tensor of one of its [`Backend::handle_factories`] from imported memory, of a
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
    /// `execute` returns. Requires handle factories.
    fn stream(&self, memory: Option<&Arc<dyn MemoryManager>>) -> Result<Option<Box<dyn Stream>>> {
        let _ = memory;
        Ok(None)
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

fn absent(backend: &(impl Backend + ?Sized), what: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("backend {} has no {what}", backend.id()),
    )
}
