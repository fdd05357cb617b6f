//! A task of a depthwise convolution that reads the input itself, without copies: pixels of a row at a
//! time, all channels of them one block after the other.

use super::tile::{PixelTile, Steps, next_tile};
use super::{GroupedConv, LateEpilogue, Output, input_coordinate, positions_inside};
use crate::simd::elements::VectorElement;
use crate::simd::math::map_in_place;
use crate::simd::{Simd, VectorOp};
use std::cell::Cell;
use std::ops::Range;
use tenon_base::stop;

/// Most pixels of a tile.
const MOST_PIXELS: usize = 7;

/// Some rows and columns of one plane of the output, in a part of the channels.
pub(super) struct DepthwiseTask<'a, T> {
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
    /// The lines of a row.
    lines: Vec<[usize; 2]>,
    /// The sums of some pixels, of an output that is not of f32.
    sums: Vec<f32>,
}

thread_local! {
    static BUFFERS: Cell<Buffers> = Cell::default();
}

impl<T: VectorElement> VectorOp for DepthwiseTask<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let GroupedConv { shape, origin, .. } = *self.conv;
        let [planes, height, width] = shape.size;
        let [kernel_planes, kernel_rows, kernel_columns] = shape.kernel;
        let Buffers {
            mut lines,
            mut sums,
        } = BUFFERS.take();
        if !T::IS_F32 {
            sums.resize(sums.len().max(MOST_PIXELS * self.filters.len()), 0.0);
        }
        for y in self.rows.clone() {
            lines.clear();
            for kz in 0..kernel_planes {
                let Some(z) = input_coordinate(&shape, origin, 0, self.plane, kz) else {
                    continue;
                };
                for ky in 0..kernel_rows {
                    let Some(row) = input_coordinate(&shape, origin, 1, y, ky) else {
                        continue;
                    };
                    let line = (self.image * planes + z) * height + row;
                    let position = (kz * kernel_rows + ky) * kernel_columns;
                    lines.push([line * width * shape.channels, position * self.conv.filters]);
                }
            }
            self.row(s, y, &lines, &mut sums);
        }
        BUFFERS.set(Buffers { lines, sums });
    }
}

impl<T: VectorElement> DepthwiseTask<'_, T> {
    /// Computes a row of the output from the given lines of the input.
    #[inline(always)]
    fn row<S: Simd>(&self, s: S, y: usize, lines: &[[usize; 2]], sums: &mut [f32]) {
        let GroupedConv { shape, strides, .. } = *self.conv;
        let start = self.image * strides[0] + self.plane * strides[1] + y * strides[2];
        let inside = self.conv.columns_inside();
        let inside = inside.start.max(self.columns.start)..inside.end.min(self.columns.end);
        let mut x = self.columns.start;
        while x < self.columns.end {
            stop::checkpoint();
            let ((first, size), positions) = if inside.contains(&x) {
                (next_tile(x, &inside), 0..shape.kernel[2])
            } else {
                ((x, 1), self.conv.positions_of_column(x))
            };
            let tile = PixelsOfRow {
                task: self,
                lines,
                first,
                positions,
                start: start + first * strides[3],
            };
            match size {
                7 => tile.compute::<S, 7>(s, sums),
                4 => tile.compute::<S, 4>(s, sums),
                _ => tile.compute::<S, 1>(s, sums),
            }
            x = first + size;
        }
    }
}

/// Some pixels of a row, whose windows have the same kernel columns inside the image.
struct PixelsOfRow<'a, T> {
    task: &'a DepthwiseTask<'a, T>,
    /// For each kernel row inside the image the offset of its input row and of its weights.
    lines: &'a [[usize; 2]],
    /// The first pixel.
    first: usize,
    /// Kernel columns inside the image.
    positions: Range<usize>,
    /// The offset of the first pixel in the output.
    start: usize,
}

