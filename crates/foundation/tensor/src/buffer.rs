//! Aligned, reference-counted memory: owned, or a mapped file's. The only module of this crate with
//! unsafe code.

use crate::Element;
use memmap2::{Mmap, MmapMut};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::fs::File;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;
use tenon_base::{Error, ErrorKind, Result};

/// Alignment of owned buffers, of a package's constants and of variables in an arena: a cache line,
/// and the widest vector register.
pub const ALIGNMENT: usize = 64;

/// Owned buffers from this length on are taken from the system page by page: they come zeroed
/// without being touched, and in huge pages where the system has them. First touching an arena of
/// 4 KiB pages would take as long as a small model runs.
const LARGE: usize = 1 << 20;

/// Owned memory, zeroed, aligned to [`ALIGNMENT`]; not shared yet.
pub struct BufferMut {
    start: NonNull<u8>,
    len: usize,
    /// Of a large buffer, the mapping that `start` points into.
    map: Option<MmapMut>,
    /// Who gets it instead of the system when it is dropped.
    home: Option<fn(BufferMut)>,
}

// SAFETY: the memory is owned by this value alone.
unsafe impl Send for BufferMut {}
// SAFETY: shared references only read.
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
        if len >= LARGE {
            let mut map = MmapMut::map_anon(len).map_err(|_| refused())?;
            // A hint: where it is not known, pages stay small. Miri does not know it.
            #[cfg(all(target_os = "linux", not(miri)))]
            let _ = map.advise(memmap2::Advice::HugePage);
            let start = NonNull::new(map.as_mut_ptr()).ok_or_else(refused)?;
            return Ok(Self {
                start,
                len,
                map: Some(map),
                home: None,
            });
        }
        let layout = Layout::from_size_align(len, ALIGNMENT).map_err(|_| refused())?;
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        Ok(Self {
            start: NonNull::new(start).ok_or_else(refused)?,
            len,
            map: None,
            home: None,
        })
    }

    fn empty() -> Self {
        Self {
            start: NonNull::<Aligned>::dangling().cast(),
            len: 0,
            map: None,
            home: None,
        }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Result<Self> {
        let mut buffer = Self::zeroed(bytes.len())?;
        buffer.copy_from_slice(bytes);
        Ok(buffer)
    }

    /// The same memory, which `home` gets when it is dropped, also as a [`Buffer`] whose last clone
    /// is: memory that is needed again and again need not go back to the system.
    #[must_use]
    pub fn recycled_by(mut self, home: fn(BufferMut)) -> Self {
        self.home = Some(home);
        self
    }

    /// Makes it shared and read-only.
    pub fn freeze(self) -> Buffer {
        let len = self.len;
        Buffer {
            memory: Arc::new(Memory::Owned(self)),
            range: 0..len,
        }
    }

    /// The first byte; valid for the buffer's length while it lives.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The elements, if the length is a whole number of them.
    pub fn as_slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        let count = whole::<T>(self)?;
        // SAFETY: aligned and long enough (checked by `whole`), any bits are a `T`.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), count) })
    }
}

/// Gives an empty buffer its alignment.
#[repr(align(64))]
struct Aligned;

