//! Weights in files beside the model: safetensors and `.npz`.

use crate::inputs::extension;
use safetensors::tensor::{Dtype, SafeTensors, TensorInfo};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Component, Path};
use tenon_base::{Error, ErrorKind, Location, Result, expect_regular_file};
use tenon_onnx::Model as OnnxModel;
use tenon_tensor::{Buffer, DataType, Tensor, TensorType, convert, npy};

/// Names that a message lists at most.
const LISTED: usize = 5;

/// Tensors by name, from files: values of a model's initialisers and inputs.
///
/// ```no_run
/// use tenon::{Compiler, Weights};
///
/// let weights = Weights::read("model.safetensors")?;
/// let package = Compiler::new().weights(weights).compile_file("model.onnx")?;
/// # Ok::<(), tenon::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Weights {
    tensors: BTreeMap<String, Tensor>,
    /// Elements of types that Tenon does not have, by name.
    unsupported: BTreeMap<String, String>,
}

impl Weights {
    /// Reads a file: `.safetensors`, `.npz`, or the `.json` index of a model in several safetensors files beside it.
    /// The tensors of a safetensors file stay in its mapping.
    ///
    /// # Errors
    /// A file that cannot be read, is malformed or of another kind.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let here = |error: Error| error.at(Location::file(path));
        match extension(path).as_str() {
            "safetensors" => {
                let failed = |error| Error::io(path, "read", error);
                // Before `open`, which would block on a pipe.
                expect_regular_file(path).map_err(failed)?;
                let buffer = File::open(path)
                    .and_then(|file| Buffer::map(&file))
                    .map_err(failed)?;
                Self::from_safetensors(&buffer).map_err(here)
            }
            "npz" => {
                let mut weights = Self::default();
                for (name, tensor) in npy::read_npz(path)? {
                    if weights.tensors.contains_key(&name) {
                        return Err(here(twice(&name)));
                    }
                    weights.tensors.insert(name, tensor);
                }
                Ok(weights)
            }
            "json" => Self::read_index(path).map_err(here),
            other => Err(Error::new(ErrorKind::Usage, "weights of unknown kind")
                .expected(".safetensors, .npz or a .json index of safetensors files")
                .found(match other {
                    "" => "no extension".into(),
                    other => format!(".{other}"),
                })
                .at(Location::file(path))),
        }
    }

    /// Reads safetensors from memory, without a copy.
    ///
    /// # Errors
    /// Bytes that are malformed.
    pub fn from_safetensors(bytes: &Buffer) -> Result<Self> {
        let (header, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| {
            let text = format!("not a safetensors file: {error}");
            Error::new(ErrorKind::InvalidModel, text).source(error)
        })?;
        // The length of the header is in front of it.
        let start = size_of::<u64>() + header;
        let mut weights = Self::default();
        for (name, info) in metadata.tensors() {
            match tensor(bytes, start, info) {
                Ok(Some(tensor)) => {
                    weights.tensors.insert(name, tensor);
                }
                Ok(None) => {
                    weights.unsupported.insert(name, info.dtype.to_string());
                }
                Err(error) => {
                    return Err(error.at(Location::field(format!("tensor '{name}'"))));
                }
            }
        }
        Ok(weights)
    }

    /// The files that an index names, which are beside it.
    fn read_index(path: &Path) -> Result<Self> {
        let invalid = |text: String| Error::new(ErrorKind::InvalidModel, text);
        let text = expect_regular_file(path).and_then(|()| std::fs::read(path));
        let text = text.map_err(|error| Error::io(path, "read", error))?;
        let index: serde_json::Value = serde_json::from_slice(&text)
            .map_err(|error| invalid(format!("not an index of weights: {error}")).source(error))?;
        let map = index.get("weight_map").and_then(|map| map.as_object());
        let map = map.ok_or_else(|| invalid("an index of weights without 'weight_map'".into()))?;
        let mut names = BTreeSet::new();
        for (tensor, file) in map {
            let name = file.as_str().filter(|name| {
                let mut parts = Path::new(name).components();
                matches!(
                    (parts.next(), parts.next()),
                    (Some(Component::Normal(_)), None)
                )
            });
            names.insert(name.ok_or_else(|| {
                invalid("an index names files beside it only".into())
                    .expected("the name of a safetensors file")
                    .found(file)
                    .at(Location::field(format!("weight_map.{tensor}")))
            })?);
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut all = Self::default();
        for name in names {
            let path = folder.join(name);
            if extension(&path) != "safetensors" {
                return Err(invalid(format!("an index of '{name}'")).expected("safetensors files"));
            }
            all.add(Self::read(path)?)?;
        }
        Ok(all)
    }

    /// Adds the tensors of other files.
    ///
    /// # Errors
    /// A tensor that both have.
    pub fn add(&mut self, other: Self) -> Result<()> {
        let both = other.names().filter(|name| self.has(name));
        if let Some(error) = Error::from_all(both.map(twice)) {
            return Err(error);
        }
        self.tensors.extend(other.tensors);
        self.unsupported.extend(other.unsupported);
        Ok(())
    }

    /// Adds a tensor, in place of one of the same name.
    pub fn insert(&mut self, name: impl Into<String>, value: Tensor) {
        let name = name.into();
        self.unsupported.remove(&name);
        self.tensors.insert(name, value);
    }

    /// The names of all tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.tensors.keys().chain(self.unsupported.keys());
        names.map(String::as_str)
    }

    /// Whether there is no tensor.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty() && self.unsupported.is_empty()
    }

    fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name) || self.unsupported.contains_key(name)
    }

    /// Gives the model's initialisers and inputs of these names their values.
    ///
    /// # Errors
    /// Tensors of other types or shapes, all together; weights of which the model has no name.
    pub(crate) fn apply(&self, model: &mut OnnxModel) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let known = names(model);
        let errors = self.unsupported.iter();
        let errors = errors.filter(|(name, _)| known.contains(name.as_str()));
        let errors = errors.map(|(name, dtype)| {
            let text = format!("weights of type {dtype} are not supported");
            let error = Error::new(ErrorKind::Unsupported, text);
            error.at(Location::field(format!("tensor '{name}'")))
        });
        if let Some(error) = Error::from_all(errors) {
            return Err(error);
        }
        if !self.names().any(|name| known.contains(name)) {
            let text = "no tensor of the weights has the name of an initialiser or input";
            return Err(Error::new(ErrorKind::InvalidArgument, text)
                .expected(listed(known.into_iter()))
                .found(listed(self.names()))
                .help("rename the tensors, or export the model with the names of its parameters"));
        }
        drop(known);
        model.set_weights(&self.tensors)
    }

    /// The tensors of which the model has neither an initialiser nor an input: they have no effect.
    pub fn unused<'w>(&'w self, model: &OnnxModel) -> Vec<&'w str> {
        let known = names(model);
        self.names().filter(|name| !known.contains(name)).collect()
    }

    /// A sentence about [`Self::unused`] for users; `None` if all are used.
    pub fn unused_note(&self, model: &OnnxModel) -> Option<String> {
        let unused = self.unused(model);
        let count = unused.len();
        (count > 0).then(|| {
            let all = self.names().count();
            let names = listed(unused.into_iter());
            format!("{count} of {all} tensors of the weights have no initialiser or input of their name: {names}")
        })
    }
}

