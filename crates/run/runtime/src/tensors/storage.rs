//! Memory shared by tensors, with range locks: current readers and writers by byte range.
//!
//! The only module of tensors with unsafe code. Soundness rests on one invariant: bytes are
//! accessed only through a [`Borrow`] of them, and a writing borrow overlaps no other borrow of the
//! same storage. For attached memory the caller guarantees the rest (see [`Storage::attached`]).

#![allow(unsafe_code, reason = "memory that tensors and threads share")]

use crate::cores::Reservation;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenon_base::{Control, Result};
use tenon_tensor::BufferMut;

/// The interval at which a waiting thread checks for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A range of memory with its current borrows.
pub(crate) struct Storage {
    start: NonNull<u8>,
    len: usize,
    /// The owner of allocated memory, which is accessed only through `start`.
    _owned: Option<BufferMut>,
    _reservation: Option<Reservation>,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    borrows: Vec<(Range<usize>, AccessMode)>,
    waiting: usize,
}

/// The access mode of a borrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessMode {
    Read,
    Write,
}

// SAFETY: the memory is owned by the value, or valid by the contract of `attached`; every access is
// through a `Borrow`, and writing borrows overlap no others.
unsafe impl Send for Storage {}
// SAFETY: shared access is synchronised by the mutex of `state`, which admits no borrow that overlaps
// a writing one.
unsafe impl Sync for Storage {}

