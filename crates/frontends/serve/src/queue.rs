//! Dynamic batching: a bounded queue of requests for one model, and the threads that join them into executions.
//!
//! An idle thread takes the requests that wait, in the order of their priorities, as long as their shapes differ
//! only in the batch and the rows stay below a limit. With a delay it first waits for further ones, unless those that wait
//! have a preferred number of rows. Without one it waits for as many rows as were there at the end of the last execution, whose
//! callers may send the next requests now, but no longer than a small part of an execution.
//!
//! Short executions run on the thread that brings the request, after it has looked for requests of other connections: to wake
//! another thread and to be woken by it takes longer than a small model.

use crate::executor::Executor;
use crate::settings::Settings;
use crate::statistics::Statistics;
use crate::status::{Refusal, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tenon::{Control, ErrorKind, Tensor};
use tokio::sync::oneshot;

/// How the requests of a model are queued and joined.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BatchOptions {
    /// The most rows of a joined execution; 1 joins none.
    pub max_rows: usize,
    /// Rows with which an execution starts at once, without a wait for further requests.
    pub preferred_rows: BTreeSet<usize>,
    /// How long a request waits for others to be joined with.
    pub delay: Duration,
    /// The most requests that wait.
    pub max_waiting: usize,
    /// Concurrent executions of the model.
    pub instances: usize,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            max_rows: 32,
            preferred_rows: BTreeSet::new(),
            delay: Duration::ZERO,
            max_waiting: 1024,
            instances: 1,
        }
    }
}

impl BatchOptions {
    /// These options with what the settings of a model have.
    pub(crate) fn with(&self, settings: &Settings) -> Self {
        Self {
            max_rows: settings.max_batch.unwrap_or(self.max_rows),
            preferred_rows: settings.preferred_batch.clone(),
            delay: settings.batch_delay.unwrap_or(self.delay),
            max_waiting: settings.max_waiting.unwrap_or(self.max_waiting),
            instances: settings.instances.unwrap_or(self.instances),
        }
    }
}

/// One request in the queue.
struct Job {
    /// In the order of the model's inputs.
    inputs: Vec<Tensor>,
    rows: usize,
    control: Control,
    arrived: Instant,
    answer: oneshot::Sender<Result<Execution, Refusal>>,
}

/// The result of an execution for one of its requests.
#[derive(Debug)]
pub struct Execution {
    /// The outputs in the order of the model.
    pub outputs: Vec<Tensor>,
    /// The time that the request waited.
    pub queue: Duration,
    /// The time of the execution.
    pub compute: Duration,
}

/// The queue of one loaded model. Dropping it ends its threads after the requests that wait.
pub struct BatchQueue {
    shared: Arc<Shared>,
}

struct Shared {
    executor: Arc<Executor>,
    /// For each input whether its first dimension is the batch; none of them without dynamic batching.
    has_batch: Vec<bool>,
    options: BatchOptions,
    statistics: Arc<Statistics>,
    state: Mutex<State>,
    /// Signalled when a job arrives or the queue is closed.
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<JobKey, Job>,
    arrivals: u64,
    running: usize,
    /// Executions that have begun; at most as many as instances.
    executing: usize,
    /// The most bytes of inputs whose execution was short.
    short_bytes: usize,
    /// The rows of the last execution and those that waited at its end.
    expected_rows: usize,
    /// When the wait for them begins, and how long it takes.
    expected: Option<(Instant, Duration)>,
    is_closed: bool,
}

/// The order of jobs: by priority, then by arrival.
type JobKey = (u64, u64);

/// The priority of requests without one: below those that have one of 1 to 99.
const DEFAULT_PRIORITY: u64 = 100;

/// The longest execution on a thread that serves connections, whose other requests it delays.
const SHORT: Duration = Duration::from_micros(100);

/// The part of the time of an execution for which the next one waits for the rows that are expected.
const EXPECTED_PART: u32 = 16;

/// Jobs that fit one execution.
#[derive(Debug, Default)]
struct Joinable {
    keys: Vec<JobKey>,
    rows: usize,
    /// Whether the rows are a preferred number.
    is_preferred: bool,
}

/// A request that was queued. Dropping it cancels its execution.
pub struct QueuedRequest {
    shared: Arc<Shared>,
    answer: oneshot::Receiver<Result<Execution, Refusal>>,
    control: Control,
    /// Whether no thread knows of it yet: the caller of [`Self::finished`] executes it.
    is_unannounced: bool,
}

