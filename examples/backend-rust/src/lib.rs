//! A loadable backend in Rust that knows nothing of Tenon but the C interface: absolute values and
//! negations of f32.
//!
//! It counts its executions (a counter that profiles show), hears of models through a context, keeps
//! a buffer for each model in a memory manager, and has tensor memory of its own, which its one
//! option has made of plain memory. Every function that may panic goes through [`guarded`], so that
//! no panic crosses.

mod counters;
mod model;
mod tensor;
mod workload;

use counters::Counts;
use std::ffi::c_char;
use std::sync::Arc;
use tenon_backend_abi::{
    Backend, BackendOption, MAJOR, MINOR, Outcome, PropertyValue, Text, failure, guarded, scope,
    status, value,
};
use tensor::{Factories, LENT, OWN};

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
    made(&OWN, Arc::new(Counts::default()))
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
            supports: Some(workload::supports),
            plan: None,
            workload: Some(workload::workload),
            optimise: None,
            configured: Some(configured),
            memory_manager: Some(model::memory_manager),
            context: Some(model::context),
            profiling: Some(counters::profiling),
            allocator: None,
            with_allocator: None,
            tensor_handle: Some(tensor::tensor_handle),
            import_tensor: Some(tensor::import_tensor),
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

static IMPORT_DEFAULT: Constant<PropertyValue> = Constant(PropertyValue {
    size: size_of::<PropertyValue>(),
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
    options: *const *const PropertyValue,
    other: *mut *const Backend,
) -> Outcome {
    guarded(|| {
        // SAFETY: Tenon passes what the header says; `this` was made here.
        let (own, given) = unsafe { (&*this.cast::<Example>(), slice(options, count)) };
        let mut factories = &OWN;
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
                0 => &OWN,
                _ => &LENT,
            };
        }
        // SAFETY: Tenon passes what the header says; `this` was made here.
        unsafe { *other = made(factories, own.counts.clone()) };
        Ok(())
    })
}

/// What the table is the beginning of. Every struct of this library that Tenon gets begins so, with
/// one of the header: a pointer to that is one to the whole.
#[repr(C)]
struct Example {
    table: Backend,
    counts: Arc<Counts>,
}

/// # Safety
/// `this` is the first member of a box of `B`, released once.
unsafe extern "C" fn release<A, B>(this: *const A) {
    // SAFETY: the caller vouches.
    drop(unsafe { Box::from_raw(this.cast_mut().cast::<B>()) });
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
