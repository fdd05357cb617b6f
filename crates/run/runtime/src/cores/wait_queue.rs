//! Executions that take turns on cores.
//!
//! A core executes one thing at a time. Who comes when all cores of its model are busy waits in one
//! line for all cores. A core that becomes free may be taken at once by the thread that just left
//! it: that keeps its caches warm and wakes nobody for nothing. While a core's thread comes back to
//! it again and again, those who wait are woken at intervals only. One who has waited for long sleeps
//! until it is handed the core.

use super::Core;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};
use tenon_base::{Control, Error, ErrorKind, Result};

/// Between two wakings for one core whose thread comes back to it. Waking a thread costs some
/// microseconds of two threads, which short executions must not pay each time.
const WAKE_INTERVAL: Duration = Duration::from_millis(1);

/// After that long the one that waits is handed the core.
const HAND_OVER: Duration = Duration::from_millis(5);

/// How often one that waits looks by itself, as long as nobody hands it a core.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// How often one who will be handed the core looks whether it was cancelled: each look takes time
/// from those that execute.
const CANCELLED: Duration = Duration::from_millis(20);

/// Executions that may wait at a time.
const MAX_WAITING: usize = 1 << 16;

/// All that wait, for whatever core.
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
    /// Numbers of the cores that it may execute on.
    cores: Arc<[Arc<Core>]>,
    /// The core that it was handed.
    granted: Option<Arc<Core>>,
}

/// Cores that one model may execute on, one execution each.
#[derive(Debug, Clone)]
pub struct CoreGroup {
    cores: Arc<[Arc<Core>]>,
    queue: Arc<WaitQueue>,
    next: Arc<AtomicUsize>,
}

/// A core that executes something, until this is dropped.
#[derive(Debug)]
pub struct CoreGuard<'a> {
    group: &'a CoreGroup,
    core: Arc<Core>,
    since: Instant,
    /// Whether this thread was the last that had the core.
    again: bool,
}

/// A number of this thread, from 1 on.
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

    /// Every `step`th of them.
    pub(crate) fn every(&self, step: usize) -> Self {
        Self::new(self.cores.iter().step_by(step).cloned(), self.queue.clone())
    }

    /// Takes a core that is free, or waits for one.
    ///
    /// # Errors
    /// `QueueFull` when very many wait already; what `control` says.
    pub fn occupy(&self, control: &Control) -> Result<CoreGuard<'_>> {
        let core = match self.try_take() {
            Some(core) => core,
            None => self.wait(control)?,
        };
        let this = this_thread();
        // Whose number it is changes only while the core is taken.
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

    /// Takes a free core, another first each time.
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
            // Before the look: a release that did not find it old enough ends before the look does,
            // which takes the lock.
            let long = since.elapsed() >= HAND_OVER;
            let patience = if long { CANCELLED } else { POLL_INTERVAL };
            if let Some(core) = self.queue.take_granted(ticket) {
                return Ok(core);
            }
            if let Some(core) = self.try_take() {
                // What was handed over meanwhile goes on to the next.
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
            std::thread::park_timeout(patience);
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

    /// The core that was handed to the holder of `ticket`, who leaves the line then.
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

    /// Gives back a core: to everyone, or to the one who has waited too long. Whether its thread
    /// had it `again` tells whether it may be expected back.
    fn release(&self, core: &Arc<Core>, again: bool) {
        if self.length.load(Ordering::SeqCst) == 0 {
            core.busy.store(false, Ordering::SeqCst);
            // Who joined between the two finds the core by itself at its next look, at the latest
            // after its patience; most often it is found here.
            if self.length.load(Ordering::SeqCst) == 0 {
                return;
            }
            return self.wake(core, &mut self.lock());
        }
        let mut waiting = self.lock();
        let now = Instant::now();
        let accepts = |waiter: &&mut Waiter| {
            waiter.granted.is_none()
                && waiter
                    .cores
                    .iter()
                    .any(|candidate| Arc::ptr_eq(candidate, core))
        };
        let first = waiting.iter_mut().find(accepts);
        if let Some(waiter) = first.filter(|waiter| now - waiter.since >= HAND_OVER) {
            waiter.granted = Some(core.clone());
            waiter.thread.unpark();
            return;
        }
        core.busy.store(false, Ordering::SeqCst);
        let mut last = core.waked.lock().unwrap_or_else(PoisonError::into_inner);
        if !again || last.is_none_or(|last| now - last >= WAKE_INTERVAL) {
            *last = Some(now);
            drop(last);
            self.wake(core, &mut waiting);
        }
    }

    fn wake(&self, core: &Arc<Core>, waiting: &mut VecDeque<Waiter>) {
        let mut accepts = waiting.iter().filter(|waiter| {
            waiter.granted.is_none()
                && waiter
                    .cores
                    .iter()
                    .any(|candidate| Arc::ptr_eq(candidate, core))
        });
        if let Some(waiter) = accepts.next() {
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
    fn a_core_is_taken_by_one_at_a_time() {
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
    fn who_waits_can_be_cancelled() {
        let cores = cores(1);
        let group = cores.group(0..1).unwrap();
        let held = group.occupy(&Control::new()).unwrap();
        for waits in [HAND_OVER / 5, HAND_OVER * 3] {
            let deadline = Instant::now() + waits;
            let error = group.occupy(&Control::with_deadline(deadline)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
        }
        drop(held);
        group.occupy(&Control::new()).unwrap();
    }

    #[test]
    fn who_waits_for_long_is_handed_the_core() {
        let cores = cores(1);
        let group = cores.group(0..1).unwrap();
        let held = group.occupy(&Control::new()).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| group.occupy(&Control::new()).map(|core| core.index()));
            while group.queue.length.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(HAND_OVER);
            drop(held);
            assert_eq!(waits.join().unwrap().unwrap(), 0);
        });
    }
}
