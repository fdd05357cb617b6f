//! What happened, as callers and Perfetto are told.

use crate::arguments::invalid;
use crate::status::{NRT_SUCCESS, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tenon_base::Result;
use tenon_base::trace::TraceFile;

/// Kinds of events: what happened, and the name that callers use.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal;)*) => {
        /// What happened.
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
    /// A node that a backend computes.
    Kernel = "kernel";
    /// A node that moves data.
    Dma = "dma";
    CpuNode = "cpu_node";
    /// What a thread of the pool does for a node.
    Loop = "loop";
    /// Waiting: an execution for a core, a request in its queue.
    Queue = "queue";
    /// A number that is another one from then on: bytes of memory that hold values, calls of backends.
    Counter = "counter";
    TensorRead = "nrt_tensor_read";
    TensorWrite = "nrt_tensor_write";
    TensorCopy = "nrt_tensor_copy";
    /// An execution on its core, as public tools look for it: a pair of a start and a stop. The same
    /// time as its `Execute`.
    Running = "nc_exec_running";
}

impl Kind {
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

    /// Whether it happens inside of an execution.
    pub fn is_inside_execution(self) -> bool {
        matches!(
            self,
            Self::Function | Self::Kernel | Self::Dma | Self::CpuNode | Self::Loop | Self::Counter
        )
    }
}

/// The thread that something happened in.
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

/// Something that happened.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub kind: Kind,
    pub core: u32,
    /// Of the model; 0 where there is none.
    pub model: u32,
    pub name: Box<str>,
    pub start: Instant,
    pub end: Instant,
    /// Of `Running` the number of the execution, by which its start and stop belong together; of
    /// `Counter` the value.
    pub bytes: u64,
    /// Of the execution that it belongs to.
    pub status: Status,
    pub track: Track,
}

/// When time starts for all captures.
pub(super) fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

impl Event {
    /// Something that succeeded in this thread.
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

    /// As callers fetch it: one record, or a start and a stop.
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
            // The scope of the execution shows it.
            return;
        }
        if self.kind == Kind::Counter {
            file.counter(&self.name, self.since_origin(), self.bytes);
            return;
        }
        let numbers = [
            ("bytes", self.bytes),
            ("nc_idx", self.core.into()),
            ("model_id", self.model.into()),
            ("status", self.status.unsigned_abs().into()),
        ];
        let (thread, category) = (self.track.number as u64, self.kind.name());
        let (start, length) = (self.since_origin(), self.end - self.start);
        file.scope(thread, category, &self.name, start, length, &numbers);
    }
}

/// Events in the order they started.
pub(crate) struct Events(pub(super) Vec<Event>);

impl Events {
    /// A list of all, as `nrt_sys_trace_fetch_events` gives it.
    pub fn json(&self) -> String {
        let events: Vec<Value> = self.0.iter().flat_map(Event::records).collect();
        json!({ "events": events }).to_string()
    }

    /// A file that Perfetto opens, of the events that `wanted` lets through; one track a thread.
    pub fn perfetto(&self, wanted: impl Fn(Kind) -> bool) -> String {
        let events = || self.0.iter().filter(|event| wanted(event.kind));
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
