//! Lists of texts that callers free.

use crate::arguments::{check, give};
use crate::given::Given;
use std::ffi::c_char;
use tenon_base::{Error, ErrorKind, Result};

/// Lists that callers have.
static LISTS: Given = Given::new("list");

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
                free(array, index);
                return Err(exhausted());
            }
            start.copy_from_nonoverlapping(text.as_ptr(), text.len());
            start.add(text.len()).write(0);
            array.add(index).write(start.cast());
        }
        LISTS.note(array, texts.len());
        give(list, "the list", array)?;
        give(count, "count", texts.len())
    }
}

/// Frees a list, whose length is known; NULL is harmless.
///
/// # Errors
/// `InvalidHandle` for one that was not given, or was freed before.
pub(crate) fn free_texts(list: *mut *mut c_char) -> Result<()> {
    if list.is_null() {
        return Ok(());
    }
    let count = LISTS.take(list)?;
    // SAFETY: given by `give_texts` with this many texts, and just taken back.
    unsafe { free(list, count) };
    Ok(())
}

/// # Safety
/// An array of `malloc` with `count` texts of `malloc`, which nobody uses any more.
unsafe fn free(array: *mut *mut c_char, count: usize) {
    // SAFETY: the caller vouches.
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
