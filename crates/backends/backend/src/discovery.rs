//! Looking for libraries with backends: which folders, which files, in which order (seed: Arm NN
//! backend guide, "Dynamic backend loading paths" and "file naming convention").

use crate::{BackendId, BackendLibrary, LoadError, LoadWarning, Registry};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tenon_base::expect_regular_file;

/// The environment variable with the folders, separated by colons.
pub const BACKEND_PATH_VARIABLE: &str = "TENON_BACKEND_PATH";

/// The folders that a build looks in where the variable is not set, separated by colons.
const BUILT_IN_PATHS: Option<&str> = option_env!("TENON_DYNAMIC_BACKEND_PATHS");

/// What was found in folders.
#[derive(Debug, Default)]
pub struct Discovery {
    /// Canonical paths of libraries, in the order in which they are to be loaded.
    pub libraries: Vec<PathBuf>,
    /// What was passed over.
    pub warnings: Vec<LoadWarning>,
}

impl Discovery {
    fn warn(&mut self, path: impl Into<PathBuf>, problem: LoadError) {
        let path = path.into();
        self.warnings.push(LoadWarning { path, problem });
    }
}

/// The folders to look in: `only` where it is given, whatever it is; else those of the environment
/// variable, else those of the build. Each is named once, in order; those that are no absolute
/// paths of folders are passed over. None at all is no problem: nothing is looked for.
pub fn backend_folders(only: Option<&Path>) -> (Vec<PathBuf>, Vec<LoadWarning>) {
    let told = match only {
        Some(only) => vec![only.to_owned()],
        None => {
            let variable = std::env::var_os(BACKEND_PATH_VARIABLE);
            let list = variable.unwrap_or_else(|| BUILT_IN_PATHS.unwrap_or_default().into());
            folders_in(&list)
        }
    };
    let mut warnings = Vec::new();
    let mut folders = Vec::new();
    for path in told {
        match folder_problem(&path) {
            None => folders.push(path),
            Some(problem) => warnings.push(LoadWarning { path, problem }),
        }
    }
    (folders, warnings)
}

/// The paths of a list separated by colons, each named once.
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

/// Whether a file's name is one of a backend: `VENDOR_NAME_backend.so`, letters and digits, and
/// perhaps numbers behind it, each after a dot.
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
        Some(numbers) => numbers.split('.').all(number),
    };
    word(vendor) && word(id) && versioned
}

/// The name that a backend has by custom, from its library's: `AcmeNpu` of `Acme_Npu_backend.so`.
fn named_by_file(path: &Path) -> Option<BackendId> {
    let mut parts = path.file_name()?.to_str()?.splitn(3, '_');
    let (vendor, name) = (parts.next()?, parts.next()?);
    Some(BackendId::from(format!("{vendor}{name}")))
}

/// The libraries in folders, each file once however many names lead to it. The first folder comes
/// first; in a folder names are sorted.
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
                // A folder of such a name is none of ours.
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
    /// Loads the backends of all libraries in the folders that [`backend_folders`] names, and
    /// registers those whose id is new. Answers what was passed over.
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

    /// Loads the backend of one library and registers it; answers the library.
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
