//! `tenon_blob`: bytes and texts that the library made.

use crate::status;
use std::ffi::c_void;
use std::sync::Arc;
use tenon::Result;
use tenon_c_callers::arguments::{check, write_output};
use tenon_c_callers::handles::{Handle, Handles};

static BLOBS: Handles<Arc<Blob>> = Handles::new(0x42, "blob");

/// The bytes, with a NUL after them.
struct Blob(Vec<u8>);

/// Writes the handle of a blob.
///
/// # Safety
/// `to` is null or valid for writing a handle.
pub unsafe fn write_blob(to: *mut Handle, name: &str, bytes: impl Into<Vec<u8>>) -> Result<()> {
    let mut bytes = bytes.into();
    bytes.push(0);
    // SAFETY: the condition of `write_handle` is this function's.
    unsafe { write_handle(to, name, &BLOBS, Arc::new(Blob(bytes))) }
}

/// Writes the handle of a new object; nothing is kept where the caller has no place for it.
///
/// # Safety
/// `to` is null or valid for writing a handle.
pub unsafe fn write_handle<T: Clone>(
    to: *mut Handle,
    name: &str,
    handles: &Handles<T>,
    value: T,
) -> Result<()> {
    check(to, name)?;
    let handle = handles.insert(value)?;
    // SAFETY: `to` is not null and aligned (checked above), else valid (requirement).
    unsafe { write_output(to, name, handle) }
}

pub unsafe extern "C" fn blob_get(
    blob: Handle,
    start: *mut *const c_void,
    length: *mut usize,
) -> Handle {
    status::of(|| {
        let Blob(bytes) = &*BLOBS.find(blob)?;
        check(length, "length")?;
        // SAFETY: both are null or valid for writing (header).
        unsafe {
            write_output(start, "start", bytes.as_ptr().cast())?;
            write_output(length, "length", bytes.len() - 1)
        }
    })
}

pub extern "C" fn blob_free(blob: Handle) -> Handle {
    status::freed(&BLOBS, blob)
}

/// The JSON of a value.
pub fn json(value: &impl serde::Serialize) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(value);
    text.map_err(|error| tenon::Error::new(tenon::ErrorKind::Internal, error.to_string()))
}
