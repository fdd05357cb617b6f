//! Memory of `malloc` that callers were given and give back: what is given back twice, or was never
//! given, is found out instead of freed.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use tenon_base::{Error, ErrorKind, Result};

/// Blocks that callers have, by their address. A caller that frees one by `free` leaves its address
/// behind, which the next block at this place takes over.
pub(crate) struct Given {
    what: &'static str,
    /// The count of blocks that each leads to: texts of a list, else 0.
    blocks: LazyLock<Mutex<HashMap<usize, usize>>>,
}

impl Given {
    /// None of what `what` names.
    pub const fn new(what: &'static str) -> Self {
        Self {
            what,
            blocks: LazyLock::new(Mutex::default),
        }
    }

    /// Notes a block that the caller is given, and how many others it leads to.
    pub fn note<T>(&self, start: *const T, count: usize) {
        self.lock().insert(start.addr(), count);
    }

    /// Takes a block back, which is the caller's no longer; answers how many it leads to.
    ///
    /// # Errors
    /// `InvalidHandle` for an address that the caller was not given, or gave back before.
    pub fn take<T>(&self, start: *const T) -> Result<usize> {
        self.lock().remove(&start.addr()).ok_or_else(|| {
            let text = format!("the {} was freed before, or is none", self.what);
            Error::new(ErrorKind::InvalidHandle, text).found(format_args!("{start:p}"))
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, usize>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
