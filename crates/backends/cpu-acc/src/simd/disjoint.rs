//! Slices that the threads of a loop write concurrently, in disjoint parts.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::rows::Pixel;
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

/// Calls `body(0)` to `body(count - 1)`, each once. In parallel when `parallel`. The body is a trait object, so that
/// its code is compiled once for both cases.
pub(crate) fn for_each_index(count: usize, parallel: bool, body: &(dyn Fn(usize) + Sync)) {
    if parallel {
        pool::for_each(count, body);
    } else {
        (0..count).for_each(body);
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
    run_chunks(slice, chunk, parallel, &body);
}

/// [`for_each_chunk`], compiled once for a type of elements.
fn run_chunks<T: Send>(
    slice: &mut [T],
    chunk: usize,
    parallel: bool,
    body: &(dyn Fn(usize, &mut [T]) + Sync),
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
    run_chunks2(first, second, parallel, &body);
}

/// A body of [`for_each_chunk2`].
type PairBody<'a, T, U> = dyn Fn(usize, &mut [T], &mut [U]) + Sync + 'a;

/// [`for_each_chunk2`], compiled once for two types of elements.
fn run_chunks2<T: Send, U: Send>(
    first: (&mut [T], usize),
    second: (&mut [U], usize),
    parallel: bool,
    body: &PairBody<'_, T, U>,
) {
    let first = Chunks::new(first.0, first.1);
    let second = Chunks::new(second.0, second.1);
    for_each_index(first.count(), parallel, &|index| {
        // SAFETY: `for_each_index` calls each index once.
        let (a, b) = unsafe { (first.take(index), second.take(index)) };
        body(index, a, b);
    });
}

/// Where the rows of a matrix are in memory: row `r` is pixel `r` of images of three axes, with a
/// stride for each axis. The rows of a plain matrix are pixels of one line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowLayout {
    /// Extents of an image.
    pub(crate) extents: [usize; 3],
    /// Elements from an image to the next, then from a pixel to the next along each axis.
    pub(crate) strides: [usize; 4],
}

impl RowLayout {
    /// Rows `stride` elements apart.
    pub(crate) const fn strided(stride: usize) -> Self {
        Self {
            extents: [1, 1, usize::MAX],
            strides: [0, 0, 0, stride],
        }
    }

    /// The distance of the rows, where it is the same for all.
    #[inline(always)]
    pub(crate) fn stride(&self) -> Option<usize> {
        (self.extents[2] == usize::MAX).then_some(self.strides[3])
    }

    /// The offset of a row.
    #[inline(always)]
    pub(super) fn offset(&self, row: usize) -> usize {
        self.pixel_offset(Pixel::new(row, self.extents))
    }

    /// The offsets of the rows from `first` on.
    #[inline(always)]
    pub(super) fn offsets<const COUNT: usize>(&self, first: usize) -> [usize; COUNT] {
        let mut offsets = [0; COUNT];
        if let Some(stride) = self.stride() {
            for (row, offset) in offsets.iter_mut().enumerate() {
                *offset = (first + row).wrapping_mul(stride);
            }
            return offsets;
        }
        let mut pixel = Pixel::new(first, self.extents);
        for offset in &mut offsets {
            *offset = self.pixel_offset(pixel);
            pixel = pixel.next(self.extents);
        }
        offsets
    }

    /// Wrapping: offsets of rows after the last are not used.
    #[inline(always)]
    fn pixel_offset(&self, Pixel { image, at }: Pixel) -> usize {
        let [images, axes @ ..] = self.strides;
        let terms = at.into_iter().zip(axes);
        terms.fold(image.wrapping_mul(images), |sum, (at, stride)| {
            sum.wrapping_add(at.wrapping_mul(stride))
        })
    }

    /// Elements from the first to the last of `rows` rows of `columns` elements; `None` where rows
    /// overlap or the count exceeds `usize`.
    pub(super) fn span(&self, rows: usize, columns: usize) -> Option<usize> {
        let mut span = columns;
        let mut left = rows;
        for axis in (0..4).rev() {
            let extent = match axis {
                0 => left,
                axis => left.min(self.extents[axis - 1]),
            };
            if extent > 1 {
                if self.strides[axis] < span {
                    return None;
                }
                span = self.strides[axis]
                    .checked_mul(extent - 1)?
                    .checked_add(span)?;
            }
            left = left.div_ceil(extent.max(1));
        }
        Some(span)
    }
}

