//! A task of a direct convolution: its ring buffer, and the rows of its output.

use super::tile::{PixelTile, Steps};
use super::{GroupedConv, MAX_LANES, Output, RingShape};
use crate::simd::math::map_in_place;
use crate::simd::tile::prefetch;
use crate::simd::{Simd, VectorOp};
use std::cell::Cell;
use std::ops::Range;
use tenon_base::stop;

/// Elements of a cache line.
const LINE: usize = 16;

/// A block of channels of some rows and columns of one plane of the output.
pub(super) struct ConvTask<'a> {
    pub(super) conv: &'a GroupedConv<'a>,
    pub(super) output: Output,
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
    /// For each kernel row inside the image the offset of its input, in the ring or in the tensor, and of
    /// its weights.
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
        let direct = self.direct_columns(2 * S::LANES);
        let before = self.columns.start..direct.start;
        let after = direct.end..self.columns.end;
        for (columns, is_direct) in [(before, false), (direct, true), (after, false)] {
            if columns.is_empty() {
                continue;
            }
            let part = ConvTask {
                columns,
                filters: self.filters.clone(),
                rows: self.rows.clone(),
                ..self
            };
            if part.filters.len() > S::LANES {
                part.compute::<S, 2>(s, &mut buffers, is_direct);
            } else {
                part.compute::<S, 1>(s, &mut buffers, is_direct);
            }
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

/// Most kernel positions of a depthwise convolution that reads the input itself: with few, the copy of
/// a row costs as much as it saves.
const DIRECT_POSITIONS: usize = 9;

/// Bytes between pixels at whose multiples the pixels of a row have the same cache sets.
const ALIASING: usize = 1024;

impl ConvTask<'_> {
    /// The columns whose windows are inside the image and are read there, without a copy in the ring:
    /// of a block of `channels` channels in a depthwise convolution with a small kernel. Empty for other
    /// convolutions.
    fn direct_columns(&self, channels: usize) -> Range<usize> {
        let GroupedConv {
            shape,
            origin,
            depth,
            group_filters,
            ..
        } = self.conv;
        let none = self.columns.start..self.columns.start;
        let aliases = (shape.channels * size_of::<f32>()).is_multiple_of(ALIASING);
        let is_small = shape.positions() <= DIRECT_POSITIONS;
        let is_whole = self.filters.len() == channels;
        if (*depth, *group_filters) != (1, 1) || aliases || !is_small || !is_whole {
            return none;
        }
        let (size, stride, origin) = (shape.size[2], shape.strides[2], i64::from(origin[2]));
        let reach = shape.kernel[2].saturating_sub(1) * shape.dilations[2];
        // The first column of which the window starts in the image, and the last of which it ends there.
        let first = usize::try_from(-origin).unwrap_or(0).div_ceil(stride);
        let Ok(last) = usize::try_from(size as i64 - 1 - reach as i64 - origin) else {
            return none;
        };
        let first = first.max(self.columns.start);
        let end = (last / stride + 1).min(self.columns.end);
        if first < end { first..end } else { none }
    }

    /// Computes the task's pixels. With `is_direct` the windows are those of [`Self::direct_columns`].
    #[inline(always)]
    fn compute<S: Simd, const VECTORS: usize>(&self, s: S, buffers: &mut Buffers, is_direct: bool) {
        let GroupedConv {
            shape,
            origin,
            depth,
            ..
        } = *self.conv;
        let channels = VECTORS * S::LANES;
        let ring_shape = RingShape::new(&shape, depth, self.columns.len(), channels);
        let [kernel_planes, kernel_rows, kernel_columns] = shape.kernel;
        let ring_len = if is_direct {
            0
        } else {
            ring_shape.len(kernel_planes)
        };
        let ring = resized(&mut buffers.ring, ring_len);
        buffers.tags.clear();
        buffers.tags.resize(ring_shape.rows * kernel_planes, 0);
        let steps = shape.positions() * depth;
        let weights = resized(&mut buffers.weights, (steps + 1) * channels);
        self.gather_weights(weights, channels);
        let row_len = self.columns.len() * channels;
        let row = resized(&mut buffers.row, row_len);
        let (pixel, run) = (ring_shape.pixel, kernel_columns * depth);
        let steps = if is_direct {
            Steps {
                runs: kernel_columns,
                run_stride: shape.dilations[2] * shape.channels,
                len: 1,
                pixel_stride: shape.strides[2] * shape.channels,
            }
        } else if shape.dilations[2] == 1 {
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
        // The first input column of a direct window is inside the image.
        let first_element = if is_direct {
            let column = (self.columns.start * shape.strides[2]) as i64 + i64::from(origin[2]);
            column as usize * shape.channels + self.filters.start
        } else {
            0
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
                    let line = (self.image * shape.size[0] + from_plane) * shape.size[1];
                    let weights = (kz * kernel_rows + ky) * run * channels;
                    if is_direct {
                        let row = (line + from_row) * shape.size[2] * shape.channels;
                        buffers.lines.push([row + first_element, weights]);
                        continue;
                    }
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
            let from = if is_direct { self.conv.input } else { &*ring };
            self.row::<S, VECTORS>(s, y, (from, weights), &steps, &buffers.lines, row);
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
                        prefetch(next.wrapping_add(line * LINE));
                    }
                    if from.len() == channels {
                        copy_vectors::<S, VECTORS>(s, from, to);
                    } else {
                        to[..from.len()].copy_from_slice(from);
                    }
                }
            }
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
            // SAFETY: the pixels are inside the row. The ring holds its input, or the windows of all its
            // pixels are inside the image (`direct_columns`). Those of the last tile may be computed
            // twice, with the same result.
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

/// Copies `VECTORS` vectors.
#[inline(always)]
fn copy_vectors<S: Simd, const VECTORS: usize>(s: S, from: &[f32], to: &mut [f32]) {
    for vector in 0..VECTORS {
        let at = vector * S::LANES;
        s.store(s.load(&from[at..]), &mut to[at..]);
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
