//! Trace events, their JSON for callers and their export to Perfetto.

use crate::status::{NRT_SUCCESS, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tenon_base::Result;
use tenon_base::trace::TraceFile;
use tenon_c_callers::arguments::invalid;

/// Declares the kinds of events with the names that callers use.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal;)*) => {
        /// The kind of an event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$kind),*];

            /// The name that callers use.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    Load = "nrt_load";
    Unload = "nrt_unload";
    Execute = "nrt_execute";
    /// A subgraph, with all its nodes.
    Function = "function";
    /// A node that runs on a backend.
    Kernel = "kernel";
    /// A node that moves data.
    Dma = "dma";
    CpuNode = "cpu_node";
    /// The part of a parallel loop that one thread of the pool executes.
    Loop = "loop";
    /// Waiting time: of an execution for a core, of a request in its queue.
    Queue = "queue";
    /// A new value of a counter: bytes of memory in use, calls of backends.
    Counter = "counter";
    TensorRead = "nrt_tensor_read";
    TensorWrite = "nrt_tensor_write";
    TensorCopy = "nrt_tensor_copy";
    /// An execution on its core in the form that public tools expect: a pair of a start and a stop
    /// record. It has the times of its `Execute`.
    Running = "nc_exec_running";
}

impl Kind {
    /// The kind with a name.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| {
            let all = Self::ALL.map(Self::name);
            invalid("unknown event type")
                .expected(all.join(", "))
                .found(format_args!("'{name}'"))
        })
    }

    /// Whether events of this kind are inside of an execution.
    pub fn is_inside_execution(self) -> bool {
        matches!(
            self,
            Self::Function | Self::Kernel | Self::Dma | Self::CpuNode | Self::Loop | Self::Counter
        )
    }
}

/// The thread of an event.
#[derive(Debug, Clone)]
pub(crate) struct Track {
    number: i32,
    name: Arc<str>,
}

impl Track {
    /// This thread.
    pub fn here() -> Self {
        thread_local! {
            static HERE: Track = Track {
                number: rustix::thread::gettid().as_raw_nonzero().get(),
                name: std::fs::read_to_string("/proc/thread-self/comm")
                    .unwrap_or_default()
                    .trim()
                    .into(),
            };
        }
        HERE.with(Self::clone)
    }
}

/// An event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub kind: Kind,
    pub core: u32,
    /// The id of the model; 0 without one.
    pub model: u32,
    pub name: Box<str>,
    pub start: Instant,
    pub end: Instant,
    /// Bytes; for `Running` the number of the execution, which pairs its start and stop; for
    /// `Counter` the value.
    pub bytes: u64,
    /// The status of its execution.
    pub status: Status,
    pub track: Track,
}

/// The origin of the timestamps of all captures.
pub(super) fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

impl Event {
    /// A successful event of this thread.
    pub fn here(kind: Kind, name: &str, start: Instant, end: Instant) -> Self {
        Self {
            kind,
            core: 0,
            model: 0,
            name: name.into(),
            start,
            end,
            bytes: 0,
            status: NRT_SUCCESS,
            track: Track::here(),
        }
    }

    fn since_origin(&self) -> Duration {
        self.start.saturating_duration_since(origin())
    }

    /// The records for callers: one, or a start and a stop.
    fn records(&self) -> Vec<Value> {
        if self.kind != Kind::Running {
            return vec![self.json()];
        }
        let record = |phase: &str, at: Instant| {
            let timestamp = at.saturating_duration_since(origin()).as_nanos() as u64;
            json!({
                "event_type": self.kind.name(),
                "phase": phase,
                "tracking_id": self.bytes,
                "nc_idx": self.core,
                "timestamp_ns": timestamp,
                "thread_id": self.track.number,
                "data": {
                    "nc_timestamp_ns": timestamp,
                    "exec_id": self.bytes,
                    "device_core_idx": self.core,
                    "model_id": self.model,
                    "status": self.status,
                },
            })
        };
        vec![record("start", self.start), record("stop", self.end)]
    }

    fn json(&self) -> Value {
        json!({
            "event_type": self.kind.name(),
            "nc_idx": self.core,
            "model_id": self.model,
            "name": &*self.name,
            "timestamp_ns": self.since_origin().as_nanos() as u64,
            "duration_ns": (self.end - self.start).as_nanos() as u64,
            "bytes": self.bytes,
            "status": self.status,
            "thread_id": self.track.number,
        })
    }

    fn write(&self, file: &mut TraceFile) {
        if self.kind == Kind::Running {
            // Redundant: `Execute` has the same scope.
            return;
        }
        if self.kind == Kind::Counter {
            file.counter(&self.name, self.since_origin(), self.bytes);
            return;
        }
        let arguments = [
            ("bytes", self.bytes),
            ("nc_idx", self.core.into()),
            ("model_id", self.model.into()),
            ("status", self.status.unsigned_abs().into()),
        ];
        let (thread, category) = (self.track.number as u64, self.kind.name());
        let (start, length) = (self.since_origin(), self.end - self.start);
        file.scope(thread, category, &self.name, start, length, &arguments);
    }
}

/// Events ordered by start time.
pub(crate) struct Events(pub(super) Vec<Event>);

impl Events {
    /// The JSON of `nrt_sys_trace_fetch_events`.
    pub fn json(&self) -> String {
        let events: Vec<Value> = self.0.iter().flat_map(Event::records).collect();
        json!({ "events": events }).to_string()
    }

    /// A trace file for Perfetto of the events whose kind is `included`; one track for each thread.
    pub fn perfetto(&self, included: impl Fn(Kind) -> bool) -> String {
        let events = || self.0.iter().filter(|event| included(event.kind));
        let tracks: BTreeMap<i32, &str> = events()
            .map(|event| (event.track.number, &*event.track.name))
            .collect();
        let mut file = TraceFile::new(std::process::id());
        let command = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        file.process_name(command.trim());
        for (number, name) in tracks {
            file.thread_name(number as u64, name);
        }
        events().for_each(|event| event.write(&mut file));
        file.finish()
    }
}
