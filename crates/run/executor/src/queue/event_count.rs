//! An event count (Vyukov; as in Eigen's `EventCount`): threads sleep until a condition may have
//! changed, and a notifier takes no lock when no thread waits.
//!
//! A waiter registers (`prepare_wait`), checks the condition once more, and only then sleeps. A
//! notifier publishes its work and then checks for registered waiters. Each side has a full fence
//! between its two steps, so at least one of them sees the other (Dekker's algorithm): the waiter
//! finds the work, or the notifier finds the waiter. Without waiters a notification is a fence and
//! a load.

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, fence};
use std::sync::PoisonError;

/// An event count; see the module.
pub struct EventCount {
    /// The number of threads between `prepare_wait` and waking.
    waiters: AtomicUsize,
    /// The count of notifications; changed under the lock.
    epoch: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

/// The registration of a waiter: later notifications are not missed.
#[must_use = "a registered waiter must commit or cancel"]
pub struct WaitTicket {
    epoch: usize,
}

impl EventCount {
    /// An event count without waiters.
    pub fn new() -> Self {
        Self {
            waiters: AtomicUsize::new(0),
            epoch: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Registers the calling thread. It then checks for work, and commits or cancels.
    pub fn prepare_wait(&self) -> WaitTicket {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let epoch = self.epoch.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        WaitTicket { epoch }
    }

    /// Cancels the registration.
    pub fn cancel_wait(&self, _ticket: WaitTicket) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sleeps until a notification after the registration.
    pub fn commit_wait(&self, ticket: WaitTicket) {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.epoch.load(Ordering::Relaxed) == ticket.epoch {
            guard = self
                .wake
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes one waiter, if there is one, after work was published. `handled`: whether an awake
    /// thread is searching for work anyway; it is called after the fence.
    pub fn notify_one_unless(&self, handled: impl FnOnce() -> bool) {
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::Relaxed) != 0 && !handled() {
            self.advance(Condvar::notify_one);
        }
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::Relaxed) != 0 {
            self.advance(Condvar::notify_all);
        }
    }

    /// Starts the next epoch; threads registered before it do not fall asleep.
    fn advance(&self, wake: impl FnOnce(&Condvar)) {
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let epoch = self.epoch.load(Ordering::Relaxed);
        self.epoch.store(epoch.wrapping_add(1), Ordering::Release);
        wake(&self.wake);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn every_work_item_is_taken_by_a_waiter() {
        let (count, work) = (EventCount::new(), AtomicU32::new(0));
        const ITEMS: u32 = 20_000;
        let take = || {
            let less = |items: u32| items.checked_sub(1);
            work.fetch_update(Ordering::AcqRel, Ordering::Acquire, less)
                .is_ok()
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..ITEMS {
                        while !take() {
                            let ticket = count.prepare_wait();
                            if work.load(Ordering::Acquire) > 0 {
                                count.cancel_wait(ticket);
                            } else {
                                count.commit_wait(ticket);
                            }
                        }
                    }
                });
            }
            for _ in 0..2 * ITEMS {
                work.fetch_add(1, Ordering::AcqRel);
                count.notify_one_unless(|| false);
            }
        });
        assert_eq!(work.into_inner(), 0);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// Takes one work item, sleeping until there is one; loom reports a deadlock if a wake-up is
    /// lost.
    fn wait_for(work: &AtomicUsize, count: &EventCount) {
        loop {
            let items = work.load(Ordering::Relaxed);
            let less = items.wrapping_sub(1);
            if items > 0
                && work
                    .compare_exchange(items, less, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
            let ticket = count.prepare_wait();
            if work.load(Ordering::Relaxed) > 0 {
                count.cancel_wait(ticket);
            } else {
                count.commit_wait(ticket);
            }
        }
    }

    #[test]
    fn no_wake_up_is_lost() {
        loom::model(|| {
            let shared = Arc::new((AtomicUsize::new(0), EventCount::new()));
            let waiting = shared.clone();
            let waiter = thread::spawn(move || wait_for(&waiting.0, &waiting.1));
            shared.0.fetch_add(1, Ordering::Relaxed);
            shared.1.notify_one_unless(|| false);
            waiter.join().unwrap();
        });
    }

    #[test]
    fn two_work_items_wake_two_waiters() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new((AtomicUsize::new(0), EventCount::new()));
            let waiters: Vec<_> = (0..2)
                .map(|_| {
                    let waiting = shared.clone();
                    thread::spawn(move || wait_for(&waiting.0, &waiting.1))
                })
                .collect();
            for _ in 0..2 {
                shared.0.fetch_add(1, Ordering::Relaxed);
                shared.1.notify_one_unless(|| false);
            }
            for waiter in waiters {
                waiter.join().unwrap();
            }
        });
    }

    #[test]
    fn a_thread_that_stops_searching_sees_work_whose_notification_was_skipped() {
        loom::model(|| {
            let shared = Arc::new((
                AtomicUsize::new(0),
                EventCount::new(),
                AtomicBool::new(true),
            ));
            let waiting = shared.clone();
            let waiter = thread::spawn(move || {
                waiting.2.store(false, Ordering::Release);
                wait_for(&waiting.0, &waiting.1);
            });
            shared.0.fetch_add(1, Ordering::Relaxed);
            let busy = || shared.2.load(Ordering::Relaxed);
            shared.1.notify_one_unless(busy);
            waiter.join().unwrap();
        });
    }
}
