//! An input or output of a model in the words of the protocol.

use crate::datatype;
use serde_json::{Value, json};
use tenon::{DataType, Dimension, Error, ErrorKind, Signature, Tensor};

/// An input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The name.
    pub name: String,
    /// The type.
    pub dtype: DataType,
    /// The name of the type in the protocol.
    pub datatype: &'static str,
    /// The extents; -1 for those that requests choose.
    pub shape: Vec<i64>,
    /// The order of its dimensions.
    pub format: Format,
}

/// The order of the dimensions of an image, for clients: the server does not use it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// It is unknown, or no image.
    #[default]
    None = 0,
    /// Height, width, channels.
    Nhwc = 1,
    /// Channels, height, width.
    Nchw = 2,
}

impl Format {
    /// All of them with their names in configurations.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::None, "FORMAT_NONE"),
        (Self::Nhwc, "FORMAT_NHWC"),
        (Self::Nchw, "FORMAT_NCHW"),
    ];

    /// The name in configurations.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl Port {
    /// The port of an input or output of a model.
    ///
    /// # Errors
    /// A sequence, a map, an optional value, or a type that the protocol lacks.
    pub fn of(signature: &Signature) -> tenon::Result<Self> {
        let dtype = signature.ty.dtype();
        let datatype = datatype::name(dtype).filter(|_| signature.kind.is_tensor());
        let datatype = datatype.ok_or_else(|| {
            let name = &signature.name;
            let text = format!("'{name}' is {signature}, which the protocol lacks");
            Error::new(ErrorKind::Unsupported, text)
        })?;
        let extents = signature.shape.iter().map(|dimension| match dimension {
            Dimension::Fixed(size) => i64::try_from(*size).unwrap_or(i64::MAX),
            Dimension::Symbolic { .. } => -1,
        });
        Ok(Self {
            name: signature.name.clone(),
            dtype,
            datatype,
            shape: extents.collect(),
            format: Format::None,
        })
    }

    /// The port in the metadata of a model.
    pub fn json(&self) -> Value {
        json!({"name": self.name, "datatype": self.datatype, "shape": self.shape})
    }

    /// Why a tensor is no value of this port.
    pub fn misfit(&self, tensor: &Tensor) -> Option<String> {
        let (name, shape) = (&self.name, &tensor.shape()[..]);
        if tensor.dtype() != self.dtype {
            let found = datatype::name(tensor.dtype()).unwrap_or_default();
            let expected = self.datatype;
            return Some(format!(
                "input '{name}': expected {expected}, found {found}"
            ));
        }
        let mut pairs = self.shape.iter().zip(shape);
        let fits = self.shape.len() == shape.len()
            && pairs.all(|(&expected, &found)| expected == -1 || expected as u64 == found as u64);
        let expected = &self.shape;
        (!fits).then(|| format!("input '{name}': expected the shape {expected:?}, found {shape:?}"))
    }

    /// Whether values of another port may be values of this one.
    pub fn accepts(&self, other: &Self) -> bool {
        let mut pairs = self.shape.iter().zip(&other.shape);
        self.dtype == other.dtype
            && self.shape.len() == other.shape.len()
            && pairs.all(|(&one, &other)| one == -1 || other == -1 || one == other)
    }
}
