//! Allocations of `malloc` owned by callers: freeing one twice, or freeing another pointer, is an
//! error instead of undefined behaviour.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use tenon_base::{Error, ErrorKind, Result};

/// Allocations owned by callers, by address. If a caller frees one by `free`, its entry remains until
/// the next allocation at this address replaces it.
pub(crate) struct CallerAllocations {
    /// The kind of allocation, for errors.
    kind: &'static str,
    /// For a list, the number of its strings; else 0.
    blocks: LazyLock<Mutex<HashMap<usize, usize>>>,
}

impl CallerAllocations {
    /// An empty table for a kind of allocation.
    pub const fn new(kind: &'static str) -> Self {
        Self {
            kind,
            blocks: LazyLock::new(Mutex::default),
        }
    }

    /// Registers an allocation that is passed to the caller, with its number of strings.
    pub fn register<T>(&self, start: *const T, count: usize) {
        self.lock().insert(start.addr(), count);
    }

    /// Removes an allocation before it is freed; returns its number of strings.
    ///
    /// # Errors
    /// `InvalidHandle` for an address that is not registered.
    pub fn unregister<T>(&self, start: *const T) -> Result<usize> {
        self.lock().remove(&start.addr()).ok_or_else(|| {
            let text = format!("not a {}, or it was freed before", self.kind);
            Error::new(ErrorKind::InvalidHandle, text).found(format_args!("{start:p}"))
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, usize>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
