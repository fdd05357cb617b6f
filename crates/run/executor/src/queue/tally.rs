//! Termination detection by counting tasks added and done (after Mattern 1987).

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of tasks added and done by one thread or several. Both only grow.
#[derive(Default)]
#[repr(align(128))]
pub struct Tally {
    added: AtomicU64,
    done: AtomicU64,
}

impl Tally {
    /// Counts a task before other threads can see it.
    pub fn add(&self) {
        self.added.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a completed task.
    pub fn done(&self) {
        self.done.fetch_add(1, Ordering::Release);
    }

    /// [`add`](Self::add) on a tally that only the calling thread writes: cheaper by a locked
    /// operation.
    pub fn add_alone(&self) {
        let added = self.added.load(Ordering::Relaxed);
        self.added.store(added + 1, Ordering::Relaxed);
    }

    /// [`done`](Self::done) on a tally that only the calling thread writes.
    pub fn done_alone(&self) {
        let done = self.done.load(Ordering::Relaxed);
        self.done.store(done + 1, Ordering::Release);
    }
}

/// Whether at some moment during this call every added task was done, except those counted by
/// `waiting`, which wait for the others.
///
/// All `done` counts are read before `waiting`, and `waiting` before any `added` count. Both counts
/// only grow, so at the moment between, at least the read number was done and at most the read
/// number was added; tasks added by a finished task are included, because they were counted before
/// that task was counted done. So the difference is an upper bound of the tasks left at that
/// moment; if it does not exceed the number of waiting tasks, only these were left.
pub fn all_done<'a>(tallies: impl Iterator<Item = &'a Tally> + Clone, waiting: &AtomicU64) -> bool {
    let sum = |count: fn(&Tally) -> u64| tallies.clone().map(count).fold(0, u64::wrapping_add);
    let done = sum(|tally| tally.done.load(Ordering::Acquire));
    let waiting = waiting.load(Ordering::Acquire);
    let added = sum(|tally| tally.added.load(Ordering::Acquire));
    added.wrapping_sub(done) <= waiting
}
