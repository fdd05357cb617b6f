//! Memory that Tenon and Python share.

#![allow(unsafe_code, reason = "memory that Python reads and writes")]

use crate::types;
use pyo3::buffer::PyUntypedBuffer;
use std::ptr::NonNull;
use std::sync::Arc;
use tenon::tensor::{Buffer, BufferMut};
use tenon::{Result, Shape, Tensor, TensorType};

/// Memory of Tenon that Python reads and writes, aligned to 64 bytes.
pub struct SharedMemory {
    start: NonNull<u8>,
    len: usize,
    _owner: BufferMut,
}

// SAFETY: the memory belongs to this value alone and stays at its address. Access goes through the pointer: Python's,
// whose callers order it as for any array, and that of executions (`buffer`, `bytes_mut`).
unsafe impl Send for SharedMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Memory of zeros.
    pub fn zeroed(len: usize) -> Result<Arc<Self>> {
        Ok(Self::new(BufferMut::zeroed(len)?))
    }

    /// The memory of a buffer, or a copy where the buffer is shared.
    pub fn of_buffer(buffer: Buffer) -> Result<Arc<Self>> {
        let owned = buffer.try_into_mut();
        Ok(Self::new(match owned {
            Ok(owned) => owned,
            Err(shared) => BufferMut::copy_of(&shared)?,
        }))
    }

    fn new(mut owner: BufferMut) -> Arc<Self> {
        let start = NonNull::new(owner.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Arc::new(Self {
            start,
            len: owner.len(),
            _owner: owner,
        })
    }

    /// The address of the first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The memory as an input of an execution.
    pub fn buffer(self: &Arc<Self>) -> Buffer {
        // SAFETY: the bytes are initialised (`zeroed`, `of_buffer`) and live as long as the owner. That no other thread
        // writes them during an execution is the condition that docs/python.md states for every array.
        unsafe { Buffer::from_owner(self.start, self.len, self.clone()) }
    }

    /// A copy of the bytes.
    pub fn copied(&self) -> Result<BufferMut> {
        // SAFETY: the bytes are initialised and live as long as `self`; no other thread writes them meanwhile, as in
        // `buffer`.
        BufferMut::copy_of(unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) })
    }

    /// The bytes for an execution.
    ///
    /// # Safety
    /// Nothing of Tenon accesses the memory while the slice lives: the caller has the only execution that is bound to it.
    #[allow(
        clippy::mut_from_ref,
        reason = "the memory is Python's, not part of this value"
    )]
    pub unsafe fn bytes_mut(&self) -> &mut [u8] {
        // SAFETY: the bytes are initialised and live as long as `self`; no other slice of them exists (requirement), and
        // no other thread of Python accesses them during the execution, as in `buffer`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

/// The array of a buffer of Python: shared where its elements are contiguous, aligned and in this machine's byte order;
/// `None` otherwise.
pub fn share(ty: &TensorType, buffer: PyUntypedBuffer) -> Option<Result<Tensor>> {
    let bytes = ty.bytes();
    if bytes == 0 {
        return Some(Tensor::zeroed(ty.clone()));
    }
    let start = NonNull::new(buffer.buf_ptr().cast::<u8>())?;
    let align = types::number_bytes(ty.dtype());
    if buffer.len_bytes() != bytes
        || !buffer.is_c_contiguous()
        || !(start.as_ptr() as usize).is_multiple_of(align)
    {
        return None;
    }
    // SAFETY: the buffer has `bytes` contiguous bytes at its address (checked above) until it is released, which is when
    // the owner is dropped. That no other thread writes them during an execution is the condition of docs/python.md.
    let shared = unsafe { Buffer::from_owner(start, bytes, buffer) };
    Some(Tensor::new(ty.clone(), shared))
}

/// Copies `bytes` into a writable contiguous buffer of the same length; whether that was possible.
pub fn write_into(buffer: &PyUntypedBuffer, bytes: &[u8]) -> bool {
    let fits = !buffer.readonly() && buffer.len_bytes() == bytes.len() && buffer.is_c_contiguous();
    if fits && !bytes.is_empty() {
        // SAFETY: the buffer is writable, contiguous and as long as `bytes` (checked above), and held during the copy;
        // the outputs are other memory, or the same, which `copy` allows.
        unsafe { std::ptr::copy(bytes.as_ptr(), buffer.buf_ptr().cast(), bytes.len()) };
    }
    fits
}

/// The extents of a buffer.
pub fn shape(buffer: &PyUntypedBuffer) -> Shape {
    match buffer.dimensions() {
        0 => Shape::default(),
        _ => Shape::new(buffer.shape()),
    }
}
