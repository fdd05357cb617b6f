//! Requests that are executed later, in the order of their queue.
//!
//! Each core has execution units, each unit queues. A request gets a number that says its core,
//! unit, queue and place; it has ended when the numbers of its queue have come that far. A failure
//! goes to the tracker that the request was given.

use crate::cores::MAX_CORES;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use tenon_base::{Error, ErrorKind, Result};

/// What executes requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Tensor to host.
    TensorRead,
    /// Host to tensor.
    TensorWrite,
    /// Tensor to tensor.
    TensorOperation,
    /// Models.
    Compute,
    /// Collective operations.
    Collectives,
}

impl Unit {
    /// Every unit, in the order of their numbers (facts, neuron.md 1.3).
    pub const ALL: [Self; 5] = [
        Self::TensorRead,
        Self::TensorWrite,
        Self::TensorOperation,
        Self::Compute,
        Self::Collectives,
    ];

    /// How many queues it has (facts, neuron.md 1.6; one where that says nothing).
    pub fn queues(self) -> u32 {
        match self {
            Self::Collectives => 3,
            Self::TensorOperation => 2,
            _ => 1,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::TensorRead => "tensor read",
            Self::TensorWrite => "tensor write",
            Self::TensorOperation => "tensor operation",
            Self::Compute => "compute",
            Self::Collectives => "collectives",
        }
    }
}

/// Bits of a place in a queue; above it stands the queue.
const PLACE_BITS: u32 = 48;
/// Most queues of a unit, as a power of two.
const QUEUE_BITS: u32 = 2;
const UNIT_BITS: u32 = 3;

/// The number of a request: 11 bits core, 3 bits unit, 2 bits queue, 48 bits place from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

const _: () = assert!(MAX_CORES.ilog2() + UNIT_BITS + QUEUE_BITS + PLACE_BITS == u64::BITS);

impl Sequence {
    fn new(core: u32, unit: Unit, queue: u32, place: u64) -> Self {
        let queue_id = (core << UNIT_BITS | unit as u32) << QUEUE_BITS | queue;
        Self(u64::from(queue_id) << PLACE_BITS | place)
    }

    /// Its place in its queue, from 1 on.
    pub fn place(self) -> u64 {
        self.0 & ((1 << PLACE_BITS) - 1)
    }

    /// Core, unit and queue; `None` for a unit that there is not.
    fn queue(self) -> Option<(u32, Unit, u32)> {
        let id = (self.0 >> PLACE_BITS) as u32;
        let unit = id >> QUEUE_BITS & ((1 << UNIT_BITS) - 1);
        let unit = *Unit::ALL.get(unit as usize)?;
        Some((
            id >> (QUEUE_BITS + UNIT_BITS),
            unit,
            id & ((1 << QUEUE_BITS) - 1),
        ))
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.queue() {
            Some((core, unit, queue)) => {
                let (unit, place) = (unit.words(), self.place());
                write!(f, "request {place} of queue {queue}, {unit}, core {core}")
            }
            None => write!(f, "{:#x}", self.0),
        }
    }
}

/// Failures of requests of one core.
#[derive(Debug, Default)]
pub struct ErrorTracker(Mutex<Vec<(Sequence, i32)>>);

impl ErrorTracker {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The failures so far: the request, and the status that its error has.
    pub fn failures(&self) -> Vec<(Sequence, i32)> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn add(&self, sequence: Sequence, status: i32) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((sequence, status));
    }
}

/// What a request does.
pub type Work = Box<dyn FnOnce() -> Result<()> + Send>;

/// Hears how a request ended.
pub type Ended = Box<dyn FnOnce(Sequence, &Result<()>) + Send>;

/// The queues of all cores.
pub struct RequestQueues {
    /// By core, unit and queue.
    queues: Vec<[[Option<Arc<Queue>>; 1 << QUEUE_BITS]; Unit::ALL.len()]>,
}

