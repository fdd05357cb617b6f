//! Loops over chunks of memory on all threads.

use std::sync::{Mutex, PoisonError};
use tenon_base::pool;

/// Elements between two checkpoints for cancellation.
pub(crate) const CHECKPOINT_ELEMENTS: usize = 1 << 16;

/// Most chunks of a parallel loop.
pub(crate) const CHUNKS: usize = 64;

/// Calls `body` with chunks of `elements` and the index of their first element, on all threads when
/// they are many.
pub(crate) fn for_each_chunk<T: Send>(elements: &mut [T], body: impl Fn(usize, &mut [T]) + Sync) {
    let operations = elements.len();
    for_each_chunk_of(elements, 1, operations, body);
}

/// [`for_each_chunk`] of whole units of `unit` elements, on all threads when all of them together take many
/// `operations`.
pub(crate) fn for_each_chunk_of<T: Send>(
    elements: &mut [T],
    unit: usize,
    operations: usize,
    body: impl Fn(usize, &mut [T]) + Sync,
) {
    run_chunks(
        elements,
        unit,
        operations,
        &mut [],
        0,
        &|first, elements, _| {
            body(first, elements);
        },
    );
}

/// [`for_each_chunk_of`] with `size` elements of scratch memory for each chunk. If `scratch` is too short for some
/// chunks, there are fewer.
pub(crate) fn for_each_chunk_with<T: Send>(
    elements: &mut [T],
    unit: usize,
    operations: usize,
    scratch: &mut [f64],
    size: usize,
    body: impl Fn(usize, &mut [T], &mut [f64]) + Sync,
) {
    run_chunks(elements, unit, operations, scratch, size, &body);
}

/// A chunk, its scratch memory, or nothing when it has been taken.
type Chunk<'a, T> = Mutex<Option<(&'a mut [T], &'a mut [f64])>>;

/// Computes a chunk, from the index of its first element on, with scratch memory.
type ComputeChunk<'a, T> = dyn Fn(usize, &mut [T], &mut [f64]) + Sync + 'a;

/// The loops above, compiled once for a type of elements.
fn run_chunks<T: Send>(
    elements: &mut [T],
    unit: usize,
    operations: usize,
    mut scratch: &mut [f64],
    size: usize,
    body: &ComputeChunk<'_, T>,
) {
    if elements.is_empty() {
        return;
    }
    let threads = pool::threads();
    let units = elements.len() / unit.max(1);
    if threads == 1 || units < 2 || operations < 2 * CHECKPOINT_ELEMENTS {
        return body(0, elements, scratch);
    }
    // Several chunks for each thread, since threads may be interrupted; none too small.
    let most = (4 * threads)
        .min(CHUNKS)
        .min(scratch.len().checked_div(size).unwrap_or(CHUNKS));
    let least = CHECKPOINT_ELEMENTS.div_ceil((operations / units).max(1));
    let chunk = units.div_ceil(most.max(1)).max(least) * unit;
    let count = elements.len().div_ceil(chunk);
    let mut rest = elements.chunks_mut(chunk);
    // An array, since executing allocates no memory.
    let chunks: [Chunk<'_, T>; CHUNKS] = std::array::from_fn(|_| {
        Mutex::new(rest.next().map(|elements| {
            let own = scratch.split_off_mut(..size).unwrap_or_default();
            (elements, own)
        }))
    });
    pool::for_each(count, |index| {
        let taken = chunks[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((elements, scratch)) = taken {
            body(index * chunk, elements, scratch);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_every_element() {
        let mut elements = vec![0; 2 * CHECKPOINT_ELEMENTS + 7];
        for_each_chunk(&mut elements, |first, chunk| {
            for (index, element) in chunk.iter_mut().enumerate() {
                *element += first + index;
            }
        });
        assert!(elements.iter().enumerate().all(|(i, &n)| i == n));
    }

    #[test]
    fn chunks_are_whole_units_with_separate_scratch_memory() {
        let mut elements = vec![0; 3 * 1000];
        let mut scratch = vec![0.0; 2 * CHUNKS];
        for_each_chunk_with(
            &mut elements,
            3,
            1 << 20,
            &mut scratch,
            2,
            |first, chunk, scratch| {
                assert!(first % 3 == 0 && chunk.len() % 3 == 0 && scratch.len() >= 2);
                scratch.fill(first as f64);
                for (index, element) in chunk.iter_mut().enumerate() {
                    *element += scratch[1] as usize + index;
                }
            },
        );
        assert!(elements.iter().enumerate().all(|(i, &n)| i == n));
        // Without memory for two chunks there is one.
        for_each_chunk_with(
            &mut elements,
            3,
            1 << 20,
            &mut [0.0; 3],
            2,
            |_, chunk, scratch| {
                assert!(chunk.len() == 3000 && scratch.len() >= 2);
            },
        );
    }
}
