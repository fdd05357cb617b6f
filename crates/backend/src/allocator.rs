//! Memory that a caller lends to a backend, or a backend to others.

use crate::MemorySource;
use std::ptr::NonNull;
use tenon_base::{Error, ErrorKind, Result};

/// Where a backend takes its own memory from.
pub trait Allocator: Send + Sync {
    /// `bytes` bytes, more than none, aligned to `alignment`, a power of two.
    fn allocate(&self, bytes: usize, alignment: usize) -> Result<NonNull<u8>>;

    /// Takes back memory.
    ///
    /// # Safety
    /// `start` is from [`Allocator::allocate`] of this allocator, given back once, used no more.
    unsafe fn free(&self, start: NonNull<u8>);

    /// What kind of memory it is.
    fn source(&self) -> MemorySource;
}

/// Memory of an allocator, given back when dropped.
pub struct Allocation<'a> {
    allocator: &'a dyn Allocator,
    start: NonNull<u8>,
}

impl<'a> Allocation<'a> {
    /// Takes memory, and refuses what is not aligned as asked.
    pub fn new(allocator: &'a dyn Allocator, bytes: usize, alignment: usize) -> Result<Self> {
        let start = allocator.allocate(bytes, alignment)?;
        let made = Self { allocator, start };
        if !made.address().is_multiple_of(alignment) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "an allocator's memory is not aligned",
            )
            .expected(format_args!("a multiple of {alignment}"))
            .found(format_args!("address {:#x}", made.address())));
        }
        Ok(made)
    }

    /// Where it starts.
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }
}

impl Drop for Allocation<'_> {
    fn drop(&mut self) {
        // SAFETY: taken from this allocator in `new`, given back here alone.
        unsafe { self.allocator.free(self.start) }
    }
}