impl BatchQueue {
    /// A queue with its threads.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn new(
        executor: Arc<Executor>,
        options: BatchOptions,
        statistics: Arc<Statistics>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::new(executor, options, statistics));
        let queue = Self {
            shared: shared.clone(),
        };
        for instance in 0..shared.options.instances.max(1) {
            let shared = shared.clone();
            let name = format!("tenon-serve-{instance}");
            let thread = std::thread::Builder::new().name(name);
            thread.spawn(move || shared.serve())?;
        }
        Ok(queue)
    }

    /// Queues a request; its inputs are in the order of the model's.
    ///
    /// # Errors
    /// [`Status::QueueFull`].
    pub fn push(
        &self,
        inputs: Vec<Tensor>,
        priority: u64,
        control: Control,
    ) -> Result<QueuedRequest, Refusal> {
        let shared = &*self.shared;
        let (answer, receiver) = oneshot::channel();
        let job = Job {
            rows: shared.rows(&inputs),
            inputs,
            control: control.clone(),
            arrived: Instant::now(),
            answer,
        };
        let mut state = shared.lock();
        let mut dropped = Vec::new();
        if state.waiting.len() >= shared.options.max_waiting {
            dropped = state.remove_abandoned();
        }
        if state.waiting.len() >= shared.options.max_waiting {
            let text = format!(
                "{} requests for the model wait already: send it again later",
                state.waiting.len()
            );
            return Err(Refusal::new(Status::QueueFull, text));
        }
        let priority = match priority {
            0 => DEFAULT_PRIORITY,
            given => given,
        };
        let key = (priority, state.arrivals);
        state.arrivals += 1;
        let is_short = shared.is_short(&state, &[&job]);
        state.waiting.insert(key, job);
        drop(state);
        drop(dropped);
        if !is_short {
            shared.arrived.notify_one();
        }
        Ok(QueuedRequest {
            shared: self.shared.clone(),
            answer: receiver,
            control,
            is_unannounced: is_short,
        })
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.shared.lock().waiting.len()
    }

    /// Requests that are part of an execution.
    pub fn running(&self) -> usize {
        self.shared.lock().running
    }

    /// Whether requests are joined.
    pub fn is_joining(&self) -> bool {
        self.shared.max_rows() > 1
    }
}

impl Drop for BatchQueue {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.arrived.notify_all();
    }
}

impl QueuedRequest {
    /// The result of the execution.
    ///
    /// # Errors
    /// What the execution failed with.
    pub async fn finished(mut self) -> Result<Execution, Refusal> {
        if self.is_unannounced {
            // Requests that other connections of this thread have received are queued meanwhile, and joined.
            tokio::task::yield_now().await;
            self.shared.execute_short();
            self.is_unannounced = false;
        }
        let closed = || Refusal::new(Status::Internal, "the execution was given up");
        (&mut self.answer).await.unwrap_or_else(|_| Err(closed()))
    }
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        self.control.cancel();
        if self.is_unannounced {
            self.shared.arrived.notify_one();
        }
    }
}

impl State {
    /// Removes the jobs whose callers are gone.
    fn remove_abandoned(&mut self) -> Vec<Job> {
        let is_abandoned = |job: &Job| job.answer.is_closed() || job.control.is_cancelled();
        let keys: Vec<JobKey> = (self.waiting.iter())
            .filter_map(|(key, job)| is_abandoned(job).then_some(*key))
            .collect();
        let jobs = keys.iter().filter_map(|key| self.waiting.remove(key));
        jobs.collect()
    }

    /// Removes jobs for an execution, which begins.
    fn take(&mut self, keys: &[JobKey]) -> Vec<Job> {
        let jobs = keys.iter().filter_map(|key| self.waiting.remove(key));
        let jobs: Vec<Job> = jobs.collect();
        self.running += jobs.len();
        self.executing += 1;
        jobs
    }

    /// Learns from an execution which ones are short, and how many rows to expect. Their time grows with the bytes of their
    /// inputs.
    fn measured(&mut self, rows: usize, bytes: usize, compute: Duration) {
        let waiting: usize = self.waiting.values().map(|job| job.rows).sum();
        self.expected_rows = rows + waiting;
        self.expected = Some((Instant::now(), compute / EXPECTED_PART));
        self.short_bytes = match compute <= SHORT {
            true => self.short_bytes.max(bytes),
            false => self.short_bytes.min(bytes.saturating_sub(1)),
        };
    }
}

