//! A task of a direct convolution: its ring buffer, and the rows of its output.

use super::tile::{PixelTile, Steps, next_tile};
use super::{GroupedConv, LateEpilogue, Output, RingShape, input_coordinate};
use crate::simd::elements::VectorElement;
use crate::simd::tile::prefetch;
use crate::simd::{MAX_LANES, Simd, VectorOp};
use std::cell::Cell;
use std::ops::Range;
use tenon_base::stop;

/// Elements of a cache line.
const LINE: usize = 16;

/// A block of channels of some rows and columns of one plane of the output.
pub(super) struct ConvTask<'a, T> {
    pub(super) conv: &'a GroupedConv<'a, T>,
    pub(super) output: Output<T>,
    pub(super) filters: Range<usize>,
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    pub(super) image: usize,
    pub(super) plane: usize,
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
    /// For each kernel row inside the image the offset of its input in the ring, and of its weights.
    lines: Vec<[usize; 2]>,
}

thread_local! {
    static BUFFERS: Cell<Buffers> = Cell::default();
}

impl<T: VectorElement> VectorOp for ConvTask<'_, T> {
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

/// `len` elements of `buffer`, aligned to a cache line: vectors that extend over two lines take two loads.
fn resized(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len + LINE {
        buffer.resize(len + LINE, 0.0);
    }
    let first = buffer.as_ptr().align_offset(LINE * size_of::<f32>());
    &mut buffer[first.min(LINE)..][..len]
}

impl<T: VectorElement> ConvTask<'_, T> {
    /// Computes the task's pixels.
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
                step_stride: channels,
                pixel_stride: shape.strides[2] * pixel,
            }
        } else {
            Steps {
                runs: kernel_columns,
                run_stride: shape.dilations[2] * pixel,
                len: depth,
                step_stride: channels,
                pixel_stride: shape.strides[2] * pixel,
            }
        };
        let inside =
            |axis: usize, at: usize, k: usize| input_coordinate(&shape, origin, axis, at, k);
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
                    let line = (self.image * shape.size[0] + from_plane) * shape.size[1];
                    let weights = (kz * kernel_rows + ky) * run * channels;
                    let slot = kz * ring_shape.rows + from_row % ring_shape.rows;
                    let at = slot * ring_shape.row();
                    if buffers.tags[slot] != from_row + 1 {
                        buffers.tags[slot] = from_row + 1;
                        self.gather_row::<S, VECTORS>(
                            s,
                            line + from_row,
                            &mut ring[at..][..ring_shape.row()],
                        );
                    }
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
    fn gather_row<S: Simd, const VECTORS: usize>(&self, s: S, line: usize, to: &mut [f32]) {
        let channels = VECTORS * S::LANES;
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
            (1, 1) => {
                for (to, from) in pixels {
                    // The next row, whose pixels are too far from each other for a hardware prefetch.
                    let next = from.as_ptr().wrapping_add(width * shape.channels);
                    for line in 0..channels / LINE {
                        prefetch(next.wrapping_add(line * LINE).cast());
                    }
                    if from.len() == channels {
                        copy_vectors::<S, T, VECTORS>(s, from, to);
                    } else {
                        T::widen(s, from, &mut to[..from.len()]);
                    }
                }
            }
            (2, 2) if is_whole => {
                pixels.for_each(|(to, from)| repeat_whole::<S, T, 2>(s, from, to))
            }
            (4, 4) if is_whole => {
                pixels.for_each(|(to, from)| repeat_whole::<S, T, 4>(s, from, to))
            }
            (8, 8) if is_whole => {
                pixels.for_each(|(to, from)| repeat_whole::<S, T, 8>(s, from, to))
            }
            _ => {
                for (to, from) in pixels {
                    let mut filter = self.filters.start;
                    for from in from.chunks_exact(depth) {
                        let at = filter - self.filters.start;
                        let end = (filter / group_filters + 1) * group_filters;
                        filter = end.min(self.filters.end);
                        let count = filter - self.filters.start - at;
                        for (to, &element) in to.chunks_exact_mut(channels).zip(from) {
                            to[at..at + count].fill(element.into());
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
        let output = self.output.0.cast::<f32>().wrapping_add(start);
        let addend = self.conv.addend.filter(|_| T::IS_F32);
        let addend = addend.map(|addend| addend.as_ptr().cast::<f32>().wrapping_add(start));
        let (ring, weights) = operands;
        let tile = PixelTile {
            input: ring,
            weights,
            weight_stride: channels,
            bias: Some(&weights[weights.len() - channels..]),
            steps,
            lines,
            channels: self.filters.len(),
            addend: addend.map(|addend| (addend, pixels)),
            output: if self.conv.is_buffered() {
                (row.as_mut_ptr(), channels, channels)
            } else {
                (output, pixels, self.filters.len())
            },
            limits: self.conv.sum_limits(),
        };
        let mut x = 0;
        while x < count {
            let (first, size) = next_tile(x, &(0..count));
            let at = first * steps.pixel_stride;
            // SAFETY: the pixels are inside the row, the ring has its input, and ring and weights have whole
            // vectors. The pixels of the last tile may be computed twice, with the same result.
            x = unsafe {
                match size {
                    7 => tile.compute::<S, VECTORS, 7, true>(s, first, at),
                    4 => tile.compute::<S, VECTORS, 4, true>(s, first, at),
                    _ => tile.compute::<S, VECTORS, 1, true>(s, first, at),
                }
            };
        }
        if self.conv.is_buffered() {
            let epilogue = LateEpilogue {
                conv: self.conv,
                output: self.output,
            };
            for (x, sums) in row.chunks_exact_mut(channels).enumerate() {
                let sums = &mut sums[..self.filters.len()];
                // SAFETY: `run` checked that the output has this pixel and these channels; no other
                // task writes them.
                unsafe { epilogue.write(s, sums, start + x * pixels) };
            }
        }
    }
}

/// Copies `VECTORS` vectors.
#[inline(always)]
fn copy_vectors<S: Simd, T: VectorElement, const VECTORS: usize>(s: S, from: &[T], to: &mut [f32]) {
    for vector in 0..VECTORS {
        let at = vector * S::LANES;
        s.store(T::load_slice(s, &from[at..]), &mut to[at..]);
    }
}

/// Repeats each channel of groups of `SIZE` channels for the `SIZE` filters of its group.
#[inline(always)]
fn repeat_whole<S: Simd, T: VectorElement, const SIZE: usize>(s: S, from: &[T], to: &mut [f32]) {
    let channels = from.len();
    let mut wide = [0.0; 2 * MAX_LANES];
    let wide = &mut wide[..channels];
    T::widen(s, from, wide);
    let from = wide.as_chunks::<MAX_LANES>().0;
    for (index, to) in to.chunks_exact_mut(channels).enumerate().take(SIZE) {
        for (from, to) in from.iter().zip(to.as_chunks_mut::<MAX_LANES>().0) {
            // `index` is constant once the loop is unrolled, and this one permutation.
            *to = std::array::from_fn(|lane| from[lane / SIZE * SIZE + index]);
        }
    }
}