impl<T: VectorElement> PixelsOfRow<'_, T> {
    /// Computes `COUNT` pixels; `sums` is a buffer for those of an output that is not of f32.
    #[inline(always)]
    fn compute<S: Simd, const COUNT: usize>(&self, s: S, sums: &mut [f32]) {
        let DepthwiseTask {
            conv,
            output,
            ref filters,
            ..
        } = *self.task;
        let (block, pixel) = (2 * S::LANES, conv.strides[3]);
        let first = self.start + filters.start;
        let to = if T::IS_F32 {
            (output.0.cast::<f32>().wrapping_add(first), pixel)
        } else {
            (sums.as_mut_ptr(), filters.len())
        };
        if filters.len() < block {
            for start in filters.clone().step_by(S::LANES) {
                let channels = start..filters.end.min(start + S::LANES);
                self.block::<S, 1, COUNT, false>(s, channels, to);
            }
        } else {
            for start in filters.clone().step_by(block) {
                // The last block may overlap the one before it, with the same results.
                let start = start.min(filters.end - block);
                self.block::<S, 2, COUNT, true>(s, start..start + block, to);
            }
        }
        if !T::IS_F32 {
            let epilogue = LateEpilogue { conv, output };
            for (nth, sums) in sums.chunks_exact_mut(filters.len()).take(COUNT).enumerate() {
                // SAFETY: `GroupedConv::run` checked that the output has these pixels and channels; no
                // other task writes them.
                unsafe { epilogue.write(s, sums, first + nth * pixel) };
            }
        } else if let Some(function) = conv.function {
            // Pixels without elements between them are mapped together.
            let (runs, len) = if filters.len() == pixel {
                (1, COUNT * pixel)
            } else {
                (COUNT, filters.len())
            };
            for run in 0..runs {
                let at = to.0.wrapping_add(run * pixel);
                // SAFETY: `GroupedConv::run` checked that the output has these pixels and channels; no
                // other task writes them.
                let elements = unsafe { std::slice::from_raw_parts_mut(at, len) };
                map_in_place(s, function, elements);
            }
        }
    }

    /// Computes `COUNT` pixels of a block of channels, and writes them to memory that starts at the first channel of the
    /// task in the first pixel, with a distance of pixels.
    #[inline(always)]
    fn block<S: Simd, const VECTORS: usize, const COUNT: usize, const WHOLE: bool>(
        &self,
        s: S,
        channels: Range<usize>,
        (to, stride): (*mut f32, usize),
    ) {
        let DepthwiseTask {
            conv, ref filters, ..
        } = *self.task;
        let shape = &conv.shape;
        let column = self.first * shape.strides[2] + self.positions.start * shape.dilations[2];
        let column = column as i64 + i64::from(conv.origin[2]);
        // Not used where no position is inside the image.
        let first = usize::try_from(column).unwrap_or(0) * shape.channels;
        let weights = self.positions.start * conv.filters + channels.start;
        let at = self.start + channels.start;
        let tile = PixelTile {
            input: &conv.input[channels.start..],
            // None where no position is inside the image.
            weights: conv.weights.get(weights..).unwrap_or_default(),
            weight_stride: conv.filters,
            bias: conv.bias.map(|bias| &bias[channels.start..]),
            steps: &Steps {
                runs: 1,
                run_stride: 0,
                len: self.positions.len(),
                step_stride: shape.dilations[2] * shape.channels,
                pixel_stride: shape.strides[2] * shape.channels,
            },
            lines: self.lines,
            channels: channels.len(),
            addend: conv.addend.filter(|_| T::IS_F32).map(|addend| {
                let addend = addend.as_ptr().cast::<f32>();
                (addend.wrapping_add(at), conv.strides[3])
            }),
            output: (
                to.wrapping_add(channels.start - filters.start),
                stride,
                channels.len(),
            ),
            limits: conv.sum_limits(),
        };
        // SAFETY: `positions` are inside the image for each of the pixels, `lines` are rows of the input,
        // and the channels are among its channels, of which there are as many as filters; with `WHOLE`
        // there are `VECTORS` vectors of them. `GroupedConv::run` checked the lengths of all operands,
        // and that the output and the addend have the pixels; the buffer of sums is as long.
        unsafe {
            tile.compute::<S, VECTORS, COUNT, WHOLE>(s, 0, first);
        }
    }
}

impl<T: VectorElement> GroupedConv<'_, T> {
    /// The columns of the output whose windows are inside the image.
    pub(super) fn columns_inside(&self) -> Range<usize> {
        let shape = &self.shape;
        let (stride, origin) = (shape.strides[2], i64::from(self.origin[2]));
        let reach = shape.kernel[2].saturating_sub(1) * shape.dilations[2];
        let first = usize::try_from(-origin).unwrap_or(0).div_ceil(stride);
        // The last column of the image that a window may start at.
        let last = shape.size[2] as i64 - 1 - reach as i64 - origin;
        let end = usize::try_from(last).map_or(0, |last| last / stride + 1);
        let end = end.min(shape.output[2]);
        first.min(end)..end
    }

    /// The kernel columns that are inside the image for a column of the output.
    fn positions_of_column(&self, x: usize) -> Range<usize> {
        let shape = &self.shape;
        let origin = i64::from(self.origin[2]);
        let start = x * shape.strides[2] + usize::try_from(origin).unwrap_or(0);
        let before = usize::try_from(-origin).unwrap_or(0);
        let dilation = shape.dilations[2];
        positions_inside(start, before, dilation, shape.kernel[2], shape.size[2])
    }
}
