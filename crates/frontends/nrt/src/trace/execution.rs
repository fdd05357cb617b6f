//! The events of one execution, recorded at its end: captures may select failed executions only.

use super::event::{Event, Kind};
use super::record;
use crate::status::NRT_SUCCESS;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tenon_base::Result;
use tenon_base::trace::TraceSink;

/// The number of the next recorded execution.
static EXECUTIONS: AtomicU64 = AtomicU64::new(1);

/// Collects the events of an execution from all threads.
pub(crate) struct ExecutionSink {
    /// The first core of the model.
    core: u32,
    model: u32,
    began: Instant,
    events: Mutex<Vec<Event>>,
}

impl TraceSink for ExecutionSink {
    fn scope(&self, category: &'static str, name: &str, start: Instant, end: Instant, bytes: u64) {
        let kind = match category {
            "execute" => Kind::Execute,
            "function" => Kind::Function,
            "queue" => Kind::Queue,
            "dma" => Kind::Dma,
            "loop" => Kind::Loop,
            "cpu node" => Kind::CpuNode,
            _ => Kind::Kernel,
        };
        self.push(kind, name, start, end, bytes);
    }

    fn counter(&self, name: &str, at: Instant, value: u64) {
        self.push(Kind::Counter, name, at, at, value);
    }
}

impl ExecutionSink {
    /// A sink for an execution that begins now.
    pub fn new(core: u32, model: u32) -> Self {
        Self {
            core,
            model,
            began: Instant::now(),
            events: Mutex::default(),
        }
    }

    fn push(&self, kind: Kind, name: &str, start: Instant, end: Instant, bytes: u64) {
        let event = Event {
            core: self.core,
            model: self.model,
            bytes,
            ..Event::here(kind, name, start, end)
        };
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(event);
    }

    /// Records the events of the execution, which has ended, of the model `name`.
    pub fn finish(self, name: &str, done: &Result<()>) {
        let failed = done.as_ref().err();
        let status = failed.map_or(NRT_SUCCESS, |error| error.kind().nrt_status());
        if failed.is_some() {
            // The runtime reports the scope of a successful execution only.
            self.push(Kind::Execute, name, self.began, Instant::now(), 0);
        }
        let events = self.events.into_inner();
        for event in events.unwrap_or_else(PoisonError::into_inner) {
            let running = (event.kind == Kind::Execute).then(|| Event {
                kind: Kind::Running,
                bytes: EXECUTIONS.fetch_add(1, Ordering::Relaxed),
                status,
                ..event.clone()
            });
            record(Event { status, ..event });
            running.into_iter().for_each(record);
        }
    }
}
