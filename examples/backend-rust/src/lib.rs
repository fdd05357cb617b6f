//! A loadable backend in Rust that knows nothing of Tenon but the C interface: absolute values and
//! negations of f32.
//!
//! It counts its executions (a counter that profiles show), hears of models through a context, keeps
//! a buffer for each model in a memory manager, and has tensor memory of its own, which its one
//! option has made of plain memory. Every function that may panic goes through [`guarded`], so that
//! no panic crosses.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tenon_backend_abi::{
    Backend, BackendOption, Context, Counter, HandleFactory, MAJOR, MINOR, MemoryManager,
    NamedValue, Node, Operand, Operands, Outcome, Profiling, Tensor, TensorHandle, Text, Workload,
    failed, failure, guarded, reason, refusal, scope, status, value,
};

/// The number of `TENON_TYPE_F32`.
const F32: i32 = 1;

/// The backend's id.
#[unsafe(no_mangle)]
pub extern "C" fn GetBackendId() -> *const c_char {
    c"ExampleRust".as_ptr()
}

/// The version of the interface that this was built with.
///
/// # Safety
/// Both places are valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetVersion(major: *mut u32, minor: *mut u32) {
    // SAFETY: the caller vouches.
    unsafe {
        *major = MAJOR;
        *minor = MINOR;
    }
}

/// The backend.
#[unsafe(no_mangle)]
pub extern "C" fn BackendFactory() -> *const Backend {
    made(&FACTORIES, Arc::new(Counts::default()))
}

fn made(factories: &'static Factories, counts: Arc<Counts>) -> *const Backend {
    let example = Example {
        table: Backend {
            size: size_of::<Backend>(),
            description: Text::of("Abs and Neg of f32, an example in Rust"),
            capability_count: 0,
            capabilities: std::ptr::null(),
            option_count: OPTIONS.0.len(),
            options: OPTIONS.0.as_ptr(),
            handle_factory_count: factories.0.len(),
            handle_factories: factories.0.as_ptr(),
            attach: None,
            supports: Some(supports),
            plan: None,
            workload: Some(workload),
            optimise: None,
            configured: Some(configured),
            memory_manager: Some(memory_manager),
            context: Some(context),
            profiling: Some(profiling),
            allocator: None,
            with_allocator: None,
            tensor_handle: Some(tensor_handle),
            import_tensor: Some(import_tensor),
            release: Some(release::<Backend, Example>),
        },
        counts,
    };
    Box::into_raw(Box::new(example)).cast()
}

/// A constant that points to others.
struct Constant<T>(T);

// SAFETY: nobody writes it or what it points to.
unsafe impl<T> Sync for Constant<T> {}

type Factories = Constant<[*const HandleFactory; 1]>;

/// The kind of tensor memory that this backend has: plain, of its own, which the CPU can reach.
static FACTORY: Constant<HandleFactory> = Constant(HandleFactory {
    size: size_of::<HandleFactory>(),
    name: Text::of("ExampleHeap"),
    import_sources: 0,
    export_sources: MALLOC,
    map: 1,
    padding: 0,
});

static FACTORIES: Factories = Constant([&raw const FACTORY.0]);

/// The bit of `TENON_MEMORY_MALLOC`.
const MALLOC: u32 = 1;

/// The same kind, with tensors that are plain memory of the caller.
static IMPORTING_FACTORY: Constant<HandleFactory> = Constant(HandleFactory {
    import_sources: MALLOC,
    ..FACTORY.0
});

static IMPORTING_FACTORIES: Factories = Constant([&raw const IMPORTING_FACTORY.0]);

static IMPORT_DEFAULT: Constant<NamedValue> = Constant(NamedValue {
    size: size_of::<NamedValue>(),
    name: Text::of("ImportMemory"),
    kind: value::BOOL,
    number: 0.0,
    integer: 0,
    text: Text::EMPTY,
});

static IMPORT_OPTION: Constant<BackendOption> = Constant(BackendOption {
    size: size_of::<BackendOption>(),
    value: &raw const IMPORT_DEFAULT.0,
    scope: scope::MODEL,
    doc: Text::of("makes tensors of the caller's memory"),
});

static OPTIONS: Constant<[*const BackendOption; 1]> = Constant([&raw const IMPORT_OPTION.0]);

unsafe extern "C" fn configured(
    this: *const Backend,
    count: usize,
    options: *const *const NamedValue,
    other: *mut *const Backend,
) -> Outcome {
    guarded(|| {
        // SAFETY: see below.
        let (own, given) = unsafe { (&*this.cast::<Example>(), slice(options, count)) };
        let mut factories = &FACTORIES;
        for &option in given {
            // SAFETY: as the header says.
            let option = unsafe { &*option };
            // SAFETY: as above.
            let name = unsafe { slice(option.name.start, option.name.length) };
            if name != b"ImportMemory" || option.kind != value::BOOL {
                let text = "the only option is ImportMemory, true or false";
                return Err(failure(status::INVALID, text));
            }
            factories = match option.integer {
                0 => &FACTORIES,
                _ => &IMPORTING_FACTORIES,
            };
        }
        // SAFETY: see below.
        unsafe { *other = made(factories, own.counts.clone()) };
        Ok(())
    })
}

