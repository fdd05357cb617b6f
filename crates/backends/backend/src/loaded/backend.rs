//! The backend interface over a function table.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use super::core::Core;
use super::objects::{
    LoadedAllocator, LoadedContext, LoadedHandle, LoadedMemory, LoadedProfiling, exported_allocator,
};
use super::stream::LoadedStream;
use super::workload::LoadedWorkload;
use crate::marshal::{
    array, bytes, cpu_code, dtype_of, invalid, named_value, named_values, option, records,
    refusal_of, text, views,
};
use crate::{
    Allocator, Allocators, Backend, BackendContext, BackendId, Cache, Capability, Configure,
    CpuLevel, CreationOptions, HandleFactory, ImportedMemory, InPlace, Lifecycle, MAX_TARGET,
    MemoryManager, MemorySource, MemorySources, NodeView, OptimisationViews, Optimiser, OptionDef,
    OptionSetting, Prepared, ProfilingContext, Reason, Refusal, Stream, TensorHandle, TensorMemory,
    Tolerance, Workload, WorkloadMemory, WorkloadPlan, WorkloadSpec,
};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use tenon_backend_abi as abi;
use tenon_base::Result;
use tenon_graph::Graph;
use tenon_tensor::dlpack::Device;
use tenon_tensor::{BufferMut, TensorType};

/// The greatest number of bytes of device memory in a plan.
const MAX_DEVICE_BYTES: u64 = 1 << 50;

/// A backend loaded through the C interface.
pub struct LoadedBackend {
    core: Arc<Core>,
    lists: Lists,
}

/// The texts and lists of a table.
struct Lists {
    description: String,
    capabilities: Vec<Capability>,
    options: Vec<OptionDef>,
    factories: Vec<HandleFactory>,
    tolerances: Vec<Tolerance>,
    target: Option<String>,
}

impl LoadedBackend {
    /// Reads the lists of the table, once.
    pub(crate) fn new(core: Arc<Core>) -> Result<Self> {
        let lists = read_lists(&core.table).map_err(|error| core.with_label(&error))?;
        Ok(Self { core, lists })
    }

    fn plan_of(&self, raw: &abi::Plan, spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        // SAFETY: `raw` is the table of a plan that the backend created and that is not released
        // yet, so its lists are null or of the stated lengths, with valid structs.
        unsafe {
            if raw.scratch_bytes > isize::MAX as usize {
                return Err(invalid("the scratch memory exceeds the address space"));
            }
            if raw.device_bytes > MAX_DEVICE_BYTES {
                return Err(invalid("a plan states more memory than a device has")
                    .expected(format_args!("at most {MAX_DEVICE_BYTES} bytes"))
                    .found(raw.device_bytes));
            }
            let pairs = array(raw.in_place, raw.in_place_count, "the places of outputs")?;
            let prepared = records(raw.prepared, raw.prepared_count, "the prepared constants")?;
            Ok(WorkloadPlan {
                scratch_bytes: raw.scratch_bytes,
                in_place: pairs
                    .iter()
                    .map(|pair| in_place(*pair, spec))
                    .collect::<Result<_>>()?,
                prepared: prepared
                    .iter()
                    .map(|raw| prepared_of(raw, spec))
                    .collect::<Result<_>>()?,
                device_bytes: raw.device_bytes,
            })
        }
    }

    fn settings(
        &self,
        settings: &[OptionSetting],
        call: impl FnOnce(abi::List<abi::PropertyValue>),
    ) {
        let named = settings.iter().map(|one| (&*one.name, &one.value));
        // The values live until `call` returns.
        let (_values, pointers) = named_values(named);
        call(pointers.as_ptr());
    }

    /// The tensor handle that `create` creates.
    fn handle(
        &self,
        ty: &TensorType,
        create: impl FnOnce(*const abi::Tensor, *mut *const abi::TensorHandle) -> abi::Outcome,
    ) -> Result<Box<dyn TensorHandle>> {
        let mut arena = self.core.arena();
        let mut out = ptr::null();
        self.core.check(create(arena.ty(ty), &raw mut out))?;
        // SAFETY: `out` is null or the handle of `ty.bytes()` bytes that the function created.
        unsafe { Ok(Box::new(LoadedHandle::new(&self.core, out, ty.bytes())?)) }
    }

