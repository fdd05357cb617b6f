//! Direct convolution of groups of few channels (channels last), depthwise convolution among them:
//! vectors of output channels, with several pixels of a row in registers.
//!
//! Each task computes a block of channels of some columns. The input rows of its windows are copied
//! into a ring buffer that stays in the first or second level cache: with their padding, so that no
//! pixel is a special case, and with each channel repeated for the filters of its group, so that a
//! group's channels are further kernel positions of a depthwise convolution.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::disjoint::RowLayout;
use super::math::{UnaryFunction, map_in_place};
use super::rows::Geometry;
use super::{Level, Simd, VectorOp};
use std::cell::Cell;
use std::ops::Range;
use tenon_base::{pool, stop};

/// Kernel columns from which on each kernel row has a checkpoint for cancellation.
pub(crate) const CHECKPOINT_POSITIONS: usize = 256;

/// Elements of the rows of a window that stay in the first level cache.
const RING: usize = 8 << 10;
/// Most elements of the rows of a window.
const MAX_RING: usize = 4 << 20;
/// Least columns of a task.
const MIN_COLUMNS: usize = 12;
/// Operations below which one thread is used.
const PARALLEL_OPERATIONS: usize = 1 << 18;
/// Most elements of a vector, for sizes that do not depend on the level.
const MAX_LANES: usize = 16;

/// A convolution of groups, but for its output.
#[derive(Clone, Copy)]
pub(crate) struct GroupedConv<'a> {
    /// The whole input, of the shape's size.
    pub(crate) input: &'a [f32],
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
    pub(crate) addend: Option<&'a [f32]>,
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

/// Whether the rows of a window are short enough for this algorithm.
pub(crate) fn fits_ring(shape: &Geometry, depth: usize) -> bool {
    let columns = MIN_COLUMNS.min(shape.output[2]);
    let ring = RingShape::new(shape, depth, columns, 2 * MAX_LANES);
    ring.len(shape.kernel[0]) <= MAX_RING
}

impl GroupedConv<'_> {
    /// Computes all pixels of the shape.
    ///
    /// # Panics
    /// When a slice is too short, or output pixels overlap.
    pub(crate) fn run(&self, level: Level, output: &mut [f32]) {
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
struct ParallelConv<'a> {
    conv: &'a GroupedConv<'a>,
    level: Level,
    output: *mut f32,
}

/// The output, which the tasks write.
#[derive(Clone, Copy)]
struct Output(*mut f32);

// SAFETY: `run` borrows the output mutably until all tasks are done, and tasks write disjoint pixels or
// disjoint channels.
unsafe impl Sync for Output {}

impl VectorOp for ParallelConv<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let (conv, level, output) = (self.conv, self.level, Output(self.output));
        let shape = &conv.shape;
        let [_, rows, width] = shape.output;
        let channels = 2 * S::LANES;
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
        let operations = 2 * shape.positions() * conv.depth;
        let parallel = operations.saturating_mul(shape.pixels() * conv.filters)
            >= PARALLEL_OPERATIONS
            && pool::threads() > 1;
        let tasks = blocks * column_blocks * planes;
        let least_tasks = if parallel { 4 * pool::threads() } else { 1 };
        let row_blocks = least_tasks.div_ceil(tasks).min(rows);
        let call = |index: usize| {
            let (rest, row_block) = (index / row_blocks, index % row_blocks);
            let (rest, column_block) = (rest / column_blocks, rest % column_blocks);
            let (block, plane) = (rest / planes, rest % planes);
            let part = |count: usize, parts: usize, index: usize| {
                count * index / parts..count * (index + 1) / parts
            };
            level.run(ConvTask {
                conv,
                output,
                filters: block * channels..((block + 1) * channels).min(conv.filters),
                columns: part(width, column_blocks, column_block),
                rows: part(rows, row_blocks, row_block),
                image: plane / shape.output[0],
                plane: plane % shape.output[0],
            });
        };
        let count = tasks * row_blocks;
        if parallel {
            pool::for_each(count, call);
        } else {
            (0..count).for_each(call);
        }
    }
}

/// A block of channels of some rows and columns of one plane of the output.
struct ConvTask<'a> {
    conv: &'a GroupedConv<'a>,
    output: Output,
    filters: Range<usize>,
    rows: Range<usize>,
    columns: Range<usize>,
    image: usize,
    plane: usize,
}

