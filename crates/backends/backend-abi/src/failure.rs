//! Construction of failures, for backends and hosts in Rust.

#![allow(unsafe_code, reason = "structs of the C interface")]

use crate::{Failure, Outcome, Text, reason, status};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A failure and the texts it points to, freed by its `release`.
#[repr(C)]
struct OwnedFailure {
    failure: Failure,
    name: String,
    text: String,
}

/// A failure with a status and a message.
pub fn failure(status: i32, text: impl Into<String>) -> Outcome {
    refusal(status, reason::OTHER, [0, 0], String::new(), text.into())
}

/// A failure with a reason and its data: index, found value, name and text.
pub fn refusal(
    status: i32,
    reason: i32,
    [index, found]: [i64; 2],
    name: String,
    text: String,
) -> Outcome {
    let mut owned = Box::new(OwnedFailure {
        failure: Failure {
            size: size_of::<Failure>(),
            status,
            reason,
            index,
            found,
            name: Text::EMPTY,
            text: Text::EMPTY,
            release: Some(release),
        },
        name,
        text,
    });
    owned.failure.name = Text::of(&owned.name);
    owned.failure.text = Text::of(&owned.text);
    Box::into_raw(owned).cast::<Failure>()
}

/// # Safety
/// [`refusal`] returned `failure`, and it is not released yet.
unsafe extern "C" fn release(failure: *const Failure) {
    // SAFETY: `failure` came from `Box::into_raw` in `refusal` (requirement), as a pointer to the
    // first member of the `#[repr(C)]` struct; it is not freed yet.
    drop(unsafe { Box::from_raw(failure.cast_mut().cast::<OwnedFailure>()) });
}

/// Runs the body of a function of the interface. A panic becomes a failure: it must not unwind into
/// C.
pub fn guarded(work: impl FnOnce() -> Result<(), Outcome>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => std::ptr::null(),
        Ok(Err(outcome)) => outcome,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let text = format!("a panic: {}", text.unwrap_or("no message"));
            // Dropping the payload of a panic may panic again.
            std::mem::forget(panic);
            failure(status::FAILED, text)
        }
    }
}

/// A failure with the status `FAILED`.
pub fn failed(text: impl Into<String>) -> Outcome {
    failure(status::FAILED, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_failure() {
        let outcome = guarded(|| panic!("out of tape"));
        // SAFETY: `guarded` returned the failure; its text is valid until the release at the end.
        unsafe {
            let text = std::slice::from_raw_parts((*outcome).text.start, (*outcome).text.length);
            assert_eq!(text, b"a panic: out of tape");
            assert_eq!((*outcome).status, status::FAILED);
            ((*outcome).release.unwrap())(outcome);
        }
        assert!(guarded(|| Ok(())).is_null());
    }
}
