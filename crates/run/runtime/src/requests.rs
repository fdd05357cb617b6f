//! Asynchronous requests, executed in the order of their queue.
//!
//! Each core has execution units, and each unit has queues. A request gets a sequence number, which
//! encodes its core, unit, queue and position; it is complete when the completed position of its
//! queue has reached it. Failures are recorded in the request's tracker.

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
    /// An empty tracker.
    pub fn new() -> Self {
        Self::default()
    }

    /// The failures so far: the request, and the status of its error.
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

/// The work of a request.
pub type RequestWork = Box<dyn FnOnce() -> Result<()> + Send>;

/// Called with the result of a completed request.
pub type CompletionCallback = Box<dyn FnOnce(Sequence, &Result<()>) + Send>;

/// The queues of all cores.
pub struct RequestQueues {
    /// By core, unit and queue.
    queues: Vec<[[Option<Arc<Queue>>; 1 << QUEUE_BITS]; ExecutionUnit::ALL.len()]>,
}

impl RequestQueues {
    /// Queues of `cores` cores, each with a capacity of `depth` requests, waiting or executing.
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
    /// `InvalidArgument` for an unknown queue, `QueueFull`, `Closed`.
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

    /// Whether a request is complete.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown sequence number.
    pub fn is_completed(&self, sequence: Sequence) -> Result<bool> {
        Ok(self.of(sequence)?.completed() >= sequence.position())
    }

    /// The last completed request of a queue; position 0 if there is none.
    pub fn last_completed(&self, core: u32, unit: ExecutionUnit, queue: u32) -> Result<Sequence> {
        Ok(self.queue(core, unit, queue)?.last_completed())
    }

    /// The number of incomplete requests of a queue; `u64::MAX` for an unknown queue.
    pub fn waiting(&self, core: u32, unit: ExecutionUnit, queue: u32) -> u64 {
        let queue = self.queue(core, unit, queue);
        queue.map_or(u64::MAX, |queue| queue.unfinished())
    }

    /// A file descriptor that becomes readable when the request is complete.
    pub fn completion(&self, sequence: Sequence) -> Result<OwnedFd> {
        self.of(sequence)?.completion(sequence.position())
    }

    /// Sets the eventfd that is signalled whenever a request of the queue completes; `None` removes
    /// it.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown queue.
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

    /// Sets the eventfd that is signalled when this request completes, immediately if it is
    /// complete; `None` removes it.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown sequence number.
    pub fn signal_one(&self, sequence: Sequence, event: Option<OwnedFd>) -> Result<()> {
        let queue = self.of(sequence)?;
        queue.signal_one(sequence.position(), event);
        Ok(())
    }

    /// Waits until all current requests of the unit's queues are complete.
    pub fn drain(&self, core: u32, unit: ExecutionUnit) -> Result<()> {
        for number in 0..unit.queues() {
            self.queue(core, unit, number)?.drain();
        }
        Ok(())
    }

    /// Closes the queues: executes the remaining requests, rejects further ones, and ends the
    /// threads.
    pub fn close(&self) {
        let all = || self.queues.iter().flatten().flatten().flatten();
        all().for_each(|queue| queue.close());
        all().for_each(|queue| queue.join());
    }

    fn queue(&self, core: u32, unit: ExecutionUnit, queue: u32) -> Result<&Arc<Queue>> {
        let units = self.queues.get(core as usize).ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, "unknown core")
                .expected(format_args!("a core below {}", self.queues.len()))
                .found(core)
        })?;
        let found = units[unit as usize].get(queue as usize);
        found.and_then(Option::as_ref).ok_or_else(|| {
            let text = format!("the unit for {} does not have this queue", unit.words());
            Error::new(ErrorKind::InvalidArgument, text)
                .expected(format_args!("a queue below {}", unit.queues()))
                .found(queue)
        })
    }

    /// The queue of an issued sequence number.
    fn of(&self, sequence: Sequence) -> Result<&Arc<Queue>> {
        let queue = sequence
            .queue()
            .and_then(|(core, unit, queue)| self.queue(core, unit, queue).ok());
        let given = |queue: &&Arc<Queue>| queue.had(sequence.position());
        queue.filter(given).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                "no request has this sequence number",
            )
            .found(sequence)
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
