//! Memory allocators that a backend borrows from the caller, or offers to other backends.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use crate::MemorySource;
use std::ptr::NonNull;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};

/// An allocator of a backend's memory.
pub trait Allocator: Send + Sync {
    /// Allocates `bytes` bytes, more than none, aligned to `alignment`, a power of two.
    fn allocate(&self, bytes: usize, alignment: usize) -> Result<NonNull<u8>>;

    /// Frees memory.
    ///
    /// # Safety
    /// [`Allocator::allocate`] of this allocator returned `start`, which is not freed yet and not
    /// used afterwards.
    unsafe fn free(&self, start: NonNull<u8>);

    /// The source of its memory.
    fn source(&self) -> MemorySource;
}

/// An allocation, freed on drop.
pub struct Allocation {
    allocator: Arc<dyn Allocator>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to this value alone, and allocators may be called from any thread
// (trait `Send` and `Sync`).
unsafe impl Send for Allocation {}

impl Allocation {
    /// Allocates memory, more than none bytes; misaligned memory is an error.
    pub fn new(allocator: Arc<dyn Allocator>, bytes: usize, alignment: usize) -> Result<Self> {
        let start = allocator.allocate(bytes, alignment)?;
        let allocation = Self {
            allocator,
            start,
            len: bytes,
        };
        if !allocation.address().is_multiple_of(alignment) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "an allocator's memory is not aligned",
            )
            .expected(format_args!("a multiple of {alignment}"))
            .found(format_args!("address {:#x}", allocation.address())));
        }
        Ok(allocation)
    }

    /// As [`new`](Self::new), zeroed; only for memory that the CPU can write.
    pub fn zeroed(allocator: Arc<dyn Allocator>, bytes: usize, alignment: usize) -> Result<Self> {
        if allocator.source() != MemorySource::Malloc {
            let text = "memory of this source cannot be zeroed by the CPU";
            return Err(Error::new(ErrorKind::InvalidArgument, text)
                .found(format_args!("memory of source {:?}", allocator.source())));
        }
        let mut allocation = Self::new(allocator, bytes, alignment)?;
        // SAFETY: the memory is valid for writes of `bytes` bytes (`new`) and belongs to this value
        // alone.
        unsafe { allocation.as_mut_ptr().write_bytes(0, bytes) };
        Ok(allocation)
    }

    /// The start address.
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Pointer to the first byte, valid for the requested size while this value lives.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The requested size in bytes.
    pub fn bytes(&self) -> usize {
        self.len
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: `allocate` of this allocator returned `start` in `new`; it is freed here only,
        // once.
        unsafe { self.allocator.free(self.start) }
    }
}
