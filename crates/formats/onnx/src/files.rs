//! The files of a model: the model itself, and external data: tensors with their bytes in another
//! file, inside the model's folder only.

use crate::proto::StringStringEntryProto;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::{Buffer, BufferMut, Tensor};

/// Bytes of a tensor from which on the pages that it was copied from are released.
const RELEASED_SIZE: usize = 1 << 16;

/// The mapped model file, and its external data files, each mapped once, on first use.
pub(crate) struct ModelFiles {
    /// The model file; `None` for a model that is not read from a file.
    model: Option<Buffer>,
    folder: Option<PathBuf>,
    /// Further folders into which links may lead, as canonical paths.
    linked: Vec<PathBuf>,
    mapped: RefCell<HashMap<String, Buffer>>,
    /// Values of initialisers from other files.
    weights: BTreeMap<String, Tensor>,
}

impl ModelFiles {
    /// External data in `folder`, and in `linked` if a link in `folder` leads there.
    pub fn in_folder(folder: PathBuf, linked: &[PathBuf]) -> Result<Self> {
        Ok(Self {
            model: None,
            folder: Some(folder),
            linked: linked
                .iter()
                .map(|folder| real(folder))
                .collect::<Result<_>>()?,
            mapped: RefCell::default(),
            weights: BTreeMap::new(),
        })
    }

    /// No files: for a model that is not read from a file.
    pub fn none() -> Self {
        Self {
            model: None,
            folder: None,
            linked: Vec::new(),
            mapped: RefCell::default(),
            weights: BTreeMap::new(),
        }
    }

    /// The same with the mapped model file.
    pub fn with_model(mut self, model: Option<Buffer>) -> Self {
        self.model = model;
        self
    }

    /// The same with values of initialisers from other files.
    pub fn with_weights(mut self, weights: BTreeMap<String, Tensor>) -> Self {
        self.weights = weights;
        self
    }

    /// The value of an initialiser that does not come from the model.
    pub fn weight(&self, name: &str) -> Option<&Tensor> {
        self.weights.get(name)
    }

    /// A copy of bytes of the model file. The pages of large tensors are released, so that the memory of
    /// the process does not hold these tensors twice.
    pub fn copy(&self, bytes: &[u8]) -> Result<Buffer> {
        let copy = BufferMut::copy_of(bytes)?.freeze();
        if let Some(model) = self.model.as_ref().filter(|_| bytes.len() >= RELEASED_SIZE) {
            let start = bytes.as_ptr().addr().checked_sub(model.as_ptr().addr());
            let range = start.map(|start| start..start.saturating_add(bytes.len()));
            if let Some(source) = range.and_then(|range| model.slice(range)) {
                source.release_pages();
            }
        }
        Ok(copy)
    }

    /// The `len` bytes that the entries of `external_data` point to.
    pub fn data(&self, entries: &[StringStringEntryProto], len: usize) -> Result<Buffer> {
        let entry = |key: &str| {
            entries
                .iter()
                .find(|e| e.key == key)
                .map(|e| e.value.as_str())
        };
        let location = entry("location")
            .ok_or_else(|| invalid("a tensor with external data but without a location"))?;
        let number = |key: &str, default: usize| match entry(key) {
            None => Ok(default),
            Some(text) => text.parse::<usize>().map_err(|_| {
                invalid(format!("the {key} of external data in '{location}'"))
                    .expected("a number of bytes")
                    .found(format_args!("'{text}'"))
            }),
        };
        let (offset, stated) = (number("offset", 0)?, number("length", len)?);
        if stated != len {
            return Err(invalid(format!(
                "external data in '{location}' does not fit its tensor"
            ))
            .expected(format_args!("{len} bytes"))
            .found(stated));
        }
        let file = self.file(location)?;
        let range = offset.checked_add(len).map(|end| offset..end);
        range.and_then(|range| file.slice(range)).ok_or_else(|| {
            invalid(format!("external data is outside the file '{location}'"))
                .expected(format_args!("at most {} bytes", file.len()))
                .found(format_args!("{len} bytes from byte {offset}"))
        })
    }

    fn file(&self, location: &str) -> Result<Buffer> {
        if let Some(file) = self.mapped.borrow().get(location) {
            return Ok(file.clone());
        }
        let path = self.path(location)?;
        let failed = |error| Error::io(&path, "read", error);
        // Before `open`, which would block on a pipe.
        if !path.metadata().map_err(failed)?.is_file() {
            return Err(invalid("external data is not a regular file").at(Location::file(&path)));
        }
        let buffer = File::open(&path)
            .and_then(|file| Buffer::map(&file))
            .map_err(failed)?;
        self.mapped
            .borrow_mut()
            .insert(location.to_owned(), buffer.clone());
        Ok(buffer)
    }

