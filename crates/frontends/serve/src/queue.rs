//! Dynamic batching: a bounded queue of requests for one model, and the threads that join them into executions.
//!
//! An idle thread takes the requests that wait, in the order of their priorities, as long as their shapes differ
//! only in the batch and the rows stay below a limit. With a delay it first waits for further ones, unless those that wait
//! have a preferred number of rows.

use crate::settings::Settings;
use crate::statistics::Statistics;
use crate::status::{Refusal, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tenon::{Control, ErrorKind, Model, RunOptions, Tensor};
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
    model: Model,
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
    is_closed: bool,
}

/// The order of jobs: by priority, then by arrival.
type JobKey = (u64, u64);

/// The priority of requests without one: below those that have one of 1 to 99.
const DEFAULT_PRIORITY: u64 = 100;

/// Jobs that fit one execution.
#[derive(Debug, Default)]
struct Joinable {
    keys: Vec<JobKey>,
    rows: usize,
    /// Whether the rows are a preferred number.
    is_preferred: bool,
}

/// A request that was queued. Dropping it cancels its execution.
#[derive(Debug)]
pub struct QueuedRequest {
    answer: oneshot::Receiver<Result<Execution, Refusal>>,
    control: Control,
}

impl BatchQueue {
    /// A queue with its threads.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub fn new(
        model: Model,
        options: BatchOptions,
        statistics: Arc<Statistics>,
    ) -> std::io::Result<Self> {
        let batch = model.batch_dimension().map(str::to_owned);
        let is_batch = |input: &tenon::Signature| match (input.shape.first(), &batch) {
            (Some(tenon::Dimension::Symbolic { expression, .. }), Some(batch)) => {
                expression == batch
            }
            _ => false,
        };
        let shared = Arc::new(Shared {
            has_batch: model.inputs().iter().map(is_batch).collect(),
            model,
            statistics,
            state: Mutex::default(),
            arrived: Condvar::new(),
            options,
        });
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
        state.waiting.insert(key, job);
        drop(state);
        drop(dropped);
        shared.arrived.notify_one();
        Ok(QueuedRequest {
            answer: receiver,
            control,
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
        let closed = || Refusal::new(Status::Internal, "the execution was given up");
        (&mut self.answer).await.unwrap_or_else(|_| Err(closed()))
    }
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        self.control.cancel();
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
}

impl Shared {
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

    /// Executes batches until the queue is closed and empty.
    fn serve(&self) {
        while let Some(batch) = self.next_batch() {
            let count = batch.len();
            self.execute(batch);
            self.lock().running -= count;
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
            let limit = first.arrived + self.options.delay;
            let joinable = self.joinable(&state, first);
            let now = Instant::now();
            let is_enough = joinable.is_preferred || joinable.rows >= self.max_rows();
            if !is_enough && now < limit && !state.is_closed {
                let woken = self.arrived.wait_timeout(state, limit - now);
                (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let jobs = joinable.keys.iter();
            let jobs = jobs.filter_map(|key| state.waiting.remove(key));
            let jobs: Vec<Job> = jobs.collect();
            state.running += jobs.len();
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
        let run = || match batch {
            [] => Ok(Vec::new()),
            [job] => {
                let options = RunOptions::new().control(job.control.clone());
                let outputs = self.model.run_with(&self.named(job), options)?;
                Ok(vec![outputs.into_tensors()])
            }
            jobs => {
                let runs: Vec<Vec<(&str, &Tensor)>> =
                    jobs.iter().map(|job| self.named(job)).collect();
                let runs: Vec<&[(&str, &Tensor)]> = runs.iter().map(Vec::as_slice).collect();
                let outputs = self.model.run_batch_with(&runs, &batch_control(jobs))?;
                Ok(outputs.into_iter().map(|run| run.into_tensors()).collect())
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

    fn named<'a>(&'a self, job: &'a Job) -> Vec<(&'a str, &'a Tensor)> {
        let inputs = self.model.inputs().iter().zip(&job.inputs);
        inputs
            .map(|(input, tensor)| (&*input.name, tensor))
            .collect()
    }
}

impl Job {
    fn finish(self, result: Result<Execution, Refusal>) {
        // A caller that is gone does not receive it.
        let _ = self.answer.send(result);
    }
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
