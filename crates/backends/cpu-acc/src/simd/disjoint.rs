//! Slices that the threads of a loop write concurrently, in disjoint parts.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use std::marker::PhantomData;
use tenon_base::{pool, stop};

/// A slice divided into chunks, one for each iteration of a parallel loop.
struct Chunks<'a, T> {
    start: *mut T,
    len: usize,
    chunk: usize,
    memory: PhantomData<&'a mut [T]>,
}

// SAFETY: `take` requires that each index is used once, and chunks of different indices do not
// overlap, so that no element is accessed by two threads.
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

    /// The address of an element.
    fn at(&self, offset: usize) -> *mut T {
        self.start.wrapping_add(offset)
    }

    /// # Safety
    /// No two calls have the same index.
    #[allow(clippy::mut_from_ref, reason = "disjoint parts, by the contract above")]
    unsafe fn take(&self, index: usize) -> &'a mut [T] {
        let from = index.saturating_mul(self.chunk).min(self.len);
        let len = self.chunk.min(self.len - from);
        // SAFETY: `from + len` is at most the slice's length, and the slice is borrowed mutably for
        // `'a`; no other call has this index, so no other reference to this chunk exists.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(from), len) }
    }
}

/// Calls `body` with the index and the elements of each chunk of `slice`; the last chunk may be
/// shorter. In parallel when `parallel`.
pub(crate) fn for_each_chunk<T: Send>(
    slice: &mut [T],
    chunk: usize,
    parallel: bool,
    body: impl Fn(usize, &mut [T]) + Sync,
) {
    if !parallel {
        for (index, part) in slice.chunks_mut(chunk.max(1)).enumerate() {
            stop::checkpoint();
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

/// [`for_each_chunk`] with the chunk of the same index of a second slice, such as scratch memory.
/// Where the second slice is too short, its chunks are shorter or empty.
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

/// A matrix in memory that one thread writes: rows of `columns` elements, `stride` apart. Other threads
/// may write the elements between the rows.
pub(crate) struct MatrixMut<'a, T = f32> {
    start: *mut T,
    rows: usize,
    columns: usize,
    stride: usize,
    memory: PhantomData<&'a mut [T]>,
}

impl<'a, T> MatrixMut<'a, T> {
    /// # Panics
    /// When `elements` is too short for the matrix, or rows overlap.
    pub(crate) fn new(elements: &'a mut [T], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(rows == 0 || (rows - 1) * stride + columns <= elements.len());
        assert!(rows <= 1 || columns <= stride);
        Self {
            start: elements.as_mut_ptr(),
            rows,
            columns,
            stride,
            memory: PhantomData,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The first element; valid for writing at all rows and columns.
    pub(super) fn as_mut_ptr(&mut self) -> *mut T {
        self.start
    }

    /// One row.
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows);
        // SAFETY: the row is below `rows`, and a `MatrixMut` is only made of memory that contains
        // all its rows; `self` is borrowed mutably for the lifetime of the row.
        unsafe {
            let start = self.start.add(row * self.stride);
            std::slice::from_raw_parts_mut(start, self.columns)
        }
    }
}

/// The shape `[stacks][rows][blocks][width]`. A block of a stack is a matrix of `rows` rows of `width`
/// elements.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    pub(crate) stacks: usize,
    pub(crate) rows: usize,
    pub(crate) blocks: usize,
    pub(crate) width: usize,
}

/// Calls `body` with the index of each block (stack by stack), its matrix, and scratch memory of `slot`
/// elements that no concurrent call uses. At most `slots` calls run concurrently, in parallel when
/// `parallel`.
///
/// # Panics
/// When `output` or `scratch` is too short.
pub(crate) fn for_each_block<T: Send>(
    output: &mut [T],
    shape: Blocks,
    scratch: (&mut [f32], usize, usize),
    parallel: bool,
    body: impl Fn(usize, MatrixMut<'_, T>, &mut [f32]) + Sync,
) {
    let body = |block, matrix: MatrixMut<'_, T>, _: &mut [u8], scratch: &mut [f32]| {
        body(block, matrix, scratch);
    };
    for_each_unit(
        (output, shape, shape.rows),
        (&mut [], 1),
        scratch,
        parallel,
        body,
    );
}

/// [`for_each_block`] on units of at most `rows` rows of each block, with the chunk of the unit's index of a
/// second output. Where the second output is too short, its chunks are shorter or empty.
///
/// # Panics
/// When `output` or `scratch` is too short.
pub(crate) fn for_each_unit<T: Send, U: Send>(
    (output, shape, unit_rows): (&mut [T], Blocks, usize),
    second: (&mut [U], usize),
    (scratch, slot, slots): (&mut [f32], usize, usize),
    parallel: bool,
    body: impl Fn(usize, MatrixMut<'_, T>, &mut [U], &mut [f32]) + Sync,
) {
    let Blocks {
        stacks,
        rows,
        blocks,
        width,
    } = shape;
    assert!(output.len() >= stacks * rows * blocks * width && scratch.len() >= slot * slots);
    let unit_rows = unit_rows.max(1);
    let parts = rows.div_ceil(unit_rows).max(1);
    let (count, stride) = (stacks * blocks * parts, blocks * width);
    let scratch = Chunks::new(&mut scratch[..slot * slots], slot);
    let whole = Chunks::new(output, usize::MAX);
    let second = Chunks::new(second.0, second.1);
    let call = |index: usize| {
        // SAFETY: `for_each` and the range call each index once.
        let own = unsafe { scratch.take(index) };
        let start = |index: usize| count / slots * index + (count % slots).min(index);
        for unit in start(index)..start(index + 1) {
            stop::checkpoint();
            let (block, first_row) = (unit / parts, unit % parts * unit_rows);
            let (stack, column) = (block / blocks, block % blocks);
            let first = whole.at((stack * rows + first_row) * stride + column * width);
            // Each unit is in the range of one index only; units do not overlap, and all are inside
            // the output (asserted above).
            let matrix = MatrixMut {
                start: first,
                rows: unit_rows.min(rows - first_row),
                columns: width,
                stride,
                memory: PhantomData,
            };
            // SAFETY: each unit is in the range of one index only.
            let second = unsafe { second.take(unit) };
            body(unit, matrix, second, own);
        }
    };
    if parallel {
        pool::for_each(slots, call);
    } else {
        (0..slots).for_each(call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_is_visited_once() {
        for parallel in [false, true] {
            let mut elements = vec![0usize; 103];
            for_each_chunk(&mut elements, 10, parallel, |index, part| {
                assert_eq!(part.len(), if index == 10 { 3 } else { 10 });
                part.iter_mut().for_each(|n| *n += index + 1);
            });
            assert!(elements.iter().enumerate().all(|(i, &n)| n == i / 10 + 1));
            let mut scratch = vec![0usize; 8];
            for_each_chunk2(
                (&mut elements, 25),
                (&mut scratch, 2),
                parallel,
                |index, part, own| {
                    assert_eq!(own.len(), if index == 4 { 0 } else { 2 });
                    part.fill(7);
                    own.fill(index);
                },
            );
            assert!(elements.iter().all(|&n| n == 7));
            assert_eq!(scratch, [0, 0, 1, 1, 2, 2, 3, 3]);
        }
    }

    #[test]
    fn blocks_are_disjoint_columns() {
        let shape = Blocks {
            stacks: 2,
            rows: 3,
            blocks: 5,
            width: 4,
        };
        for parallel in [false, true] {
            let mut elements = vec![0.0; 2 * 3 * 5 * 4];
            let mut scratch = vec![0.0; 9];
            for_each_block(
                &mut elements,
                shape,
                (&mut scratch, 3, 3),
                parallel,
                |block, mut m, own| {
                    assert_eq!(own.len(), 3);
                    for row in 0..m.rows() {
                        m.row_mut(row).iter_mut().for_each(|x| *x += block as f32);
                    }
                },
            );
            for (index, &number) in elements.iter().enumerate() {
                assert_eq!(number, (index / 60 * 5 + index / 4 % 5) as f32);
            }
        }
    }
}
