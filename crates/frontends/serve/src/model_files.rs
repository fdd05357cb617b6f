//! The files of a model folder: `NAME.neff`, `NAME.onnx`, `NAME.tflite`, or `NAME/VERSION/` with one such file.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tenon::{Error, Result};

/// The extensions of models and packages, in the order in which they are chosen where several files have one name:
/// a package is loaded faster than a model is compiled.
const EXTENSIONS: [&str; 3] = ["neff", "onnx", "tflite"];

/// The version of a model without a folder of versions.
const ONLY_VERSION: u64 = 1;

/// A file of a version of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSource {
    /// Its path.
    pub path: PathBuf,
    /// What changes when the file is replaced or written.
    pub stamp: FileStamp,
}

/// The identity of a file's contents, as far as the file system has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    /// The size in bytes.
    pub bytes: u64,
    inode: u64,
    modified: (i64, i64),
}

/// The files by name and version.
pub type ModelFiles = BTreeMap<String, BTreeMap<u64, ModelSource>>;

/// The files of a folder. Hidden files, and files of other kinds, are skipped.
///
/// # Errors
/// A folder that cannot be read. A file that disappears meanwhile is no error.
pub fn scan(folder: &Path) -> Result<ModelFiles> {
    let mut files = ModelFiles::new();
    for path in entries(folder)? {
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        };
        if metadata.is_dir() {
            let versions = versions(&path);
            if let (Some(name), false) = (file_name(&path), versions.is_empty()) {
                files.entry(name).or_default().extend(versions);
            }
        } else if let Some(name) = model_name(&path, &metadata) {
            let versions = files.entry(name).or_default();
            choose(versions, ONLY_VERSION, path, &metadata);
        }
    }
    Ok(files)
}

/// The entries of a folder in the order of their names.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io(folder, "read", error);
    let entries = fs::read_dir(folder).map_err(failed)?;
    let paths = entries.map(|entry| Ok(entry.map_err(failed)?.path()));
    let mut paths = paths.collect::<Result<Vec<PathBuf>>>()?;
    paths.retain(|path| file_name(path).is_some_and(|name| !name.starts_with('.')));
    paths.sort();
    Ok(paths)
}

/// The versions in a folder of one model: subfolders whose names are positive integers.
fn versions(folder: &Path) -> BTreeMap<u64, ModelSource> {
    let mut versions = BTreeMap::new();
    for path in entries(folder).unwrap_or_default() {
        let version = file_name(&path).and_then(|name| name.parse().ok());
        let Some(version) = version.filter(|&version: &u64| version > 0) else {
            continue;
        };
        for file in entries(&path).unwrap_or_default() {
            let Ok(metadata) = fs::metadata(&file) else {
                continue;
            };
            if model_name(&file, &metadata).is_some() {
                choose(&mut versions, version, file, &metadata);
            }
        }
    }
    versions
}

/// Keeps the file, unless the version has one whose extension is chosen first.
fn choose(
    versions: &mut BTreeMap<u64, ModelSource>,
    version: u64,
    path: PathBuf,
    metadata: &Metadata,
) {
    let rank = |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        EXTENSIONS
            .iter()
            .position(|known| Some(*known) == extension)
    };
    let is_first = versions
        .get(&version)
        .is_none_or(|other| rank(&path) < rank(&other.path));
    if is_first {
        let stamp = FileStamp::of(metadata);
        versions.insert(version, ModelSource { path, stamp });
    }
}

/// The name of the model in a file; `None` for other files.
fn model_name(path: &Path, metadata: &Metadata) -> Option<String> {
    let extension = path.extension()?.to_str()?;
    let is_model = metadata.is_file() && EXTENSIONS.contains(&extension);
    is_model.then(|| path.file_stem()?.to_str().map(str::to_owned))?
}

fn file_name(path: &Path) -> Option<String> {
    path.file_name()?.to_str().map(str::to_owned)
}

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            bytes: metadata.len(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for path in ["b/1", "b/3", "b/x", "b/0", "empty/1", ".hidden/1"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        for path in [
            "a.onnx",
            "a.neff",
            "c.tflite",
            "notes.txt",
            ".d.neff",
            "b/1/model.onnx",
            "b/3/any.neff",
            "b/3/any.onnx",
            "b/x/model.onnx",
            "b/0/model.onnx",
            ".hidden/1/m.neff",
        ] {
            fs::write(at(path), path).unwrap();
        }
        let files = scan(folder.path()).unwrap();
        let found: Vec<(String, u64, String)> = files
            .iter()
            .flat_map(|(name, versions)| {
                versions.iter().map(|(version, source)| {
                    let path = source.path.strip_prefix(folder.path()).unwrap();
                    (name.clone(), *version, path.to_str().unwrap().to_owned())
                })
            })
            .collect();
        let expected = [
            ("a", 1, "a.neff"),
            ("b", 1, "b/1/model.onnx"),
            ("b", 3, "b/3/any.neff"),
            ("c", 1, "c.tflite"),
        ];
        let expected = expected.map(|(name, version, path)| (name.into(), version, path.into()));
        assert_eq!(found, expected);
        assert!(scan(&at("none")).is_err());
    }

    #[test]
    fn a_written_file_has_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.neff");
        fs::write(&path, "some").unwrap();
        let before = scan(folder.path()).unwrap();
        assert_eq!(scan(folder.path()).unwrap(), before);
        fs::write(&path, "more of it").unwrap();
        assert_ne!(scan(folder.path()).unwrap(), before);
    }
}
