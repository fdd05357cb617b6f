//! Sleeping until something may have happened, without a lock on the side that makes it happen.
//!
//! A waiter announces itself, looks once more whether there is work, and only then sleeps. Who
//! brings work publishes it and looks whether anyone is announced. Between the two steps each side
//! has a full fence, so at least one of them sees the other (Dekker): either the waiter finds the
//! work, or the bringer finds the waiter. Where nobody waits, a notification is a
//! fence and a load.

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, fence};
use std::sync::PoisonError;

/// See the module.
pub struct EventCount {
    /// Threads between announcing and waking.
    waiters: AtomicUsize,
    /// Counts notifications; changed under the lock.
    epoch: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

/// An announcement to wait: notifications after it are not missed.
#[must_use = "an announced waiter must wait or cancel"]
pub struct WaitTicket {
    epoch: usize,
}

impl EventCount {
    /// Nobody waits.
    pub fn new() -> Self {
        Self {
            waiters: AtomicUsize::new(0),
            epoch: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Announces the calling thread. It then looks for work, and waits or cancels.
    pub fn prepare_wait(&self) -> WaitTicket {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let epoch = self.epoch.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        WaitTicket { epoch }
    }

    /// Takes the announcement back.
    pub fn cancel_wait(&self, _ticket: WaitTicket) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sleeps until a notification that came after the announcement.
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

    /// Wakes one waiter, if there is one, after work for one was published. `handled` says that
    /// somebody awake looks for work anyway; it is read after the work was published.
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

    /// Starts the next epoch; who announced itself before does not fall asleep any more.
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
    fn every_piece_of_work_finds_a_waiter() {
        let (count, work) = (EventCount::new(), AtomicU32::new(0));
        const PIECES: u32 = 20_000;
        let take = || {
            let less = |pieces: u32| pieces.checked_sub(1);
            work.fetch_update(Ordering::AcqRel, Ordering::Acquire, less)
                .is_ok()
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..PIECES {
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
            for _ in 0..2 * PIECES {
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

    /// Takes `pieces` of work, sleeping in between; loom reports a deadlock if a wake-up is lost.
    fn wait_for(work: &AtomicUsize, count: &EventCount) {
        loop {
            let there = work.load(Ordering::Relaxed);
            let less = there.wrapping_sub(1);
            if there > 0
                && work
                    .compare_exchange(there, less, Ordering::Relaxed, Ordering::Relaxed)
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
    fn two_pieces_of_work_wake_two_waiters() {
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
    fn who_stops_looking_around_sees_work_that_counted_on_it() {
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
