//! The functions of the table of an exported backend.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use super::cache::HostCache;
use super::description::BackendDescription;
use super::objects::{
    ExportedMemoryManager, ExportedPlan, ExportedProfiling, HostAllocator, exported_allocator,
    exported_context, exported_handle, memory_of,
};
use super::stream::exported_stream;
use super::workload::exported_workload;
use crate::marshal::{
    ExportedViews, ImportedNode, Ownership, graph, invalid, named_value, node, outcome_of,
    outcome_of_refusal, records, structure, tensor, text,
};
use crate::{
    Backend, CpuLevel, CreationOptions, ImportedMemory, InputSpec, MemorySource, NodeView,
    OptionSetting, WorkloadSpec,
};
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};
use tenon_backend_abi as abi;
use tenon_backend_abi::{Outcome, guarded};
use tenon_base::{Error, Result};

/// A Rust backend with its function table.
#[repr(C)]
pub(super) struct ExportedBackend {
    /// The first member: a pointer to it is a pointer to this struct.
    table: abi::Backend,
    backend: Arc<dyn Backend>,
    host: OnceLock<abi::Host>,
    /// The data that the table points to.
    _description: BackendDescription,
}

impl ExportedBackend {
    pub fn table(backend: Arc<dyn Backend>) -> *const abi::Backend {
        // Texts and lists are on the heap: moving the description leaves their addresses unchanged.
        let description = BackendDescription::of(&*backend);
        let table = abi::Backend {
            size: size_of::<abi::Backend>(),
            description: abi::Text::of(&description.description),
            capability_count: description.capabilities.len(),
            capabilities: description.values.1.as_ptr(),
            option_count: description.options.len(),
            options: description.option_list.as_ptr(),
            handle_factory_count: description.factories.len(),
            handle_factories: description.factory_list.as_ptr(),
            attach: Some(attach),
            supports: Some(supports),
            plan: Some(plan),
            workload: Some(workload),
            optimise: Some(optimise),
            configured: Some(configured),
            memory_manager: Some(memory_manager),
            context: Some(context),
            profiling: Some(profiling),
            allocator: Some(allocator),
            with_allocator: Some(with_allocator),
            tensor_handle: Some(tensor_handle),
            import_tensor: Some(import_tensor),
            import_memory: Some(import_memory),
            release: Some(release),
            stream: Some(stream),
            tolerance_count: description.tolerance_list.len(),
            tolerances: description.tolerance_list.as_ptr(),
            target: abi::Text::of(&description.target),
        };
        let exported = Self {
            table,
            backend,
            host: OnceLock::new(),
            _description: description,
        };
        Box::into_raw(Box::new(exported)).cast()
    }

    /// The ownership of bytes of the host that are needed beyond a call.
    fn ownership(&self) -> Ownership {
        match self.host.get() {
            Some(host) => Ownership::Retain(*host),
            None => Ownership::Copy,
        }
    }
}

/// Runs the body of a function of the interface; errors and panics become failures.
pub(super) fn run(work: impl FnOnce() -> Result<()>) -> Outcome {
    guarded(|| work().map_err(|error| outcome_of(&error)))
}

/// # Safety
/// [`ExportedBackend::table`] returned `this`, and it is not released during `'a`.
unsafe fn exported<'a>(this: *const abi::Backend) -> &'a ExportedBackend {
    // SAFETY: `this` came from `Box::into_raw` of an `ExportedBackend` (requirement), whose first
    // member is the table (`#[repr(C)]`); it is not released during `'a` (requirement).
    unsafe { &*this.cast() }
}

/// Writes the value of an out-parameter.
///
/// # Safety
/// `out` is null or valid for a write of `T`.
pub(super) unsafe fn write_out<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(invalid("the out-parameter is null"));
    }
    // SAFETY: `out` is not null (checked above) and then valid for a write (requirement).
    unsafe { out.write(value) };
    Ok(())
}

fn specification(node: ImportedNode) -> WorkloadSpec {
    let ranges = node.ranges();
    let inputs = node.inputs.into_iter().map(|input| {
        input.map(|input| InputSpec {
            ty: input.ty,
            constant: input.constant,
            prepared: input.prepared,
        })
    });
    WorkloadSpec {
        op: node.op,
        attributes: node.attributes,
        inputs: inputs.collect(),
        outputs: node
            .outputs
            .into_iter()
            .map(|output| output.map(|output| output.ty))
            .collect(),
        ranges,
    }
}

