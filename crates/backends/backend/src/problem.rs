//! Errors of loading backends, reported as warnings.

use std::fmt;
use std::path::PathBuf;
use tenon_backend_abi::{MAJOR, MINOR};
use tenon_base::Error;

/// A warning on an ignored folder or library; the search continues.
#[derive(Debug)]
pub struct LoadWarning {
    /// The folder or file.
    pub path: PathBuf,
    /// The reason.
    pub problem: LoadError,
}

/// The reason why a folder or library is ignored (backends 6.3).
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The path of a folder is empty.
    EmptyPath,
    /// The path of a folder is not absolute.
    RelativePath,
    /// The folder does not exist.
    MissingPath,
    /// The path is not that of a folder.
    NotAFolder,
    /// The folder cannot be read.
    UnreadableFolder(std::io::Error),
    /// A dangling symbolic link.
    BrokenLink,
    /// The path is a folder, a pipe or a device.
    NotAFile(std::io::Error),
    /// The dynamic loader refuses the file.
    NotALibrary(libloading::Error),
    /// A function is not exported.
    MissingExport(&'static str),
    /// `GetBackendId` returns null.
    NullId,
    /// `GetBackendId` does not return UTF-8.
    IdIsNoText,
    /// The id is empty or `Unknown`.
    ReservedId(String),
    /// It was built with an incompatible version of the interface.
    Version {
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// A backend of this id is registered.
    DuplicateId(String),
    /// `BackendFactory` returns null.
    NoBackend,
    /// `BackendFactory` returns an invalid table, or attaching fails.
    BadBackend(Error),
}

impl LoadError {
    /// The machine-readable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            LoadError::EmptyPath => "empty-path",
            LoadError::RelativePath => "relative-path",
            LoadError::MissingPath => "missing-path",
            LoadError::NotAFolder => "not-a-folder",
            LoadError::UnreadableFolder(_) => "unreadable-folder",
            LoadError::BrokenLink => "broken-link",
            LoadError::NotAFile(_) => "not-a-file",
            LoadError::NotALibrary(_) => "not-a-library",
            LoadError::MissingExport(_) => "missing-export",
            LoadError::NullId => "null-id",
            LoadError::IdIsNoText => "id-is-no-text",
            LoadError::ReservedId(_) => "reserved-id",
            LoadError::Version { .. } => "version",
            LoadError::DuplicateId(_) => "duplicate-id",
            LoadError::NoBackend => "no-backend",
            LoadError::BadBackend(_) => "bad-backend",
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::EmptyPath => f.write_str("the path is empty"),
            LoadError::RelativePath => f.write_str("the path is not absolute"),
            LoadError::MissingPath => f.write_str("the folder does not exist"),
            LoadError::NotAFolder => f.write_str("the path is not a folder"),
            LoadError::UnreadableFolder(error) => write!(f, "cannot read the folder: {error}"),
            LoadError::BrokenLink => f.write_str("dangling symbolic link"),
            LoadError::NotAFile(error) => write!(f, "cannot be opened as a library: {error}"),
            LoadError::NotALibrary(error) => {
                let why = std::error::Error::source(error).map(ToString::to_string);
                let why = why.unwrap_or_else(|| error.to_string());
                write!(f, "cannot be opened as a library: {why}")
            }
            LoadError::MissingExport(name) => write!(f, "does not export {name}"),
            LoadError::NullId => f.write_str("GetBackendId returns null"),
            LoadError::IdIsNoText => f.write_str("GetBackendId does not return UTF-8"),
            LoadError::ReservedId(id) => write!(f, "the id '{id}' is reserved"),
            LoadError::Version { major, minor } => write!(
                f,
                "built with version {major}.{minor} of the interface, which {MAJOR}.{MINOR} \
                 cannot load"
            ),
            LoadError::DuplicateId(id) => write!(f, "backend {id} is already registered"),
            LoadError::NoBackend => f.write_str("BackendFactory returns null"),
            LoadError::BadBackend(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for LoadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}
