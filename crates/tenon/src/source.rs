//! What a file is: an ONNX model or a package.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_neff::{HEADER_BYTES, Package};
use tenon_onnx::Model as OnnxModel;

/// An opened file that Tenon can run, by its content.
pub enum Source {
    /// A model to be compiled.
    Onnx(Box<OnnxModel>),
    /// A package to be loaded.
    Package(Box<Package>),
}

impl Source {
    /// Opens `path`. A file that starts with a NEFF header's version and size, or is called
    /// `.neff`, is a package; anything else is read as an ONNX model.
    pub fn open(path: impl AsRef<Path>, control: &Control) -> Result<Self> {
        let path = path.as_ref();
        let here = |error| Error::io(path, "read", error);
        if path.metadata().map_err(here)?.is_dir() {
            return Err(Error::new(ErrorKind::Usage, "this is a folder")
                .expected("an ONNX model or a package")
                .at(Location::file(path)));
        }
        let mut start = Vec::new();
        File::open(path)
            .and_then(|file| file.take(16).read_to_end(&mut start))
            .map_err(here)?;
        if start.is_empty() {
            return Err(Error::new(ErrorKind::InvalidModel, "the file is empty")
                .expected("an ONNX model or a package")
                .at(Location::file(path)));
        }
        if is_package(&start)
            || path
                .extension()
                .is_some_and(|extension| extension == "neff")
        {
            Ok(Self::Package(Box::new(Package::open(path, control)?)))
        } else {
            Ok(Self::Onnx(Box::new(OnnxModel::open(path, control)?)))
        }
    }
}

/// `pkg_version` below 256, then `header_size` 1024, both of 8 bytes: no protobuf message of a model
/// starts like that, since a zero byte is no field number.
pub(crate) fn is_package(start: &[u8]) -> bool {
    start.len() >= 16
        && start[1..8] == [0; 7]
        && start[8..16] == (HEADER_BYTES as u64).to_le_bytes()
}
