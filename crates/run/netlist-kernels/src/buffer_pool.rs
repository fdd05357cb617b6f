//! A pool of freed buffers by size (segregated free lists): an op in a loop reuses the buffer that it
//! freed in the last iteration, without a system call. Buffers that the host holds return to the pool
//! when the host drops them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tenon_base::Result;
use tenon_tensor::BufferMut;

/// Bytes that the pool always may retain; it retains more only while programs had more in use.
const MIN_RETAINED: usize = 256 << 20;
/// Shorter buffers are not pooled: the allocator is as fast.
const MIN_POOLED: usize = 1 << 10;

#[derive(Default)]
struct BufferPool {
    by_length: HashMap<usize, FreeList>,
    /// Bytes in all free lists.
    free: usize,
    /// Bytes of buffers in use.
    in_use: usize,
    /// The maximum of `in_use` since the last [`trim`].
    peak: usize,
    /// The number of allocations so far.
    allocations: u64,
}

/// Free buffers of one length.
#[derive(Default)]
struct FreeList {
    buffers: Vec<BufferMut>,
    /// The number of the last allocation of this length.
    last_used: u64,
}

static POOL: Mutex<Option<BufferPool>> = Mutex::new(None);

fn pool() -> MutexGuard<'static, Option<BufferPool>> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A buffer with any content.
pub(super) fn allocate(bytes: usize) -> Result<BufferMut> {
    allocate_cleared(bytes, |_| {})
}

/// A buffer of zeros.
pub(super) fn allocate_zeroed(bytes: usize) -> Result<BufferMut> {
    allocate_cleared(bytes, |used| used.fill(0))
}

/// A new buffer of zeros, or a pooled one after `clear`.
fn allocate_cleared(bytes: usize, clear: impl FnOnce(&mut [u8])) -> Result<BufferMut> {
    if bytes < MIN_POOLED {
        return BufferMut::zeroed(bytes);
    }
    let buffer = match pooled(bytes) {
        Some(mut used) => {
            clear(&mut used);
            used
        }
        None => BufferMut::zeroed(bytes)?,
    };
    Ok(buffer.recycled_by(free))
}

/// Counts a buffer as in use, and takes a free one of that length if there is one.
fn pooled(bytes: usize) -> Option<BufferMut> {
    let mut pool = pool();
    let pool = pool.get_or_insert_default();
    pool.allocations += 1;
    pool.in_use += bytes;
    pool.peak = pool.peak.max(pool.in_use);
    let list = pool.by_length.entry(bytes).or_default();
    list.last_used = pool.allocations;
    let buffer = list.buffers.pop()?;
    pool.free -= bytes;
    Some(buffer)
}

/// Returns a buffer to the pool.
fn free(buffer: BufferMut) {
    let excess = {
        let mut pool = pool();
        let pool = pool.get_or_insert_default();
        let length = buffer.len();
        pool.in_use = pool.in_use.saturating_sub(length);
        pool.free += length;
        pool.by_length
            .entry(length)
            .or_default()
            .buffers
            .push(buffer);
        pool.take_excess()
    };
    // Unmapped after the lock is released.
    drop(excess);
}

/// Frees the buffers that were retained for programs that have ended.
pub(super) fn trim() {
    let excess = pool().as_mut().map(|pool| {
        pool.peak = pool.in_use;
        pool.take_excess()
    });
    drop(excess);
}

impl BufferPool {
    /// Removes the free buffers beyond the retained size, least recently used lengths first (LRU).
    fn take_excess(&mut self) -> Vec<BufferMut> {
        let most = MIN_RETAINED.max(self.peak);
        let mut excess = Vec::new();
        while self.free > most {
            let lists = self.by_length.values_mut();
            let filled = lists.filter(|list| !list.buffers.is_empty());
            let oldest = filled.min_by_key(|list| list.last_used);
            let Some(buffer) = oldest.and_then(|list| list.buffers.pop()) else {
                break;
            };
            self.free -= buffer.len();
            excess.push(buffer);
        }
        excess
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length is used by no other test: all tests share the pool.
    #[test]
    fn a_freed_buffer_is_allocated_next() {
        let length = (1 << 16) + 64;
        let mut buffer = allocate(length).unwrap();
        buffer[5] = 7;
        drop(buffer.freeze());
        assert_eq!(allocate(length).unwrap()[5], 7);
        assert!(
            allocate_zeroed(length)
                .unwrap()
                .iter()
                .all(|&byte| byte == 0)
        );
    }

    #[test]
    fn the_least_recently_used_length_is_freed_first() {
        let of = |length| BufferMut::zeroed(length).unwrap();
        let mut pool = BufferPool::default();
        for (last_used, length) in [
            (2, MIN_RETAINED / 2),
            (1, MIN_RETAINED / 4),
            (3, MIN_RETAINED / 2),
        ] {
            let list = pool.by_length.entry(length).or_default();
            list.last_used = last_used;
            list.buffers.push(of(length));
            pool.free += length;
        }
        let excess: Vec<usize> = pool
            .take_excess()
            .iter()
            .map(|buffer| buffer.len())
            .collect();
        assert_eq!((excess, pool.free), (vec![MIN_RETAINED / 4], MIN_RETAINED));
        // The pool retains as many bytes as were in use at the peak.
        pool.peak = MIN_RETAINED + 8;
        pool.free += 8;
        pool.by_length.entry(8).or_default().buffers.push(of(8));
        assert!(pool.take_excess().is_empty());
    }
}
