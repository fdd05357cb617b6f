//! Streams and events of an exported backend, as structs of the header.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use super::backend::{run, write_out};
use super::objects::{ExportedObject, release};
use super::workload::HostControl;
use crate::marshal::{outcome_of, status_of, structure};
use crate::{Event, Stream};
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};
use tenon_backend_abi as abi;
use tenon_backend_abi::Outcome;
use tenon_base::stop;

/// A stream, and the text that its table points to.
struct ExportedStream {
    /// The host uses it on one thread at a time: the lock is never contended.
    stream: Mutex<Box<dyn Stream>>,
    _event_kind: String,
}

pub(super) fn exported_stream(stream: Box<dyn Stream>) -> *const abi::Stream {
    let event_kind = stream.event_kind().to_owned();
    let table = abi::Stream {
        size: size_of::<abi::Stream>(),
        finish: Some(finish),
        // On the heap: moving the string leaves the address of its text unchanged.
        event_kind: abi::Text::of(&event_kind),
        record: Some(record),
        wait: Some(wait),
        release: Some(release::<abi::Stream, ExportedStream>),
    };
    let state = ExportedStream {
        stream: Mutex::new(stream),
        _event_kind: event_kind,
    };
    ExportedObject::table(table, state)
}

/// # Safety
/// [`exported_stream`] returned `this`, and it is not released during the call.
pub(super) unsafe fn with_stream<R>(
    this: *const abi::Stream,
    work: impl FnOnce(&mut dyn Stream) -> R,
) -> R {
    // SAFETY: `this` is a live stream of `exported_stream` (requirement).
    let state = unsafe { ExportedObject::<_, ExportedStream>::state(this) };
    let stream = state.stream.lock();
    work(&mut **stream.unwrap_or_else(PoisonError::into_inner))
}

unsafe extern "C" fn finish(this: *const abi::Stream, control: *const abi::Control) -> Outcome {
    abi::guarded(|| {
        // SAFETY: `exported_stream` created `this`, and the host has not released it; the control is null or valid
        // during the call.
        unsafe {
            with_stream(this, |stream| {
                let finished = if control.is_null() {
                    stream.finish()
                } else {
                    let control = HostControl::new(control).map_err(|error| outcome_of(&error))?;
                    stop::with_token(&control, || stream.finish())
                };
                finished.map_err(|error| {
                    let command = stream.failed_command();
                    let command = command.and_then(|command| i64::try_from(command).ok());
                    let (index, text) = (command.unwrap_or(-1), error.to_string());
                    let (status, name) = (status_of(&error), String::new());
                    abi::refusal(status, abi::reason::OTHER, [index, 0], name, text)
                })
            })
        }
    })
}

unsafe extern "C" fn record(this: *const abi::Stream, out: *mut *const abi::Event) -> Outcome {
    run(|| {
        // SAFETY: `exported_stream` created `this`, and the host has not released it; `out` is null or valid for a
        // write.
        unsafe {
            let event = with_stream(this, |stream| stream.record())?;
            let table = abi::Event {
                size: size_of::<abi::Event>(),
                object: event.object(),
                release: Some(release::<abi::Event, Box<dyn Event>>),
            };
            write_out(out, ExportedObject::table(table, event))
        }
    })
}

unsafe extern "C" fn wait(this: *const abi::Stream, event: *const abi::Event) -> Outcome {
    run(|| {
        // SAFETY: `exported_stream` created `this`, and the host has not released it; the event is valid, and its
        // object until the stream is finished (header).
        unsafe {
            let event = HostEvent(structure(event, "an event")?.object);
            with_stream(this, |stream| stream.wait(&event))
        }
    })
}

/// An event of another stream, which the host keeps.
struct HostEvent(*mut c_void);

// SAFETY: objects of events may be used on any thread (header, "Threads").
unsafe impl Send for HostEvent {}

// SAFETY: the host keeps the object valid until the stream that waits for it is finished (header).
unsafe impl Event for HostEvent {
    fn object(&self) -> *mut c_void {
        self.0
    }
}
