//! `sgNN/tensor_map.json`: data types and shapes of tensors by name.

use crate::{Table, neff_dtype_name};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tenon_tensor::DataType;

/// The whole member.
pub type TensorMap = Table<MappedTensor>;

/// One tensor. Keys unknown here are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MappedTensor {
    /// NEFF's name of its data type.
    pub dtype: String,
    /// Whether it is a constant.
    #[serde(default)]
    pub is_const: bool,
    /// `input` or `output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its name in the model.
    #[serde(default)]
    pub layer_name: String,
    /// Its shape in the model, outermost first.
    #[serde(default)]
    pub tf_shape: Vec<i64>,
    /// Keys unknown here.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl MappedTensor {
    /// An input or output.
    pub fn port(kind: &str, name: &str, dtype: DataType, shape: &[usize]) -> Self {
        Self {
            dtype: neff_dtype_name(dtype).to_owned(),
            is_const: false,
            kind: Some(kind.to_owned()),
            layer_name: name.to_owned(),
            tf_shape: shape.iter().map(|&extent| extent as i64).collect(),
            other: Map::new(),
        }
    }
}
