//! Weighted sums of elements at positions of a table.

use crate::simd::{Level, Simd, VectorOp};
use half::{bf16, f16};
use tenon_tensor::Element;

/// The position of an element that is missing: it counts as 0, also where its weight times an element
/// would be NaN.
pub(super) const MISSING: u32 = u32::MAX;

/// Most elements that positions refer to.
pub(super) const MOST_ELEMENTS: usize = i32::MAX as usize;

/// For each element of an output, the positions of `count` samples and their weights, as
/// `[sample][element]`: rows of `stride` elements.
#[derive(Clone, Copy)]
pub(super) struct SampleTable<'a> {
    pub(super) count: usize,
    pub(super) stride: usize,
    pub(super) positions: &'a [u32],
    pub(super) weights: &'a [f32],
}

/// An element that is computed with in f32.
pub(super) trait Widen: Element + Default {
    fn widen(self) -> f32;

    /// The elements of `from` at positions, 0 where there is none.
    #[inline(always)]
    fn gather<S: Simd>(s: S, from: &[Self], positions: &[u32]) -> S::V {
        let mut lanes = [0.0; MOST_LANES];
        for (lane, &at) in lanes.iter_mut().zip(&positions[..S::LANES]) {
            *lane = from.get(at as usize).copied().unwrap_or_default().widen();
        }
        s.load(&lanes)
    }
}

/// Most elements of a vector, at any level.
const MOST_LANES: usize = 16;

impl Widen for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn gather<S: Simd>(s: S, from: &[Self], positions: &[u32]) -> S::V {
        s.gather(from, positions)
    }
}

impl Widen for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }
}

impl Widen for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }
}

/// Writes the weighted sums of elements of `from`, at most [`MOST_ELEMENTS`].
pub(super) fn gathered_sums<T: Widen>(
    level: Level,
    samples: SampleTable<'_>,
    from: &[T],
    to: &mut [f32],
) {
    level.run(GatheredSum { samples, from, to });
}

/// The sums of gathered elements.
struct GatheredSum<'a, T> {
    samples: SampleTable<'a>,
    from: &'a [T],
    to: &'a mut [f32],
}

impl<T: Widen> VectorOp for GatheredSum<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Self { samples, from, to } = self;
        let SampleTable {
            count,
            stride,
            positions,
            weights,
        } = samples;
        for (vector, to) in to.chunks_mut(S::LANES).enumerate() {
            let (first, len) = (vector * S::LANES, to.len());
            let mut sum = s.splat(0.0);
            for nth in 0..count {
                let at = nth * stride + first;
                let (positions, weights) = (&positions[at..at + len], &weights[at..at + len]);
                let mut part = [MISSING; MOST_LANES];
                let positions = if len < S::LANES {
                    part[..len].copy_from_slice(positions);
                    &part
                } else {
                    positions
                };
                let (elements, weights) = (T::gather(s, from, positions), s.load_part(weights));
                // A product alone keeps the sign of zero.
                sum = if nth == 0 {
                    s.mul(elements, weights)
                } else {
                    s.fma(elements, weights, sum)
                };
            }
            s.store_part(sum, to);
        }
    }
}
