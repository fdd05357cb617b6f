//! Completion counts of outputs, and waiting for them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A count on which threads can wait.
#[derive(Debug, Default)]
pub(super) struct Completion {
    count: AtomicU64,
    waiting: AtomicU32,
}

/// One lock and condition variable for all counts: waiting is rare, and counting without waiters
/// takes no lock.
static LOCK: Mutex<()> = Mutex::new(());
static ADDED: Condvar = Condvar::new();

impl Completion {
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    pub fn reset(&self) {
        self.count.store(0, Ordering::SeqCst);
    }

    pub fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(LOCK.lock().unwrap_or_else(PoisonError::into_inner));
            ADDED.notify_all();
        }
    }

    /// Waits until the count is at least `count`, at most `timeout`; returns whether it is.
    pub fn wait(&self, count: u64, timeout: Duration) -> bool {
        if self.count() >= count {
            return true;
        }
        let started = Instant::now();
        // Before the lock is taken: a concurrent `add` is either seen below, or takes the lock
        // afterwards.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let done = loop {
            if self.count() >= count {
                break true;
            }
            let Some(left) = timeout.checked_sub(started.elapsed()) else {
                break false;
            };
            let waited = ADDED.wait_timeout(guard, left);
            guard = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(guard, _)| guard);
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_thread_is_woken_by_the_last_completion() {
        let completion = Completion::default();
        assert!(completion.wait(0, Duration::ZERO));
        assert!(!completion.wait(1, Duration::from_millis(1)));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| completion.wait(3, Duration::from_secs(60)));
            for _ in 0..3 {
                completion.add();
            }
            assert!(waits.join().unwrap());
        });
        completion.reset();
        assert!(!completion.wait(1, Duration::ZERO));
    }
}
