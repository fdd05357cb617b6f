//! Direct convolution of groups of few channels (channels last), depthwise convolution among them:
//! vectors of output channels, with several pixels of a row in registers.
//!
//! Most depthwise convolutions read the input itself (`in_place`). Of the others each task computes a
//! block of channels of some columns. The input rows of its windows are copied into a ring buffer that
//! stays in the first or second level cache: with their padding, so that no pixel is a special case, and
//! with each channel repeated for the filters of its group, so that a group's channels are further kernel
//! positions of a depthwise convolution.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

mod in_place;
mod task;
mod tile;

use super::disjoint::{RowLayout, for_each_index};
use super::elements::{VectorElement, add_and_clamp};
use super::k_blocks::balanced_part;
use super::math::{UnaryFunction, map_in_place};
use super::rows::Geometry;
use super::{Level, MAX_LANES, Simd, VectorOp};
use in_place::DepthwiseTask;
use task::ConvTask;
use tenon_base::pool;

/// Elements of the rows of a window that stay in the first level cache.
const RING: usize = 8 << 10;
/// Most elements of the rows of a window.
const MAX_RING: usize = 4 << 20;
/// Least columns of a task.
const MIN_COLUMNS: usize = 12;
/// Elements of the input rows that the tasks of all channels read one after the other: they stay in the
/// second level cache.
const CACHED: usize = 128 << 10;
/// Most kernel positions of a depthwise convolution that reads the input itself: more read each element so
/// often that a copy in the first level cache pays for itself.
const IN_PLACE_POSITIONS: usize = 25;
/// Least columns of a task that reads the input itself, in a row of which there are several tasks.
const LEAST_COLUMNS: usize = 64;
/// Bytes between pixels at whose multiples the pixels of a row alias in the first level cache.
const ALIASING: usize = 1024;
/// Operations below which one thread is used.
const PARALLEL_OPERATIONS: usize = 1 << 18;

/// A convolution of groups, but for its output.
#[derive(Clone, Copy)]
pub(crate) struct GroupedConv<'a, T> {
    /// The whole input, of the shape's size.
    pub(crate) input: &'a [T],
    /// The windows; their padding is not used.
    pub(crate) shape: Geometry,
    /// The input coordinates that the first output pixel reads at the first kernel position.
    pub(crate) origin: [i32; 3],
    /// Input channels of a group.
    pub(crate) depth: usize,
    /// Output channels of a group.
    pub(crate) group_filters: usize,
    /// Output channels.
    pub(crate) filters: usize,
    /// `[kernel position][channel of the group][filter]`.
    pub(crate) weights: &'a [f32],
    /// One element per filter.
    pub(crate) bias: Option<&'a [f32]>,
    /// Elements of the layout of the output.
    pub(crate) addend: Option<&'a [T]>,
    pub(crate) limits: [f32; 2],
    pub(crate) function: Option<UnaryFunction>,
    /// Elements of the output from an image to the next, then from a pixel to the next on each axis.
    pub(crate) strides: [usize; 4],
}

/// The sizes of the rows of a window in the ring buffer.
#[derive(Clone, Copy)]
struct RingShape {
    /// Rows of each plane of the kernel.
    rows: usize,
    /// Input columns of a row.
    columns: usize,
    /// Elements of a pixel of a row.
    pixel: usize,
}

impl RingShape {
    /// The rows for `columns` output columns and blocks of `channels` output channels.
    fn new(shape: &Geometry, depth: usize, columns: usize, channels: usize) -> Self {
        let reach = |axis: usize| {
            let window = shape.kernel[axis].saturating_sub(1);
            window
                .saturating_mul(shape.dilations[axis])
                .saturating_add(1)
        };
        let windows = columns.saturating_sub(1).saturating_mul(shape.strides[2]);
        Self {
            rows: reach(1).min(shape.size[1]),
            columns: windows.saturating_add(reach(2)),
            pixel: depth.saturating_mul(channels),
        }
    }

    fn row(&self) -> usize {
        self.columns.saturating_mul(self.pixel)
    }

    /// Elements of the rows of `planes` planes.
    fn len(&self, planes: usize) -> usize {
        self.row().saturating_mul(self.rows).saturating_mul(planes)
    }
}

/// The part of the epilogue after the sums and a clamp without addend: applied to a buffer in f32, of which the output is
/// written. Of an output of f32 only a function needs it.
struct LateEpilogue<'a, T> {
    conv: &'a GroupedConv<'a, T>,
    output: Output<T>,
}

impl<T: VectorElement> LateEpilogue<'_, T> {
    /// Completes the elements of a pixel whose first one has this offset in the output.
    ///
    /// # Safety
    /// The output has the elements, and nothing else accesses them.
    #[inline(always)]
    unsafe fn write<S: Simd>(&self, s: S, sums: &mut [f32], offset: usize) {
        let conv = self.conv;
        if !T::IS_F32
            && let Some(addend) = conv.addend
        {
            add_and_clamp(s, &addend[offset..], conv.limits, sums);
        }
        if let Some(function) = conv.function {
            map_in_place(s, function, sums);
        }
        // SAFETY: the caller guarantees the elements.
        let to = unsafe {
            std::slice::from_raw_parts_mut(self.output.0.wrapping_add(offset), sums.len())
        };
        T::narrow(s, sums, to);
    }
}

