//! Tiles of pixels of a direct convolution, whose sums are in registers.

use super::task::ConvTask;
use crate::simd::Simd;
use tenon_base::stop;

/// Kernel columns from which on each kernel row has a checkpoint for cancellation.
const CHECKPOINT_POSITIONS: usize = 256;

/// The sums of a tile's pixels, and what they are made of.
pub(super) struct Steps {
    /// Runs of contiguous steps in each kernel row, and the elements from one to the next.
    pub(super) runs: usize,
    pub(super) run_stride: usize,
    /// Steps of a run.
    pub(super) len: usize,
    /// Elements from the input of a pixel to that of the next.
    pub(super) pixel_stride: usize,
}

/// The tiles of pixels of a row.
pub(super) struct PixelTile<'a> {
    pub(super) task: &'a ConvTask<'a>,
    /// The ring or the input, and the weights with the bias.
    pub(super) operands: (&'a [f32], &'a [f32]),
    pub(super) steps: &'a Steps,
    pub(super) lines: &'a [[usize; 2]],
    pub(super) addend: Option<*const f32>,
    /// The first pixel, the elements to the next, and the channels that are written.
    pub(super) output: (*mut f32, usize, usize),
}

impl PixelTile<'_> {
    /// Computes `COUNT` pixels from `x` on, and returns the pixel after them.
    ///
    /// # Safety
    /// The pixels are inside the row: `lines` are offsets of rows in the operand with the windows of all
    /// its pixels, and of their weights; `output` and `addend` contain the pixels.
    #[inline(always)]
    pub(super) unsafe fn compute<S: Simd, const VECTORS: usize, const COUNT: usize>(
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
                            // SAFETY: the row has the windows of all pixels, with `channels` elements
                            // for each step.
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
