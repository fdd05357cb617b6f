//! The worker threads.

use super::{MAX_NESTED, NESTED_TASKS, SLOTS, SPINS, Shared, WorkerSlot, nest};
use crate::queue::Task;
use crate::queue::deque::Owner;
use crate::queue::tally::Tally;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The part of a worker that only its thread accesses.
pub(super) struct Worker {
    pub shared: Arc<Shared>,
    pub index: usize,
    pub deque: Owner<Task, SLOTS>,
}

impl Worker {
    /// The main loop of a worker's thread.
    pub(super) fn work(&self) {
        loop {
            while let Some(task) = self.next() {
                self.run(task);
            }
            loop {
                if let Some(task) = self.search_work() {
                    self.run(task);
                    break;
                }
                if !self.sleep() {
                    return;
                }
            }
        }
    }

    /// Runs tasks until `done`.
    pub(super) fn work_until(&self, done: impl Fn() -> bool) {
        while !done() {
            match self.next() {
                Some(task) => self.run(task),
                None => std::thread::yield_now(),
            }
        }
    }

    fn next(&self) -> Option<Task> {
        let own = self.deque.pop().or_else(|| self.slot().inbox.take());
        own.or_else(|| self.shared.steal())
    }

    /// Adds a task to the worker's deque.
    pub(super) fn add(&self, task: Task) {
        if self.push(task) {
            self.notify_work();
        }
    }

    pub(super) fn add_all(&self, tasks: &mut dyn Iterator<Item = Task>) {
        let mut waits = false;
        for task in tasks {
            waits |= self.push(task);
        }
        if waits {
            self.notify_work();
        }
    }

    /// Pushes the task; runs it nested if the deque is full. Returns whether the task was queued.
    fn push(&self, task: Task) -> bool {
        let tally = &self.slot().tally;
        tally.add_alone();
        let Err(task) = self.deque.push(task) else {
            return true;
        };
        if NESTED_TASKS.get() == MAX_NESTED {
            self.slot().inbox.put(task);
            return true;
        }
        self.notify_work();
        nest(|| self.run(task));
        false
    }

    fn run(&self, task: Task) {
        self.shared.run(task, &self.slot().tally, Tally::done_alone);
    }

    /// Wakes a sleeping worker for new tasks. A single worker is awake: it is the one that adds
    /// them.
    fn notify_work(&self) {
        if self.shared.workers.len() > 1 {
            self.shared.notify_work();
        }
    }

    /// Searches for a task of another worker; spins if no other idle worker does.
    fn search_work(&self) -> Option<Task> {
        let shared = &*self.shared;
        let found = if shared.spinning.swap(true, Ordering::Acquire) {
            self.next()
        } else {
            let found = (0..SPINS / shared.workers.len()).find_map(|_| {
                std::hint::spin_loop();
                self.next()
            });
            shared.spinning.store(false, Ordering::Release);
            found
        };
        // A thread that added more tasks meanwhile, or woke one worker for several tasks, relies on
        // this worker to wake the next one.
        if found.is_some() && shared.has_work() {
            self.notify_work();
        }
        found
    }

    /// Sleeps until there may be work; returns `false` when the queue is stopping.
    fn sleep(&self) -> bool {
        let ticket = self.shared.idle.prepare_wait();
        if self.shared.has_work() {
            self.shared.idle.cancel_wait(ticket);
            return true;
        }
        if self.shared.stopping.load(Ordering::SeqCst) {
            self.shared.idle.cancel_wait(ticket);
            return false;
        }
        self.shared.waiters.notify_all();
        self.shared.idle.commit_wait(ticket);
        true
    }

    fn slot(&self) -> &WorkerSlot {
        &self.shared.workers[self.index]
    }
}