    fn workload_with(
        &self,
        spec: &WorkloadSpec,
        memory: Option<&Arc<dyn MemoryManager>>,
    ) -> Result<Box<dyn Workload>> {
        let Some(function) = self.core.table.workload else {
            return Err(self.core.missing_function("workload"));
        };
        let shared = memory_of(memory);
        let owned_spec = Box::new(spec.clone());
        let mut arena = self.core.arena();
        let mut out = ptr::null();
        let node = arena.spec(&owned_spec);
        // SAFETY: `workload` of the table is called with the table itself, not released; the node
        // lives during the call, its constants in `owned_spec` as long as the workload; `shared` is
        // null or a live memory manager of this backend.
        let outcome = unsafe { function(self.core.this, node, shared, &raw mut out) };
        self.core.check(outcome)?;
        drop(arena);
        let workload =
            // SAFETY: `out` is null or the workload that the function created from `owned_spec`.
            unsafe { LoadedWorkload::new(&self.core, out, owned_spec, memory.cloned())? };
        Ok(Box::new(workload))
    }
}

/// A memory manager of the library, null for none.
fn memory_of(memory: Option<&Arc<dyn MemoryManager>>) -> *const abi::MemoryManager {
    let own = memory.and_then(|memory| memory.as_any().downcast_ref::<LoadedMemory>());
    own.map_or(ptr::null(), LoadedMemory::this)
}

fn read_lists(table: &abi::Backend) -> Result<Lists> {
    // SAFETY: `table` is a copy of a table that is not released, so its texts and lists are null or
    // of the stated lengths, with valid structs.
    unsafe {
        let description = text(table.description, "the description")?;
        let what = "the capabilities";
        let capabilities = records(table.capabilities, table.capability_count, what)?
            .iter()
            .map(|raw| {
                let (name, value) = named_value(raw)?;
                let name = name.into();
                Ok(Capability { name, value })
            })
            .collect::<Result<_>>()?;
        let options = records(table.options, table.option_count, "the options")?
            .iter()
            .map(|raw| option(raw))
            .collect::<Result<_>>()?;
        let what = "the handle factories";
        let factories = records(table.handle_factories, table.handle_factory_count, what)?
            .iter()
            .map(|raw| factory(raw))
            .collect::<Result<_>>()?;
        let what = "the tolerances";
        let tolerances: Vec<Tolerance> = records(table.tolerances, table.tolerance_count, what)?
            .iter()
            .map(tolerance)
            .collect::<Result<_>>()?;
        Tolerance::check(&tolerances)?;
        Ok(Lists {
            description,
            capabilities,
            options,
            factories,
            tolerances,
            target: target(table)?,
        })
    }
}

/// # Safety
/// `raw` is of a table that is not released.
unsafe fn factory(raw: &abi::HandleFactory) -> Result<HandleFactory> {
    // SAFETY: the text of a table that is not released is null or of the stated length (header).
    let id = unsafe { text(raw.name, "the name of a handle factory")? };
    let (kind, index) = (raw.device_type, raw.device_id);
    let factory = HandleFactory {
        import: MemorySources(raw.import_sources),
        export: MemorySources(raw.export_sources),
        map: raw.map != 0,
        padding: raw.padding != 0,
        device: (kind != 0).then_some(Device { kind, index }),
        id,
    };
    let source = MemorySource::Device;
    let of_device = factory.import.contains(source) || factory.export.contains(source);
    if of_device && factory.device.is_none() {
        let text = format!(
            "handle factory {} has memory of a device and names none",
            factory.id
        );
        return Err(invalid(text).expected("a device_type").found(kind));
    }
    Ok(factory)
}

