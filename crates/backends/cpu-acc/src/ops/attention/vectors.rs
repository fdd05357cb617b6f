//! The vector loops of attention.

use super::VALUE_BLOCK;
use crate::floats::Floats;
use crate::ops::softmax::{largest, write_exp};
use crate::simd::math::{UnaryFunction, map_in_place};
use crate::simd::{Level, Simd, VectorOp};
use std::ops::Range;

/// How many keys ahead a key is prefetched where other heads are between two keys of a head: such steps are too large
/// for a hardware prefetch.
const KEYS_AHEAD: usize = 8;

/// `cap * tanh(scores / cap)`.
pub(super) struct Softcap<'a> {
    pub(super) scores: &'a mut [f32],
    pub(super) cap: f32,
}

impl VectorOp for Softcap<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        self.scores.iter_mut().for_each(|score| *score /= self.cap);
        map_in_place(s, UnaryFunction::Tanh, self.scores);
        self.scores.iter_mut().for_each(|score| *score *= self.cap);
    }
}

/// Adds a mask to scores.
pub(super) struct AddMask<'a> {
    pub(super) scores: &'a mut [f32],
    pub(super) mask: &'a [f32],
    /// Whether negative infinity masks any score.
    pub(super) overrides: bool,
}

impl VectorOp for AddMask<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let masked = s.splat(f32::NEG_INFINITY);
        let least = s.splat(if self.overrides {
            f32::MIN
        } else {
            f32::NEG_INFINITY
        });
        let pairs = self
            .scores
            .chunks_mut(S::LANES)
            .zip(self.mask.chunks(S::LANES));
        for (scores, mask) in pairs {
            let mask = s.load_part(mask);
            let sum = s.add(s.load_part(scores), mask);
            s.store_part(s.select(s.less(mask, least), masked, sum), scores);
        }
    }
}

/// Multiplies elements by a factor.
pub(super) struct Scale<'a>(pub(super) &'a mut [f32], pub(super) f32);

impl VectorOp for Scale<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        self.0.iter_mut().for_each(|x| *x *= self.1);
    }
}

/// Writes products with a factor.
pub(super) struct ScaledCopy<'a> {
    pub(super) from: &'a [f32],
    pub(super) factor: f32,
    pub(super) to: &'a mut [f32],
}

impl VectorOp for ScaledCopy<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        for (to, x) in self.to.iter_mut().zip(self.from) {
            *to = x * self.factor;
        }
    }
}

/// A step of the online softmax: turns scores into exponentials relative to the largest one so far, and
/// returns the factor that makes former exponentials relative to it.
pub(super) struct OnlineSoftmax<'a> {
    pub(super) scores: &'a mut [f32],
    pub(super) largest: &'a mut f32,
    pub(super) total: &'a mut f32,
}

impl VectorOp for OnlineSoftmax<'_> {
    type Output = f32;

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) -> f32 {
        let before = *self.largest;
        let most = largest(s, self.scores).max(before);
        // Every key masked so far: all exponentials are 0.
        let shift = if most == f32::NEG_INFINITY { 0.0 } else { most };
        let sum = write_exp(s, None, self.scores, shift);
        let rescale = if before == f32::NEG_INFINITY {
            1.0
        } else {
            (before - shift).exp()
        };
        *self.total = *self.total * rescale + sum;
        *self.largest = most;
        rescale
    }
}

/// The scores of a few queries, with keys read in place.
pub(super) struct ScoresInPlace<'a> {
    pub(super) level: Level,
    /// The queries, `depth` elements each.
    pub(super) q: &'a [f32],
    pub(super) depth: usize,
    pub(super) k: Floats<'a>,
    /// The offset of key 0, and the distance of two keys.
    pub(super) start: usize,
    pub(super) stride: usize,
    pub(super) keys: Range<usize>,
    pub(super) scale: f32,
    pub(super) scores: &'a mut [f32],
    pub(super) row_stride: usize,
    /// A key in f32.
    pub(super) buffer: &'a mut [f32],
}

