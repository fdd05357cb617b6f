//! Direct depthwise convolution (channels last): vectors of channels, with several pixels of a row in
//! registers.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::math::{UnaryFunction, map_in_place};
use super::rows::Geometry;
use super::{Simd, VectorOp};
use tenon_base::stop;

/// Kernel columns from which on each kernel row has a checkpoint for cancellation.
pub(crate) const CHECKPOINT_POSITIONS: usize = 256;
/// Rows of the output between two checkpoints for cancellation.
pub(crate) const CHECKPOINT_ROWS: usize = 32;

/// The convolution of some rows of the output.
pub(crate) struct Depthwise<'a> {
    /// The whole input, of the shape's size.
    pub(crate) input: &'a [f32],
    pub(crate) shape: Geometry,
    /// `[kernel position][channel]`.
    pub(crate) weights: &'a [f32],
    /// One element per channel.
    pub(crate) bias: Option<&'a [f32]>,
    /// Elements of the layout of these rows of the output.
    pub(crate) addend: Option<&'a [f32]>,
    pub(crate) limits: [f32; 2],
    pub(crate) function: Option<UnaryFunction>,
    /// The index of the first row, over all images.
    pub(crate) first_row: usize,
    /// Whole rows.
    pub(crate) output: &'a mut [f32],
}

/// At most two vectors of channels, from `at` on.
#[derive(Clone, Copy)]
struct ChannelBlock {
    at: usize,
    count: usize,
}

impl VectorOp for Depthwise<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let shape = &self.shape;
        let channels = shape.channels;
        let line = shape.out_width * channels;
        let rows = self.output.len() / line.max(1);
        assert!(rows * line == self.output.len());
        assert!(self.input.len() >= shape.input_len());
        assert!(self.first_row + rows <= shape.images * shape.out_height);
        assert!(self.weights.len() >= shape.kernel[0] * shape.kernel[1] * channels);
        assert!(self.bias.is_none_or(|bias| bias.len() >= channels));
        assert!(
            self.addend
                .is_none_or(|addend| addend.len() >= self.output.len())
        );
        let output = self.output.as_mut_ptr();
        // Channels are the outer loop: the rows of one block stay in the first level cache.
        let mut at = 0;
        while at < channels {
            let block = ChannelBlock {
                at,
                count: (channels - at).min(2 * S::LANES),
            };
            for row in 0..rows {
                if row.is_multiple_of(CHECKPOINT_ROWS) {
                    stop::checkpoint();
                }
                let start = row * line + at;
                let to = output.wrapping_add(start);
                let addend = self
                    .addend
                    .map(|addend| addend.as_ptr().wrapping_add(start));
                // SAFETY: the assertions above are the sizes that `row` requires; `row` and the block
                // are inside them, and the vectors are whole where `WHOLE` is set.
                unsafe {
                    if block.count == 2 * S::LANES {
                        self.row::<S, 2, true>(s, row, block, to, addend);
                    } else if block.count > S::LANES {
                        self.row::<S, 2, false>(s, row, block, to, addend);
                    } else if block.count == S::LANES {
                        self.row::<S, 1, true>(s, row, block, to, addend);
                    } else {
                        self.row::<S, 1, false>(s, row, block, to, addend);
                    }
                }
            }
            at += block.count;
        }
        if let Some(function) = self.function {
            map_in_place(s, function, self.output);
        }
    }
}