/// # Safety
/// `table` is a copy of a table that is not released.
unsafe fn target(table: &abi::Backend) -> Result<Option<String>> {
    // SAFETY: the text of a table that is not released is null or of the stated length (header).
    let target = unsafe { text(table.target, "the target")? };
    if target.len() > MAX_TARGET {
        let expected = format!("at most {MAX_TARGET} bytes");
        return Err(invalid("the target is too long")
            .expected(expected)
            .found(target.len()));
    }
    Ok((!target.is_empty()).then_some(target))
}

fn tolerance(raw: &abi::Tolerance) -> Result<Tolerance> {
    let unknown = || invalid("a tolerance has an unknown element type").found(raw.dtype);
    Ok(Tolerance {
        dtype: dtype_of(raw.dtype).ok_or_else(unknown)?,
        relative: raw.relative,
        absolute: raw.absolute,
    })
}

/// An in-place pair: the input and the output exist and have the same size.
fn in_place(raw: abi::InPlace, spec: &WorkloadSpec) -> Result<InPlace> {
    let (input, output) = (raw.input as usize, raw.output as usize);
    let pair = InPlace { input, output };
    if !pair.fits(spec) {
        return Err(invalid(format!(
            "output {output} cannot be computed in place of input {input}"
        )));
    }
    Ok(pair)
}