/// Whether the rows of a window are short enough for this algorithm.
pub(crate) fn fits_ring(shape: &Geometry, depth: usize) -> bool {
    let columns = MIN_COLUMNS.min(shape.output[2]);
    let ring = RingShape::new(shape, depth, columns, 2 * MAX_LANES);
    ring.len(shape.kernel[0]) <= MAX_RING
}

impl<T: VectorElement> GroupedConv<'_, T> {
    /// Whether sums are written to a buffer, see [`LateEpilogue`].
    fn is_buffered(&self) -> bool {
        !T::IS_F32 || self.function.is_some()
    }

    /// The clamp of the sums: that of halves with an addend follows it.
    fn sum_limits(&self) -> [f32; 2] {
        if !T::IS_F32 && self.addend.is_some() {
            [f32::NEG_INFINITY, f32::INFINITY]
        } else {
            self.limits
        }
    }

    /// Whether the input is read without a copy: in a depthwise convolution with a small kernel.
    fn is_in_place(&self) -> bool {
        let shape = &self.shape;
        let aliases = (shape.channels * size_of::<T>()).is_multiple_of(ALIASING);
        (self.depth, self.group_filters) == (1, 1)
            && !aliases
            && shape.positions() <= IN_PLACE_POSITIONS
    }

    /// Computes all pixels of the shape.
    ///
    /// # Panics
    /// When a slice is too short, or output pixels overlap.
    pub(crate) fn run(&self, level: Level, output: &mut [T]) {
        let Self { shape, filters, .. } = *self;
        let layout = RowLayout {
            extents: shape.output,
            strides: self.strides,
        };
        let span = layout.span(shape.pixels(), filters);
        let fits = |len: usize| span.is_some_and(|span| span <= len);
        assert!(fits(output.len()));
        assert!(self.addend.is_none_or(|addend| fits(addend.len())));
        assert!(self.bias.is_none_or(|bias| bias.len() >= filters));
        assert!(self.input.len() >= shape.input_len());
        assert!(self.weights.len() >= shape.positions() * self.depth * filters);
        let groups = filters / self.group_filters;
        assert!(groups * self.group_filters == filters && groups * self.depth == shape.channels);
        if shape.pixels() == 0 {
            return;
        }
        level.run(ParallelConv {
            conv: self,
            level,
            output: output.as_mut_ptr(),
        });
    }
}

/// A convolution divided among threads.
struct ParallelConv<'a, T> {
    conv: &'a GroupedConv<'a, T>,
    level: Level,
    output: *mut T,
}

/// The output, which the tasks write.
#[derive(Clone, Copy)]
struct Output<T>(*mut T);

// SAFETY: `run` borrows the output mutably until all tasks are done, and tasks write disjoint pixels or
// disjoint channels.
unsafe impl<T> Sync for Output<T> {}

impl<T: VectorElement> VectorOp for ParallelConv<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        if self.conv.is_in_place() {
            self.run_in_place(2 * S::LANES);
        } else {
            self.run_copied(2 * S::LANES);
        }
    }
}

