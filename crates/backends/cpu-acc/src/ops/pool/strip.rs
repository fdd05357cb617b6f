//! Strips of several rows of images with the channels first: the rows are joined with their padding, then
//! the columns of all windows of the strip at once.

use super::element::{Join, PoolElement, join_all};
use super::{PoolKind, SLACK, WindowPool};
use crate::ops::elements::{Sink, Source};
use crate::simd::Simd;

/// Most elements of a strip of rows, with their padding.
const STRIP: usize = 4096;

/// Elements of a strip of many rows: all its buffers stay in the first level cache.
const CACHED_STRIP: usize = 2048;

/// Rows of a strip from which on it is limited to [`CACHED_STRIP`]: the first rows of each are joined again.
const MANY_ROWS: usize = 16;

/// Columns from which on rows that few windows share are joined where they are, which takes longer to begin than
/// to join rows with their padding.
const LONG_ROW: usize = 64;

/// Memory for a strip of rows.
pub(super) struct StripBuffers<T> {
    /// The rows with their padding.
    padded: [T; STRIP],
    /// The joined rows.
    rows: [T; STRIP],
    /// The joined columns.
    columns: [T; STRIP + SLACK],
    /// A row of the output, where it is converted.
    output: [T; STRIP],
    /// For a mean, the reciprocals of the elements that count at each column of the output.
    factors: [T; STRIP],
    /// The elements that count at each column of the kernel, for those reciprocals.
    counted_rows: usize,
    /// Runs of the input, converted.
    runs: [[T; STRIP]; 3],
}

impl<T: Copy> StripBuffers<T> {
    #[inline(always)]
    pub(super) fn new(start: T) -> Self {
        Self {
            padded: [start; STRIP],
            rows: [start; STRIP],
            columns: [start; STRIP + SLACK],
            output: [start; STRIP],
            factors: [start; STRIP],
            counted_rows: usize::MAX,
            runs: [[start; STRIP]; 3],
        }
    }
}

/// Most rows of the output of a strip, and the columns of its rows.
pub(super) struct Strip {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl WindowPool {
    /// The strips of images with the channels first; `None` where the rows of one window are too large,
    /// or most elements of a row would be skipped.
    pub(super) fn strip(&self) -> Option<Strip> {
        let [_, height, width] = self.shape.axes;
        if self.shape.run > 1 || width.stride > SLACK {
            return None;
        }
        let columns = (width.output - 1) * width.stride + (width.kernel - 1) * width.dilation + 1;
        let reach = (height.kernel - 1) * height.dilation + 1;
        let left = (STRIP / columns).checked_sub(reach)?;
        let cached = (CACHED_STRIP / columns).saturating_sub(reach) / height.stride + 1;
        Some(Strip {
            rows: (left / height.stride + 1).min(cached.max(MANY_ROWS)),
            columns,
        })
    }

    /// Joins the planes of the windows of `count` output rows from `[image, d, h]` on into padded rows.
    #[inline(always)]
    fn pad_rows<S: Simd, I: Source<Element: PoolElement>, J: Join<I::Element>>(
        &self,
        s: S,
        input: &I,
        [image, d, h]: [usize; 3],
        [rows, columns]: [usize; 2],
        buffers: &mut StripBuffers<I::Element>,
    ) {
        let [depths, heights, width] = self.shape.axes;
        let StripBuffers { padded, runs, .. } = buffers;
        let left = width.before.min(columns);
        let right = (width.input + width.before).clamp(left, columns);
        let planes = depths.inside(d);
        let first = h * heights.stride;
        // The rows that are inside the image.
        let top = heights.before.saturating_sub(first).min(rows);
        let bottom = (heights.input + heights.before).saturating_sub(first);
        let bottom = bottom.clamp(top, rows);
        padded[..top * columns].fill(J::START);
        padded[bottom * columns..rows * columns].fill(J::START);
        if planes.is_empty() || left == right {
            padded[..rows * columns].fill(J::START);
            return;
        }
        // Rows without padding are one run.
        let (count, len) = if right - left == columns && columns == width.input {
            (1.min(bottom - top), (bottom - top) * columns)
        } else {
            (bottom - top, right - left)
        };
        for row in top..top + count {
            let line = &mut padded[row * columns..];
            if count > 1 || len < columns {
                line[..left].fill(J::START);
                line[right..columns].fill(J::START);
            }
            let line = &mut line[left..left + len];
            let y = first + row - heights.before;
            let mut nth = 0;
            while nth < planes.len() {
                let group = (planes.len() - nth).min(3);
                let run = |more: usize| {
                    let z = depths.source(d, planes.start + nth + more.min(group - 1));
                    let plane = (image * depths.input + z) * heights.input;
                    let start = (plane + y) * width.input + left.saturating_sub(width.before);
                    start..start + len
                };
                let ranges = [run(0), run(1), run(2)];
                self.join_loaded::<S, I, J>(
                    s,
                    (input, ranges),
                    group,
                    {
                        let [a, b, c] = runs;
                        [&mut a[..], &mut b[..], &mut c[..]]
                    },
                    nth == 0,
                    line,
                );
                nth += group;
            }
        }
    }

