//! A table of functions, the library it came from, and what both must outlive.

use crate::border::{Outgoing, error_of, structure};
use std::any::Any;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::Arc;
use tenon_backend_abi as abi;
use tenon_backend_abi::Outcome;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::Buffer;

/// A backend's table. Everything that the backend makes keeps it, and it keeps the library.
pub(crate) struct Core {
    /// The table, as much of it as its size covers.
    pub table: abi::Backend,
    /// Where the library keeps it: the first argument of its functions.
    pub this: *const abi::Backend,
    /// The backend's id.
    pub id: String,
    /// The library's file.
    pub path: Option<PathBuf>,
    /// The library, and what was given to the backend to use. Dropped last.
    _keeps: Vec<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: every function of a table may be called from any thread (header, "Threads").
unsafe impl Send for Core {}
// SAFETY: as above, several at a time.
unsafe impl Sync for Core {}

impl Drop for Core {
    fn drop(&mut self) {
        if let Some(release) = self.table.release {
            // SAFETY: whatever the backend made kept this value, so that nothing is left of it.
            unsafe { release(self.this) }
        }
    }
}

impl Core {
    /// Reads the table at `this` and attaches the host.
    ///
    /// # Safety
    /// `this` is null or what a backend's function answered, as the header says; `keeps` has what
    /// its functions lie in.
    pub unsafe fn new(
        this: *const abi::Backend,
        id: String,
        path: Option<PathBuf>,
        keeps: Vec<Arc<dyn Any + Send + Sync>>,
    ) -> Result<Arc<Self>> {
        // SAFETY: the caller vouches.
        let table = unsafe { structure(this, "the backend's table")? };
        for (name, missing) in [
            ("supports", table.supports.is_none()),
            ("workload", table.workload.is_none()),
        ] {
            if missing {
                let text = format!("the backend's table has no function '{name}'");
                return Err(Error::new(ErrorKind::InvalidArgument, text));
            }
        }
        let core = Arc::new(Self {
            table,
            this,
            id,
            path,
            _keeps: keeps,
        });
        if let Some(attach) = core.table.attach {
            // SAFETY: a function of the table with its own table; the host is static.
            core.done(unsafe { attach(this, &raw const HOST) })?;
        }
        Ok(core)
    }

    /// Another table that this backend made.
    ///
    /// # Safety
    /// As for [`Core::new`].
    pub unsafe fn another(
        self: &Arc<Self>,
        this: *const abi::Backend,
        keeps: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Result<Arc<Self>> {
        let own: Arc<dyn Any + Send + Sync> = self.clone();
        let all = keeps.into_iter().chain([own]).collect();
        // SAFETY: the caller vouches.
        let made = unsafe { Self::new(this, self.id.clone(), self.path.clone(), all) };
        made.map_err(|error| self.about(&error))
    }

    /// An outcome as a result.
    pub fn done(&self, outcome: Outcome) -> Result<()> {
        // SAFETY: called with what a function of the table answered, once.
        unsafe { error_of(outcome, &self.who()) }
    }

    /// Reads a struct that the backend made; `what` names it.
    ///
    /// # Safety
    /// As for [`abi::read`].
    pub unsafe fn made<T: abi::Prefixed>(&self, start: *const T, what: &str) -> Result<T> {
        // SAFETY: the caller vouches.
        unsafe { structure(start, what) }.map_err(|error| self.about(&error))
    }

    /// The same error, saying whose it is.
    pub fn about(&self, error: &Error) -> Error {
        Error::new(error.kind(), format!("{}: {error}", self.who()))
    }

    /// The error about a function that is missing.
    pub fn lacks(&self, function: &str) -> Error {
        let text = format!("{}: its table has no function '{function}'", self.who());
        Error::new(ErrorKind::Unsupported, text)
    }

    /// How messages call it.
    pub fn who(&self) -> String {
        format!("backend {}", self.id)
    }

    /// A place for structs of one call.
    pub fn outgoing<'a>(&self) -> Outgoing<'a> {
        Outgoing::default()
    }
}

/// What this side offers to every backend.
static HOST: abi::Host = abi::Host {
    size: size_of::<abi::Host>(),
    major: abi::MAJOR,
    minor: abi::MINOR,
    retain: Some(retain),
    forget: Some(forget),
};

/// # Safety
/// `owner` is that of bytes which went out with [`Outgoing`] in the call that still runs, or which
/// a workload's node keeps.
unsafe extern "C" fn retain(owner: *const c_void) -> *mut c_void {
    if owner.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: owners that go out are buffers, alive as the caller vouches.
    let buffer = unsafe { (*owner.cast::<Buffer>()).clone() };
    Box::into_raw(Box::new(buffer)).cast()
}

/// # Safety
/// `token` is from `retain` and given back once.
unsafe extern "C" fn forget(token: *mut c_void) {
    if !token.is_null() {
        // SAFETY: the caller vouches.
        drop(unsafe { Box::from_raw(token.cast::<Buffer>()) });
    }
}