struct Queue {
    name: String,
    depth: usize,
    state: Mutex<State>,
    /// A request came, or the queue closed.
    came: Condvar,
    /// A request ended.
    ended: Condvar,
    completed: AtomicU64,
    thread: OnceLock<Mutex<Option<JoinHandle<()>>>>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Request>,
    /// Of the request that came last.
    place: u64,
    closed: bool,
    /// Descriptors to make readable when a place has ended.
    watched: Vec<(u64, OwnedFd)>,
}

struct Request {
    sequence: Sequence,
    work: Work,
    tracker: Option<Arc<ErrorTracker>>,
    ended: Option<Ended>,
}

impl RequestQueues {
    /// Queues of `cores` cores, in each of which `depth` requests may wait or execute.
    pub fn new(cores: u32, depth: usize) -> Self {
        let queue = |core: u32, unit: Unit, queue: u32| {
            (queue < unit.queues()).then(|| {
                Arc::new(Queue {
                    name: format!("nrt {core}.{}.{queue}", unit as u32),
                    depth,
                    state: Mutex::default(),
                    came: Condvar::new(),
                    ended: Condvar::new(),
                    completed: AtomicU64::new(0),
                    thread: OnceLock::new(),
                })
            })
        };
        let core = |core| {
            Unit::ALL.map(|unit| std::array::from_fn(|number| queue(core, unit, number as u32)))
        };
        Self {
            queues: (0..cores).map(core).collect(),
        }
    }

    /// Puts a request on a queue.
    ///
    /// # Errors
    /// `InvalidArgument` for a queue that there is not, `QueueFull`, `Closed`.
    pub fn put(
        &self,
        core: u32,
        unit: Unit,
        queue: u32,
        work: Work,
        tracker: Option<Arc<ErrorTracker>>,
        ended: Option<Ended>,
    ) -> Result<Sequence> {
        let at = self.queue(core, unit, queue)?;
        let mut state = at.lock();
        if state.closed {
            return Err(Error::new(ErrorKind::Closed, "the queues are closed"));
        }
        let executing = state.place - at.completed.load(Ordering::SeqCst);
        if executing >= at.depth as u64 {
            return Err(Error::new(ErrorKind::QueueFull, "the queue is full")
                .expected(format_args!("at most {} requests in it", at.depth)));
        }
        at.start()?;
        state.place += 1;
        let sequence = Sequence::new(core, unit, queue, state.place);
        state.waiting.push_back(Request {
            sequence,
            work,
            tracker,
            ended,
        });
        drop(state);
        at.came.notify_one();
        Ok(sequence)
    }

    /// Whether a request has ended.
    ///
    /// # Errors
    /// `InvalidArgument` for a number that was not given to a request.
    pub fn is_completed(&self, sequence: Sequence) -> Result<bool> {
        let queue = self.of(sequence)?;
        Ok(queue.completed.load(Ordering::SeqCst) >= sequence.place())
    }

    /// The last request of a queue that has ended; place 0 when there was none.
    pub fn last_completed(&self, core: u32, unit: Unit, queue: u32) -> Result<Sequence> {
        let at = self.queue(core, unit, queue)?;
        let place = at.completed.load(Ordering::SeqCst);
        Ok(Sequence::new(core, unit, queue, place))
    }

    /// How many requests of a queue have not ended; as many as can be for a queue that there is not.
    pub fn waiting(&self, core: u32, unit: Unit, queue: u32) -> u64 {
        self.queue(core, unit, queue).map_or(u64::MAX, |queue| {
            let state = queue.lock();
            state.place - queue.completed.load(Ordering::SeqCst)
        })
    }

    /// A descriptor that becomes readable when a request ends, or is at once when it has.
    pub fn completion(&self, sequence: Sequence) -> Result<OwnedFd> {
        let queue = self.of(sequence)?;
        let failed = |error: std::io::Error| {
            Error::new(
                ErrorKind::OutOfMemory,
                format!("cannot make a descriptor: {error}"),
            )
        };
        let event = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut state = queue.lock();
        if queue.completed.load(Ordering::SeqCst) >= sequence.place() {
            signal(&event);
        } else {
            let ours = event.try_clone().map_err(failed)?;
            state.watched.push((sequence.place(), ours));
        }
        Ok(event)
    }

