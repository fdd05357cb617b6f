//! Ranges of activations, from what calibration observes.

use tenon_base::{Error, ErrorKind, Result};

/// Bins of a histogram.
const BINS: usize = 2048;

/// Steps of a quantised tensor between zero and one end of its range, for [`Calibration::Entropy`].
const LEVELS: usize = 128;

/// How a range follows from the observed elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Calibration {
    /// From the least to the greatest element.
    MinMax,
    /// The range with this percentage of the elements; the same share is cut off at both ends.
    Percentile(f64),
    /// The range whose quantised distribution has the least Kullback-Leibler divergence from the observed one
    /// (S. Migacz, 8-bit inference with TensorRT, GTC 2017).
    Entropy,
}

/// The range of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The least element.
    pub min: f32,
    /// The greatest element.
    pub max: f32,
}

impl Range {
    /// The range of no elements.
    pub const EMPTY: Self = Self {
        min: f32::INFINITY,
        max: f32::NEG_INFINITY,
    };

    /// The range of some elements.
    ///
    /// # Errors
    /// NaN and infinite elements.
    pub fn of(elements: &[f32]) -> Result<Self> {
        let mut range = Self::EMPTY;
        for &element in elements {
            if !element.is_finite() {
                let text = "an activation is not finite";
                return Err(Error::new(ErrorKind::InvalidArgument, text).found(element));
            }
            range.min = range.min.min(element);
            range.max = range.max.max(element);
        }
        Ok(range)
    }

    /// The range of the elements of both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// Whether no element was observed.
    pub fn is_empty(self) -> bool {
        self.min > self.max
    }
}

/// The distribution of a tensor's elements in a known range.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    range: Range,
    bins: Vec<u64>,
}

impl Histogram {
    /// A histogram of no elements yet, all of which will be in `range`.
    pub fn new(range: Range) -> Self {
        Self {
            range,
            bins: vec![0; BINS],
        }
    }

    /// Adds elements; those outside of the range count at its ends.
    pub fn add(&mut self, elements: &[f32]) {
        let Range { min, max } = self.range;
        let per_unit = BINS as f32 / (max - min).max(f32::MIN_POSITIVE);
        for &element in elements {
            // The conversion saturates; NaN becomes 0.
            let bin = ((element - min) * per_unit) as usize;
            self.bins[bin.min(BINS - 1)] += 1;
        }
    }

    /// The range to quantise.
    pub fn calibrated(&self, calibration: Calibration) -> Range {
        match calibration {
            Calibration::MinMax => self.range,
            Calibration::Percentile(percentage) => self.percentile(percentage),
            Calibration::Entropy => self.least_divergence(),
        }
    }

    /// The lower end of a bin.
    fn bin_start(&self, bin: usize) -> f32 {
        let Range { min, max } = self.range;
        min + (max - min) * bin as f32 / BINS as f32
    }

    fn percentile(&self, percentage: f64) -> Range {
        let total: u64 = self.bins.iter().sum();
        let outside = total as f64 * (1.0 - percentage / 100.0) / 2.0;
        // Bins at an end whose elements are all outside.
        let cut = |bins: &mut dyn Iterator<Item = &u64>| {
            let mut sum = 0.0;
            bins.take_while(|&&count| {
                sum += count as f64;
                sum <= outside
            })
            .count()
        };
        let low = cut(&mut self.bins.iter());
        let high = BINS - cut(&mut self.bins.iter().rev());
        if low >= high {
            return self.range;
        }
        Range {
            min: self.bin_start(low),
            max: self.bin_start(high),
        }
    }

    /// Cuts both ends at the same distance from zero.
    fn least_divergence(&self) -> Range {
        let Range { min, max } = self.range;
        let greatest = min.abs().max(max.abs());
        if self.range.is_empty() || greatest == 0.0 {
            return self.range;
        }
        let mut distances = vec![0u64; BINS];
        for (bin, &count) in self.bins.iter().enumerate() {
            let middle = (self.bin_start(bin) + self.bin_start(bin + 1)) / 2.0;
            let at = (middle.abs() / greatest * BINS as f32) as usize;
            distances[at.min(BINS - 1)] += count;
        }
        // Zeros, of which a Relu makes many, are exact whatever the scale.
        distances[0] = 0;
        let mut best = (f64::INFINITY, BINS);
        for kept in (LEVELS..=BINS).step_by(LEVELS / 8) {
            let divergence = divergence(&distances, kept);
            if divergence < best.0 {
                best = (divergence, kept);
            }
        }
        let limit = greatest * best.1 as f32 / BINS as f32;
        Range {
            min: min.max(-limit),
            max: max.min(limit),
        }
    }
}

/// The divergence of a distribution from itself with the elements behind `kept` bins clipped and the others
/// rounded to [`LEVELS`] steps.
fn divergence(bins: &[u64], kept: usize) -> f64 {
    let clipped: u64 = bins[kept..].iter().sum();
    let total: u64 = bins.iter().sum();
    let inside = total - clipped;
    if inside == 0 {
        return f64::INFINITY;
    }
    let mut sum = 0.0;
    for level in 0..LEVELS {
        let level = level * kept / LEVELS..(level + 1) * kept / LEVELS;
        let count: u64 = bins[level.clone()].iter().sum();
        let filled = bins[level.clone()].iter().filter(|&&count| count > 0);
        // The elements of a step are spread over its bins that have some.
        let rounded = count as f64 / filled.count().max(1) as f64 / inside as f64;
        for bin in level {
            let mut observed = bins[bin] as f64;
            if bin + 1 == kept {
                observed += clipped as f64;
            }
            if observed > 0.0 {
                let observed = observed / total as f64;
                // A clipped element where the rounded distribution has none diverges most.
                sum += observed * (observed / rounded.max(f64::EPSILON)).ln();
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(elements: &[f32]) -> Histogram {
        let mut histogram = Histogram::new(Range::of(elements).unwrap());
        histogram.add(elements);
        histogram
    }

    #[test]
    fn percentiles_cut_both_ends() {
        let mut elements: Vec<f32> = (0..10_000).map(|k| k as f32 / 10_000.0).collect();
        elements.extend([-1000.0, 1000.0]);
        let wide = histogram(&elements);
        assert_eq!(
            wide.calibrated(Calibration::MinMax),
            Range {
                min: -1000.0,
                max: 1000.0
            }
        );
        let narrow = wide.calibrated(Calibration::Percentile(99.9));
        assert!(narrow.min > -2.0 && narrow.max < 2.0, "{narrow:?}");
        assert_eq!(wide.calibrated(Calibration::Percentile(100.0)), wide.range);
    }

    #[test]
    fn entropy_cuts_rare_outliers_alone() {
        // A bell with a tail of few elements.
        let bell = |k: i32| {
            let x = (k as f32 + 0.5) / 50_000.0;
            (x / (1.0 - x)).ln()
        };
        let mut elements: Vec<f32> = (0..50_000).map(bell).collect();
        elements.push(400.0);
        let cut = histogram(&elements).calibrated(Calibration::Entropy);
        assert!(cut.max < 100.0 && cut.max > 3.0, "{cut:?}");
        let even: Vec<f32> = (0..4096).map(|k| k as f32 / 4096.0).collect();
        let kept = histogram(&even).calibrated(Calibration::Entropy);
        assert!(kept.max > 0.95, "{kept:?}");
    }

    #[test]
    fn elements_that_are_not_finite_are_errors() {
        for bad in [f32::NAN, f32::INFINITY] {
            assert!(Range::of(&[0.0, bad]).is_err());
        }
        assert!(Range::of(&[]).unwrap().is_empty());
    }
}