impl<T: VectorElement> ParallelConv<'_, T> {
    /// Whether several threads are used.
    fn is_parallel(&self) -> bool {
        let Self { conv, .. } = self;
        let operations = 2 * conv.shape.positions() * conv.depth;
        operations.saturating_mul(conv.shape.pixels() * conv.filters) >= PARALLEL_OPERATIONS
            && pool::threads() > 1
    }

    /// Computes a convolution that reads the input itself, in blocks of `channels` channels.
    fn run_in_place(&self, channels: usize) {
        let (conv, level, output) = (self.conv, self.level, Output(self.output));
        let shape = &conv.shape;
        let parallel = self.is_parallel();
        let [_, rows, width] = shape.output;
        let planes = shape.images * shape.output[0];
        let least_tasks = if parallel { 4 * pool::threads() } else { 1 };
        let row_blocks = least_tasks.div_ceil(planes).min(rows);
        // The rows of a window stay in the second level cache while the next row of the output is computed.
        let window = match shape.positions() / shape.kernel[2].max(1) {
            0 | 1 => 0,
            kernel_rows => (kernel_rows * shape.size[2]).saturating_mul(conv.filters),
        };
        // Long rows are divided first, then channels.
        let tasks = planes * row_blocks;
        let column_blocks = least_tasks.div_ceil(tasks).max(window.div_ceil(CACHED));
        let column_blocks = column_blocks.min(width.div_ceil(LEAST_COLUMNS));
        let tasks = tasks * column_blocks;
        let parts = least_tasks
            .div_ceil(tasks)
            .max((window / column_blocks).div_ceil(CACHED));
        let blocks = conv.filters.div_ceil(channels);
        let parts = parts.min(blocks);
        let call = |index: usize| {
            let (rest, part) = (index / parts, index % parts);
            let (rest, column_block) = (rest / column_blocks, rest % column_blocks);
            let (plane, row_block) = (rest / row_blocks, rest % row_blocks);
            let filters = balanced_part(blocks, parts, part);
            level.run(DepthwiseTask {
                conv,
                output,
                filters: filters.start * channels..(filters.end * channels).min(conv.filters),
                columns: balanced_part(width, column_blocks, column_block),
                rows: balanced_part(rows, row_blocks, row_block),
                image: plane / shape.output[0],
                plane: plane % shape.output[0],
            });
        };
        for_each_index(tasks * parts, parallel, &call);
    }

    /// Computes a convolution whose input is copied to a ring buffer, in blocks of `channels` channels.
    fn run_copied(&self, channels: usize) {
        let (conv, level, output) = (self.conv, self.level, Output(self.output));
        let shape = &conv.shape;
        let [_, rows, width] = shape.output;
        let blocks = conv.filters.div_ceil(channels);
        let ring = |columns: usize| {
            RingShape::new(shape, conv.depth, columns, channels).len(shape.kernel[0])
        };
        // The most columns whose windows stay in the cache. The overlap of the windows of two tasks is
        // copied twice.
        let overlap = (shape.kernel[2].saturating_sub(1)).saturating_mul(shape.dilations[2]);
        let least = MIN_COLUMNS.max(overlap.min(64)).min(width);
        let mut columns = width;
        while columns > least && ring(columns) > RING {
            columns = columns.div_ceil(2).max(least);
        }
        let column_blocks = width.div_ceil(columns);
        let planes = shape.images * shape.output[0];
        let parallel = self.is_parallel();
        let tasks = blocks * column_blocks * planes;
        let least_tasks = if parallel { 4 * pool::threads() } else { 1 };
        // Several tasks read each row: together, some rows at a time. The rows of a window that two
        // blocks of rows share are copied twice.
        let row_elements = (shape.size[2] * shape.channels).saturating_mul(shape.strides[1]);
        let cached_rows = (CACHED / row_elements.max(1)).max(2 * shape.kernel[1]);
        let cached_blocks = if blocks * column_blocks > 1 {
            rows.div_ceil(cached_rows.max(1))
        } else {
            1
        };
        let row_blocks = least_tasks.div_ceil(tasks).max(cached_blocks).min(rows);
        let call = |index: usize| {
            let (rest, column_block) = (index / column_blocks, index % column_blocks);
            let (rest, block) = (rest / blocks, rest % blocks);
            let (plane, row_block) = (rest / row_blocks, rest % row_blocks);
            level.run(ConvTask {
                conv,
                output,
                filters: block * channels..((block + 1) * channels).min(conv.filters),
                columns: balanced_part(width, column_blocks, column_block),
                rows: balanced_part(rows, row_blocks, row_block),
                image: plane / shape.output[0],
                plane: plane % shape.output[0],
            });
        };
        for_each_index(tasks * row_blocks, parallel, &call);
    }
}

/// The input coordinate that kernel position `k` of output coordinate `at` reads; `None` in the padding.
#[inline(always)]
fn input_coordinate(
    shape: &Geometry,
    origin: [i32; 3],
    axis: usize,
    at: usize,
    k: usize,
) -> Option<usize> {
    let at = (at * shape.strides[axis] + k * shape.dilations[axis]) as i64;
    let at = usize::try_from(at + i64::from(origin[axis])).ok()?;
    (at < shape.size[axis]).then_some(at)
}

/// The kernel positions of one axis that are inside the image of `size`, where the kernel starts at
/// `start` of the padded axis and `before` is its padding.
pub(crate) fn positions_inside(
    start: usize,
    before: usize,
    dilation: usize,
    kernel: usize,
    size: usize,
) -> std::ops::Range<usize> {
    let first = before.saturating_sub(start).div_ceil(dilation);
    let end = (size + before)
        .saturating_sub(start)
        .div_ceil(dilation)
        .min(kernel);
    first.min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_inside_are_exactly_those_inside_the_image() {
        for (start, before, dilation, kernel, size) in (0..6usize).flat_map(|a| {
            (0..4).flat_map(move |b| (1..4).map(move |c| (a, b, c, 1 + a % 4, 1 + b)))
        }) {
            let inside: Vec<usize> = (0..kernel)
                .filter(|position| {
                    (start + position * dilation)
                        .checked_sub(before)
                        .is_some_and(|at| at < size)
                })
                .collect();
            let found: Vec<usize> =
                positions_inside(start, before, dilation, kernel, size).collect();
            assert_eq!(found, inside, "{start} {before} {dilation} {kernel} {size}");
        }
    }
}
