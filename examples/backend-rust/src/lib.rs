//! A loadable backend in Rust that uses only the C interface of Tenon: Abs and Neg of f32.
//!
//! It has counters for profiles, a context that receives callbacks about models, a memory manager
//! with a buffer per model, and dedicated tensor memory, or imported plain memory if its option is
//! set. Every function that may panic runs in [`guarded`], so that no panic unwinds into C.

#![allow(unsafe_code, reason = "pointers of the C interface")]

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
use tensor::{Factories, IMPORTED, OWN};

/// The backend's id.
#[unsafe(no_mangle)]
pub extern "C" fn GetBackendId() -> *const c_char {
    c"ExampleRust".as_ptr()
}

/// The version of the interface that this library was built with.
///
/// # Safety
/// Both pointers must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetVersion(major: *mut u32, minor: *mut u32) {
    // SAFETY: both pointers are valid for writes (requirement).
    unsafe {
        *major = MAJOR;
        *minor = MINOR;
    }
}

/// The backend.
#[unsafe(no_mangle)]
pub extern "C" fn BackendFactory() -> *const Backend {
    new_backend(&OWN, Arc::new(Counts::default()))
}

fn new_backend(factories: &'static Factories, counts: Arc<Counts>) -> *const Backend {
    let example = Example {
        table: Backend {
            size: size_of::<Backend>(),
            description: Text::of("Abs and Neg of f32, an example in Rust"),
            capability_count: CAPABILITIES.0.len(),
            capabilities: CAPABILITIES.0.as_ptr(),
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
            import_memory: None,
            release: Some(release::<Backend, Example>),
            stream: None,
            tolerance_count: 0,
            tolerances: std::ptr::null(),
            target: Text::EMPTY,
        },
        counts,
    };
    Box::into_raw(Box::new(example)).cast()
}

/// A constant that contains pointers to other constants.
struct Constant<T>(T);

// SAFETY: the constant and the constants that it points to are never written.
unsafe impl<T> Sync for Constant<T> {}

/// Nodes are supported for any sizes: elements are independent of each other.
static DYNAMIC_SHAPES: Constant<PropertyValue> = Constant(PropertyValue {
    size: size_of::<PropertyValue>(),
    name: Text::of("DynamicShapes"),
    kind: value::BOOL,
    number: 0.0,
    integer: 1,
    text: Text::EMPTY,
});

static CAPABILITIES: Constant<[*const PropertyValue; 1]> = Constant([&raw const DYNAMIC_SHAPES.0]);

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
    doc: Text::of("imports tensors from the caller's memory"),
});

static OPTIONS: Constant<[*const BackendOption; 1]> = Constant([&raw const IMPORT_OPTION.0]);

unsafe extern "C" fn configured(
    this: *const Backend,
    count: usize,
    options: *const *const PropertyValue,
    other: *mut *const Backend,
) -> Outcome {
    guarded(|| {
        // SAFETY: Tenon passes a live `this` of this library, whose first member is the table, and
        // an array of `count` pointers (header).
        let (own, options) = unsafe { (&*this.cast::<Example>(), slice(options, count)) };
        let mut factories = &OWN;
        for &option in options {
            // SAFETY: the pointers of the array are to valid structs (header).
            let option = unsafe { &*option };
            // SAFETY: a text points to `length` bytes (header).
            let name = unsafe { slice(option.name.start, option.name.length) };
            if name != b"ImportMemory" || option.kind != value::BOOL {
                let text = "the only option is ImportMemory, true or false";
                return Err(failure(status::INVALID, text));
            }
            factories = match option.integer {
                0 => &OWN,
                _ => &IMPORTED,
            };
        }
        // SAFETY: the out-parameter is valid for a write (header).
        unsafe { *other = new_backend(factories, own.counts.clone()) };
        Ok(())
    })
}

/// The backend. Like every object of this library, it begins with the struct of the header: a
/// pointer to that struct is a pointer to the object.
#[repr(C)]
struct Example {
    table: Backend,
    counts: Arc<Counts>,
}

/// # Safety
/// `this` must come from `Box::into_raw` of a `B` whose first member is an `A`, and be released
/// once.
unsafe extern "C" fn release<A, B>(this: *const A) {
    // SAFETY: `this` came from `Box::into_raw` of a `B` and is released once (requirement).
    drop(unsafe { Box::from_raw(this.cast_mut().cast::<B>()) });
}

/// # Safety
/// `start` is null or points to `count` values that are valid for `'a`.
unsafe fn slice<'a, T>(start: *const T, count: usize) -> &'a [T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: `start` is not null and points to `count` values (requirement).
    unsafe { std::slice::from_raw_parts(start, count) }
}
