//! Counters of executions: outcomes and latencies.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenon_base::{ErrorKind, Result};

/// Sub-buckets per power of two (a log-linear histogram, as HdrHistogram): 8 give a width of at
/// most 12.5 %.
const PARTS: u64 = 8;

/// Buckets of a histogram of nanoseconds: those below [`PARTS`] are exact, then [`PARTS`] for each
/// power of two.
const BUCKETS: usize = (64 - PARTS.ilog2() as usize + 1) * PARTS as usize;

/// The outcome of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Completed without an error.
    Completed,
    /// A NaN was found.
    NumericalError,
    /// Another error.
    Error,
    /// The deadline was exceeded.
    TimedOut,
    /// Not started: invalid inputs.
    IncorrectInput,
    /// Not started: the queue was full.
    FailedToQueue,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 6] = [
        Self::Completed,
        Self::NumericalError,
        Self::Error,
        Self::TimedOut,
        Self::IncorrectInput,
        Self::FailedToQueue,
    ];
}

impl<T> From<&Result<T>> for Outcome {
    fn from(result: &Result<T>) -> Self {
        match result.as_ref().map_err(|error| error.kind()) {
            Ok(_) => Outcome::Completed,
            Err(ErrorKind::NotANumber) => Outcome::NumericalError,
            Err(ErrorKind::DeadlineExceeded) => Outcome::TimedOut,
            Err(ErrorKind::QueueFull) => Outcome::FailedToQueue,
            Err(ErrorKind::InvalidArgument | ErrorKind::BadInput | ErrorKind::InvalidHandle) => {
                Outcome::IncorrectInput
            }
            Err(_) => Outcome::Error,
        }
    }
}

/// Counts executions of all threads, without allocation or locks.
#[derive(Debug, Default)]
pub struct Counters {
    outcomes: [AtomicU64; Outcome::ALL.len()],
    total: Histogram,
    total_nanos: AtomicU64,
}

impl Counters {
    /// Counts a finished execution. Latencies are those of completed executions only.
    pub fn ended(&self, outcome: Outcome, time: Duration) {
        self.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
        if outcome == Outcome::Completed {
            self.total.add(time);
            let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            self.total_nanos.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// The counts so far, without times on cores.
    pub fn report(&self) -> ExecutionReport {
        let count = |outcome: Outcome| self.outcomes[outcome as usize].load(Ordering::Relaxed);
        ExecutionReport {
            completed: count(Outcome::Completed),
            completed_with_num_err: count(Outcome::NumericalError),
            completed_with_err: count(Outcome::Error),
            timed_out: count(Outcome::TimedOut),
            incorrect_input: count(Outcome::IncorrectInput),
            failed_to_queue: count(Outcome::FailedToQueue),
            total: self.total.report(),
            total_nanos: self.total_nanos.load(Ordering::Relaxed),
            on_core: Latencies::default(),
            on_core_nanos: 0,
        }
    }
}

/// Executions since the start of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionReport {
    /// Completed without an error.
    pub completed: u64,
    /// A NaN was found.
    pub completed_with_num_err: u64,
    /// Another error.
    pub completed_with_err: u64,
    /// The deadline was exceeded.
    pub timed_out: u64,
    /// Not started: invalid inputs.
    pub incorrect_input: u64,
    /// Not started: the queue was full.
    pub failed_to_queue: u64,
    /// Latencies of complete executions.
    pub total: Latencies,
    /// Their sum, in nanoseconds.
    #[serde(default)]
    pub total_nanos: u64,
    /// Latencies on cores.
    pub on_core: Latencies,
    /// Their sum, in nanoseconds.
    #[serde(default)]
    pub on_core_nanos: u64,
}

/// A latency histogram: the non-empty buckets by index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Latencies(BTreeMap<u32, u64>);

impl Latencies {
    /// The difference to `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |bucket| earlier.0.get(bucket).copied().unwrap_or(0);
        let new = self
            .0
            .iter()
            .map(|(bucket, count)| (*bucket, count.saturating_sub(before(bucket))));
        Self(new.filter(|(_, count)| *count > 0).collect())
    }