impl Shared {
    fn new(executor: Arc<Executor>, options: BatchOptions, statistics: Arc<Statistics>) -> Self {
        let interface = executor.interface();
        let batch = interface.batch.as_ref();
        let is_batch = |input: &tenon::Signature| match (input.shape.first(), batch) {
            (Some(tenon::Dimension::Symbolic { expression, .. }), Some(batch)) => {
                expression == batch
            }
            _ => false,
        };
        Self {
            has_batch: interface.inputs.iter().map(is_batch).collect(),
            executor,
            statistics,
            state: Mutex::default(),
            arrived: Condvar::new(),
            options,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn max_rows(&self) -> usize {
        match self.has_batch.contains(&true) {
            true => self.options.max_rows.max(1),
            false => 1,
        }
    }

    /// The rows of a request: the size of its batch.
    fn rows(&self, inputs: &[Tensor]) -> usize {
        let mut inputs = inputs.iter().zip(&self.has_batch);
        let first = inputs.find(|(_, has_batch)| **has_batch);
        first.map_or(1, |(tensor, _)| {
            tensor.shape().first().copied().unwrap_or(1)
        })
    }

    /// Whether two requests differ in their batch only.
    fn is_alike(&self, one: &Job, other: &Job) -> bool {
        let mut pairs = one.inputs.iter().zip(&other.inputs).zip(&self.has_batch);
        pairs.all(|((one, other), &has_batch)| {
            let skipped = usize::from(has_batch);
            one.shape().get(skipped..) == other.shape().get(skipped..)
        })
    }

    /// Whether jobs may be executed on a thread that serves connections.
    fn is_short(&self, state: &State, jobs: &[&Job]) -> bool {
        let bytes: usize = jobs.iter().map(|job| byte_count(&job.inputs)).sum();
        bytes <= state.short_bytes
            && self.options.delay.is_zero()
            // Another process may never answer.
            && self.executor.is_here()
    }

    /// Executes the next batch on this thread if it is short and an instance is free; otherwise another thread does.
    fn execute_short(&self) {
        let mut state = self.lock();
        // The end of an execution wakes a thread for what waits.
        if state.executing >= self.options.instances.max(1) {
            return;
        }
        let abandoned = state.remove_abandoned();
        let Some(first) = state.waiting.values().next() else {
            return;
        };
        let keys = self.joinable(&state, first).keys;
        let jobs = keys.iter().filter_map(|key| state.waiting.get(key));
        if !self.is_short(&state, &jobs.collect::<Vec<&Job>>()) {
            drop(state);
            self.arrived.notify_one();
            return;
        }
        let batch = state.take(&keys);
        drop(state);
        drop(abandoned);
        let count = batch.len();
        self.execute(batch);
        self.end_execution(count);
    }

    /// Executes batches until the queue is closed and empty.
    fn serve(&self) {
        while let Some(batch) = self.next_batch() {
            let count = batch.len();
            self.execute(batch);
            self.end_execution(count);
        }
    }

    /// Counts the end of an execution of this many requests, and wakes a thread for those that waited for it.
    fn end_execution(&self, requests: usize) {
        let mut state = self.lock();
        state.running -= requests;
        state.executing -= 1;
        if !state.waiting.is_empty() {
            self.arrived.notify_one();
        }
    }

    /// The jobs of the next execution; `None` when the queue is closed and empty.
    fn next_batch(&self) -> Option<Vec<Job>> {
        let mut state = self.lock();
        loop {
            let abandoned = state.remove_abandoned();
            let Some(first) = state.waiting.values().next() else {
                // Outside of the lock: the memory of tensors is freed.
                drop(state);
                drop(abandoned);
                state = self.lock();
                if !state.waiting.is_empty() {
                    continue;
                }
                if state.is_closed {
                    return None;
                }
                let woken = self.arrived.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            // Short executions on other threads may have all instances.
            if state.executing >= self.options.instances.max(1) {
                let woken = self.arrived.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let joinable = self.joinable(&state, first);
            let (limit, rows) = match (self.options.delay.is_zero(), state.expected) {
                (true, Some((end, time))) => (first.arrived.max(end) + time, state.expected_rows),
                (_, _) => (first.arrived + self.options.delay, self.max_rows()),
            };
            let now = Instant::now();
            let is_enough = joinable.is_preferred || joinable.rows >= rows.min(self.max_rows());
            if !is_enough && now < limit && !state.is_closed {
                let woken = self.arrived.wait_timeout(state, limit - now);
                (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let jobs = state.take(&joinable.keys);
            drop(state);
            drop(abandoned);
            return Some(jobs);
        }
    }

    /// The jobs that fit one execution with `first`, the first one: as many as have the greatest preferred number of
    /// rows, or all of them.
    fn joinable(&self, state: &State, first: &Job) -> Joinable {
        let mut all = Joinable::default();
        let mut preferred = None;
        for (key, job) in &state.waiting {
            let fits = all.rows + job.rows <= self.max_rows() && self.is_alike(first, job);
            // A request of more rows than are joined runs by itself.
            if all.keys.is_empty() || fits {
                all.keys.push(*key);
                all.rows += job.rows;
                if self.options.preferred_rows.contains(&all.rows) {
                    preferred = Some((all.keys.len(), all.rows));
                }
            }
            if all.rows >= self.max_rows() {
                break;
            }
        }
        // Where all rows fill an execution, none of them has to wait for the next.
        if let (Some((count, rows)), true) = (preferred, all.rows < self.max_rows()) {
            all.keys.truncate(count);
            all.rows = rows;
            all.is_preferred = true;
        }
        all
    }

    fn execute(&self, batch: Vec<Job>) {
        let start = Instant::now();
        let (batch, late): (Vec<Job>, Vec<Job>) = batch
            .into_iter()
            .partition(|job| job.control.check().is_ok());
        for job in late {
            let error = job.control.check().err();
            let refusal = error.map_or_else(abandoned, Refusal::from);
            job.finish(Err(refusal));
        }
        match self.run(&batch) {
            Ok(outputs) => {
                let compute = start.elapsed();
                let rows = batch.iter().map(|job| job.rows).sum();
                if !batch.is_empty() {
                    self.statistics.executed(rows, compute);
                    let bytes = batch.iter().map(|job| byte_count(&job.inputs)).sum();
                    self.lock().measured(rows, bytes, compute);
                }
                for (job, outputs) in batch.into_iter().zip(outputs) {
                    let execution = Execution {
                        outputs,
                        queue: start.duration_since(job.arrived),
                        compute,
                    };
                    job.finish(Ok(execution));
                }
            }
            // One request must not fail because of another.
            Err(_) if batch.len() > 1 => {
                for job in batch {
                    self.execute(vec![job]);
                }
            }
            Err(refusal) => {
                for job in batch {
                    job.finish(Err(refusal.clone()));
                }
            }
        }
    }

    /// The outputs of each job.
    fn run(&self, batch: &[Job]) -> Result<Vec<Vec<Tensor>>, Refusal> {
        let run = || {
            let runs: Vec<&[Tensor]> = batch.iter().map(|job| &*job.inputs).collect();
            match batch {
                [] => Ok(Vec::new()),
                [job] => self.executor.run(&runs, &job.control),
                jobs => self.executor.run(&runs, &batch_control(jobs)),
            }
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(result) => result.map_err(|error: tenon::Error| match error.kind() {
                ErrorKind::Cancelled => abandoned(),
                _ => Refusal::from(error),
            }),
            Err(_) => Err(Refusal::new(Status::Internal, "the execution panicked")),
        }
    }
}

impl Job {
    fn finish(self, result: Result<Execution, Refusal>) {
        // A caller that is gone does not receive it.
        let _ = self.answer.send(result);
    }
}

fn byte_count(inputs: &[Tensor]) -> usize {
    inputs.iter().map(|input| input.bytes().len()).sum()
}

/// The control of a joined execution: it is cancelled when all of its requests are.
fn batch_control(jobs: &[Job]) -> Control {
    let controls: Vec<Control> = jobs.iter().map(|job| job.control.clone()).collect();
    Control::new().polled(move || controls.iter().all(|control| control.check().is_err()))
}

fn abandoned() -> Refusal {
    Refusal::new(Status::Cancelled, "the request was cancelled")
}

#[cfg(test)]
mod tests;