/// Buffers that a thread keeps for its next task.
#[derive(Default)]
struct Buffers {
    /// The rows of the windows: for each plane of the kernel a ring of rows.
    ring: Vec<f32>,
    /// For each row of the ring the input row that it has, counted from 1.
    tags: Vec<usize>,
    /// The weights of the block of channels, whole vectors of them.
    weights: Vec<f32>,
    /// A row of the output, where a function is applied to it.
    row: Vec<f32>,
    /// For each kernel row inside the image the offset of its input in the ring and of its weights.
    lines: Vec<[usize; 2]>,
}

thread_local! {
    static BUFFERS: Cell<Buffers> = Cell::default();
}

impl VectorOp for ConvTask<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let mut buffers = BUFFERS.take();
        if self.filters.len() > S::LANES {
            self.compute::<S, 2>(s, &mut buffers);
        } else {
            self.compute::<S, 1>(s, &mut buffers);
        }
        BUFFERS.set(buffers);
    }
}

/// `buffer` with `len` elements.
fn resized(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}

/// The sums of a tile's pixels, and what they are made of.
struct Steps {
    /// Runs of contiguous steps in each kernel row, and the elements from one to the next.
    runs: usize,
    run_stride: usize,
    /// Steps of a run.
    len: usize,
    /// Elements from the input of a pixel to that of the next.
    pixel_stride: usize,
}

