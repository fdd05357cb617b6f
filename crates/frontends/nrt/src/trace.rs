//! Traces of the runtime: events of loading, executions and tensor accesses.
//!
//! A capture selects events by kind, core and model, and keeps the last ones of each core in a ring
//! buffer. Without a capture, an event costs one atomic load.

mod event;
mod execution;

pub(crate) use event::{Event, Events, Kind};
pub(crate) use execution::ExecutionSink;

use crate::status::NRT_SUCCESS;
use event::origin;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;
use tenon_base::{Error, ErrorKind, Result};
use tenon_c_callers::arguments::invalid;

/// The selection of events of a capture.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    /// Capacity of the ring buffer of a core.
    pub max_events: usize,
    /// Excluded cores.
    pub without_cores: BTreeSet<u32>,
    /// Excluded kinds.
    pub without_kinds: BTreeSet<Kind>,
    /// The only selected model; all if `None`.
    pub model: Option<u32>,
    /// Whether events inside of successful executions are selected.
    pub succeeded: bool,
    /// Whether events inside of failed executions are selected.
    pub failed: bool,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            max_events: 1 << 20,
            without_cores: BTreeSet::new(),
            without_kinds: BTreeSet::new(),
            model: None,
            succeeded: true,
            failed: true,
        }
    }
}

impl Filter {
    fn accepts(&self, event: &Event) -> bool {
        !self.without_cores.contains(&event.core)
            && !self.without_kinds.contains(&event.kind)
            && self.model.is_none_or(|model| model == event.model)
            && (!event.kind.is_inside_execution()
                || match event.status {
                    NRT_SUCCESS => self.succeeded,
                    _ => self.failed,
                })
    }

    /// Includes or excludes a core.
    pub fn set_core(&mut self, core: u32, included: bool) {
        if included {
            self.without_cores.remove(&core);
        } else {
            self.without_cores.insert(core);
        }
    }

    /// Includes or excludes a kind.
    pub fn set_kind(&mut self, kind: Kind, included: bool) {
        if included {
            self.without_kinds.remove(&kind);
        } else {
            self.without_kinds.insert(kind);
        }
    }
}

/// The purpose of a capture; there is at most one capture for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    System,
    Inspect,
    Whole,
    Profile,
    Continuous,
}

/// A capture: ring buffers with the last events of each core.
#[derive(Debug)]
pub(crate) struct Capture {
    filter: Filter,
    rings: Mutex<BTreeMap<u32, VecDeque<Event>>>,
}

type Captures = Vec<(Purpose, Arc<Capture>)>;

static CAPTURES: RwLock<Captures> = RwLock::new(Vec::new());
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Starts a capture.
///
/// # Errors
/// `InvalidArgument` when there is one for this purpose.
pub(crate) fn start(purpose: Purpose, filter: Filter) -> Result<()> {
    origin();
    let mut captures = CAPTURES.write().unwrap_or_else(PoisonError::into_inner);
    if captures.iter().any(|(other, _)| *other == purpose) {
        return Err(invalid("the capture was already started").help("stop it first"));
    }
    let capture = Capture {
        filter,
        rings: Mutex::default(),
    };
    captures.push((purpose, Arc::new(capture)));
    ACTIVE.store(true, Ordering::Release);
    Ok(())
}

/// Ends a capture and returns it.
pub(crate) fn stop(purpose: Purpose) -> Result<Arc<Capture>> {
    let mut captures = CAPTURES.write().unwrap_or_else(PoisonError::into_inner);
    let at = captures.iter().position(|(other, _)| *other == purpose);
    let (_, capture) = captures.remove(at.ok_or_else(not_started)?);
    ACTIVE.store(!captures.is_empty(), Ordering::Release);
    Ok(capture)
}

/// The capture for a purpose.
pub(crate) fn capture(purpose: Purpose) -> Result<Arc<Capture>> {
    let captures = CAPTURES.read().unwrap_or_else(PoisonError::into_inner);
    let found = captures.iter().find(|(other, _)| *other == purpose);
    found
        .map(|(_, capture)| capture.clone())
        .ok_or_else(not_started)
}

/// Discards all captures.
pub(crate) fn clear() {
    ACTIVE.store(false, Ordering::Release);
    CAPTURES
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .clear();
}

fn not_started() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the capture was not started")
}

/// Whether there are captures.
#[inline]
pub(crate) fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// Executes `work` and records an event if it succeeds; `describe` returns its core, model, name and
/// bytes.
#[inline]
pub(crate) fn timed<T>(
    kind: Kind,
    describe: impl FnOnce(&T) -> (u32, u32, Box<str>, u64),
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if !is_active() {
        return work();
    }
    let start = Instant::now();
    let value = work()?;
    let end = Instant::now();
    let (core, model, name, bytes) = describe(&value);
    record(Event {
        core,
        model,
        bytes,
        ..Event::here(kind, &name, start, end)
    });
    Ok(value)
}

/// Adds an event to all captures that select it.
pub(crate) fn record(event: Event) {
    let captures = CAPTURES.read().unwrap_or_else(PoisonError::into_inner);
    for (_, capture) in captures.iter() {
        if capture.filter.accepts(&event) {
            capture.keep(event.clone());
        }
    }
}

impl Capture {
    fn keep(&self, event: Event) {
        let mut rings = self.lock();
        let ring = rings.entry(event.core).or_default();
        if ring.len() >= self.filter.max_events && ring.pop_front().is_none() {
            return;
        }
        ring.push_back(event);
    }

    /// Removes and returns the oldest events, at most `max_events` of each core, or of one core.
    pub fn take(&self, core: Option<u32>, max_events: usize) -> Events {
        let mut rings = self.lock();
        let mut events = Vec::new();
        for (&of, ring) in rings.iter_mut() {
            if core.is_none_or(|core| core == of) {
                let count = ring.len().min(max_events);
                events.extend(ring.drain(..count));
            }
        }
        events.sort_by_key(|event| event.start);
        Events(events)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, VecDeque<Event>>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
