//! What the C interfaces share: the arguments of C callers, the handles that they hold, and panics that must not reach them.

pub mod arguments;
pub mod handles;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tenon_base::{Error, ErrorKind, Result};

/// Executes the body of a function that C calls; a panic becomes an error.
#[inline]
pub fn caught<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    Error::new(ErrorKind::Internal, format!("a defect of Tenon: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_text() {
        let error = caught::<()>(|| panic!("at {}", 7)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert_eq!(error.message(), "a defect of Tenon: at 7");
        assert_eq!(caught(|| Ok(5)).unwrap(), 5);
    }
}
