//! What other threads give to a worker.

use super::{SLOTS, lock};
use crate::queue::Task;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tasks that other threads gave to a worker, oldest first.
#[derive(Default)]
pub(super) struct Inbox {
    tasks: Mutex<VecDeque<Task>>,
    count: AtomicUsize,
}

impl Inbox {
    /// Adds a task unless there are too many.
    pub(super) fn offer(&self, task: Task) -> Result<(), Task> {
        let mut tasks = lock(&self.tasks);
        if tasks.len() >= SLOTS {
            return Err(task);
        }
        tasks.push_back(task);
        self.count.store(tasks.len(), Ordering::Release);
        Ok(())
    }

    /// Adds a task however many there are.
    pub(super) fn put(&self, task: Task) {
        let mut tasks = lock(&self.tasks);
        tasks.push_back(task);
        self.count.store(tasks.len(), Ordering::Release);
    }

    pub(super) fn take(&self) -> Option<Task> {
        if self.is_empty() {
            return None;
        }
        let mut tasks = lock(&self.tasks);
        let task = tasks.pop_front();
        self.count.store(tasks.len(), Ordering::Release);
        task
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }
}
