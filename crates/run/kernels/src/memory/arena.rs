//! The arena: memory of this process, or of a backend's allocator.

use std::sync::Arc;
use tenon_backend::{Allocation, Allocator};
use tenon_base::Result;
use tenon_tensor::{ALIGNMENT, BufferMut};

/// The memory of intermediate values: zeroed when allocated, not cleared between executions.
pub(super) enum Arena {
    /// Memory of this process.
    Process(BufferMut),
    /// Memory of an allocator.
    Allocator(Allocation),
}

impl Arena {
    /// An arena of `bytes` bytes, from `allocator` if there is one.
    pub fn of(bytes: usize, allocator: Option<&Arc<dyn Allocator>>) -> Result<Self> {
        Ok(match allocator.filter(|_| bytes > 0) {
            Some(allocator) => {
                Arena::Allocator(Allocation::zeroed(allocator.clone(), bytes, ALIGNMENT)?)
            }
            None => Arena::Process(BufferMut::zeroed(bytes)?),
        })
    }

    /// No memory.
    pub fn empty() -> Result<Self> {
        Ok(Arena::Process(BufferMut::zeroed(0)?))
    }

    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        match self {
            Arena::Process(buffer) => buffer.as_mut_ptr(),
            Arena::Allocator(memory) => memory.as_mut_ptr(),
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Arena::Process(buffer) => buffer.len(),
            Arena::Allocator(memory) => memory.bytes(),
        }
    }
}
