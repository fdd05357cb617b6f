//! Opening a file that is an ONNX model or a package.

use crate::files::{is_standard_stream, read_standard_input};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_neff::{HEADER_BYTES, Limits, Package};
use tenon_onnx::Model as OnnxModel;
use tenon_tensor::BufferMut;

/// An opened file that Tenon can run, by its content.
pub enum ModelFile {
    /// A model to compile.
    Onnx(Box<OnnxModel>),
    /// A package to load.
    Package(Box<Package>),
}

/// How a file is opened.
///
/// ```
/// use tenon::{ModelFile, OpenOptions};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits/digits.onnx");
/// match OpenOptions::new().open(path)? {
///     ModelFile::Onnx(model) => println!("{} inputs", model.signature().inputs.len()),
///     ModelFile::Package(package) => println!("{}", package.header().uuid_text()),
/// }
/// # Ok::<(), tenon::Error>(())
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Bounds of a package: file size, number of members and so on.
    pub limits: Limits,
    /// Progress, cancellation and deadline of reading.
    pub control: Control,
}

impl OpenOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the bounds of a package.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets progress, cancellation and deadline.
    #[must_use]
    pub fn control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }

    /// Opens a file; `-` is standard input. A file that starts with the version and size of a NEFF
    /// header, or is called `.neff`, is a package; anything else is read as an ONNX model.
    ///
    /// # Errors
    /// A file that cannot be read, is empty, or is malformed.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<ModelFile> {
        let path = path.as_ref();
        if is_standard_stream(path) {
            return self.open_standard_input();
        }
        let failed = |error| Error::io(path, "read", error);
        if path.metadata().map_err(failed)?.is_dir() {
            return Err(Error::new(ErrorKind::Usage, "this is a folder")
                .expected("an ONNX model or a package")
                .at(Location::file(path)));
        }
        let mut start = Vec::new();
        File::open(path)
            .and_then(|file| file.take(16).read_to_end(&mut start))
            .map_err(failed)?;
        not_empty(&start, path)?;
        let has_extension = path
            .extension()
            .is_some_and(|extension| extension == "neff");
        if is_package(&start) || has_extension {
            let package = Package::open_with(path, &self.limits, &self.control)?;
            Ok(ModelFile::Package(Box::new(package)))
        } else {
            let model = OnnxModel::open(path, &self.control)?;
            Ok(ModelFile::Onnx(Box::new(model)))
        }
    }

    /// Opens a package; `-` is standard input.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_package(&self, path: impl AsRef<Path>) -> Result<Package> {
        if !is_standard_stream(&path) {
            return Package::open_with(path, &self.limits, &self.control);
        }
        let (bytes, name) = read_standard_input()?;
        let package = self.package_of(&bytes);
        package.map_err(|error| error.at(Location::file(name)))
    }

    fn open_standard_input(&self) -> Result<ModelFile> {
        let (bytes, name) = read_standard_input()?;
        not_empty(&bytes, Path::new(name))?;
        let file = if is_package(&bytes) {
            let package = self.package_of(&bytes);
            package.map(|package| ModelFile::Package(Box::new(package)))
        } else {
            let model = OnnxModel::from_bytes(bytes, &self.control);
            model.map(|model| ModelFile::Onnx(Box::new(model)))
        };
        file.map_err(|error| error.at(Location::file(name)))
    }

    fn package_of(&self, bytes: &[u8]) -> Result<Package> {
        let buffer = BufferMut::copy_of(bytes)?.freeze();
        Package::from_buffer(buffer, &self.limits, &self.control)
    }
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
