//! The arena: plain memory of this process, or what an allocator lends.

use std::sync::Arc;
use tenon_backend::{Allocation, Allocator};
use tenon_base::Result;
use tenon_tensor::{ALIGNMENT, BufferMut};

/// The memory of intermediate values: zeroed at first, then as executions leave it.
pub(super) enum Arena {
    /// Of this process.
    Process(BufferMut),
    /// Of an allocator.
    Allocator(Allocation),
}

impl Arena {
    /// As many bytes, of `allocator` when there is one.
    pub fn of(bytes: usize, allocator: Option<&Arc<dyn Allocator>>) -> Result<Self> {
        Ok(match allocator.filter(|_| bytes > 0) {
            Some(allocator) => {
                Arena::Allocator(Allocation::zeroed(allocator.clone(), bytes, ALIGNMENT)?)
            }
            None => Arena::Process(BufferMut::zeroed(bytes)?),
        })
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
