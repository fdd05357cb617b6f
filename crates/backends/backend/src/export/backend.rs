//! The functions of the table.

use super::made::{
    CountersOut, GivenAllocator, MemoryOut, PlanOut, allocator_out, context_out, handle_out,
    memory_of, workload_out,
};
use super::told::Told;
use crate::border::{
    Keep, NodeIn, ViewsOut, graph, invalid, named_value, node, outcome_of, outcome_of_refusal,
    records, structure, tensor, text,
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

/// A Rust backend and the table over it.
#[repr(C)]
pub(super) struct ExportedBackend {
    /// First, so that a pointer to it is one to the whole.
    table: abi::Backend,
    backend: Arc<dyn Backend>,
    host: OnceLock<abi::Host>,
    /// What the table points to.
    _told: Told,
}

impl ExportedBackend {
    pub fn table(backend: Arc<dyn Backend>) -> *const abi::Backend {
        // Texts and lists lie on the heap, so that they stay when this is moved.
        let told = Told::of(&*backend);
        let table = abi::Backend {
            size: size_of::<abi::Backend>(),
            description: abi::Text::of(&told.description),
            capability_count: told.capabilities.len(),
            capabilities: told.values.1.as_ptr(),
            option_count: told.options.len(),
            options: told.option_list.as_ptr(),
            handle_factory_count: told.factories.len(),
            handle_factories: told.factory_list.as_ptr(),
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
            release: Some(release),
        };
        let exported = Self {
            table,
            backend,
            host: OnceLock::new(),
            _told: told,
        };
        Box::into_raw(Box::new(exported)).cast()
    }

    /// How bytes of the host are kept.
    fn keep(&self) -> Keep {
        match self.host.get() {
            Some(host) => Keep::Retain(*host),
            None => Keep::Copy,
        }
    }
}

/// Runs the body of a function: errors and panics become failures.
pub(super) fn run(work: impl FnOnce() -> Result<()>) -> Outcome {
    guarded(|| work().map_err(|error| outcome_of(&error)))
}

/// # Safety
/// `this` is a table of [`ExportedBackend`] that is not released.
unsafe fn exported<'a>(this: *const abi::Backend) -> &'a ExportedBackend {
    // SAFETY: the table is the first member; the caller vouches.
    unsafe { &*this.cast() }
}

/// Writes an output.
///
/// # Safety
/// `place` is null or valid for a write.
pub(super) unsafe fn answer<T>(place: *mut T, value: T) -> Result<()> {
    if place.is_null() {
        return Err(invalid("there is no place for the answer"));
    }
    // SAFETY: not null, and the caller vouches.
    unsafe { place.write(value) };
    Ok(())
}

fn specification(node: NodeIn) -> WorkloadSpec {
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
    }
}

/// # Safety
/// What it points to is as the header says.
unsafe fn settings(count: usize, list: abi::List<abi::NamedValue>) -> Result<Vec<OptionSetting>> {
    // SAFETY: the caller vouches.
    let told = unsafe { records(list, count, "the options")? };
    told.iter()
        .map(|told| {
            // SAFETY: the caller vouches.
            let (name, value) = unsafe { named_value(told)? };
            Ok(OptionSetting { name, value })
        })
        .collect()
}

// SAFETY of the functions below: the header's rules for those who call them, of which the table is
// the first argument, structs begin with their size, and places for answers are valid for writes.

unsafe extern "C" fn attach(this: *const abi::Backend, host: *const abi::Host) -> Outcome {
    run(|| {
        // SAFETY: see above.
        unsafe {
            let host = structure(host, "the host")?;
            // Attached once; a second host would be the same one.
            let _ = exported(this).host.set(host);
        }
        Ok(())
    })
}

