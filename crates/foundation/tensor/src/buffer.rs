//! Aligned, reference-counted memory: allocated, mapped from a file, or borrowed from an owner.

#![allow(unsafe_code, reason = "aligned memory and file mappings")]

use crate::{BufferPool, Element};
use memmap2::{Mmap, MmapMut, UncheckedAdvice};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::fs::File;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use tenon_base::{Error, ErrorKind, Result};

/// Alignment of owned buffers, of a package's constants and of variables in an arena: one cache
/// line, which is also the width of the widest vector register.
pub const ALIGNMENT: usize = 64;

/// Owned buffers of at least this length are anonymous mappings: zeroed on demand, and in huge
/// pages where available. The page faults of an arena in 4 KiB pages would take as long as a run of
/// a small model.
const MIN_MAPPED: usize = 1 << 20;

/// Owned memory, zeroed, aligned to [`ALIGNMENT`]; not shared yet.
pub struct BufferMut {
    start: NonNull<u8>,
    len: usize,
    /// The anonymous mapping of a large buffer; `start` is its first byte.
    map: Option<MmapMut>,
    /// Receives the memory on drop, in place of the allocator.
    recycle: Option<Recycle>,
}

/// What receives the memory of a dropped buffer.
enum Recycle {
    Function(fn(BufferMut)),
    Pool(Weak<BufferPool>),
}

// SAFETY: `start` points to memory that this value alone owns, and plain bytes have no thread
// affinity.
unsafe impl Send for BufferMut {}
// SAFETY: `&BufferMut` gives read access only (`deref`); writing needs `&mut`.
unsafe impl Sync for BufferMut {}

impl BufferMut {
    /// `len` zero bytes. Fails with `OutOfMemory` instead of aborting.
    pub fn zeroed(len: usize) -> Result<Self> {
        if len == 0 {
            return Ok(Self::empty());
        }
        let refused = || {
            Error::new(
                ErrorKind::OutOfMemory,
                format!("cannot allocate {len} bytes"),
            )
        };
        if len >= MIN_MAPPED {
            let mut map = MmapMut::map_anon(len).map_err(|_| refused())?;
            // A hint that the system may ignore; Miri does not implement it.
            #[cfg(all(target_os = "linux", not(miri)))]
            let _ = map.advise(memmap2::Advice::HugePage);
            let start = NonNull::new(map.as_mut_ptr()).ok_or_else(refused)?;
            return Ok(Self {
                start,
                len,
                map: Some(map),
                recycle: None,
            });
        }
        let layout = Layout::from_size_align(len, ALIGNMENT).map_err(|_| refused())?;
        // SAFETY: the size of `layout` is `len`, which is not zero (checked above).
        let start = unsafe { alloc_zeroed(layout) };
        Ok(Self {
            start: NonNull::new(start).ok_or_else(refused)?,
            len,
            map: None,
            recycle: None,
        })
    }

    fn empty() -> Self {
        Self {
            start: NonNull::<Aligned>::dangling().cast(),
            len: 0,
            map: None,
            recycle: None,
        }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Result<Self> {
        let mut buffer = Self::zeroed(bytes.len())?;
        buffer.copy_from_slice(bytes);
        Ok(buffer)
    }

    /// The same memory, which `recycle` receives instead of the allocator when this value, or the
    /// last clone of its [`Buffer`], is dropped. For pools of memory that is allocated repeatedly.
    #[must_use]
    pub fn recycled_by(mut self, recycle: fn(BufferMut)) -> Self {
        self.recycle = Some(Recycle::Function(recycle));
        self
    }

    /// Whether buffers of this length are anonymous mappings.
    pub(crate) fn is_mapped_at(len: usize) -> bool {
        len >= MIN_MAPPED
    }

    /// The length that it can have without another allocation.
    pub(crate) fn capacity(&self) -> usize {
        self.map.as_ref().map_or(self.len, |map| map.len())
    }

    /// The first `len` bytes of its memory, which returns to `pool`.
    pub(crate) fn of_pool(mut self, len: usize, pool: &Arc<BufferPool>) -> Self {
        // Only a mapping is freed without the length.
        if self.map.is_some() && len <= self.capacity() {
            self.len = len;
        }
        self.recycle = Some(Recycle::Pool(Arc::downgrade(pool)));
        self
    }

    /// The same memory, shared and read-only.
    pub fn freeze(self) -> Buffer {
        let len = self.len;
        Buffer {
            memory: Arc::new(Memory::Owned(self)),
            range: 0..len,
        }
    }

    /// Pointer to the first byte, valid for the buffer's length while the buffer lives.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The elements, if the length is a multiple of their size.
    pub fn as_slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        let count = element_count::<T>(self)?;
        // SAFETY: the bytes are aligned for `T` and as long as `count` of them (`element_count`),
        // every bit pattern is a valid `T` (`Element`), and `&mut self` excludes other references.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), count) })
    }
}

