//! A shared library with a backend: opening, id, version, and creation of the backend.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use crate::loaded::{Core, LoadedBackend};
use crate::{Backend, LoadError};
use libloading::Library;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tenon_backend_abi::{MAJOR, MINOR};
use tenon_base::expect_regular_file;

type Id = unsafe extern "C" fn() -> *const c_char;
type Version = unsafe extern "C" fn(*mut u32, *mut u32);
type Factory = unsafe extern "C" fn() -> *mut c_void;

/// A library with the required exports and a compatible version.
#[derive(Debug)]
pub struct BackendLibrary {
    path: PathBuf,
    id: String,
    version: (u32, u32),
    factory: Factory,
    /// Closed when the last object of the backend is dropped.
    library: Arc<Library>,
}

/// Whether a backend built with version `backend` of the interface is compatible with `interface`:
/// the same major, and not newer.
pub fn is_compatible(backend: (u32, u32), interface: (u32, u32)) -> bool {
    backend.0 == interface.0 && backend.1 <= interface.1
}

impl BackendLibrary {
    /// Opens a library and reads its id and version.
    ///
    /// Opening executes the library's initialisers, and its functions are trusted to have the
    /// declared types: a plug-in is trusted code, and its crash is a crash of the process.
    pub fn open(path: impl AsRef<OsStr>) -> Result<Self, LoadError> {
        let path = Path::new(path.as_ref());
        if path.as_os_str().is_empty() {
            return Err(LoadError::EmptyPath);
        }
        // A name without a folder would be searched in the system's library paths.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        expect_regular_file(&path).map_err(LoadError::NotAFile)?;
        // SAFETY: loading executes the library's initialisers; users trust the code of the plug-ins
        // that they name its code.
        let library = unsafe { Library::new(&path) }.map_err(LoadError::NotALibrary)?;
        // SAFETY: the types are those that the header declares for these names.
        let (id, version, factory) = unsafe {
            (
                export::<Id>(&library, "GetBackendId")?,
                export::<Version>(&library, "GetVersion")?,
                export::<Factory>(&library, "BackendFactory")?,
            )
        };
        // SAFETY: the function has the declared type; its result is null or a string terminated by
        // NUL.
        let id = unsafe {
            let id = id();
            if id.is_null() {
                return Err(LoadError::NullId);
            }
            CStr::from_ptr(id)
        };
        let id = id.to_str().map_err(|_| LoadError::IdIsNoText)?.to_owned();
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the function has the declared type; both pointers are valid for writes.
        unsafe { version(&raw mut major, &raw mut minor) };
        if !is_compatible((major, minor), (MAJOR, MINOR)) {
            return Err(LoadError::Version { major, minor });
        }
        Ok(Self {
            path,
            id,
            version: (major, minor),
            factory,
            library: Arc::new(library),
        })
    }

    /// The backend's id, which may be invalid.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Major and minor version of the interface that the library was built with.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Creates the backend. Objects of the backend keep the library open.
    pub fn backend(&self) -> Result<Arc<dyn Backend>, LoadError> {
        // SAFETY: the function has the declared type and no arguments.
        let table = unsafe { (self.factory)() };
        if table.is_null() {
            return Err(LoadError::NoBackend);
        }
        let (id, path) = (self.id.clone(), Some(self.path.clone()));
        // SAFETY: a library of a compatible version returns a valid table; its functions are in the
        // library, which the core keeps open.
        let core = unsafe { Core::new(table.cast(), id, path, vec![self.library.clone()]) };
        let backend = core.and_then(LoadedBackend::new);
        Ok(Arc::new(backend.map_err(LoadError::BadBackend)?))
    }
}

/// # Safety
/// `T` must be the type of the function exported under that name.
unsafe fn export<T: Copy>(library: &Library, name: &'static str) -> Result<T, LoadError> {
    // SAFETY: `T` is the type of the symbol (requirement); `Option` represents a symbol with a null
    // address.
    unsafe {
        let symbol = library.get::<Option<T>>(name.as_bytes());
        let symbol = symbol.map_err(|_| LoadError::MissingExport(name))?;
        (*symbol).ok_or(LoadError::MissingExport(name))
    }
}

#[cfg(test)]
mod tests {
    use super::is_compatible;

    /// The examples of backends 6.4.
    #[test]
    fn versions_are_compatible_within_a_major_up_to_the_minor() {
        assert!(is_compatible((2, 4), (2, 4)));
        assert!(is_compatible((2, 1), (2, 4)));
        assert!(!is_compatible((2, 5), (2, 4)));
        assert!(!is_compatible((2, 0), (1, 0)));
        assert!(!is_compatible((2, 0), (3, 0)));
        // Lexicographically less, but not compatible (backends 6.4).
        assert!(!is_compatible((1, 4), (2, 4)));
    }
}