unsafe extern "C" fn supports(this: *const abi::Backend, told: *const abi::Node) -> Outcome {
    guarded(|| {
        // SAFETY: see above.
        let (exported, read) = unsafe {
            let exported = exported(this);
            let told = structure(told, "a node");
            (exported, told.and_then(|told| node(&told, exported.keep())))
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
        let view = NodeView {
            op: read.op,
            attributes: &read.attributes,
            inputs: &inputs,
            constants: &constants,
            outputs: &outputs,
        };
        let answer = exported.backend.supports(&view);
        answer.map_err(|refusal| outcome_of_refusal(&refusal))
    })
}

unsafe extern "C" fn plan(
    this: *const abi::Backend,
    told: *const abi::Node,
    cpu: i32,
    made: *mut *const abi::Plan,
) -> Outcome {
    run(|| {
        let cpu = match cpu {
            abi::cpu::BASELINE => CpuLevel::Baseline,
            abi::cpu::AVX2 => CpuLevel::Avx2,
            abi::cpu::AVX512 => CpuLevel::Avx512,
            other => return Err(invalid("an unknown CPU").found(other)),
        };
        // SAFETY: see above.
        unsafe {
            let exported = exported(this);
            let spec = specification(node(&structure(told, "a node")?, exported.keep())?);
            let plan = exported.backend.plan(&spec, cpu)?;
            answer(made, PlanOut::table(plan))
        }
    })
}

unsafe extern "C" fn workload(
    this: *const abi::Backend,
    told: *const abi::Node,
    memory: *const abi::MemoryManager,
    made: *mut *const abi::Workload,
) -> Outcome {
    run(|| {
        // SAFETY: see above.
        unsafe {
            let exported = exported(this);
            let spec = specification(node(&structure(told, "a node")?, exported.keep())?);
            let workload = if memory.is_null() {
                exported.backend.workload(&spec)?
            } else {
                exported.backend.workload_in(&spec, memory_of(memory))?
            };
            answer(made, workload_out(workload))
        }
    })
}

unsafe extern "C" fn optimise(
    this: *const abi::Backend,
    told: *const abi::Graph,
    made: *mut *const abi::Views,
) -> Outcome {
    run(|| {
        // SAFETY: see above.
        unsafe {
            let exported = exported(this);
            let subgraph = graph(&structure(told, "a graph")?, exported.keep())?;
            let views = exported.backend.optimise(&subgraph)?;
            let out = ViewsOut::new(views, Some(release_views));
            answer(made, Box::into_raw(out).cast_const().cast())
        }
    })
}

unsafe extern "C" fn release_views(views: *const abi::Views) {
    // SAFETY: from `optimise`, where the views are the first member; released once.
    drop(unsafe { Box::from_raw(views.cast_mut().cast::<ViewsOut>()) });
}

unsafe extern "C" fn configured(
    this: *const abi::Backend,
    count: usize,
    options: abi::List<abi::NamedValue>,
    made: *mut *const abi::Backend,
) -> Outcome {
    run(|| {
        // SAFETY: see above.
        unsafe {
            let backend = exported(this)
                .backend
                .configured(&settings(count, options)?)?;
            answer(made, ExportedBackend::table(backend))
        }
    })
}

unsafe extern "C" fn memory_manager(
    this: *const abi::Backend,
    made: *mut *const abi::MemoryManager,
) -> Outcome {
    run(|| {
        // SAFETY: see above.
        unsafe {
            match exported(this).backend.memory_manager()? {
                Some(memory) => answer(made, MemoryOut::table(memory)),
                None => Ok(()),
            }
        }
    })
}

unsafe extern "C" fn context(
    this: *const abi::Backend,
    count: usize,
    options: abi::List<abi::NamedValue>,
    protected_content: i32,
    made: *mut *const abi::Context,
) -> Outcome {
    guarded(|| {
        // SAFETY: see above.
        let done = unsafe {
            settings(count, options).and_then(|settings| {
                exported(this).backend.context(&CreationOptions {
                    settings,
                    protected_content: protected_content != 0,
                })
            })
        };
        let context = done.map_err(|error| unavailable(&error))?;
        match context {
            Some(context) => {
                // SAFETY: see above.
                let answered = unsafe { answer(made, context_out(context)) };
                answered.map_err(|error| outcome_of(&error))
            }
            None => Ok(()),
        }
    })
}

/// An error of kind `Unsupported` about a context says that something is not on this machine.
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
    made: *mut *const abi::Profiling,
) -> Outcome {
    run(|| {
        // SAFETY: see above.
        unsafe {
            match exported(this).backend.profiling()? {
                Some(profiling) => answer(made, CountersOut::table(profiling)),
                None => Ok(()),
            }
        }
    })
}

unsafe extern "C" fn allocator(
    this: *const abi::Backend,
    made: *mut *const abi::Allocator,
) -> Outcome {
    run(|| {
        // SAFETY: see above.
        unsafe {
            let own = exported(this).backend.allocator();
            let none = || invalid("the backend lends no allocator");
            answer(made, allocator_out(own.ok_or_else(none)?))
        }
    })
}

unsafe extern "C" fn with_allocator(
    this: *const abi::Backend,
    allocator: *const abi::Allocator,
    made: *mut *const abi::Backend,
) -> Outcome {
    run(|| {
        // SAFETY: see above.
        unsafe {
            let given = Arc::new(GivenAllocator::new(allocator)?);
            let backend = exported(this).backend.with_allocator(given)?;
            answer(made, ExportedBackend::table(backend))
        }
    })
}

unsafe extern "C" fn tensor_handle(
    this: *const abi::Backend,
    factory: abi::Text,
    ty: *const abi::Tensor,
    made: *mut *const abi::TensorHandle,
) -> Outcome {
    run(|| {
        // SAFETY: see above.
        unsafe {
            let factory = text(factory, "the name of a handle factory")?;
            let ty = tensor(&structure(ty, "a tensor")?, Keep::Copy)?.ty;
            let handle = exported(this).backend.tensor_handle(&factory, &ty)?;
            answer(made, handle_out(handle))
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
    made: *mut *const abi::TensorHandle,
) -> Outcome {
    run(|| {
        // SAFETY: see above; the host vouches for the memory.
        unsafe {
            let factory = text(factory, "the name of a handle factory")?;
            let ty = tensor(&structure(ty, "a tensor")?, Keep::Copy)?.ty;
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
            };
            let backend = &exported(this).backend;
            answer(
                made,
                handle_out(backend.import_tensor(&factory, &ty, memory)?),
            )
        }
    })
}

unsafe extern "C" fn release(this: *const abi::Backend) {
    // SAFETY: from `ExportedBackend::table`, released once.
    drop(unsafe { Box::from_raw(this.cast_mut().cast::<ExportedBackend>()) });
}