impl Drop for BufferMut {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home(std::mem::replace(self, Self::empty()));
        } else if self.len > 0 && self.map.is_none() {
            // SAFETY: allocated in `zeroed` with this same, then valid, layout.
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
        // SAFETY: `start` is valid for `len` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for BufferMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

enum Memory {
    Owned(BufferMut),
    Mapped(Mmap),
    Foreign(Foreign),
}

/// Memory of somebody else, there as long as its keeper.
struct Foreign {
    start: NonNull<u8>,
    len: usize,
    _keeper: Box<dyn Any + Send + Sync>,
}

// SAFETY: whoever made it vouched that the bytes are only read, from any thread.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

/// Shared read-only memory: a slice of an owned buffer or of a mapped file. Cloning and slicing
/// copy nothing.
#[derive(Clone)]
pub struct Buffer {
    memory: Arc<Memory>,
    range: Range<usize>,
}

impl Buffer {
    /// Maps a file for reading. The caller's users are told (SECURITY.md) that a file truncated
    /// while mapped ends the process; packages are therefore replaced by rename.
    pub fn map(file: &File) -> std::io::Result<Self> {
        if file.metadata()?.len() == 0 {
            return Ok(Self {
                memory: Arc::new(Memory::Owned(BufferMut::empty())),
                range: 0..0,
            });
        }
        // SAFETY: the mapping is private and only plain numbers are read through it after the
        // structure was decoded into owned values, so a writer can change numbers, not safety.
        let map = unsafe { Mmap::map(file)? };
        let range = 0..map.len();
        Ok(Self {
            memory: Arc::new(Memory::Mapped(map)),
            range,
        })
    }

    /// Memory of somebody else, without a copy.
    ///
    /// # Safety
    /// Until `keeper` is dropped, `start` is valid for reads of `len` initialised bytes that nobody
    /// writes.
    pub unsafe fn from_owner(
        start: NonNull<u8>,
        len: usize,
        keeper: impl Any + Send + Sync,
    ) -> Self {
        let foreign = Foreign {
            start,
            len,
            _keeper: Box::new(keeper),
        };
        Self {
            memory: Arc::new(Memory::Foreign(foreign)),
            range: 0..len,
        }
    }

    /// A part of it; `None` when it lies outside.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        let inside = range.start <= range.end && range.end <= self.len();
        inside.then(|| Self {
            memory: self.memory.clone(),
            range: self.range.start + range.start..self.range.start + range.end,
        })
    }

    /// The elements, if aligned for them and a whole number of them.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        let count = whole::<T>(self)?;
        // SAFETY: aligned and long enough (checked by `whole`), any bits are a `T`.
        Some(unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), count) })
    }

    /// Whether the bytes lie in a mapped file.
    pub fn is_mapped(&self) -> bool {
        matches!(*self.memory, Memory::Mapped(_))
    }
}

/// Number of `T` in `bytes` when aligned and without a rest.
fn whole<T: Element>(bytes: &[u8]) -> Option<usize> {
    let aligned = bytes.as_ptr().cast::<T>().is_aligned();
    (aligned && bytes.len().is_multiple_of(size_of::<T>())).then(|| bytes.len() / size_of::<T>())
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all: &[u8] = match &*self.memory {
            Memory::Owned(owned) => owned,
            Memory::Mapped(map) => map,
            // SAFETY: vouched for in `Buffer::from_owner`, and the keeper lives as long as this.
            Memory::Foreign(foreign) => unsafe {
                std::slice::from_raw_parts(foreign.start.as_ptr(), foreign.len)
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

/// The elements in `bytes`, if aligned for them and a whole number of them.
pub(crate) fn elements_of<T: Element>(bytes: &[u8]) -> Option<&[T]> {
    let count = whole::<T>(bytes)?;
    // SAFETY: aligned and long enough (checked by `whole`), any bits are a `T`.
    Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), count) })
}

/// The bytes of `elements`.
pub(crate) fn bytes_of<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: elements have no padding, and bytes no alignment.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn slices_share_and_are_bounded() {
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
    fn memory_goes_home_with_its_last_clone() {
        static HOME: Mutex<Vec<BufferMut>> = Mutex::new(Vec::new());
        let home = |buffer| HOME.lock().unwrap().push(buffer);
        let mut buffer = BufferMut::zeroed(8).unwrap().recycled_by(home);
        buffer[3] = 9;
        let buffer = buffer.freeze();
        let part = buffer.slice(2..4).unwrap();
        drop(buffer);
        assert!(HOME.lock().unwrap().is_empty());
        drop(part);
        let back = HOME.lock().unwrap().pop().unwrap();
        assert_eq!(back[..], [0, 0, 0, 9, 0, 0, 0, 0]);
        // It goes home once, not again and again.
        drop(back);
        assert!(HOME.lock().unwrap().is_empty());
    }

    #[test]
    fn large_buffers_are_zero_and_aligned() {
        let mut buffer = BufferMut::zeroed(LARGE + 3).unwrap();
        assert!(buffer.iter().all(|&byte| byte == 0));
        assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
        buffer[LARGE + 2] = 7;
        assert_eq!(
            buffer.freeze().slice(LARGE..LARGE + 3).unwrap()[..],
            [0, 0, 7]
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri ends where memory does")]
    fn too_much_is_an_error() {
        let error = BufferMut::zeroed(isize::MAX as usize - 64).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(BufferMut::zeroed(0).unwrap().len(), 0);
    }
}
