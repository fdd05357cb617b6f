//! What a model has done: the counts and times of its statistics and metrics.

use crate::histogram::{Histogram, ROWS, SECONDS};
use crate::status::Status;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The counts of one version of a model. They continue when its file is replaced.
#[derive(Debug, Default)]
pub struct Statistics(Mutex<Counts>);

/// How often something happened, and the time that it took in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// How often.
    pub count: u64,
    /// The time in nanoseconds.
    pub nanos: u64,
}

/// The times of one request.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestTimes {
    /// From its first byte to the answer.
    pub total: Duration,
    /// In the queue.
    pub queue: Duration,
    /// Reading its inputs.
    pub input: Duration,
    /// Of the execution that it was part of.
    pub compute: Duration,
    /// Writing its outputs.
    pub output: Duration,
}

/// The counts at one time.
#[derive(Debug, Clone)]
pub struct Counts {
    /// Milliseconds since 1970 of the last request; 0 before the first.
    pub last_inference_millis: u64,
    /// Rows of all executions that succeeded.
    pub inferences: u64,
    /// Executions that succeeded.
    pub executions: u64,
    /// Answered requests.
    pub success: Total,
    /// Refused requests.
    pub fail: Total,
    /// Time in the queue.
    pub queue: Total,
    /// Time to read inputs.
    pub input: Total,
    /// Time of executions.
    pub compute: Total,
    /// Time to write outputs.
    pub output: Total,
    /// Requests whose answers were kept, with the time to find them.
    pub found: Total,
    /// Requests whose answers were not, with the time to keep them.
    pub kept: Total,
    /// Executions by their rows.
    pub batches: BTreeMap<usize, Total>,
    /// Refused requests by status.
    pub refused: BTreeMap<Status, u64>,
    /// Times of answered requests.
    pub request_seconds: Histogram,
    /// Times in the queue.
    pub queue_seconds: Histogram,
    /// Times of executions.
    pub compute_seconds: Histogram,
    /// Rows of executions.
    pub batch_rows: Histogram,
}

/// The most batch sizes with separate counts; rows come from requests.
const MAX_BATCHES: usize = 256;

impl Default for Counts {
    fn default() -> Self {
        Self {
            last_inference_millis: 0,
            inferences: 0,
            executions: 0,
            success: Total::default(),
            fail: Total::default(),
            queue: Total::default(),
            input: Total::default(),
            compute: Total::default(),
            output: Total::default(),
            found: Total::default(),
            kept: Total::default(),
            batches: BTreeMap::new(),
            refused: BTreeMap::new(),
            request_seconds: Histogram::new(SECONDS),
            queue_seconds: Histogram::new(SECONDS),
            compute_seconds: Histogram::new(SECONDS),
            batch_rows: Histogram::new(ROWS),
        }
    }
}

impl Total {
    fn add(&mut self, time: Duration) {
        self.count += 1;
        self.nanos += time.as_nanos() as u64;
    }
}

impl Statistics {
    /// Counts an execution of `rows`.
    pub fn executed(&self, rows: usize, time: Duration) {
        let mut counts = self.lock();
        counts.executions += 1;
        counts.inferences += rows as u64;
        counts.batch_rows.add(rows as f64);
        counts.compute_seconds.add(time.as_secs_f64());
        if counts.batches.len() < MAX_BATCHES || counts.batches.contains_key(&rows) {
            counts.batches.entry(rows).or_default().add(time);
        }
    }

    /// Counts an answered request.
    pub fn answered(&self, times: &RequestTimes) {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut counts = self.lock();
        counts.last_inference_millis = since_1970.map_or(0, |time| time.as_millis() as u64);
        counts.success.add(times.total);
        counts.queue.add(times.queue);
        counts.input.add(times.input);
        counts.compute.add(times.compute);
        counts.output.add(times.output);
        counts.request_seconds.add(times.total.as_secs_f64());
        counts.queue_seconds.add(times.queue.as_secs_f64());
    }

    /// Counts a request whose answer was kept.
    pub fn found(&self, time: Duration) {
        self.lock().found.add(time);
    }

    /// Counts a request whose answer was not kept before.
    pub fn kept(&self, time: Duration) {
        self.lock().kept.add(time);
    }

    /// Counts a refused request.
    pub fn refused(&self, status: Status, time: Duration) {
        let mut counts = self.lock();
        counts.fail.add(time);
        *counts.refused.entry(status).or_default() += 1;
    }

    /// The counts now.
    pub fn counts(&self) -> Counts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
