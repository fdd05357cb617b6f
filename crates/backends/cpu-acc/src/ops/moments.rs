//! Mean and variance: two passes over each block with the correction of Chan, Golub and LeVeque
//! ("Algorithms for computing the sample variance", The American Statistician, 1983), blocks joined by
//! their parallel algorithm. Differences are to a mean of the block, so that a large mean does not
//! cancel; a block stays in the first-level cache between its passes.

use crate::floats::{Floats, FloatsMut};
use crate::simd::{Level, Simd};
use std::ops::Range;

/// Elements of a block.
pub(super) const BLOCK: usize = 4096;

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
    pub(super) fn of<S: Simd>(_: S, block: &[f32]) -> Self {
        if block.is_empty() {
            return Self::default();
        }
        let near = sum_of(block, |x| x) / block.len() as f32;
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

/// The sum of `f` over a block.
#[inline(always)]
pub(super) fn sum_of(block: &[f32], f: impl Fn(f32) -> f32 + Copy) -> f32 {
    let mut sums = [0f32; LANES];
    let (groups, rest) = block.as_chunks::<LANES>();
    for group in groups {
        for (sum, &x) in sums.iter_mut().zip(group) {
            *sum += f(x);
        }
    }
    rest.iter().fold(folded(&mut sums), |sum, &x| sum + f(x))
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

/// The blocks of a row.
#[inline(always)]
pub(super) fn blocks(row: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = row.end;
    row.step_by(BLOCK).map(move |at| at..(at + BLOCK).min(end))
}

/// The sum of squares of a block; in f64 where f32 overflows or loses small squares.
#[inline(always)]
pub(super) fn sum_of_squares(block: &[f32]) -> f64 {
    let total = f64::from(sum_of(block, |x| x * x));
    if total > 1e-30 && total.is_finite() {
        return total;
    }
    block.iter().map(|&x| f64::from(x).powi(2)).sum()
}

/// The sum of magnitudes of a block.
#[inline(always)]
pub(super) fn sum_of_magnitudes(block: &[f32]) -> f64 {
    f64::from(sum_of(block, f32::abs))
}

/// The function `(x - mean) * factor + offset` of elements. The mean is the sum of two terms, so that
/// a large mean is not rounded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scaling {
    pub(super) mean: [f32; 2],
    pub(super) factor: f32,
}

impl Scaling {
    #[inline(always)]
    pub(super) fn new(mean: f64, factor: f64) -> Self {
        let high = mean as f32;
        // The difference of infinities is not a number, but an infinite mean has no rest.
        let low = if high.is_finite() {
            (mean - f64::from(high)) as f32
        } else {
            0.0
        };
        Self {
            mean: [high, low],
            factor: factor as f32,
        }
    }

    #[inline(always)]
    pub(super) fn centred(&self, x: f32) -> f32 {
        x - self.mean[0] - self.mean[1]
    }
}

/// Elements that are computed from an input, or in place where they are f32.
pub(super) struct Mapped<'a> {
    pub(super) level: Level,
    /// The input; `to` itself when `None`.
    pub(super) from: Option<Floats<'a>>,
    pub(super) to: FloatsMut<'a>,
}

/// Memory for the blocks of a thread.
pub(super) struct Buffers {
    pub(super) from: [f32; BLOCK],
    to: [f32; BLOCK],
}

impl Buffers {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            from: [0.0; BLOCK],
            to: [0.0; BLOCK],
        }
    }
}

impl Mapped<'_> {
    /// The elements that are read.
    #[inline(always)]
    pub(super) fn input(&self) -> Floats<'_> {
        match (self.from, &self.to) {
            (Some(from), _) => from,
            (None, FloatsMut::F32(to)) => Floats::F32(to),
            (None, FloatsMut::F16(to)) => Floats::F16(to),
            (None, FloatsMut::Bf16(to)) => Floats::Bf16(to),
        }
    }

    /// Applies `f` to each element of a range.
    #[inline(always)]
    pub(super) fn map(
        &mut self,
        range: Range<usize>,
        buffers: &mut Buffers,
        f: impl Fn(f32) -> f32,
    ) {
        if let FloatsMut::F32(to) = &mut self.to {
            let to = &mut to[range.clone()];
            if let Some(Floats::F32(from)) = self.from {
                for (to, &x) in to.iter_mut().zip(&from[range]) {
                    *to = f(x);
                }
            } else {
                for to in to {
                    *to = f(*to);
                }
            }
            return;
        }
        for block in blocks(range) {
            let results = &mut buffers.to[..block.len()];
            let from = self
                .input()
                .load(self.level, block.clone(), &mut buffers.from);
            for (to, &x) in results.iter_mut().zip(from) {
                *to = f(x);
            }
            self.to.write(self.level, block, results);
        }
    }

    /// Applies `f` to each element of a range and the elements of two lists of its length.
    #[inline(always)]
    pub(super) fn map_with(
        &mut self,
        range: Range<usize>,
        [a, b]: [&[f32]; 2],
        buffers: &mut Buffers,
        f: impl Fn(f32, f32, f32) -> f32,
    ) {
        if let FloatsMut::F32(to) = &mut self.to {
            let to = &mut to[range.clone()];
            if let Some(Floats::F32(from)) = self.from {
                for (((to, &x), &a), &b) in to.iter_mut().zip(&from[range]).zip(a).zip(b) {
                    *to = f(x, a, b);
                }
            } else {
                for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
                    *to = f(*to, a, b);
                }
            }
            return;
        }
        let start = range.start;
        for block in blocks(range) {
            let results = &mut buffers.to[..block.len()];
            let lists = block.start - start..block.end - start;
            let from = self
                .input()
                .load(self.level, block.clone(), &mut buffers.from);
            let lists = a[lists.clone()].iter().zip(&b[lists]);
            for ((to, &x), (&a, &b)) in results.iter_mut().zip(from).zip(lists) {
                *to = f(x, a, b);
            }
            self.to.write(self.level, block, results);
        }
    }
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
        assert!((sum_of_squares(&[1e-30; 3]) / 3e-60 - 1.0).abs() < 1e-6);
        assert!((sum_of_squares(&[1e30; 3]) / 3e60 - 1.0).abs() < 1e-6);
    }
}
