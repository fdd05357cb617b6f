//! Asynchronous executions: a bounded priority queue, the threads that serve it, and the future of
//! one execution.

use crate::{AsyncOptions, Model, Outputs, RunOptions};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use tenon_base::{Control, Error, ErrorKind, Result, pool};
use tenon_tensor::Tensor;

/// The order among waiting executions: higher ones start first, equal ones in the order of arrival.
/// An execution that has started is not interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Priority {
    /// Starts when nothing of a higher priority waits.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Starts before all others.
    High,
}

/// A bounded queue of executions and the threads that run them.
///
/// [`Model::run_async`] uses [`RunQueue::global`]. A separate queue isolates workloads, or limits
/// how many executions run at the same time.
///
/// Dropping the queue cancels the executions that wait in it; those that run are finished.
pub struct RunQueue {
    shared: Arc<QueueShared>,
}

/// Executions that may wait in [`RunQueue::global`].
const GLOBAL_CAPACITY: usize = 1024;

struct QueueShared {
    state: Mutex<QueueState>,
    /// Signalled when a job arrives or the queue is closed.
    arrived: Condvar,
    threads: usize,
    capacity: usize,
}

#[derive(Default)]
struct QueueState {
    /// The waiting jobs in the order in which they start.
    waiting: BTreeMap<QueueKey, Job>,
    arrivals: u64,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

/// The sort key of a job: by descending priority, then by arrival.
type QueueKey = (std::cmp::Reverse<Priority>, u64);

type Job = Box<dyn FnOnce() + Send>;

impl RunQueue {
    /// A queue that runs on at most `threads` threads and in which at most `capacity` executions wait.
    /// Threads are started when they are needed. Both are at least 1.
    pub fn new(threads: usize, capacity: usize) -> Self {
        Self {
            shared: Arc::new(QueueShared {
                state: Mutex::default(),
                arrived: Condvar::new(),
                threads: threads.max(1),
                capacity: capacity.max(1),
            }),
        }
    }

    /// The queue of the process: as many threads as there are CPUs, 1024 waiting executions.
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<RunQueue> = OnceLock::new();
        GLOBAL.get_or_init(|| Self::new(pool::threads(), GLOBAL_CAPACITY))
    }

    /// The number of executions that wait.
    pub fn waiting(&self) -> usize {
        self.shared.lock().waiting.len()
    }

    /// Executes a model on a thread of this queue, as [`Model::run_async_with`] does.
    ///
    /// ```
    /// use tenon::{AsyncOptions, Model, Outputs, RunQueue, Tensor};
    ///
    /// async fn run(queue: &RunQueue, model: &Model, x: Tensor) -> tenon::Result<Outputs> {
    ///     queue.run(model, [("x", x)], AsyncOptions::new()).await
    /// }
    /// ```
    pub fn run<N: Into<String>>(
        &self,
        model: &Model,
        inputs: impl IntoIterator<Item = (N, Tensor)>,
        options: AsyncOptions,
    ) -> RunFuture {
        let model = model.clone();
        let inputs = inputs.into_iter();
        let inputs: Vec<(String, Tensor)> = inputs.map(|(name, x)| (name.into(), x)).collect();
        let AsyncOptions { priority, control } = options;
        self.submit(priority, control, move |control| {
            let inputs: Vec<(&str, &Tensor)> =
                inputs.iter().map(|(name, x)| (name.as_str(), x)).collect();
            model.run_with(&inputs, RunOptions::new().control(control.clone()))
        })
    }

    fn submit(
        &self,
        priority: Priority,
        control: Control,
        work: impl FnOnce(&Control) -> Result<Outputs> + Send + 'static,
    ) -> RunFuture {
        // Dropping the future cancels this execution alone.
        let control = control.child();
        let slot = Arc::new(Slot::default());
        let completion = Completion(slot.clone());
        let own = control.clone();
        let job = Box::new(move || completion.set(run_caught(&own, work)));
        let key = match self.shared.push(priority, job) {
            Ok(key) => Some(key),
            Err((error, job)) => {
                // Before the job is dropped, which would report that it was removed.
                slot.set(Err(error));
                drop(job);
                None
            }
        };
        RunFuture {
            slot,
            control,
            queue: Arc::downgrade(&self.shared),
            key,
        }
    }
}

impl Drop for RunQueue {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.shared.arrived.notify_all();
        // Outside of the lock: dropping a job wakes the task of its future.
        drop(waiting);
    }
}

