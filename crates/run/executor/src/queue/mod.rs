//! Work queues: where tasks of executions wait for a thread (facts 2.6).

mod blocking;
#[allow(unsafe_code, reason = "slots that two ends share")]
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

/// Something to run later.
pub enum Task {
    /// A shared object and a number that says what of it to run; making one allocates nothing.
    Shared(Arc<dyn Runnable>, u64),
    /// A function of its own.
    Once(Box<dyn FnOnce() + Send>),
    /// What would be many tasks in a row.
    Batch(Box<dyn Batch>),
}

/// What a [`Task::Shared`] runs.
pub trait Runnable: Send + Sync {
    /// Runs the part that `argument` stands for.
    fn run(self: Arc<Self>, argument: u64);
}

/// What a [`Task::Batch`] runs, part after part.
pub trait Batch: Send {
    /// Runs parts until there are none left, or `stop`, asked after each, says so; answers what is
    /// left.
    fn run(self: Box<Self>, stop: &mut dyn FnMut() -> bool) -> Option<Box<dyn Batch>>;
}

impl Task {
    /// A task of a function.
    pub fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Task::Once(Box::new(work))
    }

    /// Runs it here.
    pub fn run(self) {
        match self {
            Task::Shared(shared, argument) => shared.run(argument),
            Task::Once(work) => work(),
            Task::Batch(parts) => _ = parts.run(&mut || false),
        }
    }
}

/// Runs tasks, on threads of its own or of those who wait.
pub trait WorkQueue: Send + Sync {
    /// The name as it is printed, without "work queue".
    fn name(&self) -> String;

    /// Adds a task that does not block.
    fn add(&self, task: Task);

    /// Adds tasks in order.
    fn add_all(&self, tasks: &mut dyn Iterator<Item = Task>) {
        tasks.for_each(|task| self.add(task));
    }

    /// Adds a task that may block. `may_queue` says whether it may wait behind others that block;
    /// answers whether it was taken.
    fn add_blocking(&self, task: Task, may_queue: bool) -> bool;

    /// How many tasks run at a time.
    fn parallelism(&self) -> usize;

    /// Returns when all values are available. Not called from inside a task.
    fn await_all(&self, values: &[AsyncValue]);

    /// Returns when there is nothing left to run; inside of a task, nothing that does not wait for
    /// it in turn.
    fn quiesce(&self);
}
