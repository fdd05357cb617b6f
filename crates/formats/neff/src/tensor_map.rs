//! `sgNN/tensor_map.json`: data types and shapes of tensors by name.

use crate::object::object;
use crate::{Name, PortShape, Table, neff_dtype_name};
use serde_json::Value;
use tenon_tensor::DataType;

/// The whole member.
pub type TensorMap = Table<MappedTensor>;

object! {
    /// One tensor. Unknown keys are kept.
    #[derive(Default)]
    pub struct MappedTensor {
        /// NEFF's name of its data type.
        pub dtype: Name = "dtype",
        /// Whether it is a constant.
        pub is_const: Option<bool> = "is_const",
        /// `input` or `output`.
        pub kind: Option<Name> = "kind",
        /// Its name in the model.
        pub layer_name: Option<Name> = "layer_name",
        /// The meaning of the dimensions in the compiler's simulator.
        pub sim_format: Option<Name> = "sim_format",
        /// Its shape there, outermost first.
        pub sim_shape: Option<Vec<i64>> = "sim_shape",
        /// The dimension along which it is split over cores.
        pub split_axis: Option<i64> = "split_axis",
        /// The split positions, or the number of parts.
        pub split_indices_or_sections: Option<Value> = "split_indices_or_sections",
        /// The member with its data.
        pub tf_file: Option<Name> = "tf_file",
        /// The meaning of the dimensions in the model.
        pub tf_format: Option<Name> = "tf_format",
        /// Its shape in the model, outermost first.
        pub tf_shape: Option<Vec<i64>> = "tf_shape",
    }
}

impl MappedTensor {
    /// An input or output.
    pub fn port(kind: &str, name: &str, dtype: DataType, shape: &PortShape) -> Self {
        Self {
            dtype: neff_dtype_name(dtype).into(),
            is_const: Some(false),
            kind: Some(kind.into()),
            layer_name: Some(name.into()),
            tf_shape: Some(shape.to_neff()),
            ..Self::default()
        }
    }
}
