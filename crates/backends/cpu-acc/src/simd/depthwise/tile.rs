//! Tiles of pixels of a direct convolution, whose sums are in registers.

use crate::simd::Simd;
use crate::simd::elements::VectorElement;
use std::ops::Range;
use tenon_base::stop;

/// Kernel columns from which on each kernel row has a checkpoint for cancellation.
const CHECKPOINT_POSITIONS: usize = 256;

/// The sums of a tile's pixels, and what they are made of.
pub(super) struct Steps {
    /// Runs of contiguous steps in each kernel row, and the elements from one to the next.
    pub(super) runs: usize,
    pub(super) run_stride: usize,
    /// Steps of a run, and the elements from one to the next.
    pub(super) len: usize,
    pub(super) step_stride: usize,
    /// Elements from the input of a pixel to that of the next.
    pub(super) pixel_stride: usize,
}

/// The tiles of pixels of a row, in a block of channels.
pub(super) struct PixelTile<'a, T> {
    /// The ring, or the input from the block's first channel on.
    pub(super) input: &'a [T],
    /// The weights of the block.
    pub(super) weights: &'a [f32],
    /// Elements from the weights of a step to those of the next.
    pub(super) weight_stride: usize,
    /// The bias of the block; zero without one.
    pub(super) bias: Option<&'a [f32]>,
    pub(super) steps: &'a Steps,
    /// For each kernel row inside the image the offset of its input and of its weights.
    pub(super) lines: &'a [[usize; 2]],
    /// Channels of the block.
    pub(super) channels: usize,
    /// The first pixel of the row in the addend, and the elements to the next.
    pub(super) addend: Option<(*const f32, usize)>,
    /// The first pixel of the row in the output, the elements to the next, and the channels that are
    /// written.
    pub(super) output: (*mut f32, usize, usize),
    pub(super) limits: [f32; 2],
}

impl<T: VectorElement> PixelTile<'_, T> {
    /// Computes `COUNT` pixels from `x` on, whose input is `first` elements after the offsets of the lines,
    /// and returns the pixel after them. Without `WHOLE` no more elements of input, weights and bias are
    /// read than the block has channels, else those of all vectors.
    ///
    /// # Safety
    /// The pixels are inside the row: `lines` are offsets of rows in the input with the windows of all
    /// its pixels, and of their weights, with the elements that `WHOLE` requires; `output` and `addend`
    /// contain the pixels.
    #[inline(always)]
    pub(super) unsafe fn compute<
        S: Simd,
        const VECTORS: usize,
        const COUNT: usize,
        const WHOLE: bool,
    >(
        &self,
        s: S,
        x: usize,
        first: usize,
    ) -> usize {
        let Steps {
            runs,
            run_stride,
            len,
            step_stride,
            pixel_stride,
        } = *self.steps;
        let lanes = |count: usize, v: usize| count.saturating_sub(v * S::LANES).min(S::LANES);
        let mut sums = [[s.splat(0.0); VECTORS]; COUNT];
        if let Some(bias) = self.bias {
            for sums in &mut sums {
                for (v, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the bias has the block's channels, with `WHOLE` all lanes.
                    *sum = unsafe { self.load::<S, f32, WHOLE>(s, bias.as_ptr(), v) };
                }
            }
        }
        for &[from, weight] in self.lines {
            if len >= CHECKPOINT_POSITIONS {
                stop::checkpoint();
            }
            let mut start = self.input.as_ptr().wrapping_add(from + first);
            let mut weight = self.weights.as_ptr().wrapping_add(weight);
            for _ in 0..runs {
                let mut from = start;
                for _ in 0..len {
                    let mut columns = [s.splat(0.0); VECTORS];
                    for (v, column) in columns.iter_mut().enumerate() {
                        // SAFETY: `lines` has the offset of the weights of `runs * len` steps of the
                        // block's channels, with `WHOLE` all lanes.
                        *column = unsafe { self.load::<S, f32, WHOLE>(s, weight, v) };
                    }
                    for (pixel, sums) in sums.iter_mut().enumerate() {
                        let from = from.wrapping_add(pixel * pixel_stride);
                        for (v, sum) in sums.iter_mut().enumerate() {
                            // SAFETY: the row has the windows of all pixels, with the block's channels
                            // for each step, with `WHOLE` all lanes.
                            let element = unsafe { self.load::<S, T, WHOLE>(s, from, v) };
                            *sum = s.fma(element, columns[v], *sum);
                        }
                    }
                    from = from.wrapping_add(step_stride);
                    weight = weight.wrapping_add(self.weight_stride);
                }
                start = start.wrapping_add(run_stride);
            }
        }
        let (low, high) = (s.splat(self.limits[0]), s.splat(self.limits[1]));
        let (output, stride, written) = self.output;
        for (pixel, sums) in sums.into_iter().enumerate() {
            let to = output.wrapping_add((x + pixel) * stride);
            for (v, mut sum) in sums.into_iter().enumerate() {
                if let Some((addend, stride)) = self.addend {
                    let from = addend.wrapping_add((x + pixel) * stride + v * S::LANES);
                    // SAFETY: the addend has the pixel, with the block's channels.
                    sum = s.add(sum, unsafe {
                        s.load_part_ptr(from, lanes(self.channels, v))
                    });
                }
                let sum = s.min(high, s.max(low, sum));
                let to = to.wrapping_add(v * S::LANES);
                let count = lanes(written, v);
                // SAFETY: the output has `written` channels of the pixel.
                unsafe {
                    if count == S::LANES {
                        s.store_ptr(sum, to);
                    } else {
                        s.store_part_ptr(sum, to, count);
                    }
                }
            }
        }
        x + COUNT
    }

    /// Vector `v` of the block's channels.
    ///
    /// # Safety
    /// `from` is valid for reading the block's channels, with `WHOLE` all lanes of vector `v`.
    #[inline(always)]
    unsafe fn load<S: Simd, E: VectorElement, const WHOLE: bool>(
        &self,
        s: S,
        from: *const E,
        v: usize,
    ) -> S::V {
        let from = from.wrapping_add(v * S::LANES);
        // SAFETY: the caller guarantees these elements.
        unsafe {
            if WHOLE {
                E::load(s, from)
            } else {
                let count = self.channels.saturating_sub(v * S::LANES).min(S::LANES);
                E::load_part(s, from, count)
            }
        }
    }
}

/// The first pixel and the size of the tile that computes pixel `x` of `columns`, in which it may overlap the tile
/// before.
#[inline(always)]
pub(super) fn next_tile(x: usize, columns: &Range<usize>) -> (usize, usize) {
    let left = columns.end - x;
    if left >= 5 && columns.len() >= 7 {
        (x.min(columns.end - 7), 7)
    } else if left >= 2 && columns.len() >= 4 {
        (x.min(columns.end - 4), 4)
    } else {
        (x, 1)
    }
}
