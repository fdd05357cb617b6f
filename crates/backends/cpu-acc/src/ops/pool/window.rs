//! Windows of any size and layout, in blocks of columns and channels: the rows of the windows are joined
//! into a line, then its columns.

use super::element::{Join, PoolElement, join_all};
use super::strip::{Strip, StripBuffers};
use super::{SLACK, WindowPool};
use crate::ops::elements::{Sink, Source};
use crate::simd::{Simd, VectorOp};
use std::marker::PhantomData;
use std::ops::Range;
use tenon_base::stop;

/// Elements of a block of columns, which stay in the first-level cache.
const BLOCK: usize = 2048;

/// Channels of a block, for images with the channels last.
const CHANNELS: usize = 128;

/// Some rows of the output.
pub(super) struct PoolRows<'a, I, O, J> {
    pub(super) pool: &'a WindowPool,
    pub(super) input: I,
    pub(super) first: usize,
    pub(super) output: O,
    pub(super) join: PhantomData<J>,
}

/// Columns and channels that are computed at once, over some kernel columns.
struct Block {
    /// Columns of the output.
    columns: Range<usize>,
    /// Kernel columns.
    kernel: Range<usize>,
    /// Channels.
    run: Range<usize>,
    /// Columns of the input that the windows extend over, padding included.
    reach: usize,
}

impl<I, O, J> VectorOp for PoolRows<'_, I, O, J>
where
    I: Source<Element: PoolElement>,
    O: Sink<Element = I::Element>,
    J: Join<I::Element>,
{
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(mut self, s: S) {
        let pool = self.pool;
        let shape = &pool.shape;
        let width = shape.axes[2];
        if let Some(strip) = pool.strip() {
            self.strips(s, &strip);
            return;
        }
        let run = shape.run.min(CHANNELS);
        let columns = BLOCK / run;
        // Kernel columns whose reach is at most half of a block.
        let kernel = ((columns / 2 - 1) / width.dilation + 1).min(width.kernel);
        let reach = (kernel - 1) * width.dilation + 1;
        let most = ((columns - reach) / width.stride + 1).min(width.output);
        let line = shape.line();
        let mut buffers = PoolBuffers::new(J::START);
        for row in 0..self.output.len() / line {
            let at = shape.row(self.first + row);
            for first in (0..shape.run).step_by(run) {
                let run = first..(first + run).min(shape.run);
                for column in (0..width.output).step_by(most) {
                    stop::checkpoint();
                    let columns = column..(column + most).min(width.output);
                    let count = columns.len() * run.len();
                    buffers.sums[..count].fill(J::START);
                    for position in (0..width.kernel).step_by(kernel) {
                        let kernel = position..(position + kernel).min(width.kernel);
                        let reach = (columns.len() - 1) * width.stride
                            + (kernel.len() - 1) * width.dilation
                            + 1;
                        let block = Block {
                            columns: columns.clone(),
                            kernel,
                            run: run.clone(),
                            reach,
                        };
                        if pool.join_rows::<S, I, J>(s, &self.input, at, &block, &mut buffers) {
                            let PoolBuffers { line, sums, .. } = &mut buffers;
                            let sums = &mut sums[..count];
                            pool.join_columns::<S, I::Element, J>(s, &block, line, sums);
                        }
                    }
                    let sums = &mut buffers.sums[..count];
                    pool.finish(at, column, run.len(), sums);
                    let to = row * line;
                    if run.len() == shape.run {
                        let to = to + columns.start * run.len();
                        self.output.write(pool.level, to..to + count, sums);
                        continue;
                    }
                    for (column, sums) in columns.zip(sums.chunks_exact(run.len())) {
                        let to = to + column * shape.run + run.start;
                        self.output.write(pool.level, to..to + sums.len(), sums);
                    }
                }
            }
        }
    }
}

impl<I, O, J> PoolRows<'_, I, O, J>
where
    I: Source<Element: PoolElement>,
    O: Sink<Element = I::Element>,
    J: Join<I::Element>,
{
    /// Computes the rows in strips.
    #[inline(always)]
    fn strips<S: Simd>(&mut self, s: S, strip: &Strip) {
        let shape = &self.pool.shape;
        let mut buffers = StripBuffers::new(J::START);
        let rows = self.output.len() / shape.line();
        let mut row = 0;
        while row < rows {
            stop::checkpoint();
            let at = shape.row(self.first + row);
            let below = shape.axes[1].output - at[2];
            let count = strip.rows.min(below).min(rows - row);
            let operands = (&self.input, &mut self.output);
            let counts = [row, count, strip.columns];
            self.pool
                .strip_rows::<S, I, O, J>(s, operands, at, counts, &mut buffers);
            row += count;
        }
    }
}