/// Gives an empty buffer its alignment.
#[repr(align(64))]
struct Aligned;

impl Drop for BufferMut {
    fn drop(&mut self) {
        if let Some(recycle) = self.recycle.take() {
            let memory = std::mem::replace(self, Self::empty());
            match recycle {
                Recycle::Function(recycle) => recycle(memory),
                Recycle::Pool(pool) => {
                    if let Some(pool) = pool.upgrade() {
                        pool.put(memory);
                    }
                }
            }
        } else if self.len > 0 && self.map.is_none() {
            // SAFETY: without a mapping and with `len > 0`, `zeroed` allocated `start` with this
            // layout, whose size and alignment it checked; drop runs once.
            unsafe {
                let layout = Layout::from_size_align_unchecked(self.len, ALIGNMENT);
                dealloc(self.start.as_ptr(), layout);
            }
        }
    }
}

impl Deref for BufferMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is valid for reads of `len` initialised bytes while this value lives
        // (`zeroed`), and shared access excludes writes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for BufferMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `start` is valid for reads and writes of `len` initialised bytes while this value
        // lives (`zeroed`), and `&mut self` excludes other references.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

enum Memory {
    Owned(BufferMut),
    Mapped(Mmap),
    Borrowed(BorrowedMemory),
}

/// Memory that is valid as long as its owner lives.
struct BorrowedMemory {
    start: NonNull<u8>,
    len: usize,
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: `Buffer::from_owner` requires that the bytes are valid for reads and not written, on any
// thread, until the owner is dropped; the owner is `Send`.
unsafe impl Send for BorrowedMemory {}
// SAFETY: the bytes are only read (see `Send`), and the owner is `Sync`.
unsafe impl Sync for BorrowedMemory {}

/// Shared read-only memory: a slice of an owned buffer, a mapped file or borrowed memory. Cloning
/// and slicing copy no bytes.
#[derive(Clone)]
pub struct Buffer {
    memory: Arc<Memory>,
    range: Range<usize>,
}

impl Buffer {
    /// Maps a file for reading. Truncating the file while it is mapped ends the process with SIGBUS
    /// (SECURITY.md); packages are therefore replaced by rename.
    pub fn map(file: &File) -> std::io::Result<Self> {
        if file.metadata()?.len() == 0 {
            return Ok(Self {
                memory: Arc::new(Memory::Owned(BufferMut::empty())),
                range: 0..0,
            });
        }
        // SAFETY: the mapping is private. Another process may still change the file: readers decode
        // its structure into owned, checked values and then read only plain elements from the
        // mapping, of which every bit pattern is valid.
        let map = unsafe { Mmap::map(file)? };
        let range = 0..map.len();
        Ok(Self {
            memory: Arc::new(Memory::Mapped(map)),
            range,
        })
    }

