//! Tensors in memory of its own, or of the caller's.

use crate::workload::F32;
use crate::{Constant, Counts, Example, release, slice};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tenon_backend_abi::{
    Backend, HandleFactory, Outcome, Tensor, TensorHandle, Text, failure, guarded, status,
};

pub(crate) type Factories = Constant<[*const HandleFactory; 1]>;

/// The kind of tensor memory that this backend has: plain, of its own, which others may read where
/// it lies.
static FACTORY: Constant<HandleFactory> = Constant(HandleFactory {
    size: size_of::<HandleFactory>(),
    name: Text::of("ExampleHeap"),
    import_sources: 0,
    export_sources: MALLOC,
    map: 1,
    padding: 0,
});

/// Tensors are its own memory.
pub(crate) static OWN: Factories = Constant([&raw const FACTORY.0]);

/// The bit of `TENON_MEMORY_MALLOC`.
const MALLOC: u32 = 1;

/// The same kind, with tensors that are plain memory of the caller.
static IMPORTING_FACTORY: Constant<HandleFactory> = Constant(HandleFactory {
    import_sources: MALLOC,
    ..FACTORY.0
});

/// Tensors are made of the caller's memory.
pub(crate) static LENT: Factories = Constant([&raw const IMPORTING_FACTORY.0]);

// SAFETY of the functions below: Tenon passes what the header says, and the first argument is one
// that this library made.

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

pub(crate) unsafe extern "C" fn tensor_handle(
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

pub(crate) unsafe extern "C" fn import_tensor(
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
