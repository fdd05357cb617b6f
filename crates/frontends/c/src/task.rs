//! `tenon_task`: progress, cancellation and deadline.

use crate::blob::write_handle;
use crate::status;
use crate::structs::{TaskOptions, options};
use crate::texts::c_text;
use std::time::{Duration, Instant};
use tenon::{Control, Error, ErrorKind, Result};
use tenon_c_callers::handles::{Handle, Handles};

static TASKS: Handles<Control> = Handles::new(0x43, "task");

/// The control of a handle; one without progress and deadline for NULL.
pub fn control_of(handle: Handle) -> Result<Control> {
    match handle.is_null() {
        true => Ok(Control::new()),
        false => TASKS.find(handle),
    }
}

/// The function of the caller that receives progress, and its context.
#[derive(Clone, Copy)]
struct Listener {
    progress: unsafe extern "C" fn(*mut std::ffi::c_void, *const std::ffi::c_char, u64, u64),
    context: *mut std::ffi::c_void,
}

// SAFETY: the function may be called on any thread with its context (header).
unsafe impl Send for Listener {}
// SAFETY: as above, also at the same time.
unsafe impl Sync for Listener {}

impl Listener {
    fn call(&self, progress: tenon::Progress<'_>) {
        let step = c_text(progress.step);
        // SAFETY: the function is called as the header says, with a text that lives during the call.
        unsafe { (self.progress)(self.context, step.as_ptr(), progress.done, progress.total) };
    }
}

fn deadline(seconds: f64) -> Result<Option<Instant>> {
    let invalid = || {
        let error = Error::new(ErrorKind::InvalidArgument, "timeout_seconds is no time");
        error.expected("seconds from 0 on").found(seconds)
    };
    if seconds == 0.0 {
        return Ok(None);
    }
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| invalid())?;
    // A time beyond the clock's range never comes.
    Ok(Instant::now().checked_add(time))
}

pub unsafe extern "C" fn task_create(from: *const TaskOptions, task: *mut Handle) -> Handle {
    status::of(|| {
        // SAFETY: null or options (header).
        let options = unsafe { options(from, "options")? };
        let deadline = deadline(options.timeout_seconds)?;
        let listener = options.progress.map(|progress| Listener {
            progress,
            context: options.context,
        });
        let made = match (deadline, listener) {
            (None, None) => Control::new(),
            (Some(deadline), None) => Control::with_deadline(deadline),
            (None, Some(listener)) => Control::with_listener(move |step| listener.call(step)),
            (Some(deadline), Some(listener)) => {
                Control::with_deadline_and_listener(deadline, move |step| listener.call(step))
            }
        };
        // SAFETY: null or valid for writing (header).
        unsafe { write_handle(task, "task", &TASKS, made) }
    })
}

pub extern "C" fn task_cancel(task: Handle) -> Handle {
    status::of(|| {
        TASKS.find(task)?.cancel();
        Ok(())
    })
}

pub extern "C" fn task_free(task: Handle) -> Handle {
    status::freed(&TASKS, task)
}
