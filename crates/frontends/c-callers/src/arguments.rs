//! Arguments of C callers: pointers, strings, sizes.

#![allow(unsafe_code, reason = "pointers of C callers")]

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tenon_base::{Error, ErrorKind, Result};

/// An error about an argument.
pub fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// Checks that a pointer is not null and aligned.
pub fn check<T>(pointer: *const T, name: &str) -> Result<()> {
    if pointer.is_null() {
        return Err(invalid(format!("{name} is NULL")));
    }
    if !pointer.is_aligned() {
        return Err(invalid(format!("{name} is not aligned"))
            .expected(format_args!("a multiple of {}", align_of::<T>()))
            .found(format_args!("{pointer:p}")));
    }
    Ok(())
}

/// Writes an output argument.
///
/// # Safety
/// `to` is null or valid for writing a `T`.
pub unsafe fn write_output<T>(to: *mut T, name: &str, value: T) -> Result<()> {
    check(to, name)?;
    // SAFETY: not null and aligned by `check`, else valid for writing by this function's condition.
    unsafe { to.write(value) };
    Ok(())
}

/// The value behind an input argument.
///
/// # Safety
/// `from` is null or points to an initialized `T` that is valid and not written for `'a`.
pub unsafe fn read_input<'a, T>(from: *const T, name: &str) -> Result<&'a T> {
    check(from, name)?;
    // SAFETY: not null and aligned by `check`, initialized and not written by this function's
    // condition.
    Ok(unsafe { &*from })
}

/// A caller's array.
///
/// # Safety
/// `start` is null, or points to `count` initialized values that are valid and not written for `'a`.
pub unsafe fn slice<'a, T>(start: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check(start, name)?;
    check_length::<T>(count, name)?;
    // SAFETY: not null and aligned by `check`, at most `isize::MAX` bytes by `check_length`,
    // initialized and not written by this function's condition.
    Ok(unsafe { std::slice::from_raw_parts(start, count) })
}

/// A caller's array for writing.
///
/// # Safety
/// `start` is null, or points to `count` initialized values that only the result accesses for `'a`.
pub unsafe fn slice_mut<'a, T>(start: *mut T, count: usize, name: &str) -> Result<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(start, name)?;
    check_length::<T>(count, name)?;
    // SAFETY: not null and aligned by `check`, at most `isize::MAX` bytes by `check_length`,
    // initialized and not otherwise accessed by this function's condition.
    Ok(unsafe { std::slice::from_raw_parts_mut(start, count) })
}

fn check_length<T>(count: usize, name: &str) -> Result<()> {
    match count.checked_mul(size_of::<T>()) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => Err(invalid(format!("{name} is larger than the address space")).found(count)),
    }
}

/// A caller's string.
///
/// # Safety
/// `from` is null or points to a NUL-terminated string that is valid and not written for `'a`.
pub unsafe fn text<'a>(from: *const c_char, name: &str) -> Result<&'a str> {
    check(from, name)?;
    // SAFETY: not null by `check`, NUL-terminated and not written by this function's condition.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str()
        .map_err(|_| invalid(format!("{name} is not UTF-8")).found(text.to_string_lossy()))
}

/// A caller's string; empty for NULL.
///
/// # Safety
/// As for [`text`].
pub unsafe fn optional_text<'a>(from: *const c_char, name: &str) -> Result<&'a str> {
    if from.is_null() {
        return Ok("");
    }
    // SAFETY: the condition of `text` is this function's.
    unsafe { text(from, name) }
}

/// A caller's path.
///
/// # Safety
/// As for [`text`].
pub unsafe fn path<'a>(from: *const c_char, name: &str) -> Result<&'a Path> {
    check(from, name)?;
    // SAFETY: not null by `check`, NUL-terminated and not written by this function's condition.
    let bytes = unsafe { CStr::from_ptr(from) }.to_bytes();
    if bytes.is_empty() {
        return Err(invalid(format!("{name} is empty")));
    }
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Copies a struct to a caller whose version of it may be shorter: at most `size` bytes, at least
/// `least`. Returns the number of bytes.
///
/// # Safety
/// `to` is null or valid for writing `size` bytes.
pub unsafe fn write_output_sized<T: Copy>(
    to: *mut T,
    name: &str,
    value: &T,
    size: usize,
    least: usize,
) -> Result<usize> {
    check(to, name)?;
    if size < least {
        return Err(invalid(format!("{name} is too small"))
            .expected(format_args!("at least {least} bytes"))
            .found(size));
    }
    let count = size.min(size_of::<T>());
    let from = std::ptr::from_ref(value).cast::<u8>();
    // SAFETY: `count` is at most the size of `value` and at most `size`, for which `to` is valid by
    // this function's condition; `value` is a local of this library, which `to` does not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from, to.cast::<u8>(), count) };
    Ok(count)
}

/// Copies text into an array of a struct, truncated at a character boundary before the final NUL.
pub fn fill_text<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    let text = &text[..text.floor_char_boundary(N - 1)];
    for (slot, byte) in array.iter_mut().zip(text.bytes()) {
        *slot = byte as c_char;
    }
    array
}
