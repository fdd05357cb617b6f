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
    pub problem: LoadProblem,
}

/// Why a folder or library is passed over (facts, armnn.md 1.6).
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadProblem {
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

impl LoadProblem {
    /// The problem in a word, for reports that programs read.
    pub fn code(&self) -> &'static str {
        match self {
            LoadProblem::EmptyPath => "empty-path",
            LoadProblem::RelativePath => "relative-path",
            LoadProblem::MissingPath => "missing-path",
            LoadProblem::NotAFolder => "not-a-folder",
            LoadProblem::UnreadableFolder(_) => "unreadable-folder",
            LoadProblem::BrokenLink => "broken-link",
            LoadProblem::NotAFile(_) => "not-a-file",
            LoadProblem::NotALibrary(_) => "not-a-library",
            LoadProblem::MissingExport(_) => "missing-export",
            LoadProblem::NullId => "null-id",
            LoadProblem::IdIsNoText => "id-is-no-text",
            LoadProblem::ReservedId(_) => "reserved-id",
            LoadProblem::Version { .. } => "version",
            LoadProblem::DuplicateId(_) => "duplicate-id",
            LoadProblem::NoBackend => "no-backend",
            LoadProblem::BadBackend(_) => "bad-backend",
        }
    }
}

impl fmt::Display for LoadProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadProblem::EmptyPath => f.write_str("the path is empty"),
            LoadProblem::RelativePath => f.write_str("the path is not absolute"),
            LoadProblem::MissingPath => f.write_str("the folder does not exist"),
            LoadProblem::NotAFolder => f.write_str("the path is not a folder"),
            LoadProblem::UnreadableFolder(error) => write!(f, "cannot read the folder: {error}"),
            LoadProblem::BrokenLink => f.write_str("the link leads to nothing"),
            LoadProblem::NotAFile(error) => write!(f, "cannot be opened as a library: {error}"),
            LoadProblem::NotALibrary(error) => {
                let why = std::error::Error::source(error).map(ToString::to_string);
                let why = why.unwrap_or_else(|| error.to_string());
                write!(f, "cannot be opened as a library: {why}")
            }
            LoadProblem::MissingExport(name) => write!(f, "does not export {name}"),
            LoadProblem::NullId => f.write_str("GetBackendId answers null"),
            LoadProblem::IdIsNoText => f.write_str("GetBackendId does not answer UTF-8"),
            LoadProblem::ReservedId(id) => write!(f, "the id '{id}' stands for no backend"),
            LoadProblem::Version { major, minor } => write!(
                f,
                "built with version {major}.{minor} of the interface, which {MAJOR}.{MINOR} \
                 cannot load"
            ),
            LoadProblem::DuplicateId(id) => write!(f, "backend {id} is there already"),
            LoadProblem::NoBackend => f.write_str("BackendFactory answers null"),
            LoadProblem::BadBackend(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for LoadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}
