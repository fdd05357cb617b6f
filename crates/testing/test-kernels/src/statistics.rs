//! The times of a benchmark's runs, and their printed summary (bef 5.4).

use std::fmt;
use std::time::Duration;
use tenon_kernels::host::float_format::Scientific;

/// The limits of a benchmark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Warm-up runs, which are not counted.
    pub(crate) warm_up: u64,
    /// The maximum number of counted runs.
    pub(crate) runs: u64,
    /// The maximum counted time; the run that exceeds it is the last.
    pub(crate) time: Duration,
}

/// The times of the runs so far.
#[derive(Debug)]
pub(crate) struct Statistics {
    name: String,
    limits: Limits,
    started: u64,
    wall: Times,
    processor: Times,
}

#[derive(Debug, Default)]
struct Times {
    all: Vec<Duration>,
    total: Duration,
}

impl Times {
    fn push(&mut self, time: Duration) {
        self.all.push(time);
        self.total += time;
    }

    /// The minimum and the 50th, 95th and 99th percentiles; zero without a run.
    fn summary(&self) -> [Duration; 4] {
        let mut sorted = self.all.clone();
        sorted.sort_unstable();
        let at = |percent: usize| sorted.get(sorted.len() * percent / 100).copied();
        [0, 50, 95, 99].map(|percent| at(percent).unwrap_or_default())
    }
}

impl Statistics {
    pub(crate) fn new(name: impl Into<String>, limits: Limits) -> Self {
        Self {
            name: name.into(),
            limits,
            started: 0,
            wall: Times::default(),
            processor: Times::default(),
        }
    }

    /// Records a run with its wall-clock and CPU time.
    pub(crate) fn record(&mut self, wall: Duration, processor: Duration) {
        self.started += 1;
        if self.started > self.limits.warm_up {
            self.wall.push(wall);
            self.processor.push(processor);
        }
    }

    /// Whether another run is due.
    pub(crate) fn more(&self) -> bool {
        let runs = self.limits.runs.saturating_add(self.limits.warm_up);
        self.started < runs && self.wall.total < self.limits.time
    }
}

impl fmt::Display for Statistics {
    /// Eleven lines, each with the benchmark's name in front.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = format_args!("BM:{}:", self.name).to_string();
        let total = self.wall.total.as_nanos();
        writeln!(f, "{prefix}Duration(ns): {total}")?;
        writeln!(f, "{prefix}Count: {}", self.wall.all.len())?;
        for (clock, times) in [("Time", &self.wall), ("CPU", &self.processor)] {
            for (what, time) in ["Min", "50%", "95%", "99%"].iter().zip(times.summary()) {
                writeln!(f, "{prefix}{clock} {what}(ns): {}", time.as_nanos())?;
            }
        }
        let used = self.processor.total.as_nanos() as f64;
        let percent = used * 100.0 / total as f64;
        writeln!(
            f,
            "{prefix}CPU utilization(percent): {}",
            Scientific(percent)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(warm_up: u64, runs: u64) -> Statistics {
        let time = Duration::from_secs(1);
        let limits = Limits {
            warm_up,
            runs,
            time,
        };
        Statistics::new("add", limits)
    }

    #[test]
    fn the_summary_has_the_published_format() {
        let mut add = statistics(1, 100);
        assert!(add.more());
        for index in 0..=100 {
            add.record(
                Duration::from_nanos(1000 - index),
                Duration::from_nanos(500),
            );
        }
        assert!(!add.more());
        // Sorted: 900, 901, .. 999; the 50th percentile is the element at index 50.
        assert_eq!(
            add.to_string(),
            "BM:add:Duration(ns): 94950\n\
             BM:add:Count: 100\n\
             BM:add:Time Min(ns): 900\n\
             BM:add:Time 50%(ns): 950\n\
             BM:add:Time 95%(ns): 995\n\
             BM:add:Time 99%(ns): 999\n\
             BM:add:CPU Min(ns): 500\n\
             BM:add:CPU 50%(ns): 500\n\
             BM:add:CPU 95%(ns): 500\n\
             BM:add:CPU 99%(ns): 500\n\
             BM:add:CPU utilization(percent): 5.265929e+01\n"
        );
    }

    #[test]
    fn a_benchmark_ends_at_its_time_or_run_limit() {
        let mut long = statistics(2, 100);
        for _ in 0..2 {
            long.record(Duration::from_secs(5), Duration::ZERO);
        }
        assert!(long.more(), "warm-up runs do not count");
        long.record(Duration::from_secs(1), Duration::ZERO);
        assert!(!long.more());
        let mut none = statistics(0, 0);
        assert!(!none.more());
        none.record(Duration::ZERO, Duration::ZERO);
        assert_eq!(none.to_string().lines().count(), 11);
    }
}
