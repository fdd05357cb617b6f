//! The inbox of a worker: tasks added by other threads.

use super::{SLOTS, lock};
use crate::queue::Task;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tasks added by other threads, oldest first.
#[derive(Default)]
pub(super) struct Inbox {
    tasks: Mutex<VecDeque<Task>>,
    count: AtomicUsize,
}

impl Inbox {
    /// Adds a task unless the inbox is full.
    pub(super) fn offer(&self, task: Task) -> Result<(), Task> {
        let mut tasks = lock(&self.tasks);
        if tasks.len() >= SLOTS {
            return Err(task);
        }
        tasks.push_back(task);
        self.count.store(tasks.len(), Ordering::Release);
        Ok(())
    }

    /// Adds a task without a limit.
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
