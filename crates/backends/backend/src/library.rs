//! A shared library with a backend: opened, asked for its id and version, and for the backend.

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

/// A library that exports what a backend must, of a version that can be loaded.
#[derive(Debug)]
pub struct BackendLibrary {
    path: PathBuf,
    id: String,
    version: (u32, u32),
    factory: Factory,
    /// Closed when the last thing that the backend made is gone.
    library: Arc<Library>,
}

/// Whether a backend built with a version of the interface works with another: of the same major,
/// and not newer.
pub fn is_compatible(backend: (u32, u32), interface: (u32, u32)) -> bool {
    backend.0 == interface.0 && backend.1 <= interface.1
}

impl BackendLibrary {
    /// Opens a library and asks for its id and version.
    ///
    /// Opening runs the library's own initialisers, and its functions are trusted to be what their
    /// names say: what runs here is the library's choice. A crash in it is a crash of this process.
    pub fn open(path: impl AsRef<OsStr>) -> Result<Self, LoadError> {
        let path = Path::new(path.as_ref());
        if path.as_os_str().is_empty() {
            return Err(LoadError::EmptyPath);
        }
        // A name without a folder would be looked for among the system's libraries.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        expect_regular_file(&path).map_err(LoadError::NotAFile)?;
        // SAFETY: whoever names a backend's library wants its code to run.
        let library = unsafe { Library::new(&path) }.map_err(LoadError::NotALibrary)?;
        // SAFETY: the header says what these names are.
        let (id, version, factory) = unsafe {
            (
                export::<Id>(&library, "GetBackendId")?,
                export::<Version>(&library, "GetVersion")?,
                export::<Factory>(&library, "BackendFactory")?,
            )
        };
        // SAFETY: as the header declares it; the answer is null or ends with a zero.
        let id = unsafe {
            let id = id();
            if id.is_null() {
                return Err(LoadError::NullId);
            }
            CStr::from_ptr(id)
        };
        let id = id.to_str().map_err(|_| LoadError::IdIsNoText)?.to_owned();
        let (mut major, mut minor) = (0, 0);
        // SAFETY: as the header declares it, with two places for a number.
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

    /// The backend's id, whatever it is.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Major and minor of the interface that it was built with.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The backend. Whatever it makes keeps the library open.
    pub fn backend(&self) -> Result<Arc<dyn Backend>, LoadError> {
        // SAFETY: as the header declares it.
        let made = unsafe { (self.factory)() };
        if made.is_null() {
            return Err(LoadError::NoBackend);
        }
        let (id, path) = (self.id.clone(), Some(self.path.clone()));
        // SAFETY: a library of this version answers a table, whose functions lie in it.
        let core = unsafe { Core::new(made.cast(), id, path, vec![self.library.clone()]) };
        let backend = core.and_then(LoadedBackend::new);
        Ok(Arc::new(backend.map_err(LoadError::BadBackend)?))
    }
}

/// # Safety
/// `T` is the type of the function of that name.
unsafe fn export<T: Copy>(library: &Library, name: &'static str) -> Result<T, LoadError> {
    // SAFETY: the caller vouches; a symbol at null is none.
    unsafe {
        let symbol = library.get::<Option<T>>(name.as_bytes());
        let symbol = symbol.map_err(|_| LoadError::MissingExport(name))?;
        (*symbol).ok_or(LoadError::MissingExport(name))
    }
}

#[cfg(test)]
mod tests {
    use super::is_compatible;

    /// The examples of the seed, "Dynamic backend versioning and ABI compatibility".
    #[test]
    fn versions_are_compatible_within_a_major_up_to_the_minor() {
        assert!(is_compatible((2, 4), (2, 4)));
        assert!(is_compatible((2, 1), (2, 4)));
        assert!(!is_compatible((2, 5), (2, 4)));
        assert!(!is_compatible((2, 0), (1, 0)));
        assert!(!is_compatible((2, 0), (3, 0)));
        // Lexicographically less, and yet not compatible (facts, armnn.md 1.6).
        assert!(!is_compatible((1, 4), (2, 4)));
    }
}