    /// Joins the rows of the windows of one output row into a line with their padding.
    #[inline(always)]
    fn join_row<S: Simd, I: Source<Element: PoolElement>, J: Join<I::Element>>(
        &self,
        s: S,
        input: &I,
        [image, d, h]: [usize; 3],
        line: &mut [I::Element],
        [buffer_a, buffer_b, buffer_c]: &mut [[I::Element; STRIP]; 3],
    ) {
        let [depths, heights, width] = self.shape.axes;
        let left = width.before.min(line.len());
        let right = (width.input + width.before).clamp(left, line.len());
        let (planes, rows) = (depths.inside(d), heights.inside(h));
        if planes.is_empty() || rows.is_empty() || left == right {
            line.fill(J::START);
            return;
        }
        line[..left].fill(J::START);
        line[right..].fill(J::START);
        let line = &mut line[left..right];
        let column = left.saturating_sub(width.before);
        let mut is_first = true;
        for plane in planes {
            let plane = (image * depths.input + depths.source(d, plane)) * heights.input;
            let mut nth = rows.start;
            while nth < rows.end {
                let group = (rows.end - nth).min(3);
                let run = |more: usize| {
                    let row = heights.source(h, nth + more.min(group - 1));
                    let start = (plane + row) * width.input + column;
                    start..start + line.len()
                };
                let ranges = [run(0), run(1), run(2)];
                let buffers = [&mut buffer_a[..], &mut buffer_b[..], &mut buffer_c[..]];
                self.join_loaded::<S, I, J>(s, (input, ranges), group, buffers, is_first, line);
                is_first = false;
                nth += group;
            }
        }
    }

    /// Computes `count` rows of the output from `at` on, the `first` of `output` on.
    #[inline(always)]
    pub(super) fn strip_rows<S: Simd, I, O, J>(
        &self,
        s: S,
        (input, output): (&I, &mut O),
        [image, d, h]: [usize; 3],
        [first, count, columns]: [usize; 3],
        buffers: &mut StripBuffers<I::Element>,
    ) where
        I: Source<Element: PoolElement>,
        O: Sink<Element = I::Element>,
        J: Join<I::Element>,
    {
        let [_, height, width] = self.shape.axes;
        let in_place = height.stride > 1 && columns >= LONG_ROW;
        if !in_place {
            let rows = (count - 1) * height.stride + (height.kernel - 1) * height.dilation + 1;
            self.pad_rows::<S, I, J>(s, input, [image, d, h], [rows, columns], buffers);
        }
        let StripBuffers {
            padded,
            rows: joined,
            columns: windows,
            output: line,
            factors,
            counted_rows,
            runs,
        } = buffers;
        // Rows at a distance of one are joined at once.
        let (steps, len) = if height.stride == 1 {
            (1, count * columns)
        } else {
            (count, columns)
        };
        for step in 0..steps {
            let to = &mut joined[step * columns..][..len];
            if in_place {
                self.join_row::<S, I, J>(s, input, [image, d, h + step], to, runs);
                continue;
            }
            join_all::<S, I::Element, J>(s, height.kernel, true, to, |row| {
                &padded[(step * height.stride + row * height.dilation) * columns..]
            });
        }
        let len = (count - 1) * columns + (width.output - 1) * width.stride + 1;
        join_all::<S, I::Element, J>(s, width.kernel, true, &mut windows[..len], |column| {
            &joined[column * width.dilation..]
        });
        for row in 0..count {
            let at = [image, d, h + row];
            let is_mean = matches!(self.kind, PoolKind::Average { .. });
            let factors = &mut factors[..width.output];
            if is_mean {
                let rows = self.counted_rows(at);
                if rows != *counted_rows {
                    *counted_rows = rows;
                    for (factor, &columns) in factors.iter_mut().zip(&self.counts[2]) {
                        *factor = I::Element::factor_of(rows as f32 * columns as f32);
                    }
                }
            }
            let windows = &windows[row * columns..];
            let to = (first + row) * width.output;
            let to = to..to + width.output;
            let results = output.results(to.clone(), line);
            match width.stride {
                1 if is_mean => {
                    for ((to, &x), &factor) in results.iter_mut().zip(windows).zip(&*factors) {
                        *to = x.times(factor);
                    }
                }
                1 => results.copy_from_slice(&windows[..results.len()]),
                2 => I::Element::copy_evens(s, windows, results),
                3 => every::<I::Element, 3>(windows, results),
                _ => every::<I::Element, 4>(windows, results),
            }
            if is_mean && width.stride > 1 {
                for (x, &factor) in results.iter_mut().zip(&*factors) {
                    *x = x.times(factor);
                }
            } else if !is_mean {
                self.finish(at, 0, 1, results);
            }
            output.write_results(self.level, to, line);
        }
    }
}

/// Copies every `STRIDE`th element of `from`.
#[inline(always)]
fn every<T: Copy, const STRIDE: usize>(from: &[T], to: &mut [T]) {
    let (groups, _) = from.as_chunks::<STRIDE>();
    for (to, group) in to.iter_mut().zip(groups) {
        *to = group[0];
    }
}