/// What the counters show.
#[derive(Default)]
struct Counts {
    executions: AtomicU64,
    /// Tensors copied to or from this memory.
    copies: AtomicU64,
    /// Tensors made of memory of others.
    imports: AtomicU64,
    models: AtomicU64,
}

// Each struct below begins with one of the header, so that a pointer to that is one to the whole.

#[repr(C)]
struct Example {
    table: Backend,
    counts: Arc<Counts>,
}

#[repr(C)]
struct ExampleWorkload {
    table: Workload,
    kernel: fn(f32) -> f32,
    counts: Arc<Counts>,
}

/// # Safety
/// `this` is the first member of a box of `B`, released once.
unsafe extern "C" fn release<A, B>(this: *const A) {
    // SAFETY: the caller vouches.
    drop(unsafe { Box::from_raw(this.cast_mut().cast::<B>()) });
}

// SAFETY of the functions below: Tenon passes what the header says, and the first argument is one
// that this library made.

unsafe extern "C" fn supports(_: *const Backend, node: *const Node) -> Outcome {
    // SAFETY: see above.
    guarded(|| unsafe { kernel_of(&*node) }.map(drop))
}

/// The kernel of a node, or why there is none.
///
/// # Safety
/// The node is as the header says.
unsafe fn kernel_of(node: &Node) -> Result<fn(f32) -> f32, Outcome> {
    // SAFETY: the caller vouches.
    let (op, inputs, outputs) = unsafe {
        (
            slice(node.op.start, node.op.length),
            slice(node.inputs, node.input_count),
            slice(node.outputs, node.output_count),
        )
    };
    let kernel: fn(f32) -> f32 = match op {
        b"Abs" => f32::abs,
        b"Neg" => |x| -x,
        _ => return Err(refused(reason::UNKNOWN_OPERATOR, 0, 0)),
    };
    let ([input], [output]) = (inputs, outputs) else {
        return Err(failure(
            status::INVALID,
            "one input and one output are needed",
        ));
    };
    for &tensor in [input, output] {
        // SAFETY: not null (asked first), and as the header says.
        match (!tensor.is_null()).then(|| unsafe { (*tensor).dtype }) {
            Some(F32) => {}
            Some(dtype) => return Err(refused(reason::INPUT_TYPE, 0, dtype.into())),
            None => return Err(failure(status::INVALID, "an operand is left out")),
        }
    }
    Ok(kernel)
}

fn refused(reason: i32, index: i64, found: i64) -> Outcome {
    let numbers = [index, found];
    refusal(
        status::UNSUPPORTED,
        reason,
        numbers,
        String::new(),
        String::new(),
    )
}

/// # Safety
/// `count` values at `start`.
unsafe fn slice<'a, T>(start: *const T, count: usize) -> &'a [T] {
    match start.is_null() || count == 0 {
        true => &[],
        // SAFETY: the caller vouches.
        false => unsafe { std::slice::from_raw_parts(start, count) },
    }
}

unsafe extern "C" fn workload(
    this: *const Backend,
    node: *const Node,
    _: *const MemoryManager,
    made: *mut *const Workload,
) -> Outcome {
    guarded(|| {
        // SAFETY: see above.
        unsafe {
            let workload = ExampleWorkload {
                table: Workload {
                    size: size_of::<Workload>(),
                    execute: Some(execute),
                    reads: None,
                    release: Some(release::<Workload, ExampleWorkload>),
                },
                kernel: kernel_of(&*node)?,
                counts: (*this.cast::<Example>()).counts.clone(),
            };
            *made = Box::into_raw(Box::new(workload)).cast();
        }
        Ok(())
    })
}

