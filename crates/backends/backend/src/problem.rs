//! Why a library, or a folder of them, is passed over: data, told as a warning.

use std::fmt;
use std::path::PathBuf;
use tenon_backend_abi::{MAJOR, MINOR};
use tenon_base::Error;

/// Something that was passed over while backends were looked for; the others go on.
#[derive(Debug)]
pub struct LoadWarning {
    /// The folder or file.
    pub path: PathBuf,
    /// Why.
    pub problem: LoadError,
}

/// Why a folder or library is passed over (facts, armnn.md 1.6).
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The path of a folder is empty.
    EmptyPath,
    /// The path of a folder is not absolute.
    RelativePath,
    /// There is no such folder.
    MissingPath,
    /// The path is not one of a folder.
    NotAFolder,
    /// The folder cannot be read.
    UnreadableFolder(std::io::Error),
    /// A link leads to nothing.
    BrokenLink,
    /// It is a folder, a pipe or a device.
    NotAFile(std::io::Error),
    /// The system does not open it as a library.
    NotALibrary(libloading::Error),
    /// A function is not exported.
    MissingExport(&'static str),
    /// `GetBackendId` answers null.
    NullId,
    /// `GetBackendId` does not answer text.
    IdIsNoText,
    /// The id is empty or `Unknown`.
    ReservedId(String),
    /// It was built with another version of the interface.
    Version {
        /// The major it gives.
        major: u32,
        /// The minor it gives.
        minor: u32,
    },
    /// A backend of this id is there.
    DuplicateId(String),
    /// `BackendFactory` answers null.
    NoBackend,
    /// What `BackendFactory` answers is no backend, or refuses.
    BadBackend(Error),
}

impl LoadError {
    /// The problem in a word, for reports that programs read.
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
            LoadError::BrokenLink => f.write_str("the link leads to nothing"),
            LoadError::NotAFile(error) => write!(f, "cannot be opened as a library: {error}"),
            LoadError::NotALibrary(error) => {
                let why = std::error::Error::source(error).map(ToString::to_string);
                let why = why.unwrap_or_else(|| error.to_string());
                write!(f, "cannot be opened as a library: {why}")
            }
            LoadError::MissingExport(name) => write!(f, "does not export {name}"),
            LoadError::NullId => f.write_str("GetBackendId answers null"),
            LoadError::IdIsNoText => f.write_str("GetBackendId does not answer UTF-8"),
            LoadError::ReservedId(id) => write!(f, "the id '{id}' stands for no backend"),
            LoadError::Version { major, minor } => write!(
                f,
                "built with version {major}.{minor} of the interface, which {MAJOR}.{MINOR} \
                 cannot load"
            ),
            LoadError::DuplicateId(id) => write!(f, "backend {id} is there already"),
            LoadError::NoBackend => f.write_str("BackendFactory answers null"),
            LoadError::BadBackend(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for LoadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}
