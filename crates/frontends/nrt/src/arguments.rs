//! What callers hand over: pointers, strings, sizes.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tenon_base::{Error, ErrorKind, Result};

/// An error about an argument.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// Checks that a pointer is not null and is aligned for what it leads to.
pub(crate) fn check<T>(pointer: *const T, name: &str) -> Result<()> {
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

/// Writes what a function gives to where the caller wants it.
///
/// # Safety
/// A pointer that is not null leads to a place for a `T`.
pub(crate) unsafe fn give<T>(to: *mut T, name: &str, value: T) -> Result<()> {
    check(to, name)?;
    // SAFETY: not null, aligned, and the caller vouches for the rest.
    unsafe { to.write(value) };
    Ok(())
}

/// Reads what the caller hands over by a pointer.
///
/// # Safety
/// A pointer that is not null leads to a `T`, which stays for `'a` and is not written meanwhile.
pub(crate) unsafe fn take<'a, T>(from: *const T, name: &str) -> Result<&'a T> {
    check(from, name)?;
    // SAFETY: not null, aligned, and the caller vouches for the rest.
    Ok(unsafe { &*from })
}

/// A caller's array.
///
/// # Safety
/// `start` leads to `count` values, unless it is null or `count` is 0; they stay for `'a` and are
/// not written meanwhile.
pub(crate) unsafe fn slice<'a, T>(start: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check(start, name)?;
    room::<T>(count, name)?;
    // SAFETY: not null, aligned, not longer than memory can be, and the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts(start, count) })
}

/// A caller's array that is written.
///
/// # Safety
/// As [`slice`], and nobody else reads or writes it for `'a`.
pub(crate) unsafe fn slice_mut<'a, T>(
    start: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(start, name)?;
    room::<T>(count, name)?;
    // SAFETY: as in `slice`.
    Ok(unsafe { std::slice::from_raw_parts_mut(start, count) })
}

fn room<T>(count: usize, name: &str) -> Result<()> {
    match count.checked_mul(size_of::<T>()) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => Err(invalid(format!("{name} is larger than memory can be")).found(count)),
    }
}

/// A caller's text.
///
/// # Safety
/// A pointer that is not null leads to bytes that a NUL ends; they stay for `'a`.
pub(crate) unsafe fn text<'a>(from: *const c_char, name: &str) -> Result<&'a str> {
    check(from, name)?;
    // SAFETY: the caller vouches.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str()
        .map_err(|_| invalid(format!("{name} is not UTF-8")).found(text.to_string_lossy()))
}

/// A caller's text that may be left out.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn optional_text<'a>(from: *const c_char, name: &str) -> Result<&'a str> {
    match from.is_null() {
        true => Ok(""),
        // SAFETY: the caller vouches.
        false => unsafe { text(from, name) },
    }
}

/// A caller's path.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn path<'a>(from: *const c_char, name: &str) -> Result<&'a Path> {
    check(from, name)?;
    // SAFETY: the caller vouches.
    let bytes = unsafe { CStr::from_ptr(from) }.to_bytes();
    if bytes.is_empty() {
        return Err(invalid(format!("{name} is empty")));
    }
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Copies a struct to a caller whose one may be shorter: at most `size` bytes, at least `least`.
/// Answers how many.
///
/// # Safety
/// A pointer that is not null leads to `size` bytes.
pub(crate) unsafe fn give_sized<T: Copy>(
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
    // SAFETY: as many bytes as both have; the caller vouches for its own.
    unsafe { std::ptr::copy_nonoverlapping(from, to.cast::<u8>(), count) };
    Ok(count)
}

/// Copies text into an array of a struct, cut to leave room for the final NUL.
pub(crate) fn fill_text<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    let text = &text[..text.floor_char_boundary(N - 1)];
    for (slot, byte) in array.iter_mut().zip(text.bytes()) {
        *slot = byte as c_char;
    }
    array
}
