//! The cache of the host, for an exported backend.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use crate::Cache;
use crate::marshal::bytes;
use std::ffi::c_void;
use tenon_backend_abi as abi;
use tenon_tensor::{Buffer, BufferMut};

type GetFunction = unsafe extern "C" fn(*const abi::Host, abi::Text, *mut abi::Bytes) -> i32;
type PutFunction = unsafe extern "C" fn(*const abi::Host, abi::Text, *const c_void, usize);
type ForgetFunction = unsafe extern "C" fn(*mut c_void);

/// The functions of a host that has a cache.
pub(super) struct HostCache {
    this: *const abi::Host,
    get: GetFunction,
    put: PutFunction,
    forget: ForgetFunction,
}

// SAFETY: the functions of a host may be called from any thread (header, "Threads").
unsafe impl Send for HostCache {}
// SAFETY: the functions of a host may be called concurrently (header, "Threads").
unsafe impl Sync for HostCache {}

impl HostCache {
    /// The cache of the host at `this`, whose struct is `host`; `None` if it has none.
    ///
    /// # Safety
    /// `this` is a valid host that outlives the backend and its objects (header).
    pub unsafe fn new(this: *const abi::Host, host: &abi::Host) -> Option<Self> {
        Some(Self {
            this,
            get: host.cache_get?,
            put: host.cache_put?,
            forget: host.forget?,
        })
    }
}

impl Cache for HostCache {
    fn get(&self, key: &str) -> Option<Buffer> {
        let mut raw = abi::Bytes::NONE;
        // SAFETY: `cache_get` of the host is called with the host itself, which is alive (`new`), a key that lives
        // during the call, and a valid out-parameter.
        if unsafe { (self.get)(self.this, abi::Text::of(key), &raw mut raw) } == 0 {
            return None;
        }
        // SAFETY: the host keeps the bytes until their owner is forgotten (header), here once, after they are copied.
        unsafe {
            let entry = bytes(raw, "an entry of the cache").and_then(BufferMut::copy_of);
            (self.forget)(raw.owner.cast_mut());
            Some(entry.ok()?.freeze())
        }
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        // SAFETY: `cache_put` of the host is called with the host itself, which is alive (`new`), and with a key and
        // bytes that live during the call.
        unsafe {
            (self.put)(
                self.this,
                abi::Text::of(key),
                bytes.as_ptr().cast(),
                bytes.len(),
            );
        }
    }
}