impl ConvTask<'_> {
    #[inline(always)]
    fn compute<S: Simd, const VECTORS: usize>(&self, s: S, buffers: &mut Buffers) {
        let GroupedConv {
            shape,
            origin,
            depth,
            ..
        } = *self.conv;
        let channels = VECTORS * S::LANES;
        let ring_shape = RingShape::new(&shape, depth, self.columns.len(), channels);
        let [kernel_planes, kernel_rows, kernel_columns] = shape.kernel;
        let ring = resized(&mut buffers.ring, ring_shape.len(kernel_planes));
        buffers.tags.clear();
        buffers.tags.resize(ring_shape.rows * kernel_planes, 0);
        let steps = shape.positions() * depth;
        let weights = resized(&mut buffers.weights, (steps + 1) * channels);
        self.gather_weights(weights, channels);
        let row_len = self.columns.len() * channels;
        let row = resized(&mut buffers.row, row_len);
        let (pixel, run) = (ring_shape.pixel, kernel_columns * depth);
        let steps = if shape.dilations[2] == 1 {
            Steps {
                runs: 1,
                run_stride: 0,
                len: run,
                pixel_stride: shape.strides[2] * pixel,
            }
        } else {
            Steps {
                runs: kernel_columns,
                run_stride: shape.dilations[2] * pixel,
                len: depth,
                pixel_stride: shape.strides[2] * pixel,
            }
        };
        let inside = |axis: usize, at: usize, k: usize| {
            let at = (at * shape.strides[axis] + k * shape.dilations[axis]) as i64;
            usize::try_from(at + i64::from(origin[axis]))
                .ok()
                .filter(|&at| at < shape.size[axis])
        };
        for y in self.rows.clone() {
            stop::checkpoint();
            buffers.lines.clear();
            for kz in 0..kernel_planes {
                let Some(from_plane) = inside(0, self.plane, kz) else {
                    continue;
                };
                for ky in 0..kernel_rows {
                    let Some(from_row) = inside(1, y, ky) else {
                        continue;
                    };
                    let slot = kz * ring_shape.rows + from_row % ring_shape.rows;
                    let at = slot * ring_shape.row();
                    if buffers.tags[slot] != from_row + 1 {
                        buffers.tags[slot] = from_row + 1;
                        let line = (self.image * shape.size[0] + from_plane) * shape.size[1];
                        self.gather_row(
                            line + from_row,
                            &mut ring[at..][..ring_shape.row()],
                            channels,
                        );
                    }
                    let weights = (kz * kernel_rows + ky) * run * channels;
                    buffers.lines.push([at, weights]);
                }
            }
            self.row::<S, VECTORS>(s, y, (ring, weights), &steps, &buffers.lines, row);
        }
    }

    /// The weights of the block of channels, then the bias, with zeros for channels that do not exist.
    #[inline(always)]
    fn gather_weights(&self, to: &mut [f32], channels: usize) {
        let count = self.filters.len();
        let filters = self.conv.filters;
        let (to, bias) = to.split_at_mut(to.len() - channels);
        let from = self.conv.weights.chunks_exact(filters);
        for (to, from) in to.chunks_exact_mut(channels).zip(from) {
            to[..count].copy_from_slice(&from[self.filters.clone()]);
            to[count..].fill(0.0);
        }
        bias.fill(0.0);
        if let Some(from) = self.conv.bias {
            bias[..count].copy_from_slice(&from[self.filters.clone()]);
        }
    }

    /// Copies the pixels of an input row that the windows read, each channel once for each filter of the
    /// block that reads it, as `[pixel][channel of the group][filter]`.
    #[inline(always)]
    fn gather_row(&self, line: usize, to: &mut [f32], channels: usize) {
        let GroupedConv {
            input,
            shape,
            depth,
            group_filters,
            ..
        } = *self.conv;
        let width = shape.size[2];
        let pixel = depth * channels;
        let columns = to.len() / pixel;
        let first = (self.columns.start * shape.strides[2]) as i64 + i64::from(self.conv.origin[2]);
        let before = usize::try_from(-first).unwrap_or(0).min(columns);
        let skipped = usize::try_from(first).unwrap_or(0).min(width);
        let end = (before + width - skipped).min(columns);
        to[..before * pixel].fill(0.0);
        to[end * pixel..].fill(0.0);
        let to = &mut to[before * pixel..end * pixel];
        // The channels of the groups of the block.
        let first_group = self.filters.start / group_filters;
        let groups = self.filters.end.div_ceil(group_filters) - first_group;
        let from = &input[(line * width + skipped) * shape.channels..];
        let from = from.chunks_exact(shape.channels).map(|pixel| {
            let channels = &pixel[first_group * depth..];
            &channels[..groups * depth]
        });
        let pixels = to.chunks_exact_mut(pixel).zip(from);
        let is_whole = self.filters.len() == channels && channels.is_multiple_of(MAX_LANES);
        match (depth, group_filters) {
            (1, 1) => pixels.for_each(|(to, from)| to[..from.len()].copy_from_slice(from)),
            (2, 2) if is_whole => pixels.for_each(|(to, from)| repeat_whole::<2>(from, to)),
            (4, 4) if is_whole => pixels.for_each(|(to, from)| repeat_whole::<4>(from, to)),
            (8, 8) if is_whole => pixels.for_each(|(to, from)| repeat_whole::<8>(from, to)),
            _ => {
                for (to, from) in pixels {
                    let mut filter = self.filters.start;
                    for from in from.chunks_exact(depth) {
                        let at = filter - self.filters.start;
                        let end = (filter / group_filters + 1) * group_filters;
                        filter = end.min(self.filters.end);
                        let count = filter - self.filters.start - at;
                        for (to, &element) in to.chunks_exact_mut(channels).zip(from) {
                            to[at..at + count].fill(element);
                        }
                    }
                }
            }
        }
    }

    /// Computes the task's pixels of one row.
    #[inline(always)]
    fn row<S: Simd, const VECTORS: usize>(
        &self,
        s: S,
        y: usize,
        operands: (&[f32], &[f32]),
        steps: &Steps,
        lines: &[[usize; 2]],
        row: &mut [f32],
    ) {
        let [images, planes, rows, pixels] = self.conv.strides;
        let channels = VECTORS * S::LANES;
        let count = self.columns.len();
        let start = self.image * images + self.plane * planes + y * rows;
        let start = start + self.columns.start * pixels + self.filters.start;
        let output = self.output.0.wrapping_add(start);
        let addend = self.conv.addend;
        let addend = addend.map(|addend| addend.as_ptr().wrapping_add(start));
        let tile = PixelTile {
            task: self,
            operands,
            steps,
            lines,
            addend,
            output: match self.conv.function {
                None => (output, pixels, self.filters.len()),
                Some(_) => (row.as_mut_ptr(), channels, channels),
            },
        };
        let mut x = 0;
        while x < count {
            let left = count - x;
            // SAFETY: the pixels are inside the row, whose input the ring holds. Those of the last
            // tile may be computed twice, with the same result.
            x = unsafe {
                if left >= 5 && count >= 7 {
                    tile.compute::<S, VECTORS, 7>(s, x.min(count - 7))
                } else if left >= 2 && count >= 4 {
                    tile.compute::<S, VECTORS, 4>(s, x.min(count - 4))
                } else {
                    tile.compute::<S, VECTORS, 1>(s, x)
                }
            };
        }
        if let Some(function) = self.conv.function {
            map_in_place(s, function, row);
            for (x, from) in row.chunks_exact(channels).enumerate() {
                // SAFETY: `run` checked that the output has this pixel and these channels; no other
                // task writes them.
                let to = unsafe {
                    let to = output.add(x * pixels);
                    std::slice::from_raw_parts_mut(to, self.filters.len())
                };
                to.copy_from_slice(&from[..to.len()]);
            }
        }
    }
}

