//! The depthwise convolution: each channel for itself, a vector of channels at a time, several pixels
//! of a row at once.

use super::math::{Curve, curve_in_place};
use super::rows::Geometry;
use super::{Simd, VectorOp};
use tenon_base::stop;

/// Kernel columns from which a kernel row is long enough to be a place to stop.
pub(crate) const LONG_ROW: usize = 256;
/// Rows of the output between two places to stop.
pub(crate) const STOP_ROWS: usize = 32;

/// Some rows of the output.
pub(crate) struct Depthwise<'a> {
    /// The whole input, of the shape's size.
    pub(crate) input: &'a [f32],
    pub(crate) shape: Geometry,
    /// `[taps][channels]`
    pub(crate) weights: &'a [f32],
    /// A number for each channel.
    pub(crate) bias: Option<&'a [f32]>,
    /// Numbers that lie as these rows of the output do.
    pub(crate) addend: Option<&'a [f32]>,
    pub(crate) limits: [f32; 2],
    pub(crate) curve: Option<Curve>,
    /// The first row, counted through all images.
    pub(crate) first_row: usize,
    /// The rows, whole.
    pub(crate) output: &'a mut [f32],
}

/// Channels from `at` on, at most two vectors of them.
#[derive(Clone, Copy)]
struct Block {
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
        // Channels outermost: all rows of few channels stay in the first level cache.
        let mut at = 0;
        while at < channels {
            let block = Block {
                at,
                count: (channels - at).min(2 * S::LANES),
            };
            for row in 0..rows {
                if row.is_multiple_of(STOP_ROWS) {
                    stop::checkpoint();
                }
                let start = row * line + at;
                let to = output.wrapping_add(start);
                let addend = self
                    .addend
                    .map(|addend| addend.as_ptr().wrapping_add(start));
                // SAFETY: sizes checked above; rows and channels are inside them.
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
        if let Some(curve) = self.curve {
            curve_in_place(s, curve, self.output);
        }
    }
}

impl Depthwise<'_> {
    /// One row of one block of channels.
    ///
    /// # Safety
    /// The sizes are as `eval` checks them, `row` and `block` inside; `WHOLE` only for blocks of
    /// whole vectors.
    #[inline(always)]
    unsafe fn row<S: Simd, const VECTORS: usize, const WHOLE: bool>(
        &self,
        s: S,
        row: usize,
        block: Block,
        output: *mut f32,
        addend: Option<*const f32>,
    ) {
        let shape = &self.shape;
        let y = (self.first_row + row) % shape.out_height * shape.strides[0];
        let image = (self.first_row + row) / shape.out_height;
        let vertical = taps_inside(
            y,
            shape.before[0],
            shape.dilations[0],
            shape.kernel[0],
            shape.height,
        );
        let base = image * shape.height * shape.width * shape.channels + block.at;
        // Output pixels all of whose kernel columns lie inside the image.
        let reach = (shape.kernel[1] - 1) * shape.dilations[1] + 1;
        let start = shape.before[1]
            .div_ceil(shape.strides[1])
            .min(shape.out_width);
        let end = match (shape.width + shape.before[1]).checked_sub(reach) {
            Some(last) => (last / shape.strides[1] + 1).clamp(start, shape.out_width),
            None => start,
        };
        let row = Row {
            y,
            vertical,
            base,
            block,
        };
        let mut x = 0;
        while x < shape.out_width {
            let columns = taps_inside(
                x * shape.strides[1],
                shape.before[1],
                shape.dilations[1],
                shape.kernel[1],
                shape.width,
            );
            let left = if x >= start { end.saturating_sub(x) } else { 0 };
            // SAFETY: `x` and the pixels after it are inside the row; up to `end` no column of a
            // kernel is outside the image.
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

    /// `COUNT` pixels of a row from `x` on; answers how many.
    ///
    /// # Safety
    /// As for `row`; for all pixels all kernel columns of `horizontal` are inside the image.
    #[inline(always)]
    unsafe fn pixels<S: Simd, const VECTORS: usize, const WHOLE: bool, const COUNT: usize>(
        &self,
        s: S,
        row: &Row,
        x: usize,
        horizontal: std::ops::Range<usize>,
        output: *mut f32,
        addend: Option<*const f32>,
    ) -> usize {
        let shape = &self.shape;
        let channels = shape.channels;
        let count = |v: usize| row.block.count.saturating_sub(v * S::LANES).min(S::LANES);
        // SAFETY: the block's channels of a pixel, for which the caller vouches.
        let load = |from: *const f32, v: usize| unsafe {
            let from = from.wrapping_add(v * S::LANES);
            if WHOLE {
                s.load_ptr(from)
            } else {
                s.load_part_ptr(from, count(v))
            }
        };
        // SAFETY: as above.
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
            if horizontal.len() >= LONG_ROW {
                stop::checkpoint();
            }
            for kx in horizontal.clone() {
                let column = x * shape.strides[1] + kx * shape.dilations[1] - shape.before[1];
                let at = row.base + (y * shape.width + column) * channels;
                let from = self.input.as_ptr().wrapping_add(at);
                let tap = (ky * shape.kernel[1] + kx) * channels + row.block.at;
                let tap = self.weights.as_ptr().wrapping_add(tap);
                let mut weights = [s.splat(0.0); VECTORS];
                for (v, weight) in weights.iter_mut().enumerate() {
                    *weight = load(tap, v);
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

/// A row of the output being computed, for one block of channels.
struct Row {
    /// The input row of the kernel's first row, padding counted.
    y: usize,
    /// Kernel rows inside the image.
    vertical: std::ops::Range<usize>,
    /// The image's first number of the block.
    base: usize,
    block: Block,
}

/// Which elements of a kernel that starts at `start`, counted from the padding's begin, lie inside
/// `size`.
pub(crate) fn taps_inside(
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
    fn taps_inside_are_those_inside() {
        for (start, before, dilation, kernel, size) in (0..6usize).flat_map(|a| {
            (0..4).flat_map(move |b| (1..4).map(move |c| (a, b, c, 1 + a % 4, 1 + b)))
        }) {
            let inside: Vec<usize> = (0..kernel)
                .filter(|tap| {
                    (start + tap * dilation)
                        .checked_sub(before)
                        .is_some_and(|at| at < size)
                })
                .collect();
            let found: Vec<usize> = taps_inside(start, before, dilation, kernel, size).collect();
            assert_eq!(found, inside, "{start} {before} {dilation} {kernel} {size}");
        }
    }
}
