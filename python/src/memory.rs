//! Memory that Tenon and Python share.

#![allow(unsafe_code, reason = "memory that Python reads and writes")]

use crate::types;
use pyo3::buffer::PyUntypedBuffer;
use std::ptr::NonNull;
use tenon::tensor::Buffer;
use tenon::{Result, Shape, Tensor, TensorType};

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
