//! Memory that a caller lends to a backend, or a backend to others.

use crate::MemorySource;
use std::ptr::NonNull;
use std::sync::Arc;
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
pub struct Allocation {
    allocator: Arc<dyn Allocator>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is this value's alone, and allocators may be called from any thread.
unsafe impl Send for Allocation {}

impl Allocation {
    /// Takes memory, more than none, and refuses what is not aligned as asked.
    pub fn new(allocator: Arc<dyn Allocator>, bytes: usize, alignment: usize) -> Result<Self> {
        let start = allocator.allocate(bytes, alignment)?;
        let made = Self {
            allocator,
            start,
            len: bytes,
        };
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

    /// The same of zeros, which only plain memory can be made of.
    pub fn zeroed(allocator: Arc<dyn Allocator>, bytes: usize, alignment: usize) -> Result<Self> {
        if allocator.source() != MemorySource::Malloc {
            let text = "only plain memory can be written here";
            return Err(Error::new(ErrorKind::InvalidArgument, text)
                .found(format_args!("memory of source {:?}", allocator.source())));
        }
        let mut made = Self::new(allocator, bytes, alignment)?;
        // SAFETY: as many bytes, this value's alone.
        unsafe { made.as_mut_ptr().write_bytes(0, bytes) };
        Ok(made)
    }

    /// Where it starts.
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// The first byte; valid for as many as were asked for while it lives.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// How many bytes were asked for.
    pub fn bytes(&self) -> usize {
        self.len
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: taken from this allocator in `new`, given back here alone.
        unsafe { self.allocator.free(self.start) }
    }
}