    /// Memory that belongs to `owner`, without a copy. `owner` is dropped with the last clone.
    ///
    /// # Safety
    /// Until `owner` is dropped, `start` must be valid for reads of `len` initialised bytes on any
    /// thread, and no code may write to them.
    pub unsafe fn from_owner(
        start: NonNull<u8>,
        len: usize,
        owner: impl Any + Send + Sync,
    ) -> Self {
        let borrowed = BorrowedMemory {
            start,
            len,
            _owner: Box::new(owner),
        };
        Self {
            memory: Arc::new(Memory::Borrowed(borrowed)),
            range: 0..len,
        }
    }

    /// The bytes of `range`; `None` when it is out of bounds.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        let inside = range.start <= range.end && range.end <= self.len();
        inside.then(|| Self {
            memory: self.memory.clone(),
            range: self.range.start + range.start..self.range.start + range.end,
        })
    }

    /// The elements, if the bytes are aligned for them and the length is a multiple of their size.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        let count = element_count::<T>(self)?;
        // SAFETY: the bytes are aligned for `T` and as long as `count` of them (`element_count`),
        // and every bit pattern is a valid `T` (`Element`).
        Some(unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), count) })
    }

    /// Whether [`Buffer::try_into_mut`] returns the memory.
    pub fn is_exclusive(&self) -> bool {
        let owned = match &*self.memory {
            Memory::Owned(owned) => self.range == (0..owned.len()),
            Memory::Mapped(_) | Memory::Borrowed(_) => false,
        };
        owned && Arc::strong_count(&self.memory) == 1
    }

    /// The whole owned memory, to be written, if no other buffer shares it; else the same buffer.
    ///
    /// # Errors
    /// Memory that is shared, a part of memory, a mapped file or borrowed memory.
    pub fn try_into_mut(self) -> Result<BufferMut, Self> {
        let Self { memory, range } = self;
        if range.start != 0 {
            return Err(Self { memory, range });
        }
        match Arc::try_unwrap(memory) {
            Ok(Memory::Owned(owned)) if owned.len() == range.end => Ok(owned),
            Ok(memory) => Err(Self {
                memory: Arc::new(memory),
                range,
            }),
            Err(memory) => Err(Self { memory, range }),
        }
    }

    /// Frees the physical pages of these bytes where they are in a mapped file: the next access loads
    /// them from the file again. Bytes of owned or borrowed memory are unaffected.
    pub fn release_pages(&self) {
        if let Memory::Mapped(map) = &*self.memory {
            let (advice, range) = (UncheckedAdvice::DontNeed, &self.range);
            // SAFETY: the mapping is read-only, so no written page is lost: an access after the call
            // reads the same bytes of the file as before it. A failure leaves the pages where they are.
            let _ = unsafe { map.unchecked_advise_range(advice, range.start, range.len()) };
        }
    }

    /// Whether the bytes are in a mapped file.
    pub fn is_mapped(&self) -> bool {
        matches!(*self.memory, Memory::Mapped(_))
    }
}

/// Number of `T` in `bytes` if they are aligned and their length is a multiple of the size of `T`.
fn element_count<T: Element>(bytes: &[u8]) -> Option<usize> {
    let aligned = bytes.as_ptr().cast::<T>().is_aligned();
    (aligned && bytes.len().is_multiple_of(size_of::<T>())).then(|| bytes.len() / size_of::<T>())
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all: &[u8] = match &*self.memory {
            Memory::Owned(owned) => owned,
            Memory::Mapped(map) => map,
            // SAFETY: `start` is valid for reads of `len` bytes until the owner is dropped
            // (requirement of `from_owner`), and the owner is dropped with `self.memory`.
            Memory::Borrowed(borrowed) => unsafe {
                std::slice::from_raw_parts(borrowed.start.as_ptr(), borrowed.len)
            },
        };
        &all[self.range.clone()]
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Buffer({} bytes{})",
            self.len(),
            if self.is_mapped() { ", mapped" } else { "" }
        )
    }
}

