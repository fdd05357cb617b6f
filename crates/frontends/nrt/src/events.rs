//! Eventfds of callers that are signalled when requests are complete.

use crate::arguments::invalid;
use crate::async_api::AsyncApi;
use crate::call::entry;
use crate::cores;
use crate::process::process;
use std::ffi::c_int;
use std::os::fd::{BorrowedFd, OwnedFd};
use tenon_base::{Error, ErrorKind, Result};
use tenon_runtime::Sequence;

/// A duplicate of the caller's eventfd, so that a descriptor which the caller closes, and whose
/// number it uses again for something else, is never written to; `None` for a negative number.
///
/// # Errors
/// `InvalidArgument` for another descriptor: a pipe or a socket that is full would stop the queue.
fn eventfd(fd: c_int) -> Result<Option<OwnedFd>> {
    if fd < 0 {
        return Ok(None);
    }
    let wrong = |why: String| {
        invalid(format!("fd {why}"))
            .expected("an eventfd, or a negative number to deregister")
            .found(fd)
    };
    // SAFETY: not -1; used for this call only, which fails for one that is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let duplicate = rustix::io::fcntl_dupfd_cloexec(borrowed, 0).map_err(|error| match error {
        rustix::io::Errno::BADF => wrong("is not open".to_owned()),
        other => Error::new(
            ErrorKind::OutOfMemory,
            format!("cannot duplicate fd {fd}: {other}"),
        ),
    })?;
    match std::fs::read_link(format!("/proc/self/fd/{fd}")) {
        Ok(kind) if !kind.to_string_lossy().contains("[eventfd]") => {
            Err(wrong(format!("is {}", kind.display())))
        }
        // Where /proc is not mounted, the caller's word counts.
        _ => Ok(Some(duplicate)),
    }
}

entry! {
    fn nrta_event_register_xu_completion(lnc: c_int, xu: u32, queue: c_int, fd: c_int) {
        let process = process()?;
        let core = cores::number(lnc.into())?;
        let unit = AsyncApi::Three.unit(xu)?;
        let queue = crate::requests::queue_number(queue)?;
        process.queues.signal_each(core, unit, queue, eventfd(fd)?)
    }

    fn nrta_event_register_seq_id_completion(seq: u64, fd: c_int) {
        process()?.queues.signal_one(Sequence(seq), eventfd(fd)?)
    }
}
