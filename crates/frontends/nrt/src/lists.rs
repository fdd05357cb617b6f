//! Lists of strings that callers free.

use crate::allocations::CallerAllocations;
use std::ffi::c_char;
use tenon_base::{Error, ErrorKind, Result};
use tenon_c_callers::arguments::{check, write_output};

/// Lists owned by callers.
static LISTS: CallerAllocations = CallerAllocations::new("list");

/// Returns a list of strings to the caller: the array and each string are allocated by `malloc`.
///
/// # Safety
/// `list` and `count` are null or writable.
pub(crate) unsafe fn write_texts(
    texts: &[&str],
    list: *mut *mut *mut c_char,
    count: *mut usize,
) -> Result<()> {
    check(list, "the list")?;
    check(count, "count")?;
    // SAFETY: each allocation has the size of the data written to it and is aligned for it by
    // `malloc`; `array` has one more element than `texts`, so that an empty list is not null;
    // `list` and `count` are writable by this function's condition.
    unsafe {
        let array = libc::malloc((texts.len() + 1) * size_of::<*mut c_char>());
        let array = array.cast::<*mut c_char>();
        if array.is_null() {
            return Err(exhausted());
        }
        for (index, text) in texts.iter().enumerate() {
            let start = libc::malloc(text.len() + 1).cast::<u8>();
            if start.is_null() {
                free(array, index);
                return Err(exhausted());
            }
            start.copy_from_nonoverlapping(text.as_ptr(), text.len());
            start.add(text.len()).write(0);
            array.add(index).write(start.cast());
        }
        LISTS.register(array, texts.len());
        write_output(list, "the list", array)?;
        write_output(count, "count", texts.len())
    }
}

/// Frees a list; NULL is ignored.
///
/// # Errors
/// `InvalidHandle` for a list that [`write_texts`] did not return, or that was freed before.
pub(crate) fn free_texts(list: *mut *mut c_char) -> Result<()> {
    if list.is_null() {
        return Ok(());
    }
    let count = LISTS.unregister(list)?;
    // SAFETY: `write_texts` allocated the list with `count` strings; it was registered until now, so
    // it is freed once.
    unsafe { free(list, count) };
    Ok(())
}

/// # Safety
/// `array` was allocated by `malloc`, as were its first `count` strings; none is used afterwards.
unsafe fn free(array: *mut *mut c_char, count: usize) {
    // SAFETY: the first `count` elements are initialized pointers of `malloc`, as is `array`, by this
    // function's condition.
    unsafe {
        for index in 0..count {
            libc::free((*array.add(index)).cast());
        }
        libc::free(array.cast());
    }
}

fn exhausted() -> Error {
    Error::new(ErrorKind::OutOfMemory, "cannot allocate a list")
}
