//! What the process does, event by event, for those who asked for it.
//!
//! A capture hears events of the kinds, cores and models that it wants and keeps the last of each
//! core. Where there is no capture, an event costs one load.

use crate::arguments::invalid;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Instant;
use tenon_base::trace::TraceSink;
use tenon_base::{Error, ErrorKind, Result};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Load,
    Unload,
    Execute,
    Kernel,
    TensorRead,
    TensorWrite,
    TensorCopy,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Load,
        Self::Unload,
        Self::Execute,
        Self::Kernel,
        Self::TensorRead,
        Self::TensorWrite,
        Self::TensorCopy,
    ];

    /// The name that callers use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "nrt_load",
            Self::Unload => "nrt_unload",
            Self::Execute => "nrt_execute",
            Self::Kernel => "kernel",
            Self::TensorRead => "nrt_tensor_read",
            Self::TensorWrite => "nrt_tensor_write",
            Self::TensorCopy => "nrt_tensor_copy",
        }
    }

    /// The kind of a name.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            let all = Self::ALL.map(Self::name);
            invalid("there is no such event type")
                .expected(all.join(", "))
                .found(format_args!("'{name}'"))
        })
    }
}

/// Something that happened.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    kind: Kind,
    core: u32,
    /// Of the model; 0 where there is none.
    model: u32,
    name: Box<str>,
    start: Instant,
    end: Instant,
    bytes: u64,
    thread: i32,
}

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
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            most: 1 << 20,
            without_cores: BTreeSet::new(),
            without_kinds: BTreeSet::new(),
            model: None,
        }
    }
}

impl Filter {
    fn wants(&self, event: &Event) -> bool {
        !self.without_cores.contains(&event.core)
            && !self.without_kinds.contains(&event.kind)
            && self.model.is_none_or(|model| model == event.model)
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
        kind,
        core,
        model,
        name,
        start,
        end,
        bytes,
        thread: thread(),
    });
    Ok(value)
}

fn thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

fn tell(event: Event) {
    let captures = CAPTURES.read().unwrap_or_else(PoisonError::into_inner);
    for (_, capture) in captures.iter() {
        if capture.filter.wants(&event) {
            capture.keep(event.clone());
        }
    }
}

/// Tells of the kernels of one execution and of the whole.
pub(crate) struct ExecutionSink {
    /// The first core of the model.
    pub core: u32,
    pub model: u32,
}

impl TraceSink for ExecutionSink {
    fn scope(&self, category: &'static str, name: &str, start: Instant, end: Instant, bytes: u64) {
        let kind = match category {
            "execute" => Kind::Execute,
            // A node of a package of several: its kernels are told.
            "function" => return,
            _ => Kind::Kernel,
        };
        tell(Event {
            kind,
            core: self.core,
            model: self.model,
            name: name.into(),
            start,
            end,
            bytes,
            thread: thread(),
        });
    }
}

/// When time starts for all captures.
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

impl Event {
    fn start_nanos(&self) -> u64 {
        self.start.saturating_duration_since(origin()).as_nanos() as u64
    }

    fn nanos(&self) -> u64 {
        (self.end - self.start).as_nanos() as u64
    }

    fn json(&self) -> Value {
        json!({
            "event_type": self.kind.name(),
            "nc_idx": self.core,
            "model_id": self.model,
            "name": &*self.name,
            "timestamp_ns": self.start_nanos(),
            "duration_ns": self.nanos(),
            "bytes": self.bytes,
            "thread_id": self.thread,
        })
    }

    /// In the trace event format, which Perfetto opens: microseconds.
    fn perfetto(&self) -> Value {
        json!({
            "ph": "X",
            "pid": std::process::id(),
            "tid": self.thread,
            "cat": self.kind.name(),
            "name": &*self.name,
            "ts": self.start_nanos() as f64 / 1e3,
            "dur": self.nanos() as f64 / 1e3,
            "args": {"bytes": self.bytes, "nc_idx": self.core, "model_id": self.model},
        })
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

/// Events in the order they started.
pub(crate) struct Events(Vec<Event>);

impl Events {
    /// A list of all, as `nrt_sys_trace_fetch_events` gives it.
    pub fn json(&self) -> String {
        let events: Vec<Value> = self.0.iter().map(Event::json).collect();
        json!({ "events": events }).to_string()
    }

    /// A file that Perfetto opens, of the events that `wanted` lets through.
    pub fn perfetto(&self, wanted: impl Fn(Kind) -> bool) -> String {
        let events = self.0.iter().filter(|event| wanted(event.kind));
        let events: Vec<Value> = events.map(Event::perfetto).collect();
        json!({ "displayTimeUnit": "ns", "traceEvents": events }).to_string()
    }
}