/// # Safety
/// `list` is null or points to `count` pointers to valid structs.
unsafe fn settings(
    count: usize,
    list: abi::List<abi::PropertyValue>,
) -> Result<Vec<OptionSetting>> {
    // SAFETY: `list` is null or points to `count` pointers to valid structs (requirement).
    let options = unsafe { records(list, count, "the options")? };
    options
        .iter()
        .map(|raw| {
            // SAFETY: `raw` is a copy of a valid struct of the list (requirement).
            let (name, value) = unsafe { named_value(raw)? };
            Ok(OptionSetting { name, value })
        })
        .collect()
}

// The functions of the table. The header requires of their callers: `this` is the table itself, not
// released; structs are valid (see `marshal::from_c`) and begin with their size; out-parameters are
// null or valid for a write. The `SAFETY` comments below call this the calling convention.

unsafe extern "C" fn attach(this: *const abi::Backend, host: *const abi::Host) -> Outcome {
    run(|| {
        // SAFETY: `this`, the structs passed and the out-parameter are valid by the calling
        // convention.
        unsafe {
            let table = structure(host, "the host")?;
            let exported = exported(this);
            if let Some(cache) = HostCache::new(host, &table) {
                exported.backend.set_cache(Arc::new(cache));
            }
            // A backend is attached once; a second host is ignored.
            let _ = exported.host.set(table);
        }
        Ok(())
    })
}

unsafe extern "C" fn supports(this: *const abi::Backend, raw: *const abi::Node) -> Outcome {
    guarded(|| {
        // SAFETY: `this`, the structs passed and the out-parameter are valid by the calling
        // convention.
        let (exported, read) = unsafe {
            let exported = exported(this);
            let raw = structure(raw, "a node");
            (
                exported,
                raw.and_then(|raw| node(&raw, exported.ownership())),
            )
        };
        let read = read.map_err(|error| outcome_of(&error))?;
        let inputs: Vec<_> = read
            .inputs
            .iter()
            .map(|input| input.as_ref().map(|input| &input.ty))
            .collect();
        let constants: Vec<_> = read
            .inputs
            .iter()
            .map(|input| input.as_ref().and_then(|input| input.constant.as_ref()))
            .collect();
        let outputs: Vec<_> = read
            .outputs
            .iter()
            .map(|output| output.as_ref().map(|output| &output.ty))
            .collect();
        let ranges = read.ranges();
        let view = NodeView {
            op: read.op,
            attributes: &read.attributes,
            inputs: &inputs,
            constants: &constants,
            outputs: &outputs,
            ranges: ranges.as_ref(),
        };
        let supported = exported.backend.supports(&view);
        supported.map_err(|refusal| outcome_of_refusal(&refusal))
    })
}

unsafe extern "C" fn plan(
    this: *const abi::Backend,
    raw: *const abi::Node,
    cpu: i32,
    out: *mut *const abi::Plan,
) -> Outcome {
    run(|| {
        let cpu = match cpu {
            abi::cpu::BASELINE => CpuLevel::Baseline,
            abi::cpu::AVX2 => CpuLevel::Avx2,
            abi::cpu::AVX512 => CpuLevel::Avx512,
            other => return Err(invalid("unknown CPU level").found(other)),
        };
        // SAFETY: `this`, the structs passed and the out-parameter are valid by the calling
        // convention.
        unsafe {
            let exported = exported(this);
            let spec = specification(node(&structure(raw, "a node")?, exported.ownership())?);
            let plan = exported.backend.plan(&spec, cpu)?;
            write_out(out, ExportedPlan::table(plan))
        }
    })
}

unsafe extern "C" fn workload(
    this: *const abi::Backend,
    raw: *const abi::Node,
    memory: *const abi::MemoryManager,
    out: *mut *const abi::Workload,
) -> Outcome {
    run(|| {
        // SAFETY: `this`, the structs passed and the out-parameter are valid by the calling
        // convention.
        unsafe {
            let exported = exported(this);
            let spec = specification(node(&structure(raw, "a node")?, exported.ownership())?);
            let workload = if memory.is_null() {
                exported.backend.workload(&spec)?
            } else {
                exported.backend.workload_in(&spec, memory_of(memory))?
            };
            write_out(out, exported_workload(workload))
        }
    })
}

