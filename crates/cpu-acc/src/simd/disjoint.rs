//! Slices that the threads of a loop write side by side.

use std::marker::PhantomData;
use tenon_base::pool;

/// A slice cut in chunks, each of which one iteration of a loop has for itself.
struct Chunks<'a, T> {
    start: *mut T,
    len: usize,
    chunk: usize,
    memory: PhantomData<&'a mut [T]>,
}

// SAFETY: an index is handed to one thread only, and chunks of different indices share nothing.
unsafe impl<T: Send> Sync for Chunks<'_, T> {}

impl<'a, T> Chunks<'a, T> {
    fn new(slice: &'a mut [T], chunk: usize) -> Self {
        let chunk = chunk.max(1);
        Self {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            chunk,
            memory: PhantomData,
        }
    }

    fn count(&self) -> usize {
        self.len.div_ceil(self.chunk)
    }

    /// # Safety
    /// Called once for each index.
    #[allow(clippy::mut_from_ref, reason = "disjoint parts, by the contract above")]
    unsafe fn take(&self, index: usize) -> &'a mut [T] {
        let from = index.saturating_mul(self.chunk).min(self.len);
        let len = self.chunk.min(self.len - from);
        // SAFETY: inside the slice; no other call has this index, and so no byte of this part.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(from), len) }
    }
}

/// Calls `body` with the number and the memory of each chunk of `slice`; the last may be shorter.
/// In parallel when `parallel`.
pub(crate) fn for_each_chunk<T: Send>(
    slice: &mut [T],
    chunk: usize,
    parallel: bool,
    body: impl Fn(usize, &mut [T]) + Sync,
) {
    if !parallel {
        for (index, part) in slice.chunks_mut(chunk.max(1)).enumerate() {
            body(index, part);
        }
        return;
    }
    let chunks = Chunks::new(slice, chunk);
    pool::for_each(chunks.count(), |index| {
        // SAFETY: `for_each` calls each index once.
        body(index, unsafe { chunks.take(index) });
    });
}

/// The same with the chunk of the same number of a second slice, such as scratch memory; as many
/// chunks as the first has. A second slice that is too short gives shorter or empty chunks.
pub(crate) fn for_each_chunk2<T: Send, U: Send>(
    first: (&mut [T], usize),
    second: (&mut [U], usize),
    parallel: bool,
    body: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    let first = Chunks::new(first.0, first.1);
    let second = Chunks::new(second.0, second.1);
    let call = |index| {
        // SAFETY: `for_each` and the range call each index once.
        let (a, b) = unsafe { (first.take(index), second.take(index)) };
        body(index, a, b);
    };
    if parallel {
        pool::for_each(first.count(), call);
    } else {
        (0..first.count()).for_each(call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_comes_once() {
        for parallel in [false, true] {
            let mut numbers = vec![0usize; 103];
            for_each_chunk(&mut numbers, 10, parallel, |index, part| {
                assert_eq!(part.len(), if index == 10 { 3 } else { 10 });
                part.iter_mut().for_each(|n| *n += index + 1);
            });
            assert!(numbers.iter().enumerate().all(|(i, &n)| n == i / 10 + 1));
            let mut scratch = vec![0usize; 8];
            for_each_chunk2(
                (&mut numbers, 25),
                (&mut scratch, 2),
                parallel,
                |index, part, own| {
                    assert_eq!(own.len(), if index == 4 { 0 } else { 2 });
                    part.fill(7);
                    own.fill(index);
                },
            );
            assert!(numbers.iter().all(|&n| n == 7));
            assert_eq!(scratch, [0, 0, 1, 1, 2, 2, 3, 3]);
        }
    }
}