impl QueueShared {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(
        self: &Arc<Self>,
        priority: Priority,
        job: Job,
    ) -> std::result::Result<QueueKey, (Error, Job)> {
        let mut state = self.lock();
        if state.waiting.len() >= self.capacity {
            let text = "too many asynchronous executions wait";
            let error = Error::new(ErrorKind::QueueFull, text)
                .expected(format_args!("at most {}", self.capacity))
                .help("await earlier executions first, or use a larger RunQueue");
            return Err((error, job));
        }
        // An idle thread that was signalled counts as idle until it wakes up.
        let is_thread_missing = state.waiting.len() >= state.idle && state.threads < self.threads;
        if is_thread_missing && let Err(error) = self.start_thread(&mut state) {
            return Err((error, job));
        }
        let key = (std::cmp::Reverse(priority), state.arrivals);
        state.arrivals += 1;
        state.waiting.insert(key, job);
        drop(state);
        self.arrived.notify_one();
        Ok(key)
    }

    /// Starts a thread. One that cannot be started is an error only if there is no other.
    fn start_thread(self: &Arc<Self>, state: &mut QueueState) -> Result<()> {
        let shared = self.clone();
        let builder = std::thread::Builder::new().name(format!("tenon-run-{}", state.threads));
        match builder.spawn(move || shared.serve()) {
            Ok(_) => state.threads += 1,
            Err(error) if state.threads == 0 => return Err(Error::io("a thread", "start", error)),
            Err(_) => {}
        }
        Ok(())
    }

    /// Runs jobs until the queue is closed.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some((_, job)) = state.waiting.pop_first() {
                drop(state);
                // The execution has caught its own panics; this one is of a waker.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = self.lock();
            } else if state.is_closed {
                return;
            } else {
                state.idle += 1;
                let woken = self.arrived.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

/// Runs `work` unless it should stop already; a panic becomes an error.
fn run_caught(
    control: &Control,
    work: impl FnOnce(&Control) -> Result<Outputs>,
) -> Result<Outputs> {
    control.check()?;
    let done = catch_unwind(AssertUnwindSafe(|| work(control)));
    done.unwrap_or_else(|panic| {
        let text = format!("the execution panicked: {}", panic_text(&*panic));
        Err(Error::new(ErrorKind::Internal, text))
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message")
}

/// The result of an execution, shared by its job and its future.
#[derive(Default)]
struct Slot(Mutex<SlotState>);

#[derive(Default)]
enum SlotState {
    /// Not finished; the waker of the last poll.
    #[default]
    Empty,
    Awaited(Waker),
    Finished(Box<Result<Outputs>>),
    Taken,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the result and wakes the task of the future; the first result counts.
    fn set(&self, result: Result<Outputs>) {
        let mut state = self.lock();
        if matches!(*state, SlotState::Finished(_) | SlotState::Taken) {
            return;
        }
        let before = std::mem::replace(&mut *state, SlotState::Finished(Box::new(result)));
        drop(state);
        if let SlotState::Awaited(waker) = before {
            waker.wake();
        }
    }
}

/// The job's end of a slot. A job that is dropped before it ran reports that it was cancelled.
struct Completion(Arc<Slot>);

impl Completion {
    fn set(self, result: Result<Outputs>) {
        self.0.set(result);
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let text = "the execution was removed from its queue";
        self.0.set(Err(Error::new(ErrorKind::Cancelled, text)));
    }
}

/// The outputs of an asynchronous execution. Dropping it cancels the execution.
#[must_use = "dropping the future cancels the execution"]
pub struct RunFuture {
    slot: Arc<Slot>,
    control: Control,
    queue: Weak<QueueShared>,
    /// The key in the queue; `None` if the queue did not accept the execution.
    key: Option<QueueKey>,
}

impl Future for RunFuture {
    type Output = Result<Outputs>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.slot.lock();
        match std::mem::replace(&mut *state, SlotState::Taken) {
            SlotState::Finished(result) => Poll::Ready(*result),
            SlotState::Taken => {
                let text = "the future was polled after it was ready";
                Poll::Ready(Err(Error::new(ErrorKind::Usage, text)))
            }
            SlotState::Awaited(waker) if waker.will_wake(context.waker()) => {
                *state = SlotState::Awaited(waker);
                Poll::Pending
            }
            SlotState::Empty | SlotState::Awaited(_) => {
                *state = SlotState::Awaited(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for RunFuture {
    fn drop(&mut self) {
        if matches!(*self.slot.lock(), SlotState::Finished(_) | SlotState::Taken) {
            return;
        }
        self.control.cancel();
        if let (Some(key), Some(queue)) = (self.key, self.queue.upgrade()) {
            let job = queue.lock().waiting.remove(&key);
            // Outside of the lock: dropping a job sets its slot.
            drop(job);
        }
    }
}

#[cfg(test)]
mod tests;
