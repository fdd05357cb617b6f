//! The files of a model folder: `NAME.neff`, `NAME.onnx`, `NAME.tflite`, or `NAME/VERSION/` with one such file; settings
//! in `NAME.toml`, `NAME/model.toml` or Triton's `NAME/config.pbtxt`, which alone are an ensemble.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tenon::{Error, Result};

/// The extensions of models and packages, in the order in which they are chosen where several files have one name:
/// a package is loaded faster than a model is compiled.
pub const MODEL_EXTENSIONS: [&str; 3] = ["neff", "onnx", "tflite"];

/// The version of a model without a folder of versions.
const ONLY_VERSION: u64 = 1;

/// The extension of settings.
const SETTINGS: &str = "toml";

/// The settings in the folder of a model; of several the first.
const FOLDER_SETTINGS: [&str; 2] = ["model.toml", "config.pbtxt"];

/// The files of a version of a model: at least one of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelSource {
    /// The model; an ensemble has none.
    pub model: Option<SourceFile>,
    /// Its settings.
    pub settings: Option<SourceFile>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
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
    let mut settings = Vec::new();
    for path in entries(folder)? {
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        };
        if metadata.is_dir() {
            let versions = versions(&path);
            if let (Some(name), false) = (file_name(&path), versions.is_empty()) {
                files.entry(name).or_default().extend(versions);
            }
            continue;
        }
        let (Some(name), true) = (stem(&path), metadata.is_file()) else {
            continue;
        };
        let file = SourceFile::of(path, &metadata);
        if file.is_model() {
            choose(files.entry(name).or_default(), ONLY_VERSION, file);
        } else if file.is_settings() {
            settings.push((name, file));
        }
    }
    for (name, file) in settings {
        set(files.entry(name).or_default(), &file);
    }
    Ok(files)
}

/// Whether a text is the name of a file or folder that [`scan`] may find: no path, not hidden.
pub fn is_model_name(name: &str) -> bool {
    const MAX_BYTES: usize = 200;
    let is_forbidden = |c: char| c.is_control() || matches!(c, '/' | '\\');
    (1..=MAX_BYTES).contains(&name.len()) && !name.starts_with('.') && !name.contains(is_forbidden)
}

/// Whether a model has a file in the folder, and not a folder of versions.
pub fn has_file(folder: &Path, name: &str) -> bool {
    let mut extensions = MODEL_EXTENSIONS.iter();
    extensions.any(|extension| folder.join(format!("{name}.{extension}")).exists())
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
        for path in entries(&path).unwrap_or_default() {
            let Ok(metadata) = fs::metadata(&path) else {
                continue;
            };
            let file = SourceFile::of(path, &metadata);
            if metadata.is_file() && file.is_model() {
                choose(&mut versions, version, file);
            }
        }
    }
    let settings = FOLDER_SETTINGS.iter().find_map(|name| {
        let path = folder.join(name);
        let metadata = fs::metadata(&path).ok()?;
        (metadata.is_file()).then(|| SourceFile::of(path, &metadata))
    });
    if let Some(file) = settings {
        set(&mut versions, &file);
    }
    versions
}

/// Keeps the file, unless the version has one whose extension is chosen first.
fn choose(versions: &mut BTreeMap<u64, ModelSource>, version: u64, file: SourceFile) {
    let source = versions.entry(version).or_default();
    let is_first = (source.model.as_ref()).is_none_or(|other| file.rank() < other.rank());
    if is_first {
        source.model = Some(file);
    }
}

/// Gives all versions their settings; without a version they are those of an ensemble.
fn set(versions: &mut BTreeMap<u64, ModelSource>, file: &SourceFile) {
    if versions.is_empty() {
        versions.insert(ONLY_VERSION, ModelSource::default());
    }
    for source in versions.values_mut() {
        source.settings = Some(file.clone());
    }
}

fn stem(path: &Path) -> Option<String> {
    path.file_stem()?.to_str().map(str::to_owned)
}

fn file_name(path: &Path) -> Option<String> {
    path.file_name()?.to_str().map(str::to_owned)
}

impl SourceFile {
    fn of(path: PathBuf, metadata: &Metadata) -> Self {
        let stamp = FileStamp::of(metadata);
        Self { path, stamp }
    }

    /// The place of its extension among those of models.
    fn rank(&self) -> Option<usize> {
        let extension = self.path.extension()?.to_str()?;
        MODEL_EXTENSIONS
            .iter()
            .position(|known| *known == extension)
    }

    fn is_model(&self) -> bool {
        self.rank().is_some()
    }

    fn is_settings(&self) -> bool {
        self.path.extension().is_some_and(|it| it == SETTINGS)
    }
}

impl FileStamp {
    /// That of a file; `None` while there is none.
    pub fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }

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
        for path in [
            "b/1",
            "b/3",
            "b/x",
            "b/0",
            "empty/1",
            "f",
            ".hidden/1",
            "t/1",
        ] {
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
            "a.toml",
            "b/model.toml",
            "b/other.toml",
            "e.toml",
            "f/model.toml",
            "b/config.pbtxt",
            "t/1/model.onnx",
            "t/config.pbtxt",
        ] {
            fs::write(at(path), path).unwrap();
        }
        let files = scan(folder.path()).unwrap();
        let found: Vec<(String, u64, [String; 2])> = files
            .iter()
            .flat_map(|(name, versions)| {
                versions.iter().map(|(version, source)| {
                    let path = |file: &Option<SourceFile>| {
                        let path = file.as_ref()?.path.strip_prefix(folder.path()).ok()?;
                        path.to_str().map(str::to_owned)
                    };
                    let files = [path(&source.model), path(&source.settings)];
                    (name.clone(), *version, files.map(Option::unwrap_or_default))
                })
            })
            .collect();
        let expected = [
            ("a", 1, ["a.neff", "a.toml"]),
            ("b", 1, ["b/1/model.onnx", "b/model.toml"]),
            ("b", 3, ["b/3/any.neff", "b/model.toml"]),
            ("c", 1, ["c.tflite", ""]),
            ("e", 1, ["", "e.toml"]),
            ("f", 1, ["", "f/model.toml"]),
            ("t", 1, ["t/1/model.onnx", "t/config.pbtxt"]),
        ];
        let expected =
            expected.map(|(name, version, files)| (name.into(), version, files.map(str::to_owned)));
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