    /// The canonical path of `location`, which must be inside the folder.
    fn path(&self, location: &str) -> Result<PathBuf> {
        let folder = self.folder.as_deref().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the model keeps data in the file '{location}', but is not read from a file"
                ),
            )
        })?;
        let relative = Path::new(location);
        let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if location.is_empty() || !relative.components().all(plain) {
            return Err(outside(location));
        }
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        let (folder, path) = (real(folder)?, real(&folder.join(relative))?);
        let mut allowed = std::iter::once(&folder).chain(&self.linked);
        if allowed.any(|folder| path.starts_with(folder)) {
            Ok(path)
        } else {
            Err(behind_link(location, &path))
        }
    }
}

/// The canonical path, without links.
fn real(path: &Path) -> Result<PathBuf> {
    path.canonicalize()
        .map_err(|error| Error::io(path, "read", error))
}

/// The error about a link out of the folder, as in snapshots of model hubs with their folder of blobs.
fn behind_link(location: &str, path: &Path) -> Error {
    let folder = path.parent().unwrap_or(path).display();
    invalid(format!(
        "external data in '{location}', behind a link out of the model's folder"
    ))
    .found(format_args!("a link to {}", path.display()))
    .help(format!("where that is right, give --allow-links {folder}"))
}

fn outside(location: &str) -> Error {
    invalid(format!(
        "external data in '{location}', which is not inside the model's folder"
    ))
    .help("move the data into the folder of the model or below it")
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidModel, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(pairs: &[(&str, &str)]) -> Vec<StringStringEntryProto> {
        let entry = |&(key, value): &(&str, &str)| StringStringEntryProto {
            key: key.into(),
            value: value.into(),
        };
        pairs.iter().map(entry).collect()
    }

    #[test]
    fn aligned_bytes_are_mapped_without_copy() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/weights.bin"), [1u8, 2, 3, 4]).unwrap();
        let files = ModelFiles::in_folder(folder.path().to_owned(), &[]).unwrap();
        let data = |offset, length, len| {
            let entries = entries(&[
                ("location", "sub/weights.bin"),
                ("offset", offset),
                ("length", length),
            ]);
            files.data(&entries, len)
        };
        let two = data("1", "2", 2).unwrap();
        assert_eq!(*two, [2, 3]);
        assert!(two.is_mapped());
        let refused = |offset, length, len| data(offset, length, len).unwrap_err().to_string();
        assert!(
            refused("1", "4", 4).contains("expected at most 4 bytes, found 4 bytes from byte 1")
        );
        assert!(refused("1", "2", 3).contains("expected 3 bytes, found 2"));
        assert!(refused("-1", "2", 2).contains("expected a number of bytes, found '-1'"));
        assert!(refused("18446744073709551615", "2", 2).contains("outside the file"));
    }

    #[test]
    fn nothing_outside_the_folder_is_read() {
        let outer = tempfile::tempdir().unwrap();
        std::fs::write(outer.path().join("secret"), [0u8; 4]).unwrap();
        let folder = outer.path().join("model");
        std::fs::create_dir(&folder).unwrap();
        let absolute = outer.path().join("secret").to_str().unwrap().to_owned();
        let files = |linked: &[PathBuf]| ModelFiles::in_folder(folder.clone(), linked).unwrap();
        let refused = |location: &str| {
            files(&[])
                .data(&entries(&[("location", location)]), 4)
                .unwrap_err()
                .to_string()
        };
        for location in ["../secret", "./../secret", absolute.as_str(), ""] {
            assert!(
                refused(location).contains("not inside the model's folder"),
                "{location}"
            );
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(outer.path(), folder.join("link")).unwrap();
            let error = refused("link/secret");
            let real = outer.path().canonicalize().unwrap();
            let help = format!("give --allow-links {}", real.display());
            assert!(
                error.contains("behind a link") && error.ends_with(&help),
                "{error}"
            );
            let linked = files(&[outer.path().to_owned()]);
            let data = |location| linked.data(&entries(&[("location", location)]), 4);
            assert_eq!(*data("link/secret").unwrap(), [0; 4]);
            // The allowed folders apply to links only.
            assert!(data("../secret").is_err());
            assert!(ModelFiles::in_folder(folder.clone(), &[folder.join("none")]).is_err());
        }
        assert!(refused(".").contains("not a regular file"));
        assert!(refused("missing").contains("cannot read"));
    }
}
