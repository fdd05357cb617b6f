//! Mean and variance: two passes over each block with the correction of Chan, Golub and LeVeque
//! ("Algorithms for computing the sample variance", The American Statistician, 1983), blocks joined by
//! their parallel algorithm. Differences are to a mean of the block, so that a large mean does not
//! cancel; a block stays in the first-level cache between its passes.

use crate::floats::Floats;
use crate::ops::blocks::{BLOCK, blocks};
use crate::ops::reduction::{L1F32, Reducer, SquaresF32, SumF32};
use crate::simd::{Level, Simd};
use std::ops::Range;

/// Independent accumulators.
const LANES: usize = 32;

/// The moments of some elements.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    count: f64,
    mean: f64,
    /// The sum of squared differences to the mean.
    squares: f64,
}

impl Moments {
    /// The moments of a block, of at most [`BLOCK`] elements.
    #[inline(always)]
    pub(super) fn of<S: Simd>(s: S, block: &[f32]) -> Self {
        if block.is_empty() {
            return Self::default();
        }
        let near = SumF32.row(s, block) / block.len() as f32;
        let [sum, squares] = differences(block, near);
        if squares.is_finite() {
            Self::from_differences(block.len(), near, sum, squares)
        } else {
            Self::in_f64(block.iter().copied())
        }
    }

    /// The moments from the sums of the differences to `near`, and of their squares.
    #[inline(always)]
    pub(super) fn from_differences(count: usize, near: f32, sum: f32, squares: f32) -> Self {
        let (count, sum) = (count as f64, f64::from(sum));
        Self {
            count,
            mean: f64::from(near) + sum / count,
            squares: (f64::from(squares) - sum * sum / count).max(0.0),
        }
    }

    /// The moments where a sum in f32 is not finite.
    #[cold]
    pub(super) fn in_f64(elements: impl Iterator<Item = f32> + Clone) -> Self {
        let (count, sum) = elements.clone().fold((0.0, 0.0), |(count, sum), x| {
            (count + 1.0, sum + f64::from(x))
        });
        let mean = sum / count;
        let squares = elements.map(|x| (f64::from(x) - mean).powi(2)).sum();
        Self {
            count,
            mean,
            squares,
        }
    }

    /// The moments of both sets of elements.
    #[inline(always)]
    pub(super) fn joined(self, other: Self) -> Self {
        if self.count == 0.0 {
            return other;
        }
        let count = self.count + other.count;
        let difference = other.mean - self.mean;
        Self {
            count,
            mean: self.mean + difference * other.count / count,
            squares: self.squares
                + other.squares
                + difference * difference * self.count * other.count / count,
        }
    }

    /// The moments of a row of any length.
    #[inline(always)]
    pub(super) fn of_row<S: Simd>(
        s: S,
        level: Level,
        input: &Floats<'_>,
        row: Range<usize>,
        buffer: &mut [f32; BLOCK],
    ) -> Self {
        let mut all = Self::default();
        for block in blocks(row) {
            all = all.joined(Self::of(s, input.load(level, block, buffer)));
        }
        all
    }

    pub(super) fn mean(self) -> f64 {
        self.mean
    }

    /// The mean of the squared differences to the mean.
    pub(super) fn variance(self) -> f64 {
        self.squares / self.count
    }
}

/// The sums of the differences to `center`, and of their squares.
#[inline(always)]
fn differences(block: &[f32], center: f32) -> [f32; 2] {
    let (mut sums, mut squares) = ([0f32; LANES], [0f32; LANES]);
    let (groups, rest) = block.as_chunks::<LANES>();
    for group in groups {
        for ((sum, square), &x) in sums.iter_mut().zip(&mut squares).zip(group) {
            let difference = x - center;
            *sum += difference;
            *square += difference * difference;
        }
    }
    let (mut sum, mut square) = (folded(&mut sums), folded(&mut squares));
    for &x in rest {
        sum += x - center;
        square += (x - center) * (x - center);
    }
    [sum, square]
}

/// The sum of the accumulators, pairwise.
#[inline(always)]
fn folded(sums: &mut [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

/// The sum of squares of a block; in f64 where f32 overflows or loses small squares.
#[inline(always)]
pub(super) fn sum_of_squares<S: Simd>(s: S, block: &[f32]) -> f64 {
    let total = SquaresF32::total(SquaresF32.row(s, block));
    if SquaresF32::is_exact(total) {
        total
    } else {
        SquaresF32.exact().row(s, block)
    }
}

/// The sum of magnitudes of a block.
#[inline(always)]
pub(super) fn sum_of_magnitudes<S: Simd>(s: S, block: &[f32]) -> f64 {
    L1F32::total(L1F32.row(s, block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Portable;
    use tenon_backend::CpuLevel;

    fn moments(row: &[f32]) -> Moments {
        let level = Level::detect(CpuLevel::Baseline);
        let mut buffer = [0.0; BLOCK];
        Moments::of_row(
            Portable,
            level,
            &Floats::F32(row),
            0..row.len(),
            &mut buffer,
        )
    }

    #[test]
    fn blocks_with_a_large_mean_join_exactly() {
        let row: Vec<f32> = (0..20_001).map(|i| 1e6 + (i % 7) as f32).collect();
        let count = row.len() as f64;
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
        let squares: f64 = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum();
        let moments = moments(&row);
        assert!((moments.mean() - mean).abs() < 1e-6);
        assert!((moments.variance() - squares / count).abs() < 1e-5);
    }

    #[test]
    fn overflow_and_small_squares() {
        let huge = moments(&[f32::MAX, f32::MAX, -f32::MAX]);
        assert!(huge.variance().is_finite() && huge.mean() > 1e38);
        assert!((sum_of_squares(Portable, &[1e-30; 3]) / 3e-60 - 1.0).abs() < 1e-6);
        assert!((sum_of_squares(Portable, &[1e30; 3]) / 3e60 - 1.0).abs() < 1e-6);
    }
}