/// The names of the model's initialisers and inputs.
fn names(model: &OnnxModel) -> BTreeSet<&str> {
    let signature = model.signature();
    let initialisers = signature.initialisers.iter().map(|(name, _)| name);
    let inputs = signature.inputs.iter().map(|input| &input.name);
    initialisers.chain(inputs).map(String::as_str).collect()
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.take(LISTED + 1).collect();
    let ending = if names.len() > LISTED { ", …" } else { "" };
    names.truncate(LISTED);
    names.join(", ") + ending
}

fn twice(name: &str) -> Error {
    let text = format!("there are two tensors '{name}' in the weights");
    Error::new(ErrorKind::InvalidArgument, text)
}

/// A tensor of a safetensors file, whose data starts at `start`; `None` if Tenon does not have its element type.
fn tensor(bytes: &Buffer, start: usize, info: &TensorInfo) -> Result<Option<Tensor>> {
    let Some(dtype) = data_type(info.dtype) else {
        return Ok(None);
    };
    let (from, to) = info.data_offsets;
    let range = start.checked_add(from).zip(start.checked_add(to));
    let data = range.and_then(|(from, to)| bytes.slice(from..to));
    let data = data.ok_or_else(|| {
        Error::new(ErrorKind::InvalidModel, "data outside of the file")
            .expected(format_args!("at most {} bytes", bytes.len()))
            .found(format_args!("bytes {from} to {to} after the header"))
    })?;
    let shape = info.shape.clone();
    if dtype == DataType::Bool && data.iter().any(|&byte| byte > 1) {
        let raw = Tensor::new(TensorType::new(DataType::U8, shape)?, data)?;
        return convert(&raw, DataType::Bool).map(Some);
    }
    Tensor::new(TensorType::new(dtype, shape)?, data).map(Some)
}

/// Types as in the documentation of the format: <https://github.com/huggingface/safetensors>.
fn data_type(dtype: Dtype) -> Option<DataType> {
    Some(match dtype {
        Dtype::BOOL => DataType::Bool,
        Dtype::F4 => DataType::F4E2M1Fn,
        Dtype::U8 => DataType::U8,
        Dtype::I8 => DataType::I8,
        Dtype::F8_E5M2 => DataType::F8E5M2,
        Dtype::F8_E4M3 => DataType::F8E4M3Fn,
        Dtype::F8_E8M0 => DataType::F8E8M0Fnu,
        Dtype::F8_E4M3FNUZ => DataType::F8E4M3FnUz,
        Dtype::F8_E5M2FNUZ => DataType::F8E5M2FnUz,
        Dtype::I16 => DataType::I16,
        Dtype::U16 => DataType::U16,
        Dtype::F16 => DataType::F16,
        Dtype::BF16 => DataType::BF16,
        Dtype::I32 => DataType::I32,
        Dtype::U32 => DataType::U32,
        Dtype::F32 => DataType::F32,
        Dtype::C64 => DataType::C64,
        Dtype::F64 => DataType::F64,
        Dtype::I64 => DataType::I64,
        Dtype::U64 => DataType::U64,
        _ => return None,
    })
}
