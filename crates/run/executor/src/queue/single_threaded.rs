//! A single-threaded work queue: tasks run in FIFO order on the thread that awaits.

use super::{Task, WorkQueue};
use crate::AsyncValue;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A queue without threads: a thread that awaits takes all tasks as a batch and runs them in order
/// until its values are available; the rest of the batch returns to the front of the queue.
/// Blocking tasks are treated like other tasks.
///
/// A thread that is running tasks adds further tasks to a thread-local batch, without a lock.
#[derive(Default)]
pub struct SingleThreaded {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    pending: Mutex<PendingTasks>,
    /// Whether tasks are pending; a thread between two batches reads it without the lock.
    has_pending: AtomicBool,
    /// Signalled when a task was added, or when an awaited value may have become available.
    changed: Condvar,
}

#[derive(Default)]
struct PendingTasks {
    tasks: VecDeque<Task>,
    /// The number of threads that sleep on `changed`.
    sleepers: usize,
}

/// The tasks that a thread adds while it runs tasks of the same queue.
struct Local {
    /// The address of the queue; null when the thread runs no tasks.
    queue: Cell<*const Shared>,
    tasks: RefCell<VecDeque<Task>>,
}

thread_local! {
    static LOCAL: Local = const {
        Local { queue: Cell::new(std::ptr::null()), tasks: RefCell::new(VecDeque::new()) }
    };
}

impl SingleThreaded {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }
}

impl WorkQueue for SingleThreaded {
    fn name(&self) -> String {
        "single-threaded".into()
    }

    fn add(&self, task: Task) {
        LOCAL.with(|local| {
            if local.queue.get() == Arc::as_ptr(&self.shared) {
                local.tasks.borrow_mut().push_back(task);
            } else {
                self.shared.add_external([task]);
            }
        });
    }

    fn add_all(&self, tasks: &mut dyn Iterator<Item = Task>) {
        LOCAL.with(|local| {
            if local.queue.get() == Arc::as_ptr(&self.shared) {
                local.tasks.borrow_mut().extend(tasks);
            } else {
                self.shared.add_external(tasks);
            }
        });
    }

    fn add_blocking(&self, task: Task, _may_queue: bool) -> bool {
        self.add(task);
        true
    }

    fn parallelism(&self) -> usize {
        1
    }

    fn await_all(&self, values: &[AsyncValue]) {
        let mut missing = values.iter();
        let mut first = missing.next();
        let mut all_available = || {
            while first.is_some_and(AsyncValue::is_available) {
                first = missing.next();
            }
            first
        };
        let mut driver = Driver::enter(&self.shared);
        while let Some(value) = all_available() {
            if driver.take_batch() {
                driver.run_batch(|| all_available().is_none());
            } else {
                self.shared.sleep_until_changed(value);
            }
        }
    }