/// Memory for the blocks of a thread.
struct PoolBuffers<T> {
    /// The joined rows.
    line: [T; BLOCK + SLACK],
    /// The joined columns.
    sums: [T; BLOCK],
    /// Rows of the input, converted.
    rows: [[T; BLOCK]; 3],
}

impl<T: Copy> PoolBuffers<T> {
    #[inline(always)]
    fn new(start: T) -> Self {
        Self {
            line: [start; BLOCK + SLACK],
            sums: [start; BLOCK],
            rows: [[start; BLOCK]; 3],
        }
    }
}

impl WindowPool {
    /// Joins the rows of the windows of output row `at` into the line; returns false, with nothing
    /// written, where no row of the windows is inside the image.
    #[inline(always)]
    fn join_rows<S: Simd, I: Source<Element: PoolElement>, J: Join<I::Element>>(
        &self,
        s: S,
        input: &I,
        [image, d, h]: [usize; 3],
        block: &Block,
        buffers: &mut PoolBuffers<I::Element>,
    ) -> bool {
        let PoolBuffers {
            line,
            rows: buffers,
            ..
        } = buffers;
        let [depths, heights, width] = self.shape.axes;
        let run = block.run.len();
        // The columns of the line that are inside the image.
        let start = block.columns.start * width.stride + block.kernel.start * width.dilation;
        let left = width.before.saturating_sub(start).min(block.reach);
        let right = (width.input + width.before).saturating_sub(start);
        let right = right.clamp(left, block.reach);
        let (planes, rows) = (depths.inside(d), heights.inside(h));
        let count = planes.len() * rows.len();
        if right == left || count == 0 {
            return false;
        }
        line[..left * run].fill(J::START);
        line[right * run..block.reach * run].fill(J::START);
        let line = &mut line[left * run..right * run];
        let first_column = start + left - width.before;
        let row_at = |nth: usize| {
            let (plane, row) = if nth < rows.len() {
                (planes.start, rows.start + nth)
            } else {
                (
                    planes.start + nth / rows.len(),
                    rows.start + nth % rows.len(),
                )
            };
            let row = (image * depths.input + depths.source(d, plane)) * heights.input
                + heights.source(h, row);
            (row * width.input + first_column) * self.shape.run + block.run.start
        };
        // Adjacent runs are one.
        let (length, distance) = if run == self.shape.run {
            (line.len(), line.len())
        } else {
            (run, self.shape.run)
        };
        let mut nth = 0;
        while nth < count {
            let group = (count - nth).min(if nth == 0 { 3 } else { 2 });
            let starts = [0, 1, 2].map(|more| row_at(nth + more.min(group - 1)));
            for (column, line) in line.chunks_exact_mut(length).enumerate() {
                let ranges = starts.map(|start| {
                    let start = start + column * distance;
                    start..start + length
                });
                self.join_loaded::<S, I, J>(
                    s,
                    (input, ranges),
                    group,
                    buffers.each_mut().map(|buffer| &mut buffer[..]),
                    nth == 0,
                    line,
                );
            }
            nth += group;
        }
        true
    }

    /// Joins the columns of the windows of `line` into the block of the output.
    #[inline(always)]
    fn join_columns<S: Simd, T: PoolElement, J: Join<T>>(
        &self,
        s: S,
        block: &Block,
        line: &[T; BLOCK + SLACK],
        output: &mut [T],
    ) {
        let width = self.shape.axes[2];
        let run = block.run.len();
        if width.stride == 1 {
            join_all::<S, T, J>(s, block.kernel.len(), false, output, |position| {
                &line[position * width.dilation * run..]
            });
            return;
        }
        for (column, to) in output.chunks_exact_mut(run).enumerate() {
            join_all::<S, T, J>(s, block.kernel.len(), false, to, |position| {
                &line[(column * width.stride + position * width.dilation) * run..]
            });
        }
    }
}