    /// Waits until every request that is on a queue of the unit now has ended.
    pub fn drain(&self, core: u32, unit: Unit) -> Result<()> {
        for number in 0..unit.queues() {
            let queue = self.queue(core, unit, number)?;
            let mut state = queue.lock();
            let last = state.place;
            while queue.completed.load(Ordering::SeqCst) < last {
                state = queue
                    .ended
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
        Ok(())
    }

    /// Executes what is in the queues, takes no more, and ends their threads.
    pub fn close(&self) {
        for queue in self.all() {
            queue.lock().closed = true;
            queue.came.notify_all();
        }
        for queue in self.all() {
            let thread = queue.thread.get().and_then(|thread| {
                let mut thread = thread.lock().unwrap_or_else(PoisonError::into_inner);
                thread.take()
            });
            // A request may close the queues itself, and cannot wait for its own end.
            let other =
                |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
            if let Some(thread) = thread.filter(other) {
                // It catches what panics.
                let _ = thread.join();
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.queues.iter().flatten().flatten().flatten()
    }

    fn queue(&self, core: u32, unit: Unit, queue: u32) -> Result<&Arc<Queue>> {
        let units = self.queues.get(core as usize).ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, "no such core")
                .expected(format_args!("a core below {}", self.queues.len()))
                .found(core)
        })?;
        let found = units[unit as usize].get(queue as usize);
        found.and_then(Option::as_ref).ok_or_else(|| {
            let text = format!("the unit for {} has no such queue", unit.words());
            Error::new(ErrorKind::InvalidArgument, text)
                .expected(format_args!("a queue below {}", unit.queues()))
                .found(queue)
        })
    }

    /// The queue of a request that was put on one.
    fn of(&self, sequence: Sequence) -> Result<&Arc<Queue>> {
        let queue = sequence
            .queue()
            .and_then(|(core, unit, queue)| self.queue(core, unit, queue).ok());
        let given = |queue: &&Arc<Queue>| (1..=queue.lock().place).contains(&sequence.place());
        queue.filter(given).ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, "no request has this number").found(sequence)
        })
    }
}

impl Drop for RequestQueues {
    fn drop(&mut self) {
        self.close();
    }
}

impl Queue {
    /// Starts the thread, once.
    fn start(self: &Arc<Self>) -> Result<()> {
        if self.thread.get().is_some() {
            return Ok(());
        }
        let queue = self.clone();
        let thread = std::thread::Builder::new()
            .name(self.name.clone())
            .spawn(move || queue.execute())
            .map_err(|error| {
                Error::new(
                    ErrorKind::OutOfMemory,
                    format!("cannot start a thread: {error}"),
                )
            })?;
        let _ = self.thread.set(Mutex::new(Some(thread)));
        Ok(())
    }

    fn execute(&self) {
        while let Some(request) = self.next() {
            let Request {
                sequence,
                work,
                tracker,
                ended,
            } = request;
            let done = catch_unwind(AssertUnwindSafe(work))
                .unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a request panicked")));
            if let (Some(tracker), Err(error)) = (tracker, &done) {
                tracker.add(sequence, error.kind().nrt_status());
            }
            if let Some(ended) = ended {
                // What a listener does is its own.
                let _ = catch_unwind(AssertUnwindSafe(|| ended(sequence, &done)));
            }
            let mut state = self.lock();
            self.completed.store(sequence.place(), Ordering::SeqCst);
            state.watched.retain(|(place, event)| {
                let waits = *place > sequence.place();
                if !waits {
                    signal(event);
                }
                waits
            });
            drop(state);
            self.ended.notify_all();
        }
    }

