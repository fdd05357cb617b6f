//! Requests that are executed later, in the order of their queue.
//!
//! Each core has execution units, each unit queues. A request gets a number that says its core,
//! unit, queue and place; it has ended when the numbers of its queue have come that far. A failure
//! goes to the tracker that the request was given.

mod queue;
mod sequence;

pub use sequence::{ExecutionUnit, Sequence};

use queue::{Queue, Request};
use sequence::QUEUE_BITS;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use tenon_base::{Error, ErrorKind, Result};

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
pub type RequestWork = Box<dyn FnOnce() -> Result<()> + Send>;

/// Hears how a request ended.
pub type CompletionCallback = Box<dyn FnOnce(Sequence, &Result<()>) + Send>;

/// The queues of all cores.
pub struct RequestQueues {
    /// By core, unit and queue.
    queues: Vec<[[Option<Arc<Queue>>; 1 << QUEUE_BITS]; ExecutionUnit::ALL.len()]>,
}

impl RequestQueues {
    /// Queues of `cores` cores, in each of which `depth` requests may wait or execute.
    pub fn new(cores: u32, depth: usize) -> Self {
        let queue = |core: u32, unit: ExecutionUnit, number: u32| {
            let there = number < unit.queues();
            there.then(|| Arc::new(Queue::new(core, unit, number, depth)))
        };
        let core = |core| {
            ExecutionUnit::ALL
                .map(|unit| std::array::from_fn(|number| queue(core, unit, number as u32)))
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
        unit: ExecutionUnit,
        queue: u32,
        work: RequestWork,
        tracker: Option<Arc<ErrorTracker>>,
        ended: Option<CompletionCallback>,
    ) -> Result<Sequence> {
        let request = Request {
            work,
            tracker,
            ended,
        };
        self.queue(core, unit, queue)?.put(request)
    }

    /// Whether a request has ended.
    ///
    /// # Errors
    /// `InvalidArgument` for a number that was not given to a request.
    pub fn is_completed(&self, sequence: Sequence) -> Result<bool> {
        Ok(self.of(sequence)?.completed() >= sequence.place())
    }

    /// The last request of a queue that has ended; place 0 when there was none.
    pub fn last_completed(&self, core: u32, unit: ExecutionUnit, queue: u32) -> Result<Sequence> {
        Ok(self.queue(core, unit, queue)?.last_completed())
    }

    /// How many requests of a queue have not ended; as many as can be for a queue that there is not.
    pub fn waiting(&self, core: u32, unit: ExecutionUnit, queue: u32) -> u64 {
        let queue = self.queue(core, unit, queue);
        queue.map_or(u64::MAX, |queue| queue.unfinished())
    }

    /// A descriptor that becomes readable when a request ends, or is at once when it has.
    pub fn completion(&self, sequence: Sequence) -> Result<OwnedFd> {
        self.of(sequence)?.completion(sequence.place())
    }

    /// Signals an eventfd whenever a request of a queue ends, in place of the one before; `None`
    /// ends it.
    ///
    /// # Errors
    /// `InvalidArgument` for a queue that there is not.
    pub fn signal_each(
        &self,
        core: u32,
        unit: ExecutionUnit,
        queue: u32,
        event: Option<OwnedFd>,
    ) -> Result<()> {
        self.queue(core, unit, queue)?.signal_each(event);
        Ok(())
    }

    /// Signals an eventfd when a request ends, at once when it has; in place of the one before for
    /// this request, `None` ends it.
    ///
    /// # Errors
    /// `InvalidArgument` for a number that was not given to a request.
    pub fn signal_one(&self, sequence: Sequence, event: Option<OwnedFd>) -> Result<()> {
        let queue = self.of(sequence)?;
        queue.signal_one(sequence.place(), event);
        Ok(())
    }

    /// Waits until every request that is on a queue of the unit now has ended.
    pub fn drain(&self, core: u32, unit: ExecutionUnit) -> Result<()> {
        for number in 0..unit.queues() {
            self.queue(core, unit, number)?.drain();
        }
        Ok(())
    }

    /// Executes what is in the queues, takes no more, and ends their threads.
    pub fn close(&self) {
        let all = || self.queues.iter().flatten().flatten().flatten();
        all().for_each(|queue| queue.close());
        all().for_each(|queue| queue.join());
    }

    fn queue(&self, core: u32, unit: ExecutionUnit, queue: u32) -> Result<&Arc<Queue>> {
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
        let given = |queue: &&Arc<Queue>| queue.had(sequence.place());
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

#[cfg(test)]
mod tests;