unsafe extern "C" fn optimise(
    this: *const abi::Backend,
    raw: *const abi::Graph,
    out: *mut *const abi::Views,
) -> Outcome {
    run(|| {
        // SAFETY: `this`, the structs passed and the out-parameter are valid by the calling
        // convention.
        unsafe {
            let exported = exported(this);
            let subgraph = graph(&structure(raw, "a graph")?, exported.ownership())?;
            let views = exported.backend.optimise(&subgraph)?;
            let views = ExportedViews::new(views, Some(release_views));
            write_out(out, Box::into_raw(views).cast_const().cast())
        }
    })
}

unsafe extern "C" fn release_views(views: *const abi::Views) {
    // SAFETY: `optimise` returned `views` from `Box::into_raw` of an `ExportedViews`, whose first
    // member they are; the host releases them once.
    drop(unsafe { Box::from_raw(views.cast_mut().cast::<ExportedViews>()) });
}

unsafe extern "C" fn configured(
    this: *const abi::Backend,
    count: usize,
    options: abi::List<abi::PropertyValue>,
    out: *mut *const abi::Backend,
) -> Outcome {
    run(|| {
        // SAFETY: `this`, the structs passed and the out-parameter are valid by the calling
        // convention.
        unsafe {
            let backend = exported(this)
                .backend
                .configured(&settings(count, options)?)?;
            write_out(out, ExportedBackend::table(backend))
        }
    })
}

unsafe extern "C" fn memory_manager(
    this: *const abi::Backend,
    out: *mut *const abi::MemoryManager,
) -> Outcome {
    run(|| {
        // SAFETY: `this`, the structs passed and the out-parameter are valid by the calling
        // convention.
        unsafe {
            match exported(this).backend.memory_manager()? {
                Some(memory) => write_out(out, ExportedMemoryManager::table(memory)),
                None => Ok(()),
            }
        }
    })
}

unsafe extern "C" fn context(
    this: *const abi::Backend,
    count: usize,
    options: abi::List<abi::PropertyValue>,
    protected_content: i32,
    out: *mut *const abi::Context,
) -> Outcome {
    guarded(|| {
        // SAFETY: `this`, the structs passed and the out-parameter are valid by the calling
        // convention.
        let created = unsafe {
            settings(count, options).and_then(|settings| {
                exported(this).backend.context(&CreationOptions {
                    settings,
                    protected_content: protected_content != 0,
                })
            })
        };
        let context = created.map_err(|error| unavailable(&error))?;
        match context {
            Some(context) => {
                // SAFETY: `this`, the structs passed and the out-parameter are valid by the calling
                // convention.
                let written = unsafe { write_out(out, exported_context(context)) };
                written.map_err(|error| outcome_of(&error))
            }
            None => Ok(()),
        }
    })
}

/// For a context, an error of kind `Unsupported` means that the device is unavailable on this
/// machine.
fn unavailable(error: &Error) -> Outcome {
    match error.kind() {
        tenon_base::ErrorKind::Unsupported => {
            abi::failure(abi::status::UNAVAILABLE, error.to_string())
        }
        _ => outcome_of(error),
    }
}

unsafe extern "C" fn profiling(
    this: *const abi::Backend,
    out: *mut *const abi::Profiling,
) -> Outcome {
    run(|| {
        // SAFETY: `this`, the structs passed and the out-parameter are valid by the calling
        // convention.
        unsafe {
            match exported(this).backend.profiling()? {
                Some(profiling) => write_out(out, ExportedProfiling::table(profiling)),
                None => Ok(()),
            }
        }
    })
}

unsafe extern "C" fn allocator(
    this: *const abi::Backend,
    out: *mut *const abi::Allocator,
) -> Outcome {
    run(|| {
        // SAFETY: `this`, the structs passed and the out-parameter are valid by the calling
        // convention.
        unsafe {
            let own = exported(this).backend.allocator();
            let none = || invalid("the backend has no allocator for other backends");
            write_out(out, exported_allocator(own.ok_or_else(none)?))
        }
    })
}

