//! Small parts that the JSON members share.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use tenon_dma::VariableId;
use tenon_tensor::DataType;

/// A data type by Tenon's name.
pub(crate) mod dtype {
    use super::*;

    pub fn serialize<S: Serializer>(dtype: &DataType, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(dtype.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DataType, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(from)?;
        name.parse()
            .map_err(|_| D::Error::custom(format_args!("unknown data type '{name}'")))
    }
}

/// A variable by its number.
pub(crate) mod variable {
    use super::*;

    pub fn serialize<S: Serializer>(id: &VariableId, to: S) -> Result<S::Ok, S::Error> {
        id.0.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<VariableId, D::Error> {
        u32::deserialize(from).map(VariableId)
    }
}

/// A variable by its number, or none.
pub(crate) mod optional_variable {
    use super::*;

    pub fn serialize<S: Serializer>(id: &Option<VariableId>, to: S) -> Result<S::Ok, S::Error> {
        id.map(|id| id.0).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<VariableId>, D::Error> {
        Ok(Option::<u32>::deserialize(from)?.map(VariableId))
    }
}
