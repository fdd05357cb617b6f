//! The functions of Tenon that a loaded backend may call.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use crate::Cache;
use crate::marshal::{bytes, text};
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};
use tenon_backend_abi as abi;
use tenon_tensor::Buffer;

/// The cache of a backend, which its other configurations share; empty until there is one.
pub(super) type SharedCache = Arc<OnceLock<Arc<dyn Cache>>>;

/// The struct of the header and what its functions use.
#[repr(C)]
pub(super) struct ExportedHost {
    /// The first member: a pointer to it is a pointer to this struct.
    table: abi::Host,
    pub cache: SharedCache,
}

impl ExportedHost {
    pub fn new(cache: SharedCache) -> Box<Self> {
        let table = abi::Host {
            size: size_of::<abi::Host>(),
            major: abi::MAJOR,
            minor: abi::MINOR,
            retain: Some(retain),
            forget: Some(forget),
            cache_get: Some(cache_get),
            cache_put: Some(cache_put),
        };
        Box::new(Self { table, cache })
    }

    /// As the header has it, valid as long as the value.
    pub fn table(&self) -> *const abi::Host {
        (&raw const *self).cast()
    }
}

/// # Safety
/// `owner` is null or the owner of bytes passed with `CallArena`, either in a call that has not
/// returned or with the node of a live workload.
unsafe extern "C" fn retain(owner: *const c_void) -> *mut c_void {
    if owner.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: `owner` is not null (checked above); `CallArena` passes pointers to `Buffer`s, which
    // are borrowed for the call or owned by the workload (requirement).
    let buffer = unsafe { (*owner.cast::<Buffer>()).clone() };
    token(buffer)
}

/// An owner of a buffer, dropped by `forget`.
fn token(buffer: Buffer) -> *mut c_void {
    Box::into_raw(Box::new(buffer)).cast()
}

/// # Safety
/// `token` is null, a return value of `retain` or an owner of `cache_get`, and was not forgotten yet.
unsafe extern "C" fn forget(token: *mut c_void) {
    if !token.is_null() {
        // SAFETY: `token` is of `Box::into_raw` (`token`), and it is dropped once (requirement).
        drop(unsafe { Box::from_raw(token.cast::<Buffer>()) });
    }
}

/// # Safety
/// `this` is the table of an [`ExportedHost`] that is alive; the key is null or of the stated length; `out` is null or
/// valid for a write.
unsafe extern "C" fn cache_get(
    this: *const abi::Host,
    key: abi::Text,
    out: *mut abi::Bytes,
) -> i32 {
    let mut found = 0;
    abi::guarded(|| {
        // SAFETY: `this` points to the first member of a live `ExportedHost` (requirement; `#[repr(C)]`), and the key is
        // valid (requirement).
        let (host, key) = unsafe { (&*this.cast::<ExportedHost>(), text(key, "a key")) };
        if let (Some(cache), Ok(key), false) = (host.cache.get(), key, out.is_null())
            && let Some(buffer) = cache.get(&key)
        {
            let (start, length) = (buffer.as_ptr().cast(), buffer.len());
            let owner = token(buffer).cast_const();
            let entry = abi::Bytes {
                start,
                length,
                owner,
            };
            // SAFETY: `out` is not null (checked above) and valid for a write (requirement).
            unsafe { out.write(entry) };
            found = 1;
        }
        Ok(())
    });
    found
}

/// # Safety
/// `this` is the table of an [`ExportedHost`] that is alive; the key and the bytes are null or of the stated lengths.
unsafe extern "C" fn cache_put(
    this: *const abi::Host,
    key: abi::Text,
    start: *const c_void,
    length: usize,
) {
    abi::guarded(|| {
        let entry = abi::Bytes {
            start,
            length,
            owner: std::ptr::null(),
        };
        // SAFETY: `this` points to the first member of a live `ExportedHost` (requirement; `#[repr(C)]`), and the key
        // and the bytes are valid (requirement).
        let (host, key, entry) = unsafe {
            (
                &*this.cast::<ExportedHost>(),
                text(key, "a key"),
                bytes(entry, "an entry of the cache"),
            )
        };
        // An entry that cannot be read is not made.
        if let (Some(cache), Ok(key), Ok(entry)) = (host.cache.get(), key, entry) {
            cache.put(&key, entry);
        }
        Ok(())
    });
}
