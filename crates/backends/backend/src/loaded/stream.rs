//! Streams and events of loaded backends.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use super::core::Core;
use super::objects::ForeignObject;
use super::workload::ExportedControl;
use crate::marshal::{invalid, take_failure, text};
use crate::{Event, MemoryManager, Stream};
use std::any::Any;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use tenon_backend_abi as abi;
use tenon_base::{Result, stop};

pub(super) struct LoadedStream {
    object: ForeignObject<abi::Stream>,
    event_kind: String,
    failed_command: Option<u64>,
    _memory: Option<Arc<dyn MemoryManager>>,
}

impl LoadedStream {
    /// # Safety
    /// `this` is null or a stream that a function of the table created, not released.
    pub unsafe fn new(
        core: &Arc<Core>,
        this: *const abi::Stream,
        memory: Option<Arc<dyn MemoryManager>>,
    ) -> Result<Option<Self>> {
        if this.is_null() {
            return Ok(None);
        }
        // SAFETY: `this` is a valid, unreleased object (requirement).
        let object = unsafe { ForeignObject::new(core, this, "a stream", |table| table.release)? };
        let table = &object.table;
        if table.finish.is_none() {
            return Err(core.missing_function("finish"));
        }
        // SAFETY: the text of an unreleased object is null or of the stated length.
        let event_kind = unsafe { text(table.event_kind, "the kind of events")? };
        if !event_kind.is_empty() && (table.record.is_none() || table.wait.is_none()) {
            return Err(core.missing_function("record or wait"));
        }
        Ok(Some(Self {
            object,
            event_kind,
            failed_command: None,
            _memory: memory,
        }))
    }

    /// The stream as an argument of functions of the library; null for none. Fails for a stream that the library did
    /// not create.
    pub fn this_of(stream: Option<&mut dyn Stream>) -> Result<*const abi::Stream> {
        let Some(stream) = stream else {
            return Ok(ptr::null());
        };
        let own = (stream as &dyn Any).downcast_ref::<Self>();
        let own = own.ok_or_else(|| invalid("the stream is of another backend"))?;
        Ok(own.object.this)
    }
}

// SAFETY: the header requires of `finish` and `release` that afterwards no command accesses its memory.
unsafe impl Stream for LoadedStream {
    fn finish(&mut self) -> Result<()> {
        let core = &self.object.core;
        let Some(finish) = self.object.table.finish else {
            return Err(core.missing_function("finish"));
        };
        let this = self.object.this;
        let outcome = stop::with_current(|stop| {
            let control = stop.map(ExportedControl::new);
            let control = control.as_ref().map_or(ptr::null(), ExportedControl::table);
            // SAFETY: `finish` of the stream is called with the stream itself, not released, and with a control that
            // is null or lives during the call.
            unsafe { finish(this, control) }
        });
        self.failed_command = None;
        // SAFETY: `finish` returned `outcome`, which is not released yet.
        let Some(failure) = (unsafe { take_failure(outcome)? }) else {
            return Ok(());
        };
        self.failed_command = u64::try_from(failure.index).ok();
        Err(failure.into_error(&core.label()))
    }

    fn failed_command(&self) -> Option<u64> {
        self.failed_command
    }

    fn event_kind(&self) -> &str {
        &self.event_kind
    }

    fn record(&mut self) -> Result<Box<dyn Event>> {
        let core = &self.object.core;
        let record = self.object.table.record;
        let record = record.ok_or_else(|| core.missing_function("record"))?;
        let mut out = ptr::null();
        // SAFETY: `record` of the stream is called with the stream itself, not released; `out` is null or the event
        // that it created.
        unsafe {
            core.check(record(self.object.this, &raw mut out))?;
            let object = ForeignObject::new(core, out, "an event", |table| table.release)?;
            Ok(Box::new(LoadedEvent(object)))
        }
    }

    unsafe fn wait(&mut self, event: &dyn Event) -> Result<()> {
        let core = &self.object.core;
        let wait = self.object.table.wait;
        let wait = wait.ok_or_else(|| core.missing_function("wait"))?;
        let event = abi::Event {
            size: size_of::<abi::Event>(),
            object: event.object(),
            release: None,
        };
        // SAFETY: `wait` of the stream is called with the stream itself, not released; the struct lives during the
        // call, the event itself until the stream is finished (requirement of this function).
        core.check(unsafe { wait(self.object.this, &raw const event) })
    }
}

struct LoadedEvent(ForeignObject<abi::Event>);

// SAFETY: the header requires of an event that its object is valid until its release.
unsafe impl Event for LoadedEvent {
    fn object(&self) -> *mut c_void {
        self.0.table.object
    }
}
