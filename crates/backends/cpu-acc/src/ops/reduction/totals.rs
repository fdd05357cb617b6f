//! The totals of some outputs of a reduction: of rows of contiguous elements, or of columns row by row.

use super::Reduction;
use super::extents::{Extents, offset};
use super::reducers::{Finish, Reducer};
use crate::ops::blocks::{BLOCK, blocks};
use crate::ops::elements::Source;
use crate::simd::{Level, Simd, VectorOp};
use std::ops::Range;
use tenon_base::stop;

/// Columns that are accumulated at once.
pub(super) const COLUMNS: usize = 1024;

/// Rows of a block of columns.
pub(super) const ROWS: usize = 128;

/// The totals of at most [`COLUMNS`] outputs over a part of the reduced positions.
pub(super) struct Totals<'a, R: Reducer, I> {
    pub(super) reduction: &'a Reduction,
    pub(super) reducer: R,
    pub(super) input: I,
    pub(super) outputs: Range<usize>,
    pub(super) part: Range<usize>,
    pub(super) to: &'a mut [R::Total],
}

impl<R: Reducer, I: Source<Element = R::Element>> VectorOp for Totals<'_, R, I> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Extents {
            far, length, inner, ..
        } = &self.reduction.extents;
        let (length, inner) = (*length, *inner);
        let level = self.reduction.level;
        // Any element: the buffer is written before it is read.
        let any = R::finish(R::total(R::START), Finish::Identity);
        let mut buffer = [any; BLOCK];
        let mut sums = [R::START; COLUMNS];
        self.to.fill(R::total(R::START));
        let mut left = self.to;
        // Elements until the next checkpoint.
        let mut unchecked = 0;
        // There are no positions where the length is 0.
        let divisor = length.max(1);
        let from = (self.part.start / divisor, self.part.start % divisor);
        for (base, columns) in self.reduction.extents.line_parts(self.outputs) {
            let (to, rest) = left.split_at_mut(columns.len());
            left = rest;
            let (mut outer, mut first) = from;
            let mut positions = self.part.len();
            while positions > 0 {
                let count = (length - first).min(positions);
                let start = base + offset(far, outer) + first * inner;
                positions -= count;
                (outer, first) = (outer + 1, 0);
                if inner > 1 {
                    let matrix = Matrix {
                        level,
                        start,
                        rows: count,
                        inner,
                        columns: columns.clone(),
                    };
                    matrix.reduce(self.reducer, &self.input, &mut buffer, &mut sums, to);
                    continue;
                }
                for block in blocks(start..start + count) {
                    unchecked += block.len();
                    if unchecked >= BLOCK {
                        stop::checkpoint();
                        unchecked = 0;
                    }
                    let elements = self.input.load(level, block, &mut buffer);
                    to[0] = R::join_totals(to[0], R::total(self.reducer.row(s, elements)));
                }
            }
        }
    }
}

/// Some columns of a matrix.
struct Matrix {
    level: Level,
    /// The first element.
    start: usize,
    rows: usize,
    /// Elements of a row.
    inner: usize,
    columns: Range<usize>,
}

impl Matrix {
    /// Reduces the columns, and joins the results to `to`.
    #[inline(always)]
    fn reduce<R: Reducer, I: Source<Element = R::Element>>(
        &self,
        reducer: R,
        input: &I,
        buffer: &mut [R::Element; BLOCK],
        sums: &mut [R::Sum; COLUMNS],
        to: &mut [R::Total],
    ) {
        let (inner, count) = (self.inner, self.columns.len());
        // Several narrow rows are one wide row.
        let wide = if count == inner {
            (256 / inner).clamp(1, self.rows)
        } else {
            1
        };
        let sums = &mut sums[..count * wide];
        let [buffer_a, buffer_b, buffer_c, buffer_d] = {
            let (ab, cd) = buffer.split_at_mut(BLOCK / 2);
            let (a, b) = ab.split_at_mut(BLOCK / 4);
            let (c, d) = cd.split_at_mut(BLOCK / 4);
            [a, b, c, d]
        };
        for block in (0..self.rows).step_by(ROWS * wide) {
            stop::checkpoint();
            sums.fill(R::START);
            let end = (block + ROWS * wide).min(self.rows);
            let range = |row: usize, rows: usize| {
                let start = self.start + row * inner + self.columns.start;
                start..start + count * rows
            };
            let mut row = block;
            while row < end {
                if end - row >= 4 * wide {
                    let a = input.load(self.level, range(row, wide), buffer_a);
                    let b = input.load(self.level, range(row + wide, wide), buffer_b);
                    let c = input.load(self.level, range(row + 2 * wide, wide), buffer_c);
                    let d = input.load(self.level, range(row + 3 * wide, wide), buffer_d);
                    for ((((sum, &a), &b), &c), &d) in sums.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                        let first = reducer.step(reducer.step(*sum, a), b);
                        *sum = reducer.step(reducer.step(first, c), d);
                    }
                    row += 4 * wide;
                    continue;
                }
                let rows = wide.min(end - row);
                let from = input.load(self.level, range(row, rows), buffer_a);
                for (sum, &x) in sums.iter_mut().zip(from) {
                    *sum = reducer.step(*sum, x);
                }
                row += rows;
            }
            for sums in sums.chunks_exact(count) {
                for (to, &sum) in to.iter_mut().zip(sums) {
                    *to = R::join_totals(*to, R::total(sum));
                }
            }
        }
    }
}
