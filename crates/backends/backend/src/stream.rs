//! Streams: the commands of one execution on a backend that works asynchronously.

#![allow(unsafe_code, reason = "memory of commands that are still to run")]

use std::any::Any;
use std::ffi::c_void;
use tenon_base::Result;

/// The commands (workloads and copies) of one execution at a time, which take effect in the order in which they are
/// enqueued. [`TensorMemory::stream`](crate::TensorMemory::stream) creates it.
///
/// # Safety
/// When [`Stream::finish`] has returned, with success or an error, and when the stream is dropped, no command accesses
/// the memory of its operands any more, nor the other side of its copy.
pub unsafe trait Stream: Any + Send {
    /// Waits until all commands have ended. The error is that of the first command that failed. When the current
    /// work is stopped ([`tenon_base::stop`]), commands that have not begun are discarded, and the error is of kind
    /// `Cancelled` or `DeadlineExceeded`.
    fn finish(&mut self) -> Result<()>;

    /// The number of the command whose error [`Stream::finish`] returned last, counted from 0 since the finish
    /// before; `None` if it is not known.
    fn failed_command(&self) -> Option<u64> {
        None
    }

    /// The kind of its events, which streams of the same kind can wait for; empty if it has none.
    fn event_kind(&self) -> &str {
        ""
    }

    /// Enqueues an event. Called only if there is a kind of events.
    fn record(&mut self) -> Result<Box<dyn Event>> {
        Err(no_events())
    }

    /// Commands enqueued from now on begin after `event`, of a stream of the same kind of events.
    ///
    /// # Safety
    /// The event must not be dropped before this stream is finished.
    unsafe fn wait(&mut self, event: &dyn Event) -> Result<()> {
        let _ = event;
        Err(no_events())
    }
}

fn no_events() -> tenon_base::Error {
    tenon_base::Error::new(
        tenon_base::ErrorKind::Unsupported,
        "the stream has no events",
    )
}

/// A point in the commands of a stream, for another stream to wait for.
///
/// # Safety
/// The object must be valid as long as the event, as its kind defines.
pub unsafe trait Event: Send {
    /// The event itself, as its kind defines.
    fn object(&self) -> *mut c_void;
}
