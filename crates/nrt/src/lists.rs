//! Lists of texts that callers free.

use crate::arguments::{check, give};
use std::ffi::c_char;
use tenon_base::{Error, ErrorKind, Result};

/// Gives a list of texts: an array and each text in memory of `malloc`.
///
/// # Safety
/// The pointers are the caller's places for a list and its length.
pub(crate) unsafe fn give_texts(
    texts: &[&str],
    list: *mut *mut *mut c_char,
    count: *mut usize,
) -> Result<()> {
    check(list, "the list")?;
    check(count, "count")?;
    // SAFETY: every piece of memory is as long as what is written to it; one more pointer than
    // texts, so that an empty list has memory, too.
    unsafe {
        let array = libc::malloc((texts.len() + 1) * size_of::<*mut c_char>());
        let array = array.cast::<*mut c_char>();
        if array.is_null() {
            return Err(exhausted());
        }
        for (index, text) in texts.iter().enumerate() {
            let start = libc::malloc(text.len() + 1).cast::<u8>();
            if start.is_null() {
                free_texts(array, index);
                return Err(exhausted());
            }
            start.copy_from_nonoverlapping(text.as_ptr(), text.len());
            start.add(text.len()).write(0);
            array.add(index).write(start.cast());
        }
        give(list, "the list", array)?;
        give(count, "count", texts.len())
    }
}

/// Frees a list.
///
/// # Safety
/// It was given by [`give_texts`] with this length, or is null.
pub(crate) unsafe fn free_texts(list: *mut *mut c_char, count: usize) {
    if list.is_null() {
        return;
    }
    // SAFETY: the caller vouches.
    unsafe {
        for index in 0..count {
            libc::free((*list.add(index)).cast());
        }
        libc::free(list.cast());
    }
}

fn exhausted() -> Error {
    Error::new(ErrorKind::OutOfMemory, "cannot allocate a list")
}