impl Storage {
    /// `len` zero bytes, counted in `reservation`.
    pub fn zeroed(len: usize, reservation: Option<Reservation>) -> Result<Arc<Self>> {
        let mut owned = BufferMut::zeroed(len)?;
        let start = NonNull::new(owned.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Ok(Arc::new(Self {
            start,
            len,
            _owned: Some(owned),
            _reservation: reservation,
            state: Mutex::default(),
            returned: Condvar::new(),
        }))
    }

    /// Memory of the caller.
    ///
    /// # Safety
    /// The `len` bytes at `start` must be initialised and stay valid as long as the storage is
    /// used. While a call accesses them through it, no other code may write them, nor read them if
    /// the call writes.
    pub unsafe fn attached(start: NonNull<u8>, len: usize) -> Arc<Self> {
        Arc::new(Self {
            start,
            len,
            _owned: None,
            _reservation: None,
            state: Mutex::default(),
            returned: Condvar::new(),
        })
    }

    /// The address of byte `offset`.
    pub fn address(&self, offset: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(offset)
    }

    /// Borrows a byte range; waits for conflicting borrows, until `control` is cancelled or past
    /// its deadline.
    ///
    /// To avoid deadlocks, several ranges must be borrowed in ascending order of storage address
    /// and start, and must not conflict with each other.
    ///
    /// # Panics
    /// When the range exceeds the storage; callers check ranges.
    pub fn borrow(
        self: Arc<Self>,
        range: Range<usize>,
        what: AccessMode,
        control: Option<&Control>,
    ) -> Result<Borrow> {
        assert!(range.start <= range.end && range.end <= self.len);
        let mut state = self.lock();
        while state.conflict(&range, what) {
            control.map_or(Ok(()), Control::check)?;
            state.waiting += 1;
            let waited = self.returned.wait_timeout(state, POLL_INTERVAL);
            state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
            state.waiting -= 1;
        }
        state.borrows.push((range.clone(), what));
        drop(state);
        Ok(Borrow {
            storage: self,
            range,
            what,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A holder that panicked leaves the list consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn conflict(&self, range: &Range<usize>, what: AccessMode) -> bool {
        self.borrows.iter().any(|(other, other_use)| {
            (what == AccessMode::Write || *other_use == AccessMode::Write)
                && other.start < range.end
                && range.start < other.end
        })
    }
}

/// A borrowed byte range, released when dropped.
pub(crate) struct Borrow {
    storage: Arc<Storage>,
    range: Range<usize>,
    what: AccessMode,
}

impl Borrow {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the range is inside the storage (checked by `borrow`), valid and initialised
        // (invariant of `Storage`). No other borrow writes it, and this one writes it only through
        // `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start(), self.range.len()) }
    }

    /// The bytes, mutable.
    ///
    /// # Panics
    /// When the borrow is for reading.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.what == AccessMode::Write);
        // SAFETY: the range is inside the storage, valid and initialised; a writing borrow overlaps
        // no other one, and `&mut self` excludes references from this one.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.range.len()) }
    }

    /// Copies bytes within the borrowed range; the ranges may overlap (memmove).
    pub fn copy_within(&mut self, from: Range<usize>, to: usize) {
        self.bytes_mut().copy_within(from, to);
    }

    /// Copies bytes from a borrow of another storage. They may be the same bytes, if memory was
    /// attached twice.
    pub fn copy_from(&mut self, from: &Borrow) {
        assert!(self.what == AccessMode::Write && self.range.len() == from.range.len());
        // SAFETY: both ranges are borrowed, this one for writing, and equally long (asserted
        // above); `ptr::copy` allows overlaps.
        unsafe { std::ptr::copy(from.start(), self.start(), self.range.len()) }
    }

    fn start(&self) -> *mut u8 {
        self.storage.address(self.range.start)
    }
}

impl Drop for Borrow {
    fn drop(&mut self) {
        let mut state = self.storage.lock();
        let same =
            |(range, what): &(Range<usize>, AccessMode)| *range == self.range && *what == self.what;
        if let Some(at) = state.borrows.iter().position(same) {
            state.borrows.swap_remove(at);
        }
        if state.waiting > 0 {
            self.storage.returned.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tenon_base::ErrorKind;

    /// Borrows with a short deadline.
    fn borrow(storage: &Arc<Storage>, range: Range<usize>, what: AccessMode) -> Result<Borrow> {
        let soon = Control::with_deadline(Instant::now() + Duration::from_millis(1));
        storage.clone().borrow(range, what, Some(&soon))
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let storage = Storage::zeroed(64, None).unwrap();
        let first = borrow(&storage, 0..32, AccessMode::Read).unwrap();
        let second = borrow(&storage, 16..64, AccessMode::Read).unwrap();
        let error = borrow(&storage, 31..33, AccessMode::Write).map(|_| ());
        assert_eq!(error.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        drop(second);
        let mut writer = borrow(&storage, 32..33, AccessMode::Write).unwrap();
        writer.bytes_mut()[0] = 7;
        assert!(borrow(&storage, 32..64, AccessMode::Read).is_err());
        // An empty range conflicts with none.
        borrow(&storage, 32..32, AccessMode::Write).unwrap();
        drop((first, writer));
        let all = borrow(&storage, 0..64, AccessMode::Read).unwrap();
        assert_eq!(all.bytes()[31..34], [0, 7, 0]);
    }

    #[test]
    fn writers_are_serialised() {
        let storage = Storage::zeroed(8, None).unwrap();
        let add = |count: usize| {
            for _ in 0..count {
                let mut borrow = storage
                    .clone()
                    .borrow(0..8, AccessMode::Write, None)
                    .unwrap();
                let bytes = borrow.bytes_mut();
                let number = u64::from_le_bytes(bytes.try_into().unwrap());
                bytes.copy_from_slice(&(number + 1).to_le_bytes());
            }
        };
        let count = if cfg!(miri) { 20 } else { 2000 };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| add(count));
            }
        });
        let borrow = borrow(&storage, 0..8, AccessMode::Read).unwrap();
        let number = u64::from_le_bytes(borrow.bytes().try_into().unwrap());
        assert_eq!(number, 3 * count as u64);
    }

    #[test]
    fn attached_memory_is_used_in_place() {
        let mut memory = [1u8, 2, 3, 4];
        let start = NonNull::from(&mut memory).cast();
        // SAFETY: the array outlives the storage, which is dropped before the array is used again.
        let storage = unsafe { Storage::attached(start, 4) };
        let mut whole = borrow(&storage, 0..4, AccessMode::Write).unwrap();
        whole.copy_within(0..3, 1);
        drop(whole);
        let other = Storage::zeroed(2, None).unwrap();
        let from = borrow(&storage, 2..4, AccessMode::Read).unwrap();
        let mut to = borrow(&other, 0..2, AccessMode::Write).unwrap();
        to.copy_from(&from);
        assert_eq!(to.bytes(), [2, 3]);
        drop((from, to));
        drop(storage);
        assert_eq!(memory, [1, 1, 2, 3]);
    }
}
