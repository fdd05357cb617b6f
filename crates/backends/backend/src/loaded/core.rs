//! The function table of a loaded backend, and the owners that must outlive it.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use super::host::{ExportedHost, SharedCache};
use crate::Cache;
use crate::marshal::{CallArena, error_of, structure};
use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use tenon_backend_abi as abi;
use tenon_backend_abi::Outcome;
use tenon_base::{Error, ErrorKind, Result};

/// A backend's function table. Objects that the backend creates share ownership of it, and it owns
/// the library.
pub(crate) struct Core {
    /// A copy of the table, as far as its size covers.
    pub table: abi::Backend,
    /// The table in the library: the first argument of its functions.
    pub this: *const abi::Backend,
    /// The backend's id.
    pub id: String,
    /// The library's file.
    pub path: Option<PathBuf>,
    /// The functions of Tenon for the backend, which has a pointer to them.
    host: Box<ExportedHost>,
    /// The library, and objects that the backend borrows. Dropped last.
    _owners: Vec<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: the functions of a table may be called from any thread (header, "Threads").
unsafe impl Send for Core {}
// SAFETY: the functions of a table may be called concurrently (header, "Threads"); `this` is not
// written.
unsafe impl Sync for Core {}

impl Drop for Core {
    fn drop(&mut self) {
        if let Some(release) = self.table.release {
            // SAFETY: the table is released once, and every object that the backend created shares
            // ownership of this value, so none is left.
            unsafe { release(self.this) }
        }
    }
}

impl Core {
    /// Reads the table at `this` and attaches the host.
    ///
    /// # Safety
    /// `this` is null or a table returned by a backend's function, not released; `owners` keeps the
    /// library with its functions loaded.
    pub unsafe fn new(
        this: *const abi::Backend,
        id: String,
        path: Option<PathBuf>,
        owners: Vec<Arc<dyn Any + Send + Sync>>,
    ) -> Result<Arc<Self>> {
        // SAFETY: the requirements are those of this function.
        unsafe { Self::with_cache(this, id, path, owners, SharedCache::default()) }
    }

    /// The same with a cache, if there is one.
    ///
    /// # Safety
    /// As for [`Core::new`].
    unsafe fn with_cache(
        this: *const abi::Backend,
        id: String,
        path: Option<PathBuf>,
        owners: Vec<Arc<dyn Any + Send + Sync>>,
        cache: SharedCache,
    ) -> Result<Arc<Self>> {
        // SAFETY: `this` is null or a valid table (requirement).
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
            host: ExportedHost::new(cache),
            _owners: owners,
        });
        if let Some(attach) = core.table.attach {
            // SAFETY: `attach` of the table is called with the table itself, which is not released;
            // the host lives as long as the core, which every object of the backend owns.
            core.check(unsafe { attach(this, core.host.table()) })?;
        }
        Ok(core)
    }

    /// A table that a function of this backend created.
    ///
    /// # Safety
    /// `this` is null or the table returned by that function, not released.
    pub unsafe fn derived(
        self: &Arc<Self>,
        this: *const abi::Backend,
        owners: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Result<Arc<Self>> {
        let own: Arc<dyn Any + Send + Sync> = self.clone();
        let all = owners.into_iter().chain([own]).collect();
        // SAFETY: `this` is null or an unreleased table (requirement), whose functions are in the
        // library that `own` keeps loaded.
        let derived = unsafe {
            let (id, path, cache) = (self.id.clone(), self.path.clone(), &self.host.cache);
            Self::with_cache(this, id, path, all, cache.clone())
        };
        derived.map_err(|error| self.with_label(&error))
    }

    /// Sets the cache of the backend; the first one stays.
    pub fn set_cache(&self, cache: Arc<dyn Cache>) {
        let _ = self.host.cache.set(cache);
    }

    /// The result of a call of a function of the backend.
    pub fn check(&self, outcome: Outcome) -> Result<()> {
        // SAFETY: callers pass the return value of a function of the backend, which is not released
        // yet.
        unsafe { error_of(outcome, &self.label()) }
    }

    /// Reads the struct of an object that the backend created; `what` names it in errors.
    ///
    /// # Safety
    /// `start` is null or points to a struct that begins with its size.
    pub unsafe fn read_object<T: abi::Prefixed>(&self, start: *const T, what: &str) -> Result<T> {
        // SAFETY: `start` is null or points to a struct that begins with its size (requirement).
        unsafe { structure(start, what) }.map_err(|error| self.with_label(&error))
    }

    /// The same error with the backend's name.
    pub fn with_label(&self, error: &Error) -> Error {
        Error::new(error.kind(), format!("{}: {error}", self.label()))
    }

    /// The error of a missing function.
    pub fn missing_function(&self, function: &str) -> Error {
        let text = format!("{}: its table has no function '{function}'", self.label());
        Error::new(ErrorKind::Unsupported, text)
    }

    /// The backend's name in messages.
    pub fn label(&self) -> String {
        format!("backend {}", self.id)
    }

    /// An arena for the structs of one call.
    pub fn arena<'a>(&self) -> CallArena<'a> {
        CallArena::default()
    }
}
