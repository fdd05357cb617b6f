//! Sums of rows times weights, in vectors.

use crate::simd::{Level, Simd, VectorOp};

/// The sum of rows times weights.
pub(super) fn weighted_sum<'a>(
    level: Level,
    samples: &[(usize, f64)],
    row: impl Fn(usize) -> &'a [f32],
    to: &mut [f32],
) {
    for (nth, group) in samples.chunks(4).enumerate() {
        let adds = nth > 0;
        let row = |at: usize| row(group[at].0);
        let weight = |at: usize| group[at].1 as f32;
        match group.len() {
            1 => level.run(WeightedSum {
                rows: [row(0)],
                weights: [weight(0)],
                adds,
                to,
            }),
            2 => level.run(WeightedSum {
                rows: [row(0), row(1)],
                weights: [weight(0), weight(1)],
                adds,
                to,
            }),
            3 => level.run(WeightedSum {
                rows: [row(0), row(1), row(2)],
                weights: [weight(0), weight(1), weight(2)],
                adds,
                to,
            }),
            _ => level.run(WeightedSum {
                rows: [row(0), row(1), row(2), row(3)],
                weights: [weight(0), weight(1), weight(2), weight(3)],
                adds,
                to,
            }),
        }
    }
}

/// The sum of `N` rows times weights, written or added.
pub(super) struct WeightedSum<'a, const N: usize> {
    pub(super) rows: [&'a [f32]; N],
    pub(super) weights: [f32; N],
    pub(super) adds: bool,
    pub(super) to: &'a mut [f32],
}

impl<const N: usize> VectorOp for WeightedSum<'_, N> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let len = self.to.len();
        let rows = self.rows.map(|row| &row[..len]);
        let sum = |at: usize, start: f32| {
            let terms = rows.iter().zip(self.weights);
            terms.fold(start, |sum, (row, weight)| sum + row[at] * weight)
        };
        if self.adds {
            for (at, to) in self.to.iter_mut().enumerate() {
                *to = sum(at, *to);
            }
        } else {
            for (at, to) in self.to.iter_mut().enumerate() {
                *to = sum(at, 0.0);
            }
        }
    }
}