/// # Safety
/// `raw` is valid; the plan that contains it is not released.
unsafe fn prepared_of(raw: &abi::Prepared, spec: &WorkloadSpec) -> Result<Prepared> {
    let input = raw.input as usize;
    let source = spec.inputs.get(input).and_then(Option::as_ref);
    if source.is_none_or(|source| source.constant.is_none()) {
        return Err(invalid(format!(
            "input {input} has a prepared form, but is not constant"
        )));
    }
    // SAFETY: `raw` is valid (requirement): its text and bytes are null or of the stated lengths;
    // both are copied.
    unsafe {
        Ok(Prepared {
            input,
            layout: text(raw.layout, "the layout of a prepared form")?,
            data: BufferMut::copy_of(bytes(raw.data, "a prepared form")?)?.freeze(),
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
        self.lists.description.clone()
    }

    fn library(&self) -> Option<&Path> {
        self.core.path.as_deref()
    }

    fn capabilities(&self) -> Vec<Capability> {
        self.lists.capabilities.clone()
    }

    fn target(&self) -> Option<String> {
        self.lists.target.clone()
    }

    fn tolerances(&self) -> Vec<Tolerance> {
        self.lists.tolerances.clone()
    }

    fn set_cache(&self, cache: Arc<dyn Cache>) {
        self.core.set_cache(cache);
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        let Some(function) = self.core.table.supports else {
            let text = self.core.missing_function("supports").to_string();
            return Err(Reason::Other { text }.into());
        };
        let mut arena = self.core.arena();
        let raw = arena.view(node);
        // SAFETY: `supports` of the table is called with the table itself, not released; the node
        // lives during the call, and the returned outcome is not released yet.
        unsafe { refusal_of(function(self.core.this, raw), node.op) }
    }

    fn plan(&self, spec: &WorkloadSpec, cpu: CpuLevel) -> Result<WorkloadPlan> {
        let Some(function) = self.core.table.plan else {
            return Ok(WorkloadPlan::default());
        };
        let mut arena = self.core.arena();
        let mut out = ptr::null();
        let node = arena.spec(spec);
        // SAFETY: `plan` of the table is called with the table itself, not released; the node lives
        // during the call; `out` is null or the plan that it created, valid until its release,
        // once.
        unsafe {
            let outcome = function(self.core.this, node, cpu_code(cpu), &raw mut out);
            self.core.check(outcome)?;
            if out.is_null() {
                return Ok(WorkloadPlan::default());
            }
            let raw = self.core.read_object(out, "a plan")?;
            let plan = self.plan_of(&raw, spec);
            if let Some(release) = raw.release {
                release(out);
            }
            plan.map_err(|error| self.core.with_label(&error))
        }
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        self.workload_with(spec, None)
    }

    fn configure(&self) -> Option<&dyn Configure> {
        Some(self)
    }

    fn optimiser(&self) -> Option<&dyn Optimiser> {
        Some(self)
    }

    fn tensor_memory(&self) -> Option<&dyn TensorMemory> {
        Some(self)
    }

    fn workload_memory(&self) -> Option<&dyn WorkloadMemory> {
        Some(self)
    }

    fn allocators(&self) -> Option<&dyn Allocators> {
        Some(self)
    }

    fn lifecycle(&self) -> Option<&dyn Lifecycle> {
        Some(self)
    }
}

impl Configure for LoadedBackend {
    fn options(&self) -> Vec<OptionDef> {
        self.lists.options.clone()
    }

    fn configured(&self, options: &[OptionSetting]) -> Result<Arc<dyn Backend>> {
        let function = self.core.table.configured;
        let function = function.ok_or_else(|| self.core.missing_function("configured"))?;
        let (mut out, mut outcome) = (ptr::null(), ptr::null());
        self.settings(options, |list| {
            // SAFETY: the function of the table is called with the table itself, not released; the
            // list lives during the call.
            outcome = unsafe { function(self.core.this, options.len(), list, &raw mut out) };
        });
        self.core.check(outcome)?;
        // SAFETY: `out` is null or the table that the function created.
        let core = unsafe { self.core.derived(out, None)? };
        Ok(Arc::new(Self::new(core)?))
    }
}

impl Optimiser for LoadedBackend {
    fn optimise(&self, subgraph: &Graph) -> Result<OptimisationViews> {
        let Some(function) = self.core.table.optimise else {
            return Ok(OptimisationViews::untouched(subgraph));
        };
        let mut arena = self.core.arena();
        let mut out = ptr::null();
        let raw = arena.graph(subgraph);
        // SAFETY: `optimise` of the table is called with the table itself, not released; the graph
        // lives during the call; `out` is null or the views that it created, valid until their
        // release, once.
        unsafe {
            self.core
                .check(function(self.core.this, raw, &raw mut out))?;
            if out.is_null() {
                return Ok(OptimisationViews::untouched(subgraph));
            }
            let table = self.core.read_object(out, "an optimised subgraph")?;
            let read = views(&table).map_err(|error| self.core.with_label(&error));
            if let Some(release) = table.release {
                release(out);
            }
            read
        }
    }
}

impl TensorMemory for LoadedBackend {
    fn handle_factories(&self) -> Vec<HandleFactory> {
        self.lists.factories.clone()
    }

    fn tensor_handle(&self, factory: &str, ty: &TensorType) -> Result<Box<dyn TensorHandle>> {
        let function = self.core.table.tensor_handle;
        let function = function.ok_or_else(|| self.core.missing_function("tensor_handle"))?;
        // SAFETY: `tensor_handle` of the table is called with the table itself, not released; its
        // arguments live during the call.
        self.handle(ty, |raw, out| unsafe {
            function(self.core.this, abi::Text::of(factory), raw, out)
        })
    }

    unsafe fn import_tensor(
        &self,
        factory: &str,
        ty: &TensorType,
        memory: ImportedMemory,
    ) -> Result<Box<dyn TensorHandle>> {
        let name = abi::Text::of(factory);
        let ImportedMemory {
            start,
            bytes,
            source,
            is_long_lived,
            is_read_only,
        } = memory;
        let (start, source) = (start.cast(), source.bit() as i32);
        if let Some(function) = self.core.table.import_memory {
            let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
            let memory = abi::ImportedMemory {
                size: size_of::<abi::ImportedMemory>(),
                start,
                length: bytes,
                source,
                flags: flag(is_long_lived, abi::import::LONG_LIVED)
                    | flag(is_read_only, abi::import::READ_ONLY),
            };
            // SAFETY: as below, for `import_memory`.
            return self.handle(ty, |raw, out| unsafe {
                function(self.core.this, name, raw, &raw const memory, out)
            });
        }
        let function = self.core.table.import_tensor;
        let function = function.ok_or_else(|| self.core.missing_function("import_tensor"))?;
        // SAFETY: `import_tensor` of the table is called with the table itself, not released; its
        // arguments live during the call, and the memory is valid as long as the handle
        // (requirement of this function).
        self.handle(ty, |raw, out| unsafe {
            function(self.core.this, name, raw, start, bytes, source, out)
        })
    }

    fn stream(&self, memory: Option<&Arc<dyn MemoryManager>>) -> Result<Option<Box<dyn Stream>>> {
        let Some(function) = self
            .core
            .table
            .stream
            .filter(|_| !self.lists.factories.is_empty())
        else {
            return Ok(None);
        };
        let mut out = ptr::null();
        // SAFETY: `stream` of the table is called with the table itself, not released, and with a memory manager that
        // is null or a live one of this backend; `out` is null or the object that it created.
        unsafe {
            let outcome = function(self.core.this, memory_of(memory), &raw mut out);
            self.core.check(outcome)?;
            let stream = LoadedStream::new(&self.core, out, memory.cloned())?;
            Ok(stream.map(|stream| Box::new(stream) as _))
        }
    }
}

impl WorkloadMemory for LoadedBackend {
    fn memory_manager(&self) -> Result<Option<Arc<dyn MemoryManager>>> {
        let Some(function) = self.core.table.memory_manager else {
            return Ok(None);
        };
        let mut out = ptr::null();
        // SAFETY: the function of the table is called with the table itself, not released; `out` is
        // null or the object that it created.
        unsafe {
            self.core.check(function(self.core.this, &raw mut out))?;
            let memory = LoadedMemory::new(&self.core, out)?;
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
}

impl Allocators for LoadedBackend {
    fn allocator(&self) -> Option<Arc<dyn Allocator>> {
        let function = self.core.table.allocator?;
        let mut out = ptr::null();
        // SAFETY: the function of the table is called with the table itself, not released; `out` is
        // null or the object that it created.
        unsafe {
            self.core
                .check(function(self.core.this, &raw mut out))
                .ok()?;
            let allocator = LoadedAllocator::new(&self.core, out).ok()?;
            Some(Arc::new(allocator))
        }
    }

    fn with_allocator(&self, allocator: Arc<dyn Allocator>) -> Result<Arc<dyn Backend>> {
        let function = self.core.table.with_allocator;
        let function = function.ok_or_else(|| self.core.missing_function("with_allocator"))?;
        let exported = exported_allocator(allocator);
        let mut out = ptr::null();
        let outcome =
            // SAFETY: a function of the table; the allocator outlives what comes of it, which
            // owners it.
            unsafe { function(self.core.this, &raw const exported.table, &raw mut out) };
        self.core.check(outcome)?;
        // SAFETY: `out` is null or the table that the function created.
        let core = unsafe { self.core.derived(out, Some(exported))? };
        Ok(Arc::new(Self::new(core)?))
    }
}

impl Lifecycle for LoadedBackend {
    fn context(&self, options: &CreationOptions) -> Result<Option<Box<dyn BackendContext>>> {
        let Some(function) = self.core.table.context else {
            return Ok(None);
        };
        let count = options.settings.len();
        let protected = i32::from(options.protected_content);
        let (mut out, mut outcome) = (ptr::null(), ptr::null());
        self.settings(&options.settings, |list| {
            // SAFETY: the function of the table is called with the table itself, not released; the
            // list lives during the call.
            outcome = unsafe { function(self.core.this, count, list, protected, &raw mut out) };
        });
        self.core.check(outcome)?;
        // SAFETY: `out` is null or the context that the function created.
        let context = unsafe { LoadedContext::new(&self.core, out)? };
        Ok(context.map(|context| Box::new(context) as _))
    }

    fn profiling(&self) -> Result<Option<Box<dyn ProfilingContext>>> {
        let Some(function) = self.core.table.profiling else {
            return Ok(None);
        };
        let mut out = ptr::null();
        // SAFETY: the function of the table is called with the table itself, not released; `out` is
        // null or the object that it created.
        unsafe {
            self.core.check(function(self.core.this, &raw mut out))?;
            let profiling = LoadedProfiling::new(&self.core, out)?;
            Ok(profiling.map(|profiling| Box::new(profiling) as _))
        }
    }
}
