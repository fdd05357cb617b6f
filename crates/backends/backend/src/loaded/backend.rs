//! The interface of a backend, over a table of functions.

use super::core::Core;
use super::made::{
    LoadedAllocator, LoadedContext, LoadedHandle, LoadedMemory, LoadedProfiling, lent_allocator,
};
use super::workload::LoadedWorkload;
use crate::border::{
    array, bytes, cpu_code, invalid, named_value, named_values, option, records, refusal_of, text,
    views,
};
use crate::{
    Allocator, Backend, BackendContext, BackendId, Capability, CpuLevel, CreationOptions,
    HandleFactory, ImportedMemory, InPlace, MemoryManager, MemorySources, NodeView,
    OptimisationViews, OptionDef, OptionSetting, Prepared, ProfilingContext, Reason, Refusal,
    TensorHandle, Workload, WorkloadPlan, WorkloadSpec,
};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use tenon_backend_abi as abi;
use tenon_base::Result;
use tenon_graph::Graph;
use tenon_tensor::{BufferMut, TensorType};

/// A backend behind the C interface.
pub struct LoadedBackend {
    core: Arc<Core>,
    description: String,
    capabilities: Vec<Capability>,
    options: Vec<OptionDef>,
    factories: Vec<HandleFactory>,
}

impl LoadedBackend {
    /// Reads what the table says once and for all.
    pub(crate) fn new(core: Arc<Core>) -> Result<Self> {
        let read = read_lists(&core.table).map_err(|error| core.about(&error));
        let (description, capabilities, options, factories) = read?;
        Ok(Self {
            core,
            description,
            capabilities,
            options,
            factories,
        })
    }

    fn plan_of(&self, told: &abi::Plan, spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        // SAFETY: a plan that the backend made and that is not released yet.
        unsafe {
            if told.scratch_bytes > isize::MAX as usize {
                return Err(invalid("scratch memory larger than memory can be"));
            }
            let places = array(told.in_place, told.in_place_count, "the places of outputs")?;
            let prepared = records(told.prepared, told.prepared_count, "the prepared constants")?;
            Ok(WorkloadPlan {
                scratch_bytes: told.scratch_bytes,
                in_place: places
                    .iter()
                    .map(|place| in_place(*place, spec))
                    .collect::<Result<_>>()?,
                prepared: prepared
                    .iter()
                    .map(|told| prepared_of(told, spec))
                    .collect::<Result<_>>()?,
            })
        }
    }

    fn settings(&self, settings: &[OptionSetting], call: impl FnOnce(abi::List<abi::NamedValue>)) {
        let named = settings.iter().map(|one| (&*one.name, &one.value));
        // The values stay until the call is over.
        let (_values, pointers) = named_values(named);
        call(pointers.as_ptr());
    }

    /// The tensor that `make` makes.
    fn handle(
        &self,
        ty: &TensorType,
        make: impl FnOnce(*const abi::Tensor, *mut *const abi::TensorHandle) -> abi::Outcome,
    ) -> Result<Box<dyn TensorHandle>> {
        let mut outgoing = self.core.outgoing();
        let mut made = ptr::null();
        self.core.done(make(outgoing.ty(ty), &raw mut made))?;
        // SAFETY: what the function made.
        unsafe { Ok(Box::new(LoadedHandle::new(&self.core, made, ty.bytes())?)) }
    }

    fn workload_with(
        &self,
        spec: &WorkloadSpec,
        memory: Option<&Arc<dyn MemoryManager>>,
    ) -> Result<Box<dyn Workload>> {
        let Some(function) = self.core.table.workload else {
            return Err(self.core.lacks("workload"));
        };
        let own = memory.and_then(|memory| memory.as_any().downcast_ref::<LoadedMemory>());
        let kept = Box::new(spec.clone());
        let mut outgoing = self.core.outgoing();
        let mut made = ptr::null();
        let node = outgoing.spec(&kept);
        let shared = own.map_or(ptr::null(), LoadedMemory::this);
        // SAFETY: a function of the table with its own table; the node lives for the call, its data
        // in `kept` as long as the workload.
        let outcome = unsafe { function(self.core.this, node, shared, &raw mut made) };
        self.core.done(outcome)?;
        drop(outgoing);
        let workload =
            // SAFETY: what the function made.
            unsafe { LoadedWorkload::new(&self.core, made, kept, memory.cloned())? };
        Ok(Box::new(workload))
    }
}

type Lists = (String, Vec<Capability>, Vec<OptionDef>, Vec<HandleFactory>);

