//! Texts for C.

use std::ffi::{CString, c_char};
use tenon::Result;
use tenon_c_callers::arguments;

/// A text that ends with NUL; NUL inside of it becomes the replacement character.
pub fn c_text(text: &str) -> CString {
    let text = text.replace('\0', "\u{fffd}");
    CString::new(text).unwrap_or_default()
}

/// An array of texts of the caller.
///
/// # Safety
/// `start` is null or points to `count` pointers, each null or to a text that ends with NUL, valid and not written
/// for `'a`.
pub unsafe fn texts<'a>(
    start: *const *const c_char,
    count: usize,
    name: &str,
) -> Result<Vec<&'a str>> {
    // SAFETY: the condition of `slice` is this function's.
    let pointers = unsafe { arguments::slice(start, count, name)? };
    let text = |(at, &text): (usize, &*const c_char)| {
        // SAFETY: each pointer is null or a text (requirement).
        unsafe { arguments::text(text, &format!("{name}[{at}]")) }
    };
    pointers.iter().enumerate().map(text).collect()
}

/// A text of the caller; `None` for NULL.
///
/// # Safety
/// `text` is null or a text that ends with NUL, valid and not written for `'a`.
pub unsafe fn optional<'a>(text: *const c_char, name: &str) -> Result<Option<&'a str>> {
    match text.is_null() {
        true => Ok(None),
        // SAFETY: the condition of `text` is this function's.
        false => unsafe { arguments::text(text, name).map(Some) },
    }
}
