//! A request queue and its thread.

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
    /// The capacity: requests that wait or execute.
    depth: usize,
    state: Mutex<State>,
    /// Signalled when a request was added, or the queue closed.
    came: Condvar,
    /// Signalled when a request completed.
    ended: Condvar,
    /// The position of the last completed request.
    completed: AtomicU64,
    thread: OnceLock<Mutex<Option<JoinHandle<()>>>>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Sequence, Request)>,
    /// The position of the last added request.
    position: u64,
    closed: bool,
    /// Descriptors to be signalled when a position is complete.
    watched: Vec<(u64, OwnedFd)>,
    /// Eventfds of callers, one per position: signalled when it is complete.
    signalled: BTreeMap<u64, OwnedFd>,
    /// Signalled whenever a request completes.
    signalled_each: Option<OwnedFd>,
}

/// A request: its work, and the receivers of its result.
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

    /// Adds a request, which the queue's thread executes; the first one starts the thread.
    ///
    /// # Errors
    /// `QueueFull`, `Closed`, `OutOfMemory` when the thread cannot be started.
    pub fn put(self: &Arc<Self>, request: Request) -> Result<Sequence> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::new(ErrorKind::Closed, "the queues are closed"));
        }
        if state.position - self.completed() >= self.depth as u64 {
            return Err(Error::new(ErrorKind::QueueFull, "the queue is full")
                .expected(format_args!("at most {} requests in it", self.depth)));
        }
        self.start()?;
        state.position += 1;
        let sequence = self.sequence(state.position);
        state.waiting.push_back((sequence, request));
        drop(state);
        self.came.notify_one();
        Ok(sequence)
    }

    /// Whether a request of this position was added.
    pub fn had(&self, position: u64) -> bool {
        (1..=self.lock().position).contains(&position)
    }

    /// The position of the last completed request, 0 if there is none.
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::SeqCst)
    }

    /// The sequence number of the last completed request.
    pub fn last_completed(&self) -> Sequence {
        self.sequence(self.completed())
    }

    /// The number of incomplete requests.
    pub fn unfinished(&self) -> u64 {
        let state = self.lock();
        state.position - self.completed()
    }

    /// A file descriptor that becomes readable when the request of a position is complete.
    pub fn completion(&self, position: u64) -> Result<OwnedFd> {
        let failed = |error: std::io::Error| {
            let text = format!("cannot make a descriptor: {error}");
            Error::new(ErrorKind::OutOfMemory, text)
        };
        let event = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut state = self.lock();
        if self.completed() >= position {
            signal(&event);
        } else {
            let ours = event.try_clone().map_err(failed)?;
            state.watched.push((position, ours));
        }
        Ok(event)
    }

    /// Sets the eventfd that is signalled whenever a request completes; `None` removes it.
    pub fn signal_each(&self, event: Option<OwnedFd>) {
        self.lock().signalled_each = event;
    }

    /// Sets the eventfd that is signalled when the request of a position completes, immediately if
    /// it is complete; `None` removes it.
    pub fn signal_one(&self, position: u64, event: Option<OwnedFd>) {
        let mut state = self.lock();
        state.signalled.remove(&position);
        match event {
            Some(event) if self.completed() >= position => signal(&event),
            Some(event) => {
                state.signalled.insert(position, event);
            }
            None => {}
        }
    }

    /// Waits until all current requests are complete.
    pub fn drain(&self) {
        let mut state = self.lock();
        let last = state.position;
        while self.completed() < last {
            let waited = self.ended.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Rejects further requests.
    pub fn close(&self) {
        self.lock().closed = true;
        self.came.notify_all();
    }

    /// Waits until the thread of a closed queue has executed the remaining requests.
    pub fn join(&self) {
        let thread = self.thread.get().and_then(|thread| {
            let mut thread = thread.lock().unwrap_or_else(PoisonError::into_inner);
            thread.take()
        });
        // A request may close the queues; its thread cannot join itself.
        let other = |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
        if let Some(thread) = thread.filter(other) {
            // The thread catches panics of requests.
            let _ = thread.join();
        }
    }

    fn sequence(&self, position: u64) -> Sequence {
        Sequence::new(self.core, self.unit, self.number, position)
    }

    fn start(self: &Arc<Self>) -> Result<()> {
        if self.thread.get().is_some() {
            return Ok(());
        }
        let queue = self.clone();
        // At most 15 bytes, the limit of thread names: a core has up to 4 digits.
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
                // A panic of the callback does not affect the queue.
                let _ = catch_unwind(AssertUnwindSafe(|| ended(sequence, &done)));
            }
            self.complete(sequence.position());
        }
    }

    fn complete(&self, position: u64) {
        let mut state = self.lock();
        self.completed.store(position, Ordering::SeqCst);
        state.watched.retain(|(watched, event)| {
            let waits = *watched > position;
            if !waits {
                signal(event);
            }
            waits
        });
        if let Some(event) = state.signalled.remove(&position) {
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
    // Fails or blocks only when the 64-bit counter is full.
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}
