//! What the process does, event by event, for those who asked for it.
//!
//! A capture hears events of the kinds, cores and models that it wants and keeps the last of each
//! core. Where there is no capture, an event costs one load.

mod event;
mod execution;

pub(crate) use event::{Event, Events, Kind};
pub(crate) use execution::ExecutionSink;

use crate::arguments::invalid;
use crate::status::NRT_SUCCESS;
use event::origin;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;
use tenon_base::{Error, ErrorKind, Result};

/// What a capture wants.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    /// Events that are kept of a core.
    pub most: usize,
    /// Cores that are left out.
    pub without_cores: BTreeSet<u32>,
    /// Kinds that are left out.
    pub without_kinds: BTreeSet<Kind>,
    /// The only model that is wanted.
    pub model: Option<u32>,
    /// Whether the insides of executions that succeed are wanted.
    pub succeeded: bool,
    /// Whether the insides of those that fail are.
    pub failed: bool,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            most: 1 << 20,
            without_cores: BTreeSet::new(),
            without_kinds: BTreeSet::new(),
            model: None,
            succeeded: true,
            failed: true,
        }
    }
}

impl Filter {
    fn wants(&self, event: &Event) -> bool {
        !self.without_cores.contains(&event.core)
            && !self.without_kinds.contains(&event.kind)
            && self.model.is_none_or(|model| model == event.model)
            && (!event.kind.is_inside_execution()
                || match event.status {
                    NRT_SUCCESS => self.succeeded,
                    _ => self.failed,
                })
    }

    /// Leaves a core out, or no more.
    pub fn set_core(&mut self, core: u32, wanted: bool) {
        match wanted {
            true => self.without_cores.remove(&core),
            false => self.without_cores.insert(core),
        };
    }

    /// Leaves a kind out, or no more.
    pub fn set_kind(&mut self, kind: Kind, wanted: bool) {
        match wanted {
            true => self.without_kinds.remove(&kind),
            false => self.without_kinds.insert(kind),
        };
    }
}

/// What a capture is for: there is one for each at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    System,
    Inspect,
    Whole,
    Profile,
    Continuous,
}

/// The last events of each core.
#[derive(Debug)]
pub(crate) struct Capture {
    filter: Filter,
    rings: Mutex<BTreeMap<u32, VecDeque<Event>>>,
}

type Captures = Vec<(Purpose, Arc<Capture>)>;

static CAPTURES: RwLock<Captures> = RwLock::new(Vec::new());
static LISTENING: AtomicBool = AtomicBool::new(false);

/// Starts a capture.
///
/// # Errors
/// `InvalidArgument` when there is one for this purpose.
pub(crate) fn start(purpose: Purpose, filter: Filter) -> Result<()> {
    origin();
    let mut captures = CAPTURES.write().unwrap_or_else(PoisonError::into_inner);
    if captures.iter().any(|(other, _)| *other == purpose) {
        return Err(invalid("it was started already").help("stop it first"));
    }
    let capture = Capture {
        filter,
        rings: Mutex::default(),
    };
    captures.push((purpose, Arc::new(capture)));
    LISTENING.store(true, Ordering::Release);
    Ok(())
}

/// Ends a capture and answers it.
pub(crate) fn stop(purpose: Purpose) -> Result<Arc<Capture>> {
    let mut captures = CAPTURES.write().unwrap_or_else(PoisonError::into_inner);
    let at = captures.iter().position(|(other, _)| *other == purpose);
    let (_, capture) = captures.remove(at.ok_or_else(not_started)?);
    LISTENING.store(!captures.is_empty(), Ordering::Release);
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

/// Ends all captures, unread.
pub(crate) fn forget() {
    LISTENING.store(false, Ordering::Release);
    CAPTURES
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .clear();
}

fn not_started() -> Error {
    Error::new(ErrorKind::InvalidArgument, "it was not started")
}

/// Whether anybody wants events.
#[inline]
pub(crate) fn is_listening() -> bool {
    LISTENING.load(Ordering::Relaxed)
}

/// Does some work, and tells of it when it succeeds.
#[inline]
pub(crate) fn timed<T>(
    kind: Kind,
    what: impl FnOnce(&T) -> (u32, u32, Box<str>, u64),
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if !is_listening() {
        return work();
    }
    let start = Instant::now();
    let value = work()?;
    let end = Instant::now();
    let (core, model, name, bytes) = what(&value);
    tell(Event {
        core,
        model,
        bytes,
        ..Event::here(kind, &name, start, end)
    });
    Ok(value)
}

/// Those who want an event keep it.
pub(crate) fn tell(event: Event) {
    let captures = CAPTURES.read().unwrap_or_else(PoisonError::into_inner);
    for (_, capture) in captures.iter() {
        if capture.filter.wants(&event) {
            capture.keep(event.clone());
        }
    }
}

impl Capture {
    fn keep(&self, event: Event) {
        let mut rings = self.lock();
        let ring = rings.entry(event.core).or_default();
        if ring.len() >= self.filter.most && ring.pop_front().is_none() {
            return;
        }
        ring.push_back(event);
    }

    /// Takes at most `most` events of each core, or of one core, out of it: the oldest first.
    pub fn take(&self, core: Option<u32>, most: usize) -> Events {
        let mut rings = self.lock();
        let mut events = Vec::new();
        for (&of, ring) in rings.iter_mut() {
            if core.is_none_or(|core| core == of) {
                let count = ring.len().min(most);
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
