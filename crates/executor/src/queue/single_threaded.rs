//! The queue without threads: who waits runs the tasks (facts 2.6, `s`).

use super::{Task, WorkQueue};
use crate::AsyncValue;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// One list of tasks, run in order by the thread that waits.
#[derive(Default)]
pub struct SingleThreaded(Arc<Waiting>);

#[derive(Default)]
struct Waiting {
    tasks: Mutex<VecDeque<Task>>,
    /// Told when a task is added or a value that is waited for becomes available.
    changed: Condvar,
}

impl SingleThreaded {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs the tasks that are there, in order, until `done`; what is left stays in front of those
    /// added meanwhile. Answers whether there was any.
    fn run_batch(&self, done: impl Fn() -> bool) -> bool {
        let mut batch = std::mem::take(&mut *self.0.lock());
        let any = !batch.is_empty();
        while let Some(task) = batch.pop_front() {
            task.run();
            if done() {
                break;
            }
        }
        if !batch.is_empty() {
            let mut tasks = self.0.lock();
            batch.append(&mut tasks);
            *tasks = batch;
        }
        any
    }
}

impl WorkQueue for SingleThreaded {
    fn name(&self) -> String {
        "single-threaded".into()
    }

    fn add(&self, task: Task) {
        self.0.lock().push_back(task);
        self.0.changed.notify_one();
    }

    fn add_all(&self, tasks: &mut dyn Iterator<Item = Task>) {
        self.0.lock().extend(tasks);
        self.0.changed.notify_one();
    }

    fn add_blocking(&self, task: Task, _: bool) -> bool {
        self.add(task);
        true
    }

    fn parallelism(&self) -> usize {
        1
    }

    fn await_all(&self, values: &[AsyncValue]) {
        let done = || values.iter().all(AsyncValue::is_available);
        if done() {
            return;
        }
        // Another thread may set them, too.
        for value in values {
            let waiting = self.0.clone();
            value.when_available(move |_| {
                let _tasks = waiting.lock();
                waiting.changed.notify_all();
            });
        }
        while !done() {
            if !self.run_batch(done) {
                let mut tasks = self.0.lock();
                while tasks.is_empty() && !done() {
                    tasks = (self.0.changed.wait(tasks)).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn quiesce(&self) {
        while self.run_batch(|| false) {}
    }
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Task>> {
        // A holder that panicked left a list of whole tasks.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Value, pending};

    #[test]
    fn waiting_stops_when_the_values_are_there() {
        let queue = SingleThreaded::new();
        let order = Arc::new(Mutex::new(Vec::new()));
        let (value, promise) = pending();
        let mut promise = Some(promise);
        for number in 0..4 {
            let (order, set) = (order.clone(), promise.take_if(|_| number == 1));
            queue.add(Task::new(move || {
                order.lock().unwrap().push(number);
                if let Some(promise) = set {
                    promise.set(Value::Chain);
                }
            }));
        }
        queue.await_all(&[value]);
        assert_eq!(*order.lock().unwrap(), [0, 1]);
        queue.quiesce();
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    }

    #[test]
    fn another_thread_may_set_the_value() {
        let queue = SingleThreaded::new();
        let (value, promise) = pending();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(5));
                promise.set(Value::Chain);
            });
            queue.await_all(&[value]);
        });
    }
}
