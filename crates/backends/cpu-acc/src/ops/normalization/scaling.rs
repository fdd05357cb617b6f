//! The scaling of elements by a statistic of some of them.

use super::moments::{Moments, sum_of_magnitudes, sum_of_squares};
use crate::floats::Floats;
use crate::ops::blocks::{BLOCK, blocks};
use crate::simd::{Level, Simd};
use std::ops::Range;
use tenon_base::stop;

/// The statistic that elements are divided by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NormKind {
    /// The standard deviation, after subtracting the mean.
    Deviation { epsilon: f64 },
    /// The same, with ONNX's term added to the deviation instead of the variance.
    MeanVariance,
    /// The root of the mean square.
    RootMeanSquare { epsilon: f64 },
    /// The sum of magnitudes.
    L1,
    /// The root of the sum of squares.
    L2,
}

/// The term that ONNX adds to the standard deviation in MeanVarianceNormalization.
const MEAN_VARIANCE_EPSILON: f64 = 1e-9;

impl NormKind {
    /// The scaling by the moments of the elements.
    #[inline(always)]
    pub(super) fn of_moments(self, moments: Moments) -> Scaling {
        let deviation = match self {
            NormKind::Deviation { epsilon } => (moments.variance() + epsilon).sqrt(),
            _ => moments.variance().sqrt() + MEAN_VARIANCE_EPSILON,
        };
        Scaling::new(moments.mean(), 1.0 / deviation)
    }

    /// The scaling by the sum of magnitudes, or of squares, of `count` elements. Elements of norm 0
    /// become 0.
    #[inline(always)]
    pub(super) fn of_sum(self, sum: f64, count: usize) -> Scaling {
        let norm = match self {
            NormKind::RootMeanSquare { epsilon } => (sum / count as f64 + epsilon).sqrt(),
            NormKind::L1 => sum,
            _ => sum.sqrt(),
        };
        if norm == 0.0 && matches!(self, NormKind::L1 | NormKind::L2) {
            return Scaling::default();
        }
        Scaling::new(0.0, 1.0 / norm)
    }

    /// Whether the mean is subtracted.
    #[inline(always)]
    pub(super) fn is_centred(self) -> bool {
        matches!(self, NormKind::Deviation { .. } | NormKind::MeanVariance)
    }

    /// The scaling of some elements, in one or several rows.
    #[inline(always)]
    pub(super) fn of_rows<S: Simd>(
        self,
        s: S,
        level: Level,
        input: &Floats<'_>,
        rows: impl Iterator<Item = Range<usize>>,
        buffer: &mut [f32; BLOCK],
    ) -> Scaling {
        let mut moments = Moments::default();
        let (mut sum, mut count) = (0.0, 0);
        for row in rows {
            stop::checkpoint();
            if self.is_centred() {
                moments = moments.joined(Moments::of_row(s, level, input, row, buffer));
                continue;
            }
            count += row.len();
            for block in blocks(row) {
                let block = input.load(level, block, buffer);
                sum += if self == NormKind::L1 {
                    sum_of_magnitudes(s, block)
                } else {
                    sum_of_squares(s, block)
                };
            }
        }
        if self.is_centred() {
            self.of_moments(moments)
        } else {
            self.of_sum(sum, count)
        }
    }
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
