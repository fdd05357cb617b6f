//! Eventfds of callers that are signalled when requests are complete.

use crate::async_api::AsyncApi;
use crate::call::entry;
use crate::cores;
use crate::process::process;
use std::ffi::c_int;
use std::os::fd::{BorrowedFd, OwnedFd};
use tenon_base::{Error, ErrorKind, Result};
use tenon_c_callers::arguments::invalid;
use tenon_runtime::Sequence;

/// A duplicate of the caller's eventfd, `None` for a negative number. The caller may close its
/// descriptor and reuse the number for another file, which must not be written to.
///
/// # Errors
/// `InvalidArgument` for another kind of descriptor: a full pipe or socket would block the queue.
fn eventfd(fd: c_int) -> Result<Option<OwnedFd>> {
    if fd < 0 {
        return Ok(None);
    }
    let mismatch = |why: String| {
        invalid(format!("fd {why}"))
            .expected("an eventfd, or a negative number to deregister")
            .found(fd)
    };
    // SAFETY: not -1; only passed to `fcntl`, which fails with EBADF for a closed descriptor.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let duplicate = rustix::io::fcntl_dupfd_cloexec(borrowed, 0).map_err(|error| match error {
        rustix::io::Errno::BADF => mismatch("is not open".to_owned()),
        other => Error::new(
            ErrorKind::OutOfMemory,
            format!("cannot duplicate fd {fd}: {other}"),
        ),
    })?;
    match std::fs::read_link(format!("/proc/self/fd/{fd}")) {
        Ok(kind) if !kind.to_string_lossy().contains("[eventfd]") => {
            Err(mismatch(format!("is {}", kind.display())))
        }
        // Without /proc the kind of the descriptor is not checked.
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