/// A matrix in memory that one thread writes. Other threads may write the elements between the rows.
pub(crate) struct MatrixMut<'a, T = f32> {
    start: *mut T,
    rows: usize,
    columns: usize,
    layout: RowLayout,
    memory: PhantomData<&'a mut [T]>,
}

impl<'a, T> MatrixMut<'a, T> {
    /// Rows of `columns` elements, `stride` apart.
    ///
    /// # Panics
    /// When `elements` is too short for the matrix, or rows overlap.
    pub(crate) fn new(elements: &'a mut [T], rows: usize, columns: usize, stride: usize) -> Self {
        Self::of_pixels(elements, rows, columns, RowLayout::strided(stride))
    }

    /// Rows of `columns` elements at the pixels of `layout`.
    ///
    /// # Panics
    /// When `elements` is too short for the matrix, or rows overlap.
    pub(crate) fn of_pixels(
        elements: &'a mut [T],
        rows: usize,
        columns: usize,
        layout: RowLayout,
    ) -> Self {
        let span = layout.span(rows, columns);
        assert!(rows == 0 || span.is_some_and(|span| span <= elements.len()));
        Self {
            start: elements.as_mut_ptr(),
            rows,
            columns,
            layout,
            memory: PhantomData,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn layout(&self) -> RowLayout {
        self.layout
    }

    /// Elements from the first to the last.
    pub(crate) fn span(&self) -> usize {
        self.layout.span(self.rows, self.columns).unwrap_or(0)
    }

    /// The first element; valid for writing at all rows and columns.
    pub(super) fn as_mut_ptr(&mut self) -> *mut T {
        self.start
    }

    /// All elements of rows that follow each other.
    ///
    /// # Panics
    /// When there are elements between rows.
    pub(crate) fn elements_mut(&mut self) -> &mut [T] {
        assert!(self.rows <= 1 || self.layout.stride() == Some(self.columns));
        // SAFETY: a `MatrixMut` is only made of memory that contains all its rows, which have no other elements between
        // them; `self` is borrowed mutably for the lifetime of the slice.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.rows * self.columns) }
    }

    /// One row.
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows);
        // SAFETY: the row is below `rows`, and a `MatrixMut` is only made of memory that contains
        // all its rows; `self` is borrowed mutably for the lifetime of the row.
        unsafe {
            let start = self.start.add(self.layout.offset(row));
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
    for_each_index(slots, parallel, &|index: usize| {
        // SAFETY: `for_each_index` calls each index once.
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
                layout: RowLayout::strided(stride),
                memory: PhantomData,
            };
            // SAFETY: each unit is in the range of one index only.
            let second = unsafe { second.take(unit) };
            body(unit, matrix, second, own);
        }
    });
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
    fn rows_at_pixels_are_inside_the_matrix_and_do_not_overlap() {
        // Every second column and third line of two images of 7 lines of 5 pixels of 2 elements.
        let layout = RowLayout {
            extents: [1, 3, 3],
            strides: [70, 70, 30, 4],
        };
        let mut elements = vec![0.0; 140];
        let mut matrix = MatrixMut::of_pixels(&mut elements, 18, 2, layout);
        assert_eq!(matrix.span(), 70 + 2 * 30 + 2 * 4 + 2);
        let offsets: [usize; 18] = layout.offsets(0);
        for (row, offset) in offsets.into_iter().enumerate() {
            assert_eq!(offset, layout.offset(row));
            matrix.row_mut(row).fill(row as f32 + 1.0);
        }
        for (index, &element) in elements.iter().enumerate() {
            let (image, line, x) = (index / 70, index % 70 / 10, index % 10 / 2);
            let is_row = line % 3 == 0 && x % 2 == 0;
            let row = image * 9 + line / 3 * 3 + x / 2 + 1;
            assert_eq!(element, if is_row { row as f32 } else { 0.0 });
        }
        let overlapping = RowLayout {
            strides: [70, 70, 30, 1],
            ..layout
        };
        assert_eq!(overlapping.span(18, 2), None);
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