unsafe extern "C" fn with_allocator(
    this: *const abi::Backend,
    allocator: *const abi::Allocator,
    out: *mut *const abi::Backend,
) -> Outcome {
    run(|| {
        // SAFETY: `this`, the structs passed and the out-parameter are valid by the calling
        // convention.
        unsafe {
            let allocator = Arc::new(HostAllocator::new(allocator)?);
            let backend = exported(this).backend.with_allocator(allocator)?;
            write_out(out, ExportedBackend::table(backend))
        }
    })
}

unsafe extern "C" fn tensor_handle(
    this: *const abi::Backend,
    factory: abi::Text,
    ty: *const abi::Tensor,
    out: *mut *const abi::TensorHandle,
) -> Outcome {
    run(|| {
        // SAFETY: `this`, the structs passed and the out-parameter are valid by the calling
        // convention.
        unsafe {
            let factory = text(factory, "the name of a handle factory")?;
            let ty = tensor(&structure(ty, "a tensor")?, Ownership::Copy)?.ty;
            let handle = exported(this).backend.tensor_handle(&factory, &ty)?;
            write_out(out, exported_handle(handle))
        }
    })
}

unsafe extern "C" fn import_tensor(
    this: *const abi::Backend,
    factory: abi::Text,
    ty: *const abi::Tensor,
    start: *mut c_void,
    bytes: usize,
    source: i32,
    out: *mut *const abi::TensorHandle,
) -> Outcome {
    let memory = abi::ImportedMemory {
        size: size_of::<abi::ImportedMemory>(),
        start,
        length: bytes,
        source,
        flags: 0,
    };
    // SAFETY: the pointers and the imported memory are valid by the calling convention of this function.
    unsafe { import_memory(this, factory, ty, &raw const memory, out) }
}

unsafe extern "C" fn import_memory(
    this: *const abi::Backend,
    factory: abi::Text,
    ty: *const abi::Tensor,
    memory: *const abi::ImportedMemory,
    out: *mut *const abi::TensorHandle,
) -> Outcome {
    run(|| {
        // SAFETY: by the calling convention `this`, the structs and the out-parameter are valid, and
        // the imported memory is valid for its length until the handle is released.
        unsafe {
            let abi::ImportedMemory {
                start,
                length: bytes,
                source,
                flags,
                ..
            } = structure(memory, "the memory to import")?;
            let factory = text(factory, "the name of a handle factory")?;
            let ty = tensor(&structure(ty, "a tensor")?, Ownership::Copy)?.ty;
            let source = MemorySource::of_bit(source)
                .ok_or_else(|| invalid("memory of an unknown source").found(source))?;
            if bytes != ty.bytes() || (start.is_null() && bytes > 0) {
                return Err(invalid("the memory does not fit the tensor")
                    .expected(ty.bytes())
                    .found(bytes));
            }
            let memory = ImportedMemory {
                start: start.cast(),
                bytes,
                source,
                is_long_lived: flags & abi::import::LONG_LIVED != 0,
                is_read_only: flags & abi::import::READ_ONLY != 0,
            };
            let backend = &exported(this).backend;
            write_out(
                out,
                exported_handle(backend.import_tensor(&factory, &ty, memory)?),
            )
        }
    })
}

unsafe extern "C" fn stream(
    this: *const abi::Backend,
    memory: *const abi::MemoryManager,
    out: *mut *const abi::Stream,
) -> Outcome {
    run(|| {
        // SAFETY: `this`, the memory manager and the out-parameter are valid by the calling
        // convention.
        unsafe {
            let memory = (!memory.is_null()).then(|| memory_of(memory));
            match exported(this).backend.stream(memory)? {
                Some(stream) => write_out(out, exported_stream(stream)),
                None => Ok(()),
            }
        }
    })
}

unsafe extern "C" fn release(this: *const abi::Backend) {
    // SAFETY: `ExportedBackend::table` returned `this` from `Box::into_raw`; the host releases it
    // once, after all calls.
    drop(unsafe { Box::from_raw(this.cast_mut().cast::<ExportedBackend>()) });
}
