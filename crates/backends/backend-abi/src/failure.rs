//! Making failures, for those who write a backend or a host in Rust.

use crate::{Failure, Outcome, Text, reason, status};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A failure with the texts it points to, freed by its release.
#[repr(C)]
struct Owned {
    failure: Failure,
    name: String,
    text: String,
}

/// A failure of a status, in a sentence.
pub fn failure(status: i32, text: impl Into<String>) -> Outcome {
    refusal(status, reason::OTHER, [0, 0], String::new(), text.into())
}

/// A failure with a reason: its `index` and `found`, its name and its text.
pub fn refusal(
    status: i32,
    reason: i32,
    [index, found]: [i64; 2],
    name: String,
    text: String,
) -> Outcome {
    let mut owned = Box::new(Owned {
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
/// `failure` is from [`refusal`], and not released yet.
unsafe extern "C" fn release(failure: *const Failure) {
    // SAFETY: the failure is the first member of the box that `refusal` made.
    drop(unsafe { Box::from_raw(failure.cast_mut().cast::<Owned>()) });
}

/// Runs what a function of the interface does: a panic becomes a failure instead of crossing.
pub fn guarded(work: impl FnOnce() -> Result<(), Outcome>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => std::ptr::null(),
        Ok(Err(outcome)) => outcome,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let text = format!("a panic: {}", text.unwrap_or("no message"));
            // What a panic carries may panic again when dropped.
            std::mem::forget(panic);
            failure(status::FAILED, text)
        }
    }
}

/// A failure of no particular status.
pub fn failed(text: impl Into<String>) -> Outcome {
    failure(status::FAILED, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_failure() {
        let outcome = guarded(|| panic!("out of tape"));
        // SAFETY: a failure that was just made, its text valid until it is released.
        unsafe {
            let text = std::slice::from_raw_parts((*outcome).text.start, (*outcome).text.length);
            assert_eq!(text, b"a panic: out of tape");
            assert_eq!((*outcome).status, status::FAILED);
            ((*outcome).release.unwrap())(outcome);
        }
        assert!(guarded(|| Ok(())).is_null());
    }
}
