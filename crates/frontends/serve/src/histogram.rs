//! Counts of values by bucket, as Prometheus has them.

/// A histogram with fixed upper bounds.
#[derive(Debug, Clone)]
pub struct Histogram {
    bounds: &'static [f64],
    /// The values at or below each bound and above the one before it; then those above all bounds.
    counts: Vec<u64>,
    sum: f64,
}

/// Bounds of times in seconds.
pub const SECONDS: &[f64] = &[
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0,
];

/// Bounds of batch sizes in rows.
pub const ROWS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

impl Histogram {
    /// An empty histogram.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }

    /// The sum of all values.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The count of all values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The mean of all values; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum / count as f64)
    }

    /// The value below which a part of the values are, between the bounds of its bucket in proportion; the greatest bound
    /// for values above it. `None` without values.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let rank = part * self.count() as f64;
        let mut below = (0.0, 0.0);
        for (bound, count) in self.cumulative() {
            let count = count as f64;
            if count >= rank && count > below.1 {
                let within = (rank - below.1) / (count - below.1);
                return Some(below.0 + within * (bound - below.0));
            }
            below = (bound, count);
        }
        (rank > 0.0).then_some(below.0)
    }

    /// Each bound with the count of values that are not above it.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut sum = 0;
        self.bounds
            .iter()
            .zip(&self.counts)
            .map(move |(&bound, &count)| {
                sum += count;
                (bound, sum)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_include_their_bound() {
        let mut rows = Histogram::new(ROWS);
        for value in [1.0, 2.0, 3.0, 1000.0] {
            rows.add(value);
        }
        let counts: Vec<u64> = rows.cumulative().map(|(_, count)| count).collect();
        assert_eq!(counts, [1, 2, 3, 3, 3, 3, 3, 3, 3]);
        assert_eq!((rows.count(), rows.sum()), (4, 1006.0));
    }

    #[test]
    fn quantiles_are_within_their_buckets() {
        let mut rows = Histogram::new(ROWS);
        assert_eq!((rows.quantile(0.5), rows.mean()), (None, None));
        for value in [3.0, 4.0, 4.0, 7.0] {
            rows.add(value);
        }
        assert_eq!(rows.quantile(0.5), Some(2.0 + 2.0 * 2.0 / 3.0));
        assert_eq!(rows.quantile(1.0), Some(8.0));
        assert_eq!(rows.mean(), Some(4.5));
        rows.add(1e6);
        assert_eq!(rows.quantile(1.0), Some(256.0));
    }
}
