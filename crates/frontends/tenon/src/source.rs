//! What a file is: an ONNX model or a package.

use crate::{is_standard, standard_input};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_neff::{HEADER_BYTES, Limits, Package};
use tenon_onnx::Model as OnnxModel;
use tenon_tensor::BufferMut;

/// An opened file that Tenon can run, by its content.
pub enum Source {
    /// A model to be compiled.
    Onnx(Box<OnnxModel>),
    /// A package to be loaded.
    Package(Box<Package>),
}

impl Source {
    /// Opens `path`; `-` is standard input. A file that starts with a NEFF header's version and
    /// size, or is called `.neff`, is a package; anything else is read as an ONNX model.
    pub fn open(path: impl AsRef<Path>, limits: &Limits, control: &Control) -> Result<Self> {
        let path = path.as_ref();
        if is_standard(path) {
            return Self::standard(limits, control);
        }
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
        not_empty(&start, path)?;
        let is_named_so = path
            .extension()
            .is_some_and(|extension| extension == "neff");
        if is_package(&start) || is_named_so {
            let package = Package::open_with(path, limits, control)?;
            Ok(Self::Package(Box::new(package)))
        } else {
            Ok(Self::Onnx(Box::new(OnnxModel::open(path, control)?)))
        }
    }

    fn standard(limits: &Limits, control: &Control) -> Result<Self> {
        let (bytes, name) = standard_input()?;
        not_empty(&bytes, Path::new(name))?;
        let source = match is_package(&bytes) {
            true => package_of(&bytes, limits, control).map(|it| Self::Package(Box::new(it))),
            false => {
                let model = OnnxModel::from_bytes(bytes, control);
                model.map(|model| Self::Onnx(Box::new(model)))
            }
        };
        source.map_err(|error| error.at(Location::file(name)))
    }
}

/// Opens a package; `-` is standard input.
pub fn open_package(path: impl AsRef<Path>, limits: &Limits, control: &Control) -> Result<Package> {
    if !is_standard(&path) {
        return Package::open_with(path, limits, control);
    }
    let (bytes, name) = standard_input()?;
    package_of(&bytes, limits, control).map_err(|error| error.at(Location::file(name)))
}

fn package_of(bytes: &[u8], limits: &Limits, control: &Control) -> Result<Package> {
    Package::from_buffer(BufferMut::copy_of(bytes)?.freeze(), limits, control)
}

fn not_empty(bytes: &[u8], path: &Path) -> Result<()> {
    if bytes.is_empty() {
        return Err(Error::new(ErrorKind::InvalidModel, "the file is empty")
            .expected("an ONNX model or a package")
            .at(Location::file(path)));
    }
    Ok(())
}

/// `pkg_version` below 256, then `header_size` 1024, both of 8 bytes: no protobuf message of a model
/// starts like that, since a zero byte is no field number.
pub(crate) fn is_package(start: &[u8]) -> bool {
    start.len() >= 16
        && start[1..8] == [0; 7]
        && start[8..16] == (HEADER_BYTES as u64).to_le_bytes()
}
