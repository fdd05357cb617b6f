//! Work queues: schedule the tasks of executions on threads (bef 2.6).

mod blocking;
mod deque;
mod event_count;
mod multi_threaded;
mod selection;
mod single_threaded;
mod tally;

pub use multi_threaded::MultiThreaded;
pub use selection::QueueSelection;
pub use single_threaded::SingleThreaded;

use crate::AsyncValue;
use std::sync::Arc;

/// A unit of work.
pub enum Task {
    /// A shared object and an argument that selects the part to run; constructing one does not
    /// allocate.
    Shared(Arc<dyn Runnable>, u64),
    /// A closure.
    Once(Box<dyn FnOnce() + Send>),
    /// A sequence of work items in one task.
    Batch(Box<dyn Batch>),
}

/// The work of a [`Task::Shared`].
pub trait Runnable: Send + Sync {
    /// Runs the part that `argument` selects.
    fn run(self: Arc<Self>, argument: u64);
}

/// The work of a [`Task::Batch`]: items that run in order.
pub trait Batch: Send {
    /// Runs items until none is left, or until `stop` returns true after an item; returns the
    /// remaining items.
    fn run(self: Box<Self>, stop: &mut dyn FnMut() -> bool) -> Option<Box<dyn Batch>>;
}

impl Task {
    /// A task that calls `work`.
    pub fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Task::Once(Box::new(work))
    }

    /// Runs the task on this thread.
    pub fn run(self) {
        match self {
            Task::Shared(shared, argument) => shared.run(argument),
            Task::Once(work) => work(),
            Task::Batch(parts) => _ = parts.run(&mut || false),
        }
    }
}

/// Runs tasks, on its threads or on the threads that wait.
pub trait WorkQueue: Send + Sync {
    /// The printed name, without "work queue".
    fn name(&self) -> String;

    /// Adds a task that does not block.
    fn add(&self, task: Task);

    /// Adds tasks in order.
    fn add_all(&self, tasks: &mut dyn Iterator<Item = Task>) {
        tasks.for_each(|task| self.add(task));
    }

    /// Adds a task that may block. `may_queue`: whether it may wait behind other blocking tasks.
    /// Returns whether the task was accepted.
    fn add_blocking(&self, task: Task, may_queue: bool) -> bool;

    /// The number of tasks that can run concurrently.
    fn parallelism(&self) -> usize;

    /// Waits until all values are available. Must not be called inside a task.
    fn await_all(&self, values: &[AsyncValue]);

    /// Waits until no task is left; inside a task, until no task is left that does not itself wait
    /// in `quiesce`.
    fn quiesce(&self);
}
