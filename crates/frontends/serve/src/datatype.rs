//! The data types of the protocol.

use tenon::DataType;

/// Names of the protocol, names in model configurations, and the types of Tenon.
const DATATYPES: &[(&str, &str, DataType)] = &[
    ("BOOL", "TYPE_BOOL", DataType::Bool),
    ("UINT8", "TYPE_UINT8", DataType::U8),
    ("UINT16", "TYPE_UINT16", DataType::U16),
    ("UINT32", "TYPE_UINT32", DataType::U32),
    ("UINT64", "TYPE_UINT64", DataType::U64),
    ("INT8", "TYPE_INT8", DataType::I8),
    ("INT16", "TYPE_INT16", DataType::I16),
    ("INT32", "TYPE_INT32", DataType::I32),
    ("INT64", "TYPE_INT64", DataType::I64),
    ("FP16", "TYPE_FP16", DataType::F16),
    ("FP32", "TYPE_FP32", DataType::F32),
    ("FP64", "TYPE_FP64", DataType::F64),
    ("BF16", "TYPE_BF16", DataType::BF16),
    ("BYTES", "TYPE_STRING", DataType::String),
];

/// The name of a type in the protocol; `None` for types that it lacks.
pub fn name(dtype: DataType) -> Option<&'static str> {
    row(dtype).map(|(name, _, _)| *name)
}

/// The name of a type in a model configuration.
pub fn configuration_name(dtype: DataType) -> Option<&'static str> {
    row(dtype).map(|(_, name, _)| *name)
}

/// The position of a type among those of model configurations, of which 0 is none.
pub fn configuration_index(dtype: DataType) -> i32 {
    let position = DATATYPES.iter().position(|row| row.2 == dtype);
    // The order of the enumeration `DataType` of Triton's model_config.proto: BYTES is before BF16.
    match dtype {
        DataType::String => 13,
        DataType::BF16 => 14,
        _ => position.map_or(0, |position| position as i32 + 1),
    }
}

/// The type of a name of the protocol.
pub fn from_name(name: &str) -> Option<DataType> {
    let mut rows = DATATYPES.iter();
    rows.find_map(|(known, _, dtype)| (*known == name).then_some(*dtype))
}

fn row(dtype: DataType) -> Option<&'static (&'static str, &'static str, DataType)> {
    DATATYPES.iter().find(|row| row.2 == dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (text, _, dtype) in DATATYPES {
            assert_eq!(from_name(text), Some(*dtype));
            assert_eq!(name(*dtype), Some(*text));
        }
        assert_eq!(from_name("fp32"), None);
        assert_eq!(name(DataType::F8E4M3), None);
    }

    #[test]
    fn configuration_indices_are_those_of_the_enumeration() {
        let of = |name| configuration_index(from_name(name).expect("a type"));
        let indices = ["BOOL", "INT64", "FP16", "FP32", "FP64", "BYTES", "BF16"].map(of);
        assert_eq!(indices, [1, 9, 10, 11, 12, 13, 14]);
    }
}