/// The elements in `bytes`, if aligned for them and of a length that is a multiple of their size.
pub(crate) fn elements_of<T: Element>(bytes: &[u8]) -> Option<&[T]> {
    let count = element_count::<T>(bytes)?;
    // SAFETY: the bytes are aligned for `T` and as long as `count` of them (`element_count`), and
    // every bit pattern is a valid `T` (`Element`).
    Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), count) })
}

/// The bytes of `elements`.
pub(crate) fn bytes_of<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: the slice is valid for `size_of_val` bytes, all initialised, since an `Element` has
    // no padding; bytes need no alignment.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::Mutex;

    #[test]
    fn slices_share_memory_and_are_bounded() {
        let mut buffer = BufferMut::zeroed(12).unwrap();
        buffer.as_slice_mut::<f32>().unwrap()[1] = 2.0;
        let buffer = buffer.freeze();
        assert_eq!(
            buffer.slice(4..8).unwrap().as_slice::<f32>().unwrap(),
            [2.0]
        );
        assert!(buffer.slice(4..13).is_none());
        assert!(buffer.slice(1..5).unwrap().as_slice::<f32>().is_none());
        assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
    }

    #[test]
    fn memory_that_is_not_shared_can_be_written_again() {
        let shared = BufferMut::copy_of(&[1, 2, 3]).unwrap().freeze();
        let other = shared.clone();
        assert!(!shared.is_exclusive());
        let shared = shared.try_into_mut().err().unwrap();
        drop(other);
        assert!(shared.is_exclusive());
        let part = shared.slice(0..2).unwrap();
        drop(shared);
        let part = part.try_into_mut().err().unwrap();
        assert_eq!(part[..], [1, 2]);
        let whole = BufferMut::copy_of(&[4, 5]).unwrap().freeze();
        let mut whole = whole.try_into_mut().ok().unwrap();
        whole[0] = 6;
        assert_eq!(whole[..], [6, 5]);
    }

    #[test]
    fn memory_is_recycled_with_its_last_clone() {
        static POOL: Mutex<Vec<BufferMut>> = Mutex::new(Vec::new());
        let recycle = |buffer| POOL.lock().unwrap().push(buffer);
        let mut buffer = BufferMut::zeroed(8).unwrap().recycled_by(recycle);
        buffer[3] = 9;
        let buffer = buffer.freeze();
        let part = buffer.slice(2..4).unwrap();
        drop(buffer);
        assert!(POOL.lock().unwrap().is_empty());
        drop(part);
        let back = POOL.lock().unwrap().pop().unwrap();
        assert_eq!(back[..], [0, 0, 0, 9, 0, 0, 0, 0]);
        // Memory is recycled once.
        drop(back);
        assert!(POOL.lock().unwrap().is_empty());
    }

    #[test]
    fn released_pages_are_read_again() {
        let bytes: Vec<u8> = (0..40_000u32).map(|at| (at % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let mapped = Buffer::map(&file).unwrap();
        assert_eq!(mapped[..], bytes[..]);
        mapped.slice(5..39_999).unwrap().release_pages();
        assert_eq!(mapped[..], bytes[..]);
        // No file has owned memory.
        let owned = BufferMut::copy_of(&bytes).unwrap().freeze();
        owned.release_pages();
        assert_eq!(owned[..], bytes[..]);
    }

    #[test]
    fn large_buffers_are_zero_and_aligned() {
        let mut buffer = BufferMut::zeroed(MIN_MAPPED + 3).unwrap();
        assert!(buffer.iter().all(|&byte| byte == 0));
        assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
        buffer[MIN_MAPPED + 2] = 7;
        assert_eq!(
            buffer.freeze().slice(MIN_MAPPED..MIN_MAPPED + 3).unwrap()[..],
            [0, 0, 7]
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri aborts when memory is exhausted")]
    fn exhausted_memory_is_an_error() {
        let error = BufferMut::zeroed(isize::MAX as usize - 64).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(BufferMut::zeroed(0).unwrap().len(), 0);
    }
}