impl VectorOp for ScoresInPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let rows = self.q.chunks_exact(self.depth);
        for key in self.keys {
            let at = self.start + key * self.stride;
            if self.stride > self.depth {
                let ahead = at + KEYS_AHEAD * self.stride;
                self.k.prefetch(ahead..ahead + self.depth);
            }
            let k = self.k.load(self.level, at..at + self.depth, self.buffer);
            for (row, q) in rows.clone().enumerate() {
                self.scores[row * self.row_stride + key] = self.scale * dot(s, q, k);
            }
        }
    }
}

/// Adds the weighted values of a few queries, with values read in place.
pub(super) struct ValuesInPlace<'a> {
    pub(super) level: Level,
    pub(super) weights: &'a [f32],
    pub(super) row_stride: usize,
    pub(super) v: Floats<'a>,
    /// The offset of value 0, and the distance of two values.
    pub(super) start: usize,
    pub(super) stride: usize,
    pub(super) keys: Range<usize>,
    /// The sums, `width` elements for each query.
    pub(super) sums: &'a mut [f32],
    pub(super) width: usize,
    /// The values of a block in f32.
    pub(super) buffer: &'a mut [f32],
}

impl VectorOp for ValuesInPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        for start in self.keys.clone().step_by(VALUE_BLOCK) {
            let keys = start..self.keys.end.min(start + VALUE_BLOCK);
            let at = self.start + start * self.stride;
            if self.stride > self.width {
                for row in keys.len()..2 * keys.len() {
                    let ahead = at + row * self.stride;
                    self.v.prefetch(ahead..ahead + self.width);
                }
            }
            let (v, stride) = match self.v {
                Floats::F32(elements) => (&elements[at..], self.stride),
                halves => {
                    for (row, to) in self
                        .buffer
                        .chunks_exact_mut(self.width)
                        .enumerate()
                        .take(keys.len())
                    {
                        let at = at + row * self.stride;
                        halves.copy(self.level, at..at + self.width, to);
                    }
                    (&*self.buffer, self.width)
                }
            };
            let rows = self.sums.chunks_exact_mut(self.width);
            for (sums, weights) in rows.zip(self.weights.chunks_exact(self.row_stride)) {
                // Four vectors of the sums in registers, over the keys of the block.
                for (block, sums) in sums.chunks_mut(4 * S::LANES).enumerate() {
                    let first = block * 4 * S::LANES;
                    let count = sums.len();
                    let mut parts = [s.splat(0.0); 4];
                    for (part, sums) in parts.iter_mut().zip(sums.chunks(S::LANES)) {
                        *part = s.load_part(sums);
                    }
                    for key in keys.clone() {
                        let v = &v[(key - start) * stride + first..][..count];
                        let weight = s.splat(weights[key]);
                        if count == 4 * S::LANES {
                            for (part, v) in parts.iter_mut().zip(v.chunks_exact(S::LANES)) {
                                *part = s.fma(weight, s.load(v), *part);
                            }
                        } else {
                            for (part, v) in parts.iter_mut().zip(v.chunks(S::LANES)) {
                                *part = s.fma(weight, s.load_part(v), *part);
                            }
                        }
                    }
                    for (part, sums) in parts.iter().zip(sums.chunks_mut(S::LANES)) {
                        s.store_part(*part, sums);
                    }
                }
            }
        }
    }
}

/// The dot product of two rows.
#[inline(always)]
fn dot<S: Simd>(s: S, a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [s.splat(0.0); 4];
    for (a, b) in a.chunks(4 * S::LANES).zip(b.chunks(4 * S::LANES)) {
        let lanes = a.chunks(S::LANES).zip(b.chunks(S::LANES));
        for ((a, b), sum) in lanes.zip(&mut sums) {
            *sum = s.fma(s.load_part(a), s.load_part(b), *sum);
        }
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}
