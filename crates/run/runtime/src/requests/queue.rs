//! One queue, and the thread that executes its requests.

use super::{CompletionCallback, ErrorTracker, ExecutionUnit, RequestWork, Sequence};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use tenon_base::{Error, ErrorKind, Result};

/// Requests of one queue of a unit of a core.
pub(super) struct Queue {
    core: u32,
    unit: ExecutionUnit,
    number: u32,
    /// Requests that may wait or execute at a time.
    depth: usize,
    state: Mutex<State>,
    /// A request came, or the queue closed.
    came: Condvar,
    /// A request ended.
    ended: Condvar,
    /// The place of the last request that ended.
    completed: AtomicU64,
    thread: OnceLock<Mutex<Option<JoinHandle<()>>>>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Sequence, Request)>,
    /// Of the request that came last.
    place: u64,
    closed: bool,
    /// Descriptors to make readable when a place has ended.
    watched: Vec<(u64, OwnedFd)>,
    /// Eventfds of callers: signalled when the place has ended, one for a place.
    signalled: BTreeMap<u64, OwnedFd>,
    /// Signalled whenever a request has ended.
    signalled_each: Option<OwnedFd>,
}

/// What is to be done, and who hears of it.
pub(super) struct Request {
    pub work: RequestWork,
    pub tracker: Option<Arc<ErrorTracker>>,
    pub ended: Option<CompletionCallback>,
}

impl Queue {
    /// An empty queue of `unit` on `core`.
    pub fn new(core: u32, unit: ExecutionUnit, number: u32, depth: usize) -> Self {
        Self {
            core,
            unit,
            number,
            depth,
            state: Mutex::default(),
            came: Condvar::new(),
            ended: Condvar::new(),
            completed: AtomicU64::new(0),
            thread: OnceLock::new(),
        }
    }

    /// Takes a request, which the queue's thread executes; starts the thread for the first.
    ///
    /// # Errors
    /// `QueueFull`, `Closed`, `OutOfMemory` when there can be no thread.
    pub fn put(self: &Arc<Self>, request: Request) -> Result<Sequence> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::new(ErrorKind::Closed, "the queues are closed"));
        }
        if state.place - self.completed() >= self.depth as u64 {
            return Err(Error::new(ErrorKind::QueueFull, "the queue is full")
                .expected(format_args!("at most {} requests in it", self.depth)));
        }
        self.start()?;
        state.place += 1;
        let sequence = self.sequence(state.place);
        state.waiting.push_back((sequence, request));
        drop(state);
        self.came.notify_one();
        Ok(sequence)
    }

    /// Whether a request was put here that had this place.
    pub fn had(&self, place: u64) -> bool {
        (1..=self.lock().place).contains(&place)
    }

    /// The place of the last request that has ended, 0 when there was none.
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::SeqCst)
    }

    /// The number of the last request that has ended.
    pub fn last_completed(&self) -> Sequence {
        self.sequence(self.completed())
    }

    /// How many requests have not ended.
    pub fn unfinished(&self) -> u64 {
        let state = self.lock();
        state.place - self.completed()
    }

    /// A descriptor that becomes readable when the request of a place ends, or is at once when it
    /// has.
    pub fn completion(&self, place: u64) -> Result<OwnedFd> {
        let failed = |error: std::io::Error| {
            let text = format!("cannot make a descriptor: {error}");
            Error::new(ErrorKind::OutOfMemory, text)
        };
        let event = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut state = self.lock();
        if self.completed() >= place {
            signal(&event);
        } else {
            let ours = event.try_clone().map_err(failed)?;
            state.watched.push((place, ours));
        }
        Ok(event)
    }

    /// Signals an eventfd whenever a request ends, in place of the one before; `None` ends it.
    pub fn signal_each(&self, event: Option<OwnedFd>) {
        self.lock().signalled_each = event;
    }

    /// Signals an eventfd when the request of a place ends, at once when it has; in place of the
    /// one before, `None` ends it.
    pub fn signal_one(&self, place: u64, event: Option<OwnedFd>) {
        let mut state = self.lock();
        state.signalled.remove(&place);
        match event {
            Some(event) if self.completed() >= place => signal(&event),
            Some(event) => {
                state.signalled.insert(place, event);
            }
            None => {}
        }
    }

    /// Waits until every request that is here now has ended.
    pub fn drain(&self) {
        let mut state = self.lock();
        let last = state.place;
        while self.completed() < last {
            let waited = self.ended.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes no more requests.
    pub fn close(&self) {
        self.lock().closed = true;
        self.came.notify_all();
    }

    /// Waits until the thread of a closed queue has executed what there is.
    pub fn join(&self) {
        let thread = self.thread.get().and_then(|thread| {
            let mut thread = thread.lock().unwrap_or_else(PoisonError::into_inner);
            thread.take()
        });
        // A request may close the queues itself, and cannot wait for its own end.
        let other = |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
        if let Some(thread) = thread.filter(other) {
            // It catches what panics.
            let _ = thread.join();
        }
    }

    fn sequence(&self, place: u64) -> Sequence {
        Sequence::new(self.core, self.unit, self.number, place)
    }

    fn start(self: &Arc<Self>) -> Result<()> {
        if self.thread.get().is_some() {
            return Ok(());
        }
        let queue = self.clone();
        // At most 15 bytes, which is what the system shows of a name: a core has 4 digits.
        let name = format!("nrt {}.{}.{}", self.core, self.unit as u32, self.number);
        let thread = std::thread::Builder::new().name(name);
        let thread = thread.spawn(move || queue.execute()).map_err(|error| {
            let text = format!("cannot start a thread: {error}");
            Error::new(ErrorKind::OutOfMemory, text)
        })?;
        let _ = self.thread.set(Mutex::new(Some(thread)));
        Ok(())
    }

    fn execute(&self) {
        while let Some((sequence, request)) = self.next() {
            let done = catch_unwind(AssertUnwindSafe(request.work))
                .unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a request panicked")));
            if let (Some(tracker), Err(error)) = (request.tracker, &done) {
                tracker.add(sequence, error.kind().nrt_status());
            }
            if let Some(ended) = request.ended {
                // What a listener does is its own.
                let _ = catch_unwind(AssertUnwindSafe(|| ended(sequence, &done)));
            }
            self.complete(sequence.place());
        }
    }

    fn complete(&self, place: u64) {
        let mut state = self.lock();
        self.completed.store(place, Ordering::SeqCst);
        state.watched.retain(|(watched, event)| {
            let waits = *watched > place;
            if !waits {
                signal(event);
            }
            waits
        });
        if let Some(event) = state.signalled.remove(&place) {
            signal(&event);
        }
        if let Some(event) = &state.signalled_each {
            signal(event);
        }
        drop(state);
        self.ended.notify_all();
    }

    fn next(&self) -> Option<(Sequence, Request)> {
        let mut state = self.lock();
        loop {
            if let Some(request) = state.waiting.pop_front() {
                return Some(request);
            }
            if state.closed {
                return None;
            }
            let waited = self.came.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a descriptor readable.
fn signal(event: &OwnedFd) {
    // Fails or waits only when the counter of 64 bits is full.
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}