/// Repeats each channel of groups of `SIZE` channels for the `SIZE` filters of its group.
#[inline(always)]
fn repeat_whole<const SIZE: usize>(from: &[f32], to: &mut [f32]) {
    let channels = from.len();
    let from = from.as_chunks::<MAX_LANES>().0;
    for (index, to) in to.chunks_exact_mut(channels).enumerate().take(SIZE) {
        for (from, to) in from.iter().zip(to.as_chunks_mut::<MAX_LANES>().0) {
            // `index` is constant once the loop is unrolled, and this one permutation.
            *to = std::array::from_fn(|lane| from[lane / SIZE * SIZE + index]);
        }
    }
}

/// The tiles of pixels of a row.
struct PixelTile<'a> {
    task: &'a ConvTask<'a>,
    /// The ring, and the weights with the bias.
    operands: (&'a [f32], &'a [f32]),
    steps: &'a Steps,
    lines: &'a [[usize; 2]],
    addend: Option<*const f32>,
    /// The first pixel, the elements to the next, and the channels that are written.
    output: (*mut f32, usize, usize),
}

impl PixelTile<'_> {
    /// Computes `COUNT` pixels from `x` on, and returns the pixel after them.
    ///
    /// # Safety
    /// The pixels are inside the row: `lines` are offsets of rows in the ring with the windows of all
    /// its pixels, and of their weights; `output` and `addend` contain the pixels.
    #[inline(always)]
    unsafe fn compute<S: Simd, const VECTORS: usize, const COUNT: usize>(
        &self,
        s: S,
        x: usize,
    ) -> usize {
        let conv = self.task.conv;
        let channels = VECTORS * S::LANES;
        let Steps {
            runs,
            run_stride,
            len,
            pixel_stride,
        } = *self.steps;
        let (ring, weights) = self.operands;
        let bias = weights.as_ptr().wrapping_add(weights.len() - channels);
        let mut sums = [[s.splat(0.0); VECTORS]; COUNT];
        for sums in &mut sums {
            for (v, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the weights end with the bias of `channels` channels.
                *sum = unsafe { s.load_ptr(bias.add(v * S::LANES)) };
            }
        }
        for &[from, weight] in self.lines {
            if len >= CHECKPOINT_POSITIONS {
                stop::checkpoint();
            }
            let mut start = ring.as_ptr().wrapping_add(from + x * pixel_stride);
            let mut weight = weights.as_ptr().wrapping_add(weight);
            for _ in 0..runs {
                let mut from = start;
                for _ in 0..len {
                    let mut columns = [s.splat(0.0); VECTORS];
                    for (v, column) in columns.iter_mut().enumerate() {
                        // SAFETY: `lines` has the offset of `runs * len` steps of weights of `channels`
                        // elements.
                        *column = unsafe { s.load_ptr(weight.add(v * S::LANES)) };
                    }
                    for (pixel, sums) in sums.iter_mut().enumerate() {
                        let from = from.wrapping_add(pixel * pixel_stride);
                        for (v, sum) in sums.iter_mut().enumerate() {
                            // SAFETY: the row of the ring has the windows of all pixels, with
                            // `channels` elements for each step.
                            let element = unsafe { s.load_ptr(from.add(v * S::LANES)) };
                            *sum = s.fma(element, columns[v], *sum);
                        }
                    }
                    from = from.wrapping_add(channels);
                    weight = weight.wrapping_add(channels);
                }
                start = start.wrapping_add(run_stride);
            }
        }
        let (low, high) = (s.splat(conv.limits[0]), s.splat(conv.limits[1]));
        let (output, stride, written) = self.output;
        for (pixel, sums) in sums.into_iter().enumerate() {
            let to = output.wrapping_add((x + pixel) * stride);
            let at = (x + pixel) * conv.strides[3];
            for (v, mut sum) in sums.into_iter().enumerate() {
                let lanes = |count: usize| count.saturating_sub(v * S::LANES).min(S::LANES);
                if let Some(addend) = self.addend {
                    let count = lanes(self.task.filters.len());
                    let from = addend.wrapping_add(at + v * S::LANES);
                    // SAFETY: the addend has the pixel, with the block's channels.
                    sum = s.add(sum, unsafe { s.load_part_ptr(from, count) });
                }
                let sum = s.min(high, s.max(low, sum));
                let to = to.wrapping_add(v * S::LANES);
                // SAFETY: the output has `written` channels of the pixel.
                unsafe {
                    if lanes(written) == S::LANES {
                        s.store_ptr(sum, to);
                    } else {
                        s.store_part_ptr(sum, to, lanes(written));
                    }
                }
            }
        }
        x + COUNT
    }
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