    /// Counts by bucket.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (u32, u64)> {
        self.0.iter().map(|(bucket, count)| (*bucket, *count))
    }

    /// Adds to one bucket.
    pub(crate) fn add(&mut self, bucket: u32, count: u64) {
        let sum = self.0.entry(bucket).or_default();
        *sum = sum.saturating_add(count);
    }

    /// The total count.
    pub fn count(&self) -> u64 {
        self.0
            .values()
            .fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// The count below 2^`power` nanoseconds. Exact, because powers of two from 8 ns on are bucket
    /// boundaries.
    pub fn below_power(&self, power: u32) -> u64 {
        let last = bucket((1u64 << power.min(63)) - 1) as u32;
        let counts = self.0.range(..=last).map(|(_, count)| *count);
        counts.fold(0, u64::saturating_add)
    }

    /// The quantile `share` (0 to 1) in seconds, with a relative error of at most 1/16; `None` for
    /// an empty histogram.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let count = self.count();
        let last = count.checked_sub(1)?;
        let rank = (last as f64 * share.clamp(0.0, 1.0)).round() as u64;
        let mut seen = 0u64;
        let bucket = self.0.iter().find(|(_, count)| {
            seen = seen.saturating_add(**count);
            seen > rank
        });
        bucket.map(|(bucket, _)| middle(*bucket) * 1e-9)
    }
}

/// The concurrent form of the histogram.
#[derive(Debug)]
pub(crate) struct Histogram(Vec<AtomicU64>);

impl Default for Histogram {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Histogram {
    /// Counts one time.
    pub fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.0.get(bucket(nanos)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counts so far.
    pub fn report(&self) -> Latencies {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        let counts = (0..).zip(counts).filter(|(_, count)| *count > 0);
        Latencies(counts.collect())
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < PARTS {
        return nanos as usize;
    }
    // The three bits after the highest one.
    let power = nanos.ilog2() - PARTS.ilog2();
    (u64::from(power + 1) * PARTS + (nanos >> power) - PARTS) as usize
}

/// The middle of a bucket, in nanoseconds.
fn middle(bucket: u32) -> f64 {
    let (power, part) = (u64::from(bucket) / PARTS, u64::from(bucket) % PARTS);
    if power == 0 {
        return part as f64;
    }
    let width = 2f64.powi(power as i32 - 1);
    (PARTS + part) as f64 * width + (width - 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_base::Error;

    #[test]
    fn buckets_are_narrow_and_monotonic() {
        let near = |nanos: u64| {
            let at = bucket(nanos);
            assert!(at < BUCKETS, "{nanos}");
            let middle = middle(at as u32);
            let error = (middle - nanos as f64).abs();
            assert!(error <= nanos as f64 / 16.0 + 0.5, "{nanos}: {middle}");
        };
        for nanos in 0..5000 {
            near(nanos);
            let step = bucket(nanos + 1) - bucket(nanos);
            assert!(step <= 1, "{nanos}");
        }
        for power in 13..64 {
            near((1 << power) - 1);
            near(1 << power);
            assert_eq!(bucket(1 << power) - bucket((1 << power) - 1), 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_match_the_times() {
        let counters = Counters::default();
        for micros in 1..=100 {
            counters.ended(Outcome::Completed, Duration::from_micros(micros));
        }
        counters.ended(Outcome::TimedOut, Duration::from_secs(9));
        let report = counters.report();
        assert_eq!((report.completed, report.timed_out), (100, 1));
        let near = |found: Option<f64>, expected: f64| {
            let found = found.unwrap();
            assert!(
                (found / expected - 1.0).abs() < 0.08,
                "{found} for {expected}"
            );
        };
        near(report.total.percentile(0.0), 1e-6);
        near(report.total.percentile(0.5), 50e-6);
        near(report.total.percentile(0.99), 99e-6);
        near(report.total.percentile(1.0), 100e-6);
        assert_eq!(report.total_nanos, 5_050_000);
        // 2^14 ns are 16.384 us, 2^17 ns are 131 us.
        let below = [9, 14, 15, 17, 63].map(|power| report.total.below_power(power));
        assert_eq!(below, [0, 16, 32, 100, 100]);
        counters.ended(Outcome::Completed, Duration::from_secs(1));
        let later = counters.report().total.since(&report.total);
        assert_eq!(later.count(), 1);
        near(later.percentile(0.5), 1.0);
        assert_eq!(report.total.since(&report.total).percentile(0.5), None);
    }

    #[test]
    fn outcomes_follow_from_errors() {
        let outcome = |kind| Outcome::from(&Result::<()>::Err(Error::new(kind, "x")));
        assert_eq!(Outcome::from(&Ok(())), Outcome::Completed);
        assert_eq!(outcome(ErrorKind::NotANumber), Outcome::NumericalError);
        assert_eq!(outcome(ErrorKind::DeadlineExceeded), Outcome::TimedOut);
        assert_eq!(outcome(ErrorKind::QueueFull), Outcome::FailedToQueue);
        assert_eq!(outcome(ErrorKind::BadInput), Outcome::IncorrectInput);
        assert_eq!(outcome(ErrorKind::OutOfBounds), Outcome::Error);
    }
}
