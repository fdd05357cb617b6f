//! Memory that executions share with code of another language.

#![allow(unsafe_code, reason = "memory that foreign code reads and writes")]

use crate::{Buffer, BufferMut};
use std::ptr::NonNull;
use std::sync::Arc;
use tenon_base::Result;

/// Memory that executions and a language without borrows share, aligned to 64 bytes. That no code writes it during an
/// execution, and none reads outputs, is a condition on the code of that language, which the documentation of its
/// interface states.
pub struct SharedMemory {
    start: NonNull<u8>,
    len: usize,
    _owner: BufferMut,
}

// SAFETY: the memory belongs to this value alone and stays at its address. Access goes through the pointer:
// that of the other language, whose callers order it as for any array, and that of executions (`buffer`, `bytes_mut`).
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

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory as an input of an execution.
    pub fn buffer(self: &Arc<Self>) -> Buffer {
        // SAFETY: the bytes are initialised (`zeroed`, `of_buffer`) and live as long as the owner. That no code
        // writes them during an execution is the condition of this type.
        unsafe { Buffer::from_owner(self.start, self.len, self.clone()) }
    }

    /// A copy of the bytes.
    pub fn copied(&self) -> Result<BufferMut> {
        // SAFETY: the bytes are initialised and live as long as `self`; no code writes them meanwhile, as in
        // `buffer`.
        BufferMut::copy_of(unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) })
    }

    /// The bytes for an execution.
    ///
    /// # Safety
    /// No Rust code accesses the memory while the slice lives: the caller has the only execution that is bound to it.
    #[allow(
        clippy::mut_from_ref,
        reason = "the memory is the other language's too"
    )]
    pub unsafe fn bytes_mut(&self) -> &mut [u8] {
        // SAFETY: the bytes are initialised and live as long as `self`; no other slice of them exists (requirement), and
        // no code accesses them during the execution, as in `buffer`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_and_foreign_code_see_the_same_bytes() {
        let memory = SharedMemory::zeroed(3).unwrap();
        assert_eq!((memory.len(), memory.is_empty()), (3, false));
        // SAFETY: three bytes, which nothing else accesses.
        unsafe { memory.start().add(1).write(7) };
        let input = memory.buffer();
        assert_eq!(input[..], [0, 7, 0]);
        assert_eq!(input.as_ptr().addr() % crate::ALIGNMENT, 0);
        drop(input);
        // SAFETY: no other slice or buffer of the memory lives.
        let output = unsafe { memory.bytes_mut() };
        output[2] = 9;
        assert_eq!(memory.copied().unwrap()[..], [0, 7, 9]);
        let shared = memory.copied().unwrap().freeze();
        let copy = SharedMemory::of_buffer(shared.clone()).unwrap();
        assert_ne!(copy.start().cast_const(), shared.as_ptr());
    }
}