    fn quiesce(&self) {
        let mut driver = Driver::enter(&self.shared);
        while driver.take_batch() {
            driver.run_batch(|| false);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, PendingTasks> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds tasks from a thread that does not run tasks of this queue.
    fn add_external(&self, tasks: impl IntoIterator<Item = Task>) {
        let mut waiting = self.lock();
        waiting.tasks.extend(tasks);
        self.has_pending.store(true, Ordering::Release);
        self.wake(&waiting);
    }

    /// Wakes sleeping threads; without any it avoids the system call of a notification.
    fn wake(&self, waiting: &PendingTasks) {
        if waiting.sleepers > 0 {
            self.changed.notify_all();
        }
    }

    /// Sleeps until another thread adds a task or `value` is available.
    fn sleep_until_changed(self: &Arc<Self>, value: &AsyncValue) {
        let shared = self.clone();
        value.when_available(move |_| {
            // Under the lock, so that the wake-up cannot occur between the check and the sleep.
            let waiting = shared.lock();
            shared.wake(&waiting);
        });
        let mut waiting = self.lock();
        waiting.sleepers += 1;
        while waiting.tasks.is_empty() && !value.is_available() {
            let woken = self.changed.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
        waiting.sleepers -= 1;
    }
}

/// The calling thread while it runs tasks of a queue.
struct Driver<'a> {
    shared: &'a Shared,
    /// Taken tasks that have not run, oldest first.
    batch: VecDeque<Task>,
    /// The queue whose tasks the thread was running before, and the tasks that it has added to it.
    outer: (*const Shared, VecDeque<Task>),
}

impl<'a> Driver<'a> {
    fn enter(shared: &'a Shared) -> Self {
        let outer = LOCAL.with(|local| {
            let queue = local.queue.replace(shared);
            // A task that awaits on the queue that runs it continues with the same thread-local
            // batch.
            let tasks = if std::ptr::eq(queue, shared) {
                VecDeque::new()
            } else {
                local.tasks.take()
            };
            (queue, tasks)
        });
        Self {
            shared,
            batch: VecDeque::new(),
            outer,
        }
    }

    /// Takes all pending tasks; returns whether there was one.
    fn take_batch(&mut self) -> bool {
        if self.batch.is_empty() {
            LOCAL.with(|local| std::mem::swap(&mut self.batch, &mut local.tasks.borrow_mut()));
        }
        if self.shared.has_pending.load(Ordering::Acquire) {
            let mut waiting = self.shared.lock();
            self.shared.has_pending.store(false, Ordering::Relaxed);
            // Tasks of other threads go first: they include those queued before this thread
            // started.
            waiting.tasks.append(&mut self.batch);
            std::mem::swap(&mut waiting.tasks, &mut self.batch);
        }
        !self.batch.is_empty()
    }

    /// Runs the batch until it is empty, or until `stop` returns true after a task.
    fn run_batch(&mut self, mut stop: impl FnMut() -> bool) {
        while let Some(task) = self.batch.pop_front() {
            match task {
                Task::Batch(parts) => {
                    if let Some(left) = parts.run(&mut stop) {
                        self.batch.push_front(Task::Batch(left));
                    }
                }
                task => task.run(),
            }
            if stop() {
                break;
            }
        }
    }
}

impl Drop for Driver<'_> {
    /// Returns the remaining tasks to the front of the queue.
    fn drop(&mut self) {
        let (outer, outer_tasks) = (self.outer.0, std::mem::take(&mut self.outer.1));
        LOCAL.with(|local| {
            let mut added = local.tasks.borrow_mut();
            self.batch.append(&mut added);
            local.queue.set(outer);
            if std::ptr::eq(outer, self.shared) {
                std::mem::swap(&mut *added, &mut self.batch);
            } else {
                *added = outer_tasks;
            }
        });
        if !self.batch.is_empty() {
            let mut waiting = self.shared.lock();
            self.batch.append(&mut waiting.tasks);
            std::mem::swap(&mut waiting.tasks, &mut self.batch);
            self.shared.has_pending.store(true, Ordering::Release);
            self.shared.wake(&waiting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Promise, Value, pending};

    /// Adds a task that records `number`, then calls `then`.
    fn note(
        queue: &Arc<SingleThreaded>,
        order: &Arc<Mutex<Vec<u32>>>,
        number: u32,
        then: impl FnOnce() + Send + 'static,
    ) {
        let order = order.clone();
        queue.add(Task::new(move || {
            order.lock().unwrap().push(number);
            then();
        }));
    }

    fn set(promise: Promise) -> impl FnOnce() + Send {
        move || promise.set(Value::Chain)
    }

    #[test]
    fn awaiting_stops_at_the_values_and_requeues_the_rest_in_front() {
        let (queue, order) = (Arc::new(SingleThreaded::new()), Arc::default());
        let (value, promise) = pending();
        let (adding, noting) = (queue.clone(), Arc::clone(&order));
        note(&queue, &order, 0, move || note(&adding, &noting, 4, || ()));
        note(&queue, &order, 1, set(promise));
        note(&queue, &order, 2, || ());
        note(&queue, &order, 3, || ());
        queue.await_all(&[value]);
        assert_eq!(*order.lock().unwrap(), [0, 1]);
        note(&queue, &order, 5, || ());
        queue.quiesce();
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_task_may_await_on_its_own_queue() {
        let (queue, order) = (Arc::new(SingleThreaded::new()), Arc::default());
        let (value, promise) = pending();
        let (inner, noting) = (queue.clone(), Arc::clone(&order));
        note(&queue, &order, 0, move || {
            note(&inner, &noting, 1, set(promise));
            note(&inner, &noting, 3, || ());
            inner.await_all(&[value]);
        });
        note(&queue, &order, 2, || ());
        queue.quiesce();
        // The outer batch continues before the remaining tasks of the inner one.
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_task_of_one_queue_may_run_tasks_of_another() {
        let (queue, order) = (Arc::new(SingleThreaded::new()), Arc::default());
        let (other, noting) = (Arc::new(SingleThreaded::new()), Arc::clone(&order));
        let back = queue.clone();
        note(&queue, &order, 0, move || {
            note(&back, &noting, 3, || ());
            note(&other, &noting, 1, || ());
            other.quiesce();
        });
        note(&queue, &order, 2, || ());
        queue.quiesce();
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    }

    #[test]
    fn other_threads_set_values_and_add_tasks() {
        let queue = Arc::new(SingleThreaded::new());
        let (value, promise) = pending();
        let (later, later_promise) = pending();
        std::thread::scope(|scope| {
            scope.spawn(move || promise.set(Value::Chain));
            let adding = queue.clone();
            scope.spawn(move || adding.add(Task::new(set(later_promise))));
            queue.await_all(&[value, later]);
        });
    }
}
