//! Counting tasks added and done, to know when none is left.

use std::sync::atomic::{AtomicU64, Ordering};

/// Tasks added and done, as one thread or several count them. Both only grow.
#[derive(Default)]
#[repr(align(128))]
pub struct Tally {
    added: AtomicU64,
    done: AtomicU64,
}

impl Tally {
    /// Counts a task before others can see it.
    pub fn add(&self) {
        self.added.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a task that ran to its end.
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

/// Whether there was a moment during this call at which every task added had been done, but for
/// those that `waiting` counts, which wait for the others.
///
/// All `done` are read before `waiting`, and that before any `added`. At the moment between, no
/// fewer were done than read and no more were added than read; what a finished task added itself is
/// seen, for it was counted before that task was counted done. So no more were left at that moment
/// than the difference, and when that is no more than those that waited then, these were all.
pub fn all_done<'a>(tallies: impl Iterator<Item = &'a Tally> + Clone, waiting: &AtomicU64) -> bool {
    let sum = |count: fn(&Tally) -> u64| tallies.clone().map(count).fold(0, u64::wrapping_add);
    let done = sum(|tally| tally.done.load(Ordering::Acquire));
    let waiting = waiting.load(Ordering::Acquire);
    let added = sum(|tally| tally.added.load(Ordering::Acquire));
    added.wrapping_sub(done) <= waiting
}
