//! Mutual exclusion of executions on cores, with a FIFO queue of waiting threads.
//!
//! A core runs one execution at a time. An execution waits when all cores of its model are busy, in
//! one queue for all cores. The thread that releases a core may take it again at once (barging),
//! which keeps caches warm and avoids needless wake-ups. While the same thread takes a core
//! repeatedly, waiting threads are woken only at intervals. A thread that has waited long is
//! granted the core directly (handoff).

use super::Core;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};
use tenon_base::{Control, Error, ErrorKind, Result};

/// The interval between wake-ups for a core that the same thread takes repeatedly. A wake-up costs
/// some microseconds of two threads, too much for each short execution.
const WAKE_INTERVAL: Duration = Duration::from_millis(1);

/// The waiting time after which a core is granted directly.
const GRANT_AFTER: Duration = Duration::from_millis(5);

/// The polling interval of a waiting thread before [`GRANT_AFTER`].
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The interval of cancellation checks after [`GRANT_AFTER`], longer because each check takes CPU
/// time from executions.
const CANCELLED: Duration = Duration::from_millis(20);

/// The maximum number of waiting executions.
const MAX_WAITING: usize = 1 << 16;

/// The waiting threads, for any core.
#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    length: AtomicUsize,
    waiting: Mutex<VecDeque<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    ticket: usize,
    thread: Thread,
    since: Instant,
    /// The cores that it may execute on.
    cores: Arc<[Arc<Core>]>,
    /// The core that it was granted.
    granted: Option<Arc<Core>>,
}

impl Waiter {
    /// Whether it may be granted this core.
    fn accepts(&self, core: &Arc<Core>) -> bool {
        self.granted.is_none() && self.cores.iter().any(|own| Arc::ptr_eq(own, core))
    }
}

/// The cores on which a model may execute, one execution each.
#[derive(Debug, Clone)]
pub struct CoreGroup {
    cores: Arc<[Arc<Core>]>,
    queue: Arc<WaitQueue>,
    next: Arc<AtomicUsize>,
}

/// An exclusively held core, released when this is dropped.
#[derive(Debug)]
pub struct CoreGuard<'a> {
    group: &'a CoreGroup,
    core: Arc<Core>,
    since: Instant,
    /// Whether this thread was the last holder of the core.
    again: bool,
}

/// The number of this thread, from 1.
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

impl CoreGroup {
    pub(super) fn new(cores: impl IntoIterator<Item = Arc<Core>>, queue: Arc<WaitQueue>) -> Self {
        Self {
            cores: cores.into_iter().collect(),
            queue,
            next: Arc::default(),
        }
    }

    /// The cores.
    pub fn cores(&self) -> &[Arc<Core>] {
        &self.cores
    }

    /// Every `step`th core.
    pub(crate) fn every(&self, step: usize) -> Self {
        Self::new(self.cores.iter().step_by(step).cloned(), self.queue.clone())
    }

    /// Takes a free core, or waits for one.
    ///
    /// # Errors
    /// `QueueFull` when the maximum number is waiting; cancellation and deadline of `control`.
    pub fn occupy(&self, control: &Control) -> Result<CoreGuard<'_>> {
        let core = match self.try_take() {
            Some(core) => core,
            None => self.wait(control)?,
        };
        let this = this_thread();
        // Written only by the holder of the core.
        let again = core.holder.load(Ordering::Relaxed) == this;
        if !again {
            core.holder.store(this, Ordering::Relaxed);
        }
        Ok(CoreGuard {
            group: self,
            core,
            since: Instant::now(),
            again,
        })
    }

    /// Takes a free core, starting at a different one each time (round robin).
    fn try_take(&self) -> Option<Arc<Core>> {
        let count = self.cores.len();
        let start = match count {
            1 => 0,
            _ => self.next.fetch_add(1, Ordering::Relaxed) % count,
        };
        let mut all = (0..count).map(|step| &self.cores[(start + step) % count]);
        all.find(|core| !core.busy.swap(true, Ordering::SeqCst))
            .cloned()
    }

    fn wait(&self, control: &Control) -> Result<Arc<Core>> {
        let ticket = self.queue.enter(self.cores.clone())?;
        let since = Instant::now();
        loop {
            // Measured before `take_granted`, which takes the lock: a release that found this
            // thread too young has finished by then.
            let long = since.elapsed() >= GRANT_AFTER;
            let interval = if long { CANCELLED } else { POLL_INTERVAL };
            if let Some(core) = self.queue.take_granted(ticket) {
                return Ok(core);
            }
            if let Some(core) = self.try_take() {
                // A core granted meanwhile is released to the next thread.
                if let Some(other) = self.queue.leave(ticket) {
                    self.queue.release(&other, false);
                }
                return Ok(core);
            }
            if let Err(error) = control.check() {
                if let Some(core) = self.queue.leave(ticket) {
                    self.queue.release(&core, false);
                }
                return Err(error);
            }
            std::thread::park_timeout(interval);
        }
    }
}

