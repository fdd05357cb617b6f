//! Large buffers that are used again: a new mapping costs a page fault for each page.

use crate::BufferMut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenon_base::Result;

/// Keeps the memory of dropped buffers for later ones. Buffers below a mebibyte are not pooled.
pub struct BufferPool {
    /// The most bytes that are kept.
    limit: usize,
    free: Mutex<Vec<BufferMut>>,
}

/// The most buffers that are kept.
const MOST: usize = 8;

/// New buffers have a quarter more than they need, in multiples of this: sizes that grow find one.
const GRANULARITY: usize = 1 << 21;

impl BufferPool {
    /// A pool that keeps at most `limit` bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            free: Mutex::new(Vec::with_capacity(MOST + 1)),
        })
    }

    /// Whether buffers of this length are kept.
    pub fn keeps(len: usize) -> bool {
        BufferMut::is_mapped_at(len)
    }

    /// A buffer of `len` bytes, whose contents are unspecified. Its memory returns to the pool when it, or the last
    /// clone of its [`Buffer`](crate::Buffer), is dropped.
    pub fn take(self: &Arc<Self>, len: usize) -> Result<BufferMut> {
        if !Self::keeps(len) {
            return BufferMut::zeroed(len);
        }
        let mut free = self.lock();
        let fitting = (0..free.len()).filter(|&at| free[at].capacity() >= len);
        let smallest = fitting.min_by_key(|&at| free[at].capacity());
        let found = smallest.map(|at| free.swap_remove(at));
        drop(free);
        let buffer = match found {
            Some(buffer) => buffer,
            None => {
                let more = len.saturating_add(len / 4);
                let capacity = more.checked_next_multiple_of(GRANULARITY).unwrap_or(len);
                // Where memory is short, exactly what is needed.
                BufferMut::zeroed(capacity).or_else(|_| BufferMut::zeroed(len))?
            }
        };
        Ok(buffer.of_pool(len, self))
    }

    /// Keeps the memory of a buffer, or frees it and smaller ones.
    pub(crate) fn put(&self, buffer: BufferMut) {
        let mut dropped = Vec::new();
        let mut free = self.lock();
        free.push(buffer);
        while free.len() > MOST || free.iter().map(BufferMut::capacity).sum::<usize>() > self.limit
        {
            let smallest = (0..free.len()).min_by_key(|&at| free[at].capacity());
            let Some(smallest) = smallest else { break };
            dropped.push(free.swap_remove(smallest));
        }
        // Freed without the lock.
        drop(free);
    }

    /// The bytes that are kept.
    pub fn free_bytes(&self) -> usize {
        self.lock().iter().map(BufferMut::capacity).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<BufferMut>> {
        // A holder that panicked leaves complete buffers.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 3 << 20;

    #[test]
    fn memory_is_used_again_for_the_same_and_for_growing_sizes() {
        let pool = BufferPool::new(1 << 30);
        let mut first = pool.take(LEN).unwrap();
        assert_eq!(first.len(), LEN);
        first[LEN - 1] = 7;
        let start = first.as_mut_ptr();
        let shared = first.freeze();
        let other = shared.slice(0..9).unwrap();
        drop(shared);
        assert_eq!(pool.free_bytes(), 0);
        drop(other);
        assert!(pool.free_bytes() >= LEN);
        let mut second = pool.take(LEN + 4096).unwrap();
        assert_eq!((second.as_mut_ptr(), second[LEN - 1]), (start, 7));
        assert_eq!(second.len(), LEN + 4096);
        second[LEN + 4095] = 1;
        // In use: another one.
        assert_ne!(pool.take(LEN).unwrap().as_mut_ptr(), start);
    }

    #[test]
    fn the_pool_is_bounded() {
        let pool = BufferPool::new(20 << 20);
        let buffers: Vec<_> = (0..6).map(|_| pool.take(LEN).unwrap()).collect();
        drop(buffers);
        assert!(pool.free_bytes() <= 20 << 20 && pool.free_bytes() > 10 << 20);
        // Larger than the pool: freed.
        drop(pool.take(40 << 20).unwrap());
        assert!(pool.free_bytes() <= 20 << 20);
        assert_eq!(pool.take(100).unwrap().capacity(), 100);
        // Buffers may outlive the pool.
        let last = pool.take(LEN).unwrap();
        drop(pool);
        assert_eq!(last.len(), LEN);
    }
}
