//! Buffers of host tensors: shared, written in place, allocated by the host's allocator.

use super::failed;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tenon_base::Result;
use tenon_executor::{Grant, HostAllocator};
use tenon_tensor::BufferMut;

/// The size in bytes of the original's buffer header, which its allocator counts.
const HEADER: usize = 64;

/// A buffer, or a slice of one. Clones and slices share the bytes; chains order the writes.
#[derive(Clone)]
pub struct HostBuffer {
    memory: Arc<Memory>,
    range: Range<usize>,
}

struct Memory {
    bytes: RwLock<BufferMut>,
    _grant: Grant,
}

impl HostBuffer {
    /// `size` zero bytes; `None` when the allocator or the system has not enough memory.
    pub fn allocate(allocator: &HostAllocator, size: usize) -> Option<Self> {
        let grant = allocator.grant(size.checked_add(HEADER)?)?;
        let bytes = BufferMut::zeroed(size).ok()?;
        Some(Self {
            memory: Arc::new(Memory {
                bytes: RwLock::new(bytes),
                _grant: grant,
            }),
            range: 0..size,
        })
    }

    /// A slice of `size` bytes from `offset`; an error when it is not inside.
    pub fn slice(&self, offset: i64, size: i64) -> Result<Self> {
        let part = || {
            let start = self
                .range
                .start
                .checked_add(usize::try_from(offset).ok()?)?;
            let end = start.checked_add(usize::try_from(size).ok()?)?;
            (end <= self.range.end).then_some(start..end)
        };
        let range = part().ok_or_else(|| {
            failed("a slice exceeds its buffer")
                .expected(format_args!("a part of {} bytes", self.size()))
                .found(format_args!("{size} bytes at {offset}"))
        })?;
        Ok(Self {
            memory: self.memory.clone(),
            range,
        })
    }

    /// The size in bytes.
    pub fn size(&self) -> usize {
        self.range.len()
    }

    /// Reads the bytes.
    pub fn read<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        read(&self.shared()[self.range.clone()])
    }

    /// Reads the bytes of two buffers, which may be the same.
    pub fn read_both<R>(&self, other: &Self, read: impl FnOnce(&[u8], &[u8]) -> R) -> R {
        if Arc::ptr_eq(&self.memory, &other.memory) {
            let bytes = self.shared();
            return read(&bytes[self.range.clone()], &bytes[other.range.clone()]);
        }
        // Locked by address, so that two readers and a waiting writer cannot block each other.
        let (mine, theirs);
        if Arc::as_ptr(&self.memory) < Arc::as_ptr(&other.memory) {
            mine = self.shared();
            theirs = other.shared();
        } else {
            theirs = other.shared();
            mine = self.shared();
        }
        read(&mine[self.range.clone()], &theirs[other.range.clone()])
    }

    /// Writes the bytes.
    pub fn write<R>(&self, write: impl FnOnce(&mut [u8]) -> R) -> R {
        write(&mut self.exclusive()[self.range.clone()])
    }

    // Poison is ignored: writers write whole elements, so a panic leaves no partial element.

    fn shared(&self) -> RwLockReadGuard<'_, BufferMut> {
        let bytes = self.memory.bytes.read();
        bytes.unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, BufferMut> {
        let bytes = self.memory.bytes.write();
        bytes.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for HostBuffer {
    /// `HostBuffer<pointer=0x7f.., size=24>`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read(|bytes| {
            write!(
                f,
                "HostBuffer<pointer={:p}, size={}>",
                bytes.as_ptr(),
                bytes.len()
            )
        })
    }
}

impl fmt::Debug for HostBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_executor::{AllocatorKind, Log};

    fn malloc() -> HostAllocator {
        HostAllocator::new(AllocatorKind::Malloc, Log::default())
    }

    #[test]
    fn slices_share_their_bytes() {
        let buffer = HostBuffer::allocate(&malloc(), 16).unwrap();
        let half = buffer.slice(8, 8).unwrap();
        half.write(|bytes| bytes.fill(3));
        let quarter = half.slice(4, 4).unwrap();
        quarter.write(|bytes| bytes.fill(7));
        buffer.read(|bytes| assert_eq!(bytes[6..14], [0, 0, 3, 3, 3, 3, 7, 7]));
        assert!(buffer.read_both(&half, |all, part| all[8..] == *part));
    }

    #[test]
    fn slices_outside_of_the_buffer_are_rejected() {
        let buffer = HostBuffer::allocate(&malloc(), 16).unwrap();
        let slice = buffer.slice(8, 4).unwrap();
        for (offset, size) in [(0, 5), (-1, 2), (5, 0), (0, -1), (i64::MAX, i64::MAX)] {
            assert!(slice.slice(offset, size).is_err(), "{offset} {size}");
        }
        assert_eq!(
            buffer.slice(9, 8).unwrap_err().to_string(),
            "a slice exceeds its buffer: expected a part of 16 bytes, found 8 bytes at 9"
        );
    }

    #[test]
    fn bytes_are_counted_while_a_slice_is_alive() {
        let allocator = malloc();
        let slice = HostBuffer::allocate(&allocator, 16).unwrap().slice(0, 1);
        assert_eq!(allocator.statistics().bytes, 80);
        drop(slice);
        assert_eq!(allocator.statistics().bytes, 0);
    }

    #[test]
    fn sizes_without_memory_are_rejected() {
        assert!(HostBuffer::allocate(&malloc(), usize::MAX).is_none());
        assert!(HostBuffer::allocate(&malloc(), isize::MAX as usize - 64).is_none());
    }

    #[test]
    fn a_buffer_prints_its_address_and_size() {
        let buffer = HostBuffer::allocate(&malloc(), 24).unwrap();
        let text = buffer.to_string();
        assert!(text.starts_with("HostBuffer<pointer=0x") && text.ends_with(", size=24>"));
    }
}
