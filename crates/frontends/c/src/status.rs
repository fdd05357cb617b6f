//! Statuses: errors as objects that C reads.

use crate::texts::c_text;
use std::ffi::{CStr, CString, c_char};
use std::ptr::null;
use std::sync::Arc;
use tenon::{Error, ErrorKind, Result};
use tenon_c_callers::caught;
use tenon_c_callers::handles::{Handle, Handles};

/// `TENON_OK`.
const OK: i32 = 0;
/// `TENON_INVALID_HANDLE`, also the code of a handle that is no status.
const INVALID_HANDLE: i32 = 12;

static STATUSES: Handles<Arc<Failure>> = Handles::new(0x53, "status");

/// An error with its texts for C.
struct Failure {
    code: i32,
    text: CString,
    problems: Vec<Problem>,
}

/// The parts of one problem, in the order of `tenon_status_part`.
struct Problem([Option<CString>; 5]);

/// The `tenon_code` of a kind of error.
pub fn code(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::Usage => 1,
        ErrorKind::InvalidArgument => 2,
        ErrorKind::InvalidModel => 3,
        ErrorKind::InvalidPackage => 4,
        ErrorKind::InvalidProgram => 5,
        ErrorKind::UnsupportedVersion => 6,
        ErrorKind::Unsupported => 7,
        ErrorKind::NotFound | ErrorKind::Absent => 8,
        ErrorKind::OutOfBounds => 9,
        ErrorKind::Io => 10,
        ErrorKind::OutOfMemory | ErrorKind::NotEnoughCores => 11,
        ErrorKind::InvalidHandle => INVALID_HANDLE,
        ErrorKind::QueueFull => 13,
        ErrorKind::Closed | ErrorKind::Uninitialized | ErrorKind::QueueEmpty => 14,
        ErrorKind::BadInput => 15,
        ErrorKind::NotANumber => 16,
        ErrorKind::Cancelled => 17,
        ErrorKind::DeadlineExceeded => 18,
        ErrorKind::ExecutionFailed => 19,
        ErrorKind::DeviceLost => 20,
        _ => 21,
    }
}

/// Executes the body of a function and returns its status.
#[inline]
pub fn of(body: impl FnOnce() -> Result<()>) -> Handle {
    match caught(body) {
        Ok(()) => std::ptr::null_mut(),
        Err(error) => failed(&error),
    }
}

#[cold]
fn failed(error: &Error) -> Handle {
    let problem = |error: &Error| {
        let place = error.location().to_string();
        let place = (!place.is_empty()).then(|| c_text(&place));
        let part = |text: Option<&str>| text.map(c_text);
        Problem([
            place,
            Some(c_text(error.message())),
            part(error.expected_text()),
            part(error.found_text()),
            part(error.help_text()),
        ])
    };
    let failure = Failure {
        code: code(error.kind()),
        text: c_text(&error.to_string()),
        problems: error.all().map(problem).collect(),
    };
    // When no handle is free, one that is not NULL and no status: its text says so.
    let none_left = std::ptr::without_provenance_mut(1);
    STATUSES.insert(Arc::new(failure)).unwrap_or(none_left)
}

/// Frees an object: NULL is none.
pub fn freed<T: Clone>(handles: &Handles<T>, handle: Handle) -> Handle {
    of(|| match handle.is_null() {
        true => Ok(()),
        false => handles.remove(handle).map(drop),
    })
}

pub extern "C" fn status_code(status: Handle) -> i32 {
    match STATUSES.find(status) {
        _ if status.is_null() => OK,
        Ok(failure) => failure.code,
        Err(_) => INVALID_HANDLE,
    }
}

pub extern "C" fn status_text(status: Handle) -> *const c_char {
    const SUCCESS: &CStr = c"success";
    const INVALID: &CStr = c"not a status, or it was freed before";
    match STATUSES.find(status) {
        _ if status.is_null() => SUCCESS.as_ptr(),
        Ok(failure) => failure.text.as_ptr(),
        Err(_) => INVALID.as_ptr(),
    }
}

pub extern "C" fn status_part(status: Handle, problem: usize, part: i32) -> *const c_char {
    let found = STATUSES.find(status).ok();
    let text = found.as_ref().and_then(|failure| {
        let Problem(parts) = failure.problems.get(problem)?;
        let part = usize::try_from(part).ok()?.checked_sub(1)?;
        parts.get(part)?.as_deref()
    });
    text.map_or(null(), CStr::as_ptr)
}

pub extern "C" fn status_problem_count(status: Handle) -> usize {
    let found = STATUSES.find(status);
    found.map_or(0, |failure| failure.problems.len())
}

pub extern "C" fn status_free(status: Handle) {
    let _ = STATUSES.remove(status);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_defects_are_internal() {
        for &kind in ErrorKind::ALL {
            let expected = kind == ErrorKind::Internal;
            assert_eq!(code(kind) == 21, expected, "{kind:?}");
        }
    }
}
