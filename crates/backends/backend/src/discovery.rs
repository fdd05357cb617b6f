//! Discovery of libraries with backends: folders, file names and order (backends 6.1, 6.2).

use crate::{BackendId, BackendLibrary, LoadError, LoadWarning, Registry};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tenon_base::expect_regular_file;

/// The environment variable with the folders, separated by colons.
pub const BACKEND_PATH_VARIABLE: &str = "TENON_BACKEND_PATH";

/// The default folders of the build, separated by colons.
const BUILT_IN_PATHS: Option<&str> = option_env!("TENON_DYNAMIC_BACKEND_PATHS");

/// The result of a search.
#[derive(Debug, Default)]
pub struct Discovery {
    /// Canonical paths of libraries, in loading order.
    pub libraries: Vec<PathBuf>,
    /// Warnings on ignored folders and files.
    pub warnings: Vec<LoadWarning>,
}

impl Discovery {
    fn warn(&mut self, path: impl Into<PathBuf>, problem: LoadError) {
        let path = path.into();
        self.warnings.push(LoadWarning { path, problem });
    }
}

/// The folders to search: `only` if given; else those of the environment variable, else the
/// defaults of the build. Duplicates are removed; entries that are not absolute paths of folders
/// are ignored with a warning. Without folders, nothing is searched.
pub fn backend_folders(only: Option<&Path>) -> (Vec<PathBuf>, Vec<LoadWarning>) {
    let folders = match only {
        Some(only) => vec![only.to_owned()],
        None => {
            let variable = std::env::var_os(BACKEND_PATH_VARIABLE);
            let list = variable.unwrap_or_else(|| BUILT_IN_PATHS.unwrap_or_default().into());
            folders_in(&list)
        }
    };
    let mut warnings = Vec::new();
    let mut valid = Vec::new();
    for path in folders {
        match folder_problem(&path) {
            None => valid.push(path),
            Some(problem) => warnings.push(LoadWarning { path, problem }),
        }
    }
    (valid, warnings)
}

/// The distinct paths of a list separated by colons.
fn folders_in(list: &OsStr) -> Vec<PathBuf> {
    if list.is_empty() {
        return Vec::new();
    }
    let mut seen = BTreeSet::new();
    std::env::split_paths(list)
        .filter(|path| seen.insert(path.clone()))
        .collect()
}

fn folder_problem(path: &Path) -> Option<LoadError> {
    if path.as_os_str().is_empty() {
        Some(LoadError::EmptyPath)
    } else if !path.is_absolute() {
        Some(LoadError::RelativePath)
    } else if !path.exists() {
        Some(LoadError::MissingPath)
    } else if !path.is_dir() {
        Some(LoadError::NotAFolder)
    } else {
        None
    }
}

/// Whether a file name is that of a backend: `VENDOR_NAME_backend.so`, letters and digits, with
/// optional version suffixes, each after a dot.
pub fn is_backend_file_name(name: &str) -> bool {
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric());
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mut parts = name.splitn(3, '_');
    let (Some(vendor), Some(id), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let Some(version) = rest.strip_prefix("backend.so") else {
        return false;
    };
    let versioned = match version.strip_prefix('.') {
        None => version.is_empty(),
        Some(version) => version.split('.').all(number),
    };
    word(vendor) && word(id) && versioned
}

/// The conventional id of the backend in a library: `AcmeNpu` for `Acme_Npu_backend.so`.
fn named_by_file(path: &Path) -> Option<BackendId> {
    let mut parts = path.file_name()?.to_str()?.splitn(3, '_');
    let (vendor, name) = (parts.next()?, parts.next()?);
    Some(BackendId::from(format!("{vendor}{name}")))
}

/// The libraries in folders, in the order of the folders and sorted by name in each; several names
/// of one file are listed once.
pub fn discover(folders: &[PathBuf]) -> Discovery {
    let mut found = Discovery::default();
    let mut seen = BTreeSet::new();
    for folder in folders {
        let mut entries: Vec<PathBuf> = match std::fs::read_dir(folder) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
            Err(error) => {
                found.warn(folder, LoadError::UnreadableFolder(error));
                continue;
            }
        };
        entries.sort();
        for path in entries {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if !is_backend_file_name(name) {
                continue;
            }
            match path.canonicalize() {
                Ok(file) if file.is_file() => {
                    if seen.insert(file.clone()) {
                        found.libraries.push(file);
                    }
                }
                // A folder with such a name is not a library.
                Ok(file) if file.is_dir() => {}
                Ok(file) => {
                    if let Err(error) = expect_regular_file(&file) {
                        found.warn(path, LoadError::NotAFile(error));
                    }
                }
                Err(_) => found.warn(path, LoadError::BrokenLink),
            }
        }
    }
    found
}

impl Registry {
    /// Loads the backends of all libraries in the folders of [`backend_folders`], and registers
    /// those with a new id. Returns warnings on the others.
    pub fn load_backends(&mut self, only: Option<&Path>) -> Vec<LoadWarning> {
        let (folders, mut warnings) = backend_folders(only);
        let found = discover(&folders);
        warnings.extend(found.warnings);
        for path in found.libraries {
            if let Err(problem) = self.load_backend(&path) {
                if let Some(id) = named_by_file(&path) {
                    self.set_unavailable(id, problem.to_string());
                }
                warnings.push(LoadWarning { path, problem });
            }
        }
        warnings
    }

    /// Loads the backend of one library, registers it and returns the library.
    pub fn load_backend(&mut self, path: &Path) -> Result<BackendLibrary, LoadError> {
        let library = BackendLibrary::open(path)?;
        let id = library.id();
        if id.is_empty() || id == "Unknown" {
            return Err(LoadError::ReservedId(id.to_owned()));
        }
        if self.find(&id.to_owned().into()).is_some() {
            return Err(LoadError::DuplicateId(id.to_owned()));
        }
        let backend = library.backend().inspect_err(|problem| {
            self.set_unavailable(id.to_owned().into(), problem.to_string());
        })?;
        self.register(backend).map_err(LoadError::BadBackend)?;
        Ok(library)
    }
}

#[cfg(test)]
mod tests;