impl WaitQueue {
    fn enter(&self, cores: Arc<[Arc<Core>]>) -> Result<usize> {
        static TICKETS: AtomicUsize = AtomicUsize::new(0);
        let mut waiting = self.lock();
        if waiting.len() >= MAX_WAITING {
            return Err(Error::new(
                ErrorKind::QueueFull,
                "too many executions wait for a core",
            ));
        }
        let ticket = TICKETS.fetch_add(1, Ordering::Relaxed);
        waiting.push_back(Waiter {
            ticket,
            thread: std::thread::current(),
            since: Instant::now(),
            cores,
            granted: None,
        });
        self.length.fetch_add(1, Ordering::SeqCst);
        Ok(ticket)
    }

    /// The core granted to the holder of `ticket`, which then leaves the queue.
    fn take_granted(&self, ticket: usize) -> Option<Arc<Core>> {
        let mut waiting = self.lock();
        let at = waiting.iter().position(|waiter| waiter.ticket == ticket)?;
        waiting[at].granted.as_ref()?;
        self.length.fetch_sub(1, Ordering::SeqCst);
        waiting.remove(at)?.granted
    }

    fn leave(&self, ticket: usize) -> Option<Arc<Core>> {
        let mut waiting = self.lock();
        let at = waiting.iter().position(|waiter| waiter.ticket == ticket)?;
        self.length.fetch_sub(1, Ordering::SeqCst);
        waiting.remove(at)?.granted
    }

    /// Releases a core, or grants it to a thread that has waited too long. `again`: whether the
    /// thread held it repeatedly, and will probably take it again.
    fn release(&self, core: &Arc<Core>, again: bool) {
        if self.length.load(Ordering::SeqCst) == 0 {
            core.busy.store(false, Ordering::SeqCst);
            // A thread that entered the queue between the two loads finds the core at its next
            // poll; usually it is found here.
            if self.length.load(Ordering::SeqCst) == 0 {
                return;
            }
            return self.wake(core, &mut self.lock());
        }
        let mut waiting = self.lock();
        let now = Instant::now();
        let first = waiting.iter_mut().find(|waiter| waiter.accepts(core));
        if let Some(waiter) = first.filter(|waiter| now - waiter.since >= GRANT_AFTER) {
            waiter.granted = Some(core.clone());
            waiter.thread.unpark();
            return;
        }
        core.busy.store(false, Ordering::SeqCst);
        let mut last = core
            .last_wake
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !again || last.is_none_or(|last| now - last >= WAKE_INTERVAL) {
            *last = Some(now);
            drop(last);
            self.wake(core, &mut waiting);
        }
    }

    fn wake(&self, core: &Arc<Core>, waiting: &mut VecDeque<Waiter>) {
        if let Some(waiter) = waiting.iter().find(|waiter| waiter.accepts(core)) {
            waiter.thread.unpark();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Waiter>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for CoreGuard<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Drop for CoreGuard<'_> {
    fn drop(&mut self) {
        self.core.count(self.since.elapsed());
        self.group.queue.release(&self.core, self.again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CoreOptions, Cores};
    use std::sync::atomic::AtomicU32;

    fn cores(count: u32) -> Cores {
        Cores::new(&CoreOptions {
            total: Some(count),
            ..CoreOptions::default()
        })
        .unwrap()
    }

    #[test]
    fn a_core_is_held_by_one_execution_at_a_time() {
        let cores = cores(2);
        let group = cores.group(0..2).unwrap();
        let (inside, most, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let occupied = group.occupy(&Control::new()).unwrap();
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_micros(20));
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(occupied);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 1800);
        assert_eq!(most.into_inner(), 2);
        let counted: u64 = cores.iter().map(|core| core.executions()).sum();
        assert_eq!(counted, 1800);
    }

    #[test]
    fn a_waiting_execution_can_be_cancelled() {
        let cores = cores(1);
        let group = cores.group(0..1).unwrap();
        let held = group.occupy(&Control::new()).unwrap();
        for waits in [GRANT_AFTER / 5, GRANT_AFTER * 3] {
            let deadline = Instant::now() + waits;
            let error = group.occupy(&Control::with_deadline(deadline)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
        }
        drop(held);
        group.occupy(&Control::new()).unwrap();
    }

    #[test]
    fn a_thread_that_waits_long_is_granted_the_core() {
        let cores = cores(1);
        let group = cores.group(0..1).unwrap();
        let held = group.occupy(&Control::new()).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| group.occupy(&Control::new()).map(|core| core.index()));
            while group.queue.length.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(GRANT_AFTER);
            drop(held);
            assert_eq!(waits.join().unwrap().unwrap(), 0);
        });
    }
}
