//! Tensors in the backend's memory, or imported from the caller's.

#![allow(unsafe_code, reason = "pointers of the C interface")]

use crate::workload::F32;
use crate::{Constant, Counts, Example, release, slice};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tenon_backend_abi::{
    Backend, HandleFactory, Outcome, Tensor, TensorHandle, Text, failure, guarded, status,
};

pub(crate) type Factories = Constant<[*const HandleFactory; 1]>;

/// The backend's tensor memory: plain memory, which other backends may read in place.
static FACTORY: Constant<HandleFactory> = Constant(HandleFactory {
    size: size_of::<HandleFactory>(),
    name: Text::of("ExampleHeap"),
    import_sources: 0,
    export_sources: MALLOC,
    map: 1,
    padding: 0,
    device_type: 0,
    device_id: 0,
});

/// Tensors are in the backend's memory.
pub(crate) static OWN: Factories = Constant([&raw const FACTORY.0]);

/// The bit of `TENON_MEMORY_MALLOC`.
const MALLOC: u32 = 1;

/// As [`FACTORY`], with import of plain memory of the caller.
static IMPORTING_FACTORY: Constant<HandleFactory> = Constant(HandleFactory {
    import_sources: MALLOC,
    ..FACTORY.0
});

/// Tensors are imported from the caller's memory.
pub(crate) static IMPORTED: Factories = Constant([&raw const IMPORTING_FACTORY.0]);

// The functions below are called by Tenon as the header requires: the first argument is an object
// that this library created and that is not released; structs are valid, and out-parameters are
// valid for a write. The SAFETY comments call this the calling convention.

/// A block of 64 bytes, the alignment of tensors.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "only the address is used")] [u8; 64]);

#[repr(C)]
struct ExampleTensor {
    table: TensorHandle,
    start: *mut c_void,
    bytes: usize,
    /// Empty for an imported tensor.
    _lines: Vec<Line>,
    counts: Arc<Counts>,
}

impl ExampleTensor {
    fn into_handle(
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
                enqueue_in: None,
                enqueue_out: None,
            },
            start,
            bytes,
            _lines: lines,
            // SAFETY: by the calling convention `this` is the first member of a live `Example`.
            counts: unsafe { (*this.cast::<Example>()).counts.clone() },
        };
        Box::into_raw(Box::new(tensor)).cast()
    }
}

/// The size of a tensor, if it is supported.
///
/// # Safety
/// The text and the struct must be valid (header).
unsafe fn bytes_of(factory: Text, ty: *const Tensor) -> Result<usize, Outcome> {
    // SAFETY: the text points to `length` bytes, and `ty` to a valid struct (requirement).
    let (name, ty) = unsafe { (slice(factory.start, factory.length), &*ty) };
    if name != b"ExampleHeap" || ty.dtype != F32 {
        return Err(failure(status::UNSUPPORTED, "only ExampleHeap of f32"));
    }
    // SAFETY: `extents` points to `rank` values (requirement).
    let extents = unsafe { slice(ty.extents, ty.rank as usize) };
    Ok(extents.iter().product::<u64>() as usize * 4)
}

pub(crate) unsafe extern "C" fn tensor_handle(
    this: *const Backend,
    factory: Text,
    ty: *const Tensor,
    out: *mut *const TensorHandle,
) -> Outcome {
    guarded(|| {
        // SAFETY: the text and the struct are valid by the calling convention.
        let bytes = unsafe { bytes_of(factory, ty)? };
        let mut lines = vec![Line([0; 64]); bytes.div_ceil(64)];
        let start = lines.as_mut_ptr().cast();
        // SAFETY: by the calling convention `out` is valid for a write.
        unsafe { *out = ExampleTensor::into_handle(this, start, bytes, lines) };
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn import_tensor(
    this: *const Backend,
    factory: Text,
    ty: *const Tensor,
    start: *mut c_void,
    length: usize,
    source: i32,
    out: *mut *const TensorHandle,
) -> Outcome {
    guarded(|| {
        // SAFETY: the text and the struct are valid by the calling convention.
        let bytes = unsafe { bytes_of(factory, ty)? };
        if source != MALLOC as i32 || bytes != length {
            return Err(failure(status::INVALID, "not plain memory of this size"));
        }
        // SAFETY: by the calling convention `this` is the first member of a live `Example`, and
        // `out` is valid for a write.
        unsafe {
            let counts = &(*this.cast::<Example>()).counts;
            counts.imports.fetch_add(1, Ordering::Relaxed);
            *out = ExampleTensor::into_handle(this, start, bytes, Vec::new());
        }
        Ok(())
    })
}

unsafe extern "C" fn start_of(this: *const TensorHandle) -> *mut c_void {
    // SAFETY: by the calling convention `this` is the first member of a live `ExampleTensor`.
    unsafe { (*this.cast::<ExampleTensor>()).start }
}

unsafe extern "C" fn copy_in(
    this: *const TensorHandle,
    start: *const c_void,
    length: usize,
) -> Outcome {
    // SAFETY: by the calling convention `this` is the first member of a live `ExampleTensor`, and
    // `start` is valid for reads of `length` bytes; `copy` checks that the tensor has that size.
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
    // SAFETY: by the calling convention `this` is the first member of a live `ExampleTensor`, and
    // `start` is valid for writes of `length` bytes; `copy` checks that the tensor has that size.
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