    fn next(&self) -> Option<Request> {
        let mut state = self.lock();
        loop {
            if let Some(request) = state.waiting.pop_front() {
                return Some(request);
            }
            if state.closed {
                return None;
            }
            state = self
                .came
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a descriptor readable.
fn signal(event: &OwnedFd) {
    // A counter of 64 bits that is set once has room.
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    fn readable(event: &OwnedFd, patience: Duration) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let patience = Timespec::try_from(patience).unwrap();
        let mut polled = [PollFd::new(event, PollFlags::IN)];
        poll(&mut polled, Some(&patience)).unwrap() == 1
    }

    fn waiting(receiver: mpsc::Receiver<()>) -> Work {
        Box::new(move || {
            receiver
                .recv()
                .map_err(|_| Error::new(ErrorKind::OutOfBounds, "left alone"))
        })
    }

    #[test]
    fn requests_end_in_order_and_say_so() {
        let queues = RequestQueues::new(2, 3);
        let (first_sender, receiver) = mpsc::channel();
        let put = |work, tracker| queues.put(1, Unit::TensorOperation, 1, work, tracker, None);
        let first = put(waiting(receiver), None).unwrap();
        let (second_sender, receiver) = mpsc::channel();
        let tracker = Arc::new(ErrorTracker::new());
        let second = put(waiting(receiver), Some(tracker.clone())).unwrap();
        assert_eq!(second.0 - first.0, 1);
        assert_eq!(first.place(), 1);
        assert_eq!(
            second.to_string(),
            "request 2 of queue 1, tensor operation, core 1"
        );
        assert!(!queues.is_completed(first).unwrap());
        let events = [first, second].map(|sequence| queues.completion(sequence).unwrap());
        assert!(!readable(&events[0], Duration::ZERO));
        first_sender.send(()).unwrap();
        assert!(readable(&events[0], Duration::from_secs(60)));
        assert!(queues.is_completed(first).unwrap() && !queues.is_completed(second).unwrap());
        let last = queues.last_completed(1, Unit::TensorOperation, 1).unwrap();
        assert_eq!(last, first);
        assert!(readable(&queues.completion(first).unwrap(), Duration::ZERO));
        // The second fails: it has ended too, and its tracker knows.
        drop(second_sender);
        queues.drain(1, Unit::TensorOperation).unwrap();
        assert!(readable(&events[1], Duration::ZERO));
        assert_eq!(tracker.failures(), [(second, 1006)]);
    }

    #[test]
    fn a_full_queue_takes_no_more() {
        let queues = RequestQueues::new(1, 2);
        let (sender, receiver) = mpsc::channel();
        let put = |work| queues.put(0, Unit::Compute, 0, work, None, None);
        put(waiting(receiver)).unwrap();
        put(Box::new(|| panic!("caught"))).unwrap();
        let error = put(Box::new(|| Ok(()))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::QueueFull);
        sender.send(()).unwrap();
        queues.drain(0, Unit::Compute).unwrap();
        put(Box::new(|| Ok(()))).unwrap();
        queues.close();
        let error = put(Box::new(|| Ok(()))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
    }

    #[test]
    fn listeners_hear_how_requests_end() {
        let queues = RequestQueues::new(1, 8);
        let (sender, heard) = mpsc::channel();
        for fails in [false, true] {
            let sender = sender.clone();
            let work: Work = Box::new(move || match fails {
                true => Err(Error::new(ErrorKind::BadInput, "bad")),
                false => Ok(()),
            });
            let ended: Ended = Box::new(move |sequence, done| {
                sender.send((sequence.place(), done.is_ok())).unwrap();
            });
            queues
                .put(0, Unit::TensorRead, 0, work, None, Some(ended))
                .unwrap();
        }
        drop(queues);
        drop(sender);
        assert_eq!(heard.iter().collect::<Vec<_>>(), [(1, true), (2, false)]);
    }

    #[test]
    fn numbers_and_queues_that_are_not_there_are_refused() {
        let queues = RequestQueues::new(1, 8);
        let put =
            |core, unit, queue| queues.put(core, unit, queue, Box::new(|| Ok(())), None, None);
        assert!(put(1, Unit::Compute, 0).is_err());
        assert!(put(0, Unit::Compute, 1).is_err());
        assert!(put(0, Unit::Collectives, 3).is_err());
        let sequence = put(0, Unit::Collectives, 2).unwrap();
        queues.is_completed(sequence).unwrap();
        for wrong in [0, 1, sequence.0 + 1, sequence.0 ^ 1 << 48, u64::MAX] {
            let error = queues.is_completed(Sequence(wrong)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(queues.completion(Sequence(wrong)).is_err());
        }
    }
}