unsafe extern "C" fn execute(this: *const Workload, operands: *const Operands) -> Outcome {
    guarded(|| {
        // SAFETY: see above.
        let (own, inputs, outputs) = unsafe {
            let told = &*operands;
            (
                &*this.cast::<ExampleWorkload>(),
                slice(told.inputs, told.input_count),
                slice(told.outputs, told.output_count),
            )
        };
        let ([input], [output]) = (inputs, outputs) else {
            return Err(failure(
                status::INVALID,
                "one input and one output are needed",
            ));
        };
        let Operand { start, length } = *output;
        if input.length != length || input.start.is_null() || !length.is_multiple_of(4) {
            return Err(failure(status::INVALID, "input and output differ in size"));
        }
        let (from, to) = (input.start.cast::<f32>(), start.cast::<f32>());
        for index in 0..length / 4 {
            // SAFETY: within both operands, which are aligned; they may be the same memory.
            unsafe { to.add(index).write((own.kernel)(from.add(index).read())) };
        }
        own.counts.executions.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}

/// A buffer that a model's workloads could share: there between acquire and give_back.
#[repr(C)]
struct ExampleMemory {
    table: MemoryManager,
    buffer: Mutex<Vec<u8>>,
}

unsafe extern "C" fn memory_manager(_: *const Backend, made: *mut *const MemoryManager) -> Outcome {
    guarded(|| {
        let memory = ExampleMemory {
            table: MemoryManager {
                size: size_of::<MemoryManager>(),
                acquire: Some(acquire),
                give_back: Some(give_back),
                release: Some(release::<MemoryManager, ExampleMemory>),
            },
            buffer: Mutex::default(),
        };
        // SAFETY: see above.
        unsafe { *made = Box::into_raw(Box::new(memory)).cast() };
        Ok(())
    })
}

unsafe extern "C" fn acquire(this: *const MemoryManager) -> Outcome {
    guarded(|| {
        // SAFETY: see above.
        let own = unsafe { &*this.cast::<ExampleMemory>() };
        let mut buffer = own.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = buffer.try_reserve(4096);
        taken.map_err(|_| failure(status::OUT_OF_MEMORY, "no memory for a model"))
    })
}

unsafe extern "C" fn give_back(this: *const MemoryManager) {
    // SAFETY: see above.
    let own = unsafe { &*this.cast::<ExampleMemory>() };
    *own.buffer.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new();
}

#[repr(C)]
struct ExampleContext {
    table: Context,
    counts: Arc<Counts>,
}

unsafe extern "C" fn context(
    this: *const Backend,
    _: usize,
    _: *const *const tenon_backend_abi::NamedValue,
    _: i32,
    made: *mut *const Context,
) -> Outcome {
    guarded(|| {
        // SAFETY: see above.
        unsafe {
            let context = ExampleContext {
                table: Context {
                    size: size_of::<Context>(),
                    before_load: None,
                    after_load: Some(after_load),
                    before_unload: Some(before_unload),
                    after_unload: None,
                    after_enqueue: None,
                    release: Some(release::<Context, ExampleContext>),
                },
                counts: (*this.cast::<Example>()).counts.clone(),
            };
            *made = Box::into_raw(Box::new(context)).cast();
        }
        Ok(())
    })
}

unsafe extern "C" fn after_load(this: *const Context, _: u64) -> Outcome {
    // SAFETY: see above.
    let own = unsafe { &*this.cast::<ExampleContext>() };
    own.counts.models.fetch_add(1, Ordering::Relaxed);
    std::ptr::null()
}

unsafe extern "C" fn before_unload(this: *const Context, network: u64) -> Outcome {
    // SAFETY: see above.
    let own = unsafe { &*this.cast::<ExampleContext>() };
    let fewer = |count: u64| count.checked_sub(1);
    let models = &own.counts.models;
    match models.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer) {
        Ok(_) => std::ptr::null(),
        Err(_) => failed(format!("network {network} was not loaded")),
    }
}

#[repr(C)]
struct ExampleProfiling {
    table: Profiling,
    counts: Arc<Counts>,
    _counters: Box<[Counter; 4]>,
    list: [*const Counter; 4],
}

unsafe extern "C" fn profiling(this: *const Backend, made: *mut *const Profiling) -> Outcome {
    guarded(|| {
        let counter = |name, doc| Counter {
            size: size_of::<Counter>(),
            name: Text::of(name),
            doc: Text::of(doc),
            unit: Text::EMPTY,
        };
        let counters = Box::new([
            counter("executions", "workloads executed"),
            counter("copies", "tensors copied to or from its memory"),
            counter("imports", "tensors made of memory of others"),
            counter("models", "models loaded now"),
        ]);
        // SAFETY: see above.
        let counts = unsafe { (*this.cast::<Example>()).counts.clone() };
        let mut profiling = Box::new(ExampleProfiling {
            table: Profiling {
                size: size_of::<Profiling>(),
                counter_count: counters.len(),
                counters: std::ptr::null(),
                enable: None,
                sample: Some(sample),
                release: Some(release::<Profiling, ExampleProfiling>),
            },
            counts,
            list: std::array::from_fn(|index| &raw const counters[index]),
            _counters: counters,
        });
        profiling.table.counters = profiling.list.as_ptr();
        // SAFETY: see above.
        unsafe { *made = Box::into_raw(profiling).cast() };
        Ok(())
    })
}

unsafe extern "C" fn sample(this: *const Profiling, values: *mut u64) -> Outcome {
    // SAFETY: see above, and room for four values.
    unsafe {
        let counts = &(*this.cast::<ExampleProfiling>()).counts;
        values.write(counts.executions.load(Ordering::Relaxed));
        values.add(1).write(counts.copies.load(Ordering::Relaxed));
        values.add(2).write(counts.imports.load(Ordering::Relaxed));
        values.add(3).write(counts.models.load(Ordering::Relaxed));
    }
    std::ptr::null()
}

/// As many bytes as tensors are aligned to.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "only its address counts")] [u8; 64]);

#[repr(C)]
struct ExampleTensor {
    table: TensorHandle,
    start: *mut c_void,
    bytes: usize,
    /// Empty for a tensor of memory of others.
    _lines: Vec<Line>,
    counts: Arc<Counts>,
}

impl ExampleTensor {
    fn made(
        this: *const Backend,
        start: *mut c_void,
        bytes: usize,
        lines: Vec<Line>,
    ) -> *const TensorHandle {
        let tensor = ExampleTensor {
            table: TensorHandle {
                size: size_of::<TensorHandle>(),
                copy_in: Some(copy_in),
                copy_out: Some(copy_out),
                start: Some(start_of),
                release: Some(release::<TensorHandle, ExampleTensor>),
            },
            start,
            bytes,
            _lines: lines,
            // SAFETY: see above.
            counts: unsafe { (*this.cast::<Example>()).counts.clone() },
        };
        Box::into_raw(Box::new(tensor)).cast()
    }
}

/// The bytes of a tensor that this backend can have.
///
/// # Safety
/// As the header says.
unsafe fn bytes_of(factory: Text, ty: *const Tensor) -> Result<usize, Outcome> {
    // SAFETY: the caller vouches.
    let (name, told) = unsafe { (slice(factory.start, factory.length), &*ty) };
    if name != b"ExampleHeap" || told.dtype != F32 {
        return Err(failure(status::UNSUPPORTED, "only ExampleHeap of f32"));
    }
    // SAFETY: as many extents as dimensions.
    let extents = unsafe { slice(told.extents, told.rank as usize) };
    Ok(extents.iter().product::<u64>() as usize * 4)
}

unsafe extern "C" fn tensor_handle(
    this: *const Backend,
    factory: Text,
    ty: *const Tensor,
    made: *mut *const TensorHandle,
) -> Outcome {
    guarded(|| {
        // SAFETY: see above.
        let bytes = unsafe { bytes_of(factory, ty)? };
        let mut lines = vec![Line([0; 64]); bytes.div_ceil(64)];
        let start = lines.as_mut_ptr().cast();
        // SAFETY: see above.
        unsafe { *made = ExampleTensor::made(this, start, bytes, lines) };
        Ok(())
    })
}

unsafe extern "C" fn import_tensor(
    this: *const Backend,
    factory: Text,
    ty: *const Tensor,
    start: *mut c_void,
    length: usize,
    source: i32,
    made: *mut *const TensorHandle,
) -> Outcome {
    guarded(|| {
        // SAFETY: see above.
        let bytes = unsafe { bytes_of(factory, ty)? };
        if source != MALLOC as i32 || bytes != length {
            return Err(failure(status::INVALID, "not plain memory of this size"));
        }
        // SAFETY: see above.
        unsafe {
            let counts = &(*this.cast::<Example>()).counts;
            counts.imports.fetch_add(1, Ordering::Relaxed);
            *made = ExampleTensor::made(this, start, bytes, Vec::new());
        }
        Ok(())
    })
}

unsafe extern "C" fn start_of(this: *const TensorHandle) -> *mut c_void {
    // SAFETY: see above.
    unsafe { (*this.cast::<ExampleTensor>()).start }
}

unsafe extern "C" fn copy_in(
    this: *const TensorHandle,
    start: *const c_void,
    length: usize,
) -> Outcome {
    // SAFETY: see above.
    guarded(|| unsafe {
        copy(&*this.cast(), length, |own| {
            own.copy_from(start.cast(), length)
        })
    })
}

unsafe extern "C" fn copy_out(
    this: *const TensorHandle,
    start: *mut c_void,
    length: usize,
) -> Outcome {
    // SAFETY: see above.
    guarded(|| unsafe {
        copy(&*this.cast(), length, |own| {
            start.cast::<u8>().copy_from(own, length);
        })
    })
}

fn copy(own: &ExampleTensor, length: usize, copy: impl FnOnce(*mut u8)) -> Result<(), Outcome> {
    if length != own.bytes {
        return Err(failure(status::INVALID, "the bytes do not fit the tensor"));
    }
    copy(own.start.cast());
    own.counts.copies.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
