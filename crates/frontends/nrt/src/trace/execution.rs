//! The events of one execution, told when it has ended: some want those of failures only.

use super::event::{Event, Kind};
use super::tell;
use crate::status::NRT_SUCCESS;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tenon_base::Result;
use tenon_base::trace::TraceSink;

/// The number of the next execution that is told.
static EXECUTIONS: AtomicU64 = AtomicU64::new(1);

/// Hears what happens in an execution, in whichever thread.
pub(crate) struct ExecutionSink {
    /// The first core of the model.
    core: u32,
    model: u32,
    began: Instant,
    heard: Mutex<Vec<Event>>,
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
        self.keep(kind, name, start, end, bytes);
    }

    fn counter(&self, name: &str, at: Instant, value: u64) {
        self.keep(Kind::Counter, name, at, at, value);
    }
}

impl ExecutionSink {
    /// For an execution that begins now.
    pub fn new(core: u32, model: u32) -> Self {
        Self {
            core,
            model,
            began: Instant::now(),
            heard: Mutex::default(),
        }
    }

    fn keep(&self, kind: Kind, name: &str, start: Instant, end: Instant, bytes: u64) {
        let event = Event {
            core: self.core,
            model: self.model,
            bytes,
            ..Event::here(kind, name, start, end)
        };
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push(event);
    }

    /// Tells what it heard of an execution of the model called `name`, which has ended.
    pub fn ended(self, name: &str, done: &Result<()>) {
        let failed = done.as_ref().err();
        let status = failed.map_or(NRT_SUCCESS, |error| error.kind().nrt_status());
        if failed.is_some() {
            // The runtime tells of whole executions that succeed.
            self.keep(Kind::Execute, name, self.began, Instant::now(), 0);
        }
        let heard = self.heard.into_inner();
        for event in heard.unwrap_or_else(PoisonError::into_inner) {
            let running = (event.kind == Kind::Execute).then(|| Event {
                kind: Kind::Running,
                bytes: EXECUTIONS.fetch_add(1, Ordering::Relaxed),
                status,
                ..event.clone()
            });
            tell(Event { status, ..event });
            running.into_iter().for_each(tell);
        }
    }
}