fn read_lists(table: &abi::Backend) -> Result<Lists> {
    // SAFETY: the lists of a table that is not released yet.
    unsafe {
        let description = text(table.description, "the description")?;
        let what = "the capabilities";
        let capabilities = records(table.capabilities, table.capability_count, what)?
            .iter()
            .map(|told| {
                let (name, value) = named_value(told)?;
                let name = name.into();
                Ok(Capability { name, value })
            })
            .collect::<Result<_>>()?;
        let options = records(table.options, table.option_count, "the options")?
            .iter()
            .map(|told| option(told))
            .collect::<Result<_>>()?;
        let what = "the handle factories";
        let factories = records(table.handle_factories, table.handle_factory_count, what)?
            .iter()
            .map(|told| {
                Ok(HandleFactory {
                    id: text(told.name, "the name of a handle factory")?,
                    import: MemorySources(told.import_sources),
                    export: MemorySources(told.export_sources),
                    map: told.map != 0,
                    padding: told.padding != 0,
                })
            })
            .collect::<Result<_>>()?;
        Ok((description, capabilities, options, factories))
    }
}

/// An output and an input that are there and equally large.
fn in_place(told: abi::InPlace, spec: &WorkloadSpec) -> Result<InPlace> {
    let (input, output) = (told.input as usize, told.output as usize);
    let source = spec.inputs.get(input).and_then(Option::as_ref);
    let target = spec.outputs.get(output).and_then(Option::as_ref);
    match (source, target) {
        (Some(source), Some(target)) if source.ty.bytes() == target.bytes() => {
            Ok(InPlace { input, output })
        }
        _ => Err(invalid(format!(
            "output {output} cannot take the place of input {input}"
        ))),
    }
}

/// # Safety
/// The plan it belongs to is not released yet.
unsafe fn prepared_of(told: &abi::Prepared, spec: &WorkloadSpec) -> Result<Prepared> {
    let input = told.input as usize;
    let there = spec.inputs.get(input).and_then(Option::as_ref);
    if there.is_none_or(|there| there.constant.is_none()) {
        return Err(invalid(format!(
            "input {input} is prepared, but is no constant"
        )));
    }
    // SAFETY: the caller vouches.
    unsafe {
        Ok(Prepared {
            input,
            layout: text(told.layout, "the layout of a prepared form")?,
            data: BufferMut::copy_of(bytes(told.data, "a prepared form")?)?.freeze(),
            // The C interface has no call for the inverse.
            invertible: false,
        })
    }
}

impl Backend for LoadedBackend {
    fn id(&self) -> BackendId {
        BackendId::from(self.core.id.clone())
    }

    fn description(&self) -> String {
        self.description.clone()
    }

    fn library(&self) -> Option<&Path> {
        self.core.path.as_deref()
    }

    fn capabilities(&self) -> Vec<Capability> {
        self.capabilities.clone()
    }

    fn options(&self) -> Vec<OptionDef> {
        self.options.clone()
    }

    fn configured(&self, options: &[OptionSetting]) -> Result<Arc<dyn Backend>> {
        let function = self.core.table.configured;
        let function = function.ok_or_else(|| self.core.lacks("configured"))?;
        let (mut made, mut outcome) = (ptr::null(), ptr::null());
        self.settings(options, |list| {
            // SAFETY: a function of the table; the list lives for the call.
            outcome = unsafe { function(self.core.this, options.len(), list, &raw mut made) };
        });
        self.core.done(outcome)?;
        // SAFETY: what the function made.
        let core = unsafe { self.core.another(made, None)? };
        Ok(Arc::new(Self::new(core)?))
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        let Some(function) = self.core.table.supports else {
            let text = self.core.lacks("supports").to_string();
            return Err(Reason::Other { text }.into());
        };
        let mut outgoing = self.core.outgoing();
        let told = outgoing.view(node);
        // SAFETY: a function of the table; the node lives for the call.
        unsafe { refusal_of(function(self.core.this, told), node.op) }
    }

    fn optimise(&self, subgraph: &Graph) -> Result<OptimisationViews> {
        let Some(function) = self.core.table.optimise else {
            return Ok(OptimisationViews::untouched(subgraph));
        };
        let mut outgoing = self.core.outgoing();
        let mut made = ptr::null();
        let told = outgoing.graph(subgraph);
        // SAFETY: a function of the table; the graph lives for the call, the answer until its
        // release.
        unsafe {
            self.core
                .done(function(self.core.this, told, &raw mut made))?;
            if made.is_null() {
                return Ok(OptimisationViews::untouched(subgraph));
            }
            let answer = self.core.made(made, "an optimised subgraph")?;
            let read = views(&answer).map_err(|error| self.core.about(&error));
            if let Some(release) = answer.release {
                release(made);
            }
            read
        }
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        let Some(function) = self.core.table.plan else {
            return Ok(WorkloadPlan::default());
        };
        let mut outgoing = self.core.outgoing();
        let mut made = ptr::null();
        let node = outgoing.spec(spec);
        // SAFETY: a function of the table; the node lives for the call, the plan until its release.
        unsafe {
            let outcome = function(self.core.this, node, cpu_code(cpu), &raw mut made);
            self.core.done(outcome)?;
            if made.is_null() {
                return Ok(WorkloadPlan::default());
            }
            let told = self.core.made(made, "a plan")?;
            let plan = self.plan_of(&told, spec);
            if let Some(release) = told.release {
                release(made);
            }
            plan.map_err(|error| self.core.about(&error))
        }
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        self.workload_with(spec, None)
    }

