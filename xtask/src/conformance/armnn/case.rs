//! A case: a line of the file as typed values.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

/// Arm NN's element types, as the file calls them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum ArmType {
    Float16,
    Float32,
    BFloat16,
    QAsymmU8,
    QAsymmS8,
    QSymmS8,
    QSymm16,
    Signed32,
    Signed64,
    Boolean,
}

impl ArmType {
    /// The type of the stored elements.
    pub(super) fn storage(self) -> DataType {
        match self {
            ArmType::Float16 => DataType::F16,
            ArmType::Float32 => DataType::F32,
            ArmType::BFloat16 => DataType::BF16,
            ArmType::QAsymmU8 => DataType::U8,
            ArmType::QAsymmS8 | ArmType::QSymmS8 => DataType::I8,
            ArmType::QSymm16 => DataType::I16,
            ArmType::Signed32 => DataType::I32,
            ArmType::Signed64 => DataType::I64,
            ArmType::Boolean => DataType::Bool,
        }
    }

    /// Whether its integers represent real values by scale and offset.
    pub(super) fn is_quantised(self) -> bool {
        use ArmType::{QAsymmS8, QAsymmU8, QSymm16, QSymmS8};
        matches!(self, QAsymmU8 | QAsymmS8 | QSymmS8 | QSymm16)
    }
}

/// A tensor in the form of the file.
#[derive(Deserialize)]
struct FileTensor {
    dtype: ArmType,
    shape: Vec<usize>,
    scale: Vec<f32>,
    offset: i32,
    qdim: Option<usize>,
    hex: String,
}

/// A tensor with its quantisation: real value = (integer - offset) scale.
#[derive(Debug, Clone)]
pub(super) struct CaseTensor {
    pub(super) kind: ArmType,
    /// The stored elements.
    pub(super) elements: Tensor,
    /// One, or one for each position of `axis`.
    pub(super) scales: Vec<f32>,
    pub(super) offset: i32,
    pub(super) axis: usize,
}

impl CaseTensor {
    fn of(stored: FileTensor) -> Result<Self, String> {
        let dtype = stored.dtype.storage();
        let mut bytes = bytes(&stored.hex)?;
        if dtype == DataType::Bool {
            // Any byte but 0 is true (backends 8.3).
            bytes
                .iter_mut()
                .for_each(|byte| *byte = u8::from(*byte != 0));
        }
        let buffer = BufferMut::copy_of(&bytes).map_err(|error| error.to_string())?;
        let elements = TensorType::new(dtype, stored.shape)
            .and_then(|ty| Tensor::new(ty, buffer.freeze()))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            kind: stored.dtype,
            elements,
            scales: stored.scale,
            offset: stored.offset,
            axis: stored.qdim.unwrap_or(0),
        })
    }

    /// Whether equal stored elements represent equal values.
    pub(super) fn has_same_encoding(&self, other: &CaseTensor) -> bool {
        let quantised = self.kind.is_quantised() || other.kind.is_quantised();
        self.kind == other.kind
            && (!quantised || (&self.scales, self.offset) == (&other.scales, other.offset))
    }

    /// The shape.
    pub(super) fn shape(&self) -> &[usize] {
        self.elements.shape()
    }
}

fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    let all: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    all.filter(|_| rest.is_empty())
        .ok_or_else(|| "the elements are not hexadecimal".into())
}

#[derive(Deserialize)]
struct CaseLine {
    test: String,
    layer: String,
    params: BTreeMap<String, Value>,
    inputs: Vec<FileTensor>,
    output: FileTensor,
}

/// A layer, its parameters, its inputs and the expected output.
pub(super) struct LayerCase {
    pub(super) name: String,
    pub(super) layer: String,
    pub(super) inputs: Vec<CaseTensor>,
    pub(super) output: CaseTensor,
    texts: BTreeMap<String, String>,
    tensors: BTreeMap<String, CaseTensor>,
}

impl LayerCase {
    /// Reads a line.
    pub(super) fn read(line: &str) -> Result<Self, String> {
        let line: CaseLine = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let (mut texts, mut tensors) = (BTreeMap::new(), BTreeMap::new());
        for (name, value) in line.params {
            match value {
                Value::String(text) => drop(texts.insert(name, text)),
                Value::Object(_) => {
                    let stored = serde_json::from_value(value).map_err(|e| e.to_string())?;
                    tensors.insert(name, CaseTensor::of(stored)?);
                }
                other => drop(texts.insert(name, other.to_string())),
            }
        }
        Ok(Self {
            name: line.test,
            layer: line.layer,
            inputs: line
                .inputs
                .into_iter()
                .map(CaseTensor::of)
                .collect::<Result<_, _>>()?,
            output: CaseTensor::of(line.output)?,
            texts,
            tensors,
        })
    }

    /// A parameter as text.
    pub(super) fn text(&self, name: &str) -> Result<&str, String> {
        let text = self.texts.get(name).map(String::as_str);
        text.ok_or_else(|| format!("parameter {name} is missing"))
    }

    /// A parameter that is a tensor, if present.
    pub(super) fn tensor(&self, name: &str) -> Option<&CaseTensor> {
        self.tensors.get(name)
    }

    /// A floating-point parameter.
    pub(super) fn float(&self, name: &str) -> Result<f32, String> {
        let text = self.text(name)?;
        text.parse()
            .map_err(|_| format!("parameter {name} is not a floating-point value: {text}"))
    }

    /// A boolean parameter.
    pub(super) fn flag(&self, name: &str) -> Result<bool, String> {
        match self.text(name)? {
            "true" | "True" | "1" => Ok(true),
            "false" | "False" | "0" => Ok(false),
            other => Err(format!(
                "parameter {name} is neither true nor false: {other}"
            )),
        }
    }

    /// A parameter that is an integer or a list of them, in any brackets.
    pub(super) fn ints(&self, name: &str) -> Result<Vec<i64>, String> {
        let text = self.text(name)?;
        text.split(|c: char| !c.is_ascii_digit() && c != '-')
            .filter(|part| !part.is_empty())
            .map(|part| {
                part.parse()
                    .map_err(|_| format!("parameter {name} is not a list of integers: {text}"))
            })
            .collect()
    }

    /// A parameter that is one integer.
    pub(super) fn int(&self, name: &str) -> Result<i64, String> {
        match self.ints(name)?[..] {
            [value] => Ok(value),
            _ => Err(format!("parameter {name} is not one integer")),
        }
    }

    /// Whether channels are the last dimension.
    pub(super) fn channels_last(&self) -> Result<bool, String> {
        match self.text("DataLayout")? {
            "NHWC" | "NDHWC" => Ok(true),
            "NCHW" | "NCDHW" => Ok(false),
            other => Err(format!("unknown data layout: {other}")),
        }
    }
}
