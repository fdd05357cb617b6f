//! Weighted sums of elements at positions of a table.

use crate::simd::{Level, Simd, VectorOp};
use half::{bf16, f16};
use tenon_tensor::Element;

/// The position of an element that is missing: it counts as 0, also where its weight times an element
/// would be NaN.
pub(super) const MISSING: u32 = u32::MAX;

/// For each element of an output, `samples` positions and their weights.
#[derive(Clone, Copy)]
pub(super) struct SampleTable<'a> {
    pub(super) count: usize,
    pub(super) positions: &'a [u32],
    pub(super) weights: &'a [f32],
}

/// An element that is computed with in f32.
pub(super) trait Widen: Element + Default {
    fn widen(self) -> f32;
}

impl Widen for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
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

/// Writes the weighted sums of elements of `from`.
pub(super) fn gathered_sums<T: Widen>(
    level: Level,
    samples: SampleTable<'_>,
    from: &[T],
    to: &mut [f32],
) {
    match samples.count {
        1 => level.run(GatheredSum::<T, 1> { samples, from, to }),
        2 => level.run(GatheredSum::<T, 2> { samples, from, to }),
        4 => level.run(GatheredSum::<T, 4> { samples, from, to }),
        8 => level.run(GatheredSum::<T, 8> { samples, from, to }),
        _ => level.run(GatheredSum::<T, 0> { samples, from, to }),
    }
}

/// Sums of `N` elements; of any number when 0.
struct GatheredSum<'a, T, const N: usize> {
    samples: SampleTable<'a>,
    from: &'a [T],
    to: &'a mut [f32],
}

impl<T: Widen, const N: usize> VectorOp for GatheredSum<'_, T, N> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let Self { samples, from, to } = self;
        let term = |(&at, &weight): (&u32, &f32)| {
            from.get(at as usize).copied().unwrap_or_default().widen() * weight
        };
        if N == 0 {
            let positions = samples.positions.chunks_exact(samples.count);
            let weights = samples.weights.chunks_exact(samples.count);
            for (to, (positions, weights)) in to.iter_mut().zip(positions.zip(weights)) {
                *to = positions.iter().zip(weights).map(term).sum();
            }
            return;
        }
        let positions = samples.positions.as_chunks::<N>().0.iter();
        let weights = samples.weights.as_chunks::<N>().0.iter();
        for (to, (positions, weights)) in to.iter_mut().zip(positions.zip(weights)) {
            *to = positions.iter().zip(weights).map(term).sum();
        }
    }
}