    fn memory_manager(&self) -> Result<Option<Arc<dyn MemoryManager>>> {
        let Some(function) = self.core.table.memory_manager else {
            return Ok(None);
        };
        let mut made = ptr::null();
        // SAFETY: a function of the table, and what it made.
        unsafe {
            self.core.done(function(self.core.this, &raw mut made))?;
            let memory = LoadedMemory::new(&self.core, made)?;
            Ok(memory.map(|memory| Arc::new(memory) as _))
        }
    }

    fn workload_in(
        &self,
        spec: &WorkloadSpec,
        memory: &Arc<dyn MemoryManager>,
    ) -> Result<Box<dyn Workload>> {
        self.workload_with(spec, Some(memory))
    }

    fn context(&self, options: &CreationOptions) -> Result<Option<Box<dyn BackendContext>>> {
        let Some(function) = self.core.table.context else {
            return Ok(None);
        };
        let count = options.settings.len();
        let protected = i32::from(options.protected_content);
        let (mut made, mut outcome) = (ptr::null(), ptr::null());
        self.settings(&options.settings, |list| {
            // SAFETY: a function of the table; the list lives for the call.
            outcome = unsafe { function(self.core.this, count, list, protected, &raw mut made) };
        });
        self.core.done(outcome)?;
        // SAFETY: what the function made.
        let context = unsafe { LoadedContext::new(&self.core, made)? };
        Ok(context.map(|context| Box::new(context) as _))
    }

    fn profiling(&self) -> Result<Option<Box<dyn ProfilingContext>>> {
        let Some(function) = self.core.table.profiling else {
            return Ok(None);
        };
        let mut made = ptr::null();
        // SAFETY: a function of the table, and what it made.
        unsafe {
            self.core.done(function(self.core.this, &raw mut made))?;
            let profiling = LoadedProfiling::new(&self.core, made)?;
            Ok(profiling.map(|profiling| Box::new(profiling) as _))
        }
    }

    fn allocator(&self) -> Option<Arc<dyn Allocator>> {
        let function = self.core.table.allocator?;
        let mut made = ptr::null();
        // SAFETY: a function of the table, and what it made.
        unsafe {
            self.core
                .done(function(self.core.this, &raw mut made))
                .ok()?;
            let allocator = LoadedAllocator::new(&self.core, made).ok()?;
            Some(Arc::new(allocator))
        }
    }

    fn with_allocator(&self, allocator: Arc<dyn Allocator>) -> Result<Arc<dyn Backend>> {
        let function = self.core.table.with_allocator;
        let function = function.ok_or_else(|| self.core.lacks("with_allocator"))?;
        let lent = lent_allocator(allocator);
        let mut made = ptr::null();
        let outcome =
            // SAFETY: a function of the table; the allocator outlives what comes of it, which keeps it.
            unsafe { function(self.core.this, &raw const lent.table, &raw mut made) };
        self.core.done(outcome)?;
        // SAFETY: what the function made.
        let core = unsafe { self.core.another(made, Some(lent))? };
        Ok(Arc::new(Self::new(core)?))
    }

    fn handle_factories(&self) -> Vec<HandleFactory> {
        self.factories.clone()
    }

    fn tensor_handle(&self, factory: &str, ty: &TensorType) -> Result<Box<dyn TensorHandle>> {
        let function = self.core.table.tensor_handle;
        let function = function.ok_or_else(|| self.core.lacks("tensor_handle"))?;
        // SAFETY: a function of the table; its arguments live for the call.
        self.handle(ty, |told, made| unsafe {
            function(self.core.this, abi::Text::of(factory), told, made)
        })
    }

    unsafe fn import_tensor(
        &self,
        factory: &str,
        ty: &TensorType,
        memory: ImportedMemory,
    ) -> Result<Box<dyn TensorHandle>> {
        let function = self.core.table.import_tensor;
        let function = function.ok_or_else(|| self.core.lacks("import_tensor"))?;
        let name = abi::Text::of(factory);
        let ImportedMemory {
            start,
            bytes,
            source,
        } = memory;
        let (start, source) = (start.cast(), source.bit() as i32);
        // SAFETY: as above; the caller vouches for the memory.
        self.handle(ty, |told, made| unsafe {
            function(self.core.this, name, told, start, bytes, source, made)
        })
    }
}
