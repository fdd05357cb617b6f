//! Opening a file that is a model (of ONNX, or of LiteRT, which becomes one of ONNX) or a package.

use crate::Weights;
use crate::files::{is_standard_stream, read_standard_input};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_litert::Model as LiteRtModel;
use tenon_neff::{HEADER_BYTES, Limits, Package};
use tenon_onnx::Model as OnnxModel;
use tenon_tensor::BufferMut;

/// An opened file that Tenon can run, by its content.
pub enum ModelFile {
    /// A model to compile; a LiteRT model is converted.
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
    /// The signature of a LiteRT model; without one its first.
    pub signature: Option<String>,
    /// Values of the initialisers and inputs of a model.
    pub weights: Weights,
}

impl OpenOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the bounds of a package.
        limits: Limits,
        /// Sets progress, cancellation and deadline.
        control: Control,
        /// Sets the values of a model's initialisers, and of inputs, which become initialisers.
        weights: Weights,
    }

    /// Sets the signature of a LiteRT model.
    #[must_use]
    pub fn signature(mut self, name: impl Into<String>) -> Self {
        self.signature = Some(name.into());
        self
    }

    /// Opens a file; `-` is standard input. A file that starts with the version and size of a NEFF
    /// header, or is called `.neff`, is a package; one with the identifier `TFL3` is a LiteRT model; anything else is
    /// read as an ONNX model.
    ///
    /// # Errors
    /// A file that cannot be read, is empty, or is malformed. Weights that do not fit the model, or for a package.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<ModelFile> {
        let path = path.as_ref();
        if is_standard_stream(path) {
            return self.open_standard_input();
        }
        let failed = |error| Error::io(path, "read", error);
        if path.metadata().map_err(failed)?.is_dir() {
            return Err(Error::new(ErrorKind::Usage, "this is a folder")
                .expected("a model or a package")
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
            self.without_weights()
                .map_err(|error| error.at(Location::file(path)))?;
            let package = Package::open_with(path, &self.limits, &self.control)?;
            Ok(ModelFile::Package(Box::new(package)))
        } else {
            Ok(ModelFile::Onnx(Box::new(self.open_model(path)?)))
        }
    }

    /// Opens a model of ONNX or LiteRT.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_model(&self, path: impl AsRef<Path>) -> Result<OnnxModel> {
        let path = path.as_ref();
        let mut model = self.read_model(path)?;
        let weights = self.weights.apply(&mut model);
        weights.map_err(|error| error.at(Location::file(path)))?;
        Ok(model)
    }

    fn read_model(&self, path: &Path) -> Result<OnnxModel> {
        // The reader of ONNX files reports paths that are not regular files.
        let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
        let mut start = Vec::new();
        if is_file {
            File::open(path)
                .and_then(|file| file.take(8).read_to_end(&mut start))
                .map_err(|error| Error::io(path, "read", error))?;
        }
        if !tenon_litert::is_model(&start) {
            let model = OnnxModel::open(path, &self.control)?;
            return self
                .without_signature(model)
                .map_err(|error| error.at(Location::file(path)));
        }
        let model = LiteRtModel::open(path, &self.control)?;
        let proto = model.to_onnx(self.signature.as_deref(), &self.control)?;
        OnnxModel::converted(proto, path)
    }

    /// A model of ONNX or LiteRT from memory.
    ///
    /// # Errors
    /// Bytes that are malformed, or no model.
    pub fn model_from_bytes(&self, bytes: impl Into<Vec<u8>>) -> Result<OnnxModel> {
        let bytes = bytes.into();
        let mut model = if tenon_litert::is_model(&bytes) {
            let model = LiteRtModel::from_bytes(bytes, &self.control)?;
            OnnxModel::from_proto(model.to_onnx(self.signature.as_deref(), &self.control)?)?
        } else {
            self.without_signature(OnnxModel::from_bytes(bytes, &self.control)?)?
        };
        self.weights.apply(&mut model)?;
        Ok(model)
    }

    /// Refuses weights for a package, which has its own.
    fn without_weights(&self) -> Result<()> {
        if self.weights.is_empty() {
            return Ok(());
        }
        let text = "weights for a package, which is compiled with weights already";
        Err(Error::new(ErrorKind::Usage, text).help("give them to tenon compile"))
    }

    /// Refuses a signature for a model that has none.
    fn without_signature(&self, model: OnnxModel) -> Result<OnnxModel> {
        match &self.signature {
            None => Ok(model),
            Some(name) => {
                let text = format!("the model has no signature '{name}'");
                let error = Error::new(ErrorKind::InvalidArgument, text);
                Err(error.help("only LiteRT models have signatures"))
            }
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
            let package = self
                .without_weights()
                .and_then(|()| self.package_of(&bytes));
            package.map(|package| ModelFile::Package(Box::new(package)))
        } else {
            let model = self.model_from_bytes(bytes);
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
            .expected("a model or a package")
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