impl Depthwise<'_> {
    /// One row of one block of channels.
    ///
    /// # Safety
    /// The sizes are as `eval` asserts; `row` and `block` are inside them; `output` and `addend` point
    /// at the block in the first pixel of the row; `WHOLE` only for blocks of whole vectors.
    #[inline(always)]
    unsafe fn row<S: Simd, const VECTORS: usize, const WHOLE: bool>(
        &self,
        s: S,
        row: usize,
        block: ChannelBlock,
        output: *mut f32,
        addend: Option<*const f32>,
    ) {
        let shape = &self.shape;
        let y = (self.first_row + row) % shape.out_height * shape.strides[0];
        let image = (self.first_row + row) / shape.out_height;
        let vertical = positions_inside(
            y,
            shape.before[0],
            shape.dilations[0],
            shape.kernel[0],
            shape.height,
        );
        let base = image * shape.height * shape.width * shape.channels + block.at;
        // The output pixels whose kernel columns are all inside the image.
        let reach = (shape.kernel[1] - 1) * shape.dilations[1] + 1;
        let start = shape.before[1]
            .div_ceil(shape.strides[1])
            .min(shape.out_width);
        let end = match (shape.width + shape.before[1]).checked_sub(reach) {
            Some(last) => (last / shape.strides[1] + 1).clamp(start, shape.out_width),
            None => start,
        };
        let row = InputRow {
            y,
            vertical,
            base,
            block,
        };
        let mut x = 0;
        while x < shape.out_width {
            let columns = positions_inside(
                x * shape.strides[1],
                shape.before[1],
                shape.dilations[1],
                shape.kernel[1],
                shape.width,
            );
            let left = if x >= start { end.saturating_sub(x) } else { 0 };
            // SAFETY: the pixels from `x` on are inside the row: more than one only below `end`,
            // where all kernel columns are inside the image. For one pixel `columns` is the range of
            // those that are.
            x += unsafe {
                if left >= 6 {
                    self.pixels::<S, VECTORS, WHOLE, 6>(s, &row, x, columns, output, addend)
                } else if left >= 3 {
                    self.pixels::<S, VECTORS, WHOLE, 3>(s, &row, x, columns, output, addend)
                } else {
                    self.pixels::<S, VECTORS, WHOLE, 1>(s, &row, x, columns, output, addend)
                }
            };
        }
    }

    /// Computes `COUNT` pixels of a row from `x` on, and returns `COUNT`.
    ///
    /// # Safety
    /// As for `row`; the pixels are inside the row, and for each of them all kernel columns of
    /// `horizontal` are inside the image.
    #[inline(always)]
    unsafe fn pixels<S: Simd, const VECTORS: usize, const WHOLE: bool, const COUNT: usize>(
        &self,
        s: S,
        row: &InputRow,
        x: usize,
        horizontal: std::ops::Range<usize>,
        output: *mut f32,
        addend: Option<*const f32>,
    ) -> usize {
        let shape = &self.shape;
        let channels = shape.channels;
        let count = |v: usize| row.block.count.saturating_sub(v * S::LANES).min(S::LANES);
        // SAFETY: `from` is at the block's channels of a pixel, of a kernel position's weights, of the
        // bias or of the addend, all of which `eval` checked; vector `v` has `count(v)` of them.
        let load = |from: *const f32, v: usize| unsafe {
            let from = from.wrapping_add(v * S::LANES);
            if WHOLE {
                s.load_ptr(from)
            } else {
                s.load_part_ptr(from, count(v))
            }
        };
        // SAFETY: `to` is at the block's channels of an output pixel inside the row; vector `v` has
        // `count(v)` of them.
        let store = |sum: S::V, to: *mut f32, v: usize| unsafe {
            let to = to.wrapping_add(v * S::LANES);
            if WHOLE {
                s.store_ptr(sum, to)
            } else {
                s.store_part_ptr(sum, to, count(v))
            }
        };
        let mut bias = [s.splat(0.0); VECTORS];
        if let Some(from) = self.bias {
            for (v, bias) in bias.iter_mut().enumerate() {
                *bias = load(from.as_ptr().wrapping_add(row.block.at), v);
            }
        }
        let mut sums = [bias; COUNT];
        let step = shape.strides[1] * channels;
        for ky in row.vertical.clone() {
            let y = row.y + ky * shape.dilations[0] - shape.before[0];
            if horizontal.len() >= CHECKPOINT_POSITIONS {
                stop::checkpoint();
            }
            for kx in horizontal.clone() {
                let column = x * shape.strides[1] + kx * shape.dilations[1] - shape.before[1];
                let at = row.base + (y * shape.width + column) * channels;
                let from = self.input.as_ptr().wrapping_add(at);
                let weight_at = (ky * shape.kernel[1] + kx) * channels + row.block.at;
                let weights_from = self.weights.as_ptr().wrapping_add(weight_at);
                let mut weights = [s.splat(0.0); VECTORS];
                for (v, weight) in weights.iter_mut().enumerate() {
                    *weight = load(weights_from, v);
                }
                for (pixel, sums) in sums.iter_mut().enumerate() {
                    let from = from.wrapping_add(pixel * step);
                    for (v, sum) in sums.iter_mut().enumerate() {
                        *sum = s.fma(load(from, v), weights[v], *sum);
                    }
                }
            }
        }
        let (low, high) = (s.splat(self.limits[0]), s.splat(self.limits[1]));
        for (pixel, sums) in sums.into_iter().enumerate() {
            let at = (x + pixel) * channels;
            for (v, mut sum) in sums.into_iter().enumerate() {
                if let Some(addend) = addend {
                    sum = s.add(sum, load(addend.wrapping_add(at), v));
                }
                store(s.min(high, s.max(low, sum)), output.wrapping_add(at), v);
            }
        }
        COUNT
    }
}

/// The input of a row of the output, for one block of channels.
struct InputRow {
    /// The row of the padded input at the kernel's first row.
    y: usize,
    /// Kernel rows inside the image.
    vertical: std::ops::Range<usize>,
    /// The index of the image's first element of the block.
    base: usize,
    block: ChannelBlock,
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
