//! Element types of ONNX, as the integers of `TensorProto.DataType`.

use crate::proto::data_type as onnx;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::DataType;

/// Each data type with its integer in ONNX.
const TYPES: &[(i32, DataType)] = &[
    (onnx::FLOAT, DataType::F32),
    (onnx::UINT8, DataType::U8),
    (onnx::INT8, DataType::I8),
    (onnx::UINT16, DataType::U16),
    (onnx::INT16, DataType::I16),
    (onnx::INT32, DataType::I32),
    (onnx::INT64, DataType::I64),
    (onnx::STRING, DataType::String),
    (onnx::BOOL, DataType::Bool),
    (onnx::FLOAT16, DataType::F16),
    (onnx::DOUBLE, DataType::F64),
    (onnx::UINT32, DataType::U32),
    (onnx::UINT64, DataType::U64),
    (onnx::COMPLEX64, DataType::C64),
    (onnx::COMPLEX128, DataType::C128),
    (onnx::BFLOAT16, DataType::BF16),
    (onnx::FLOAT8E4M3FN, DataType::F8E4M3Fn),
    (onnx::FLOAT8E4M3FNUZ, DataType::F8E4M3FnUz),
    (onnx::FLOAT8E5M2, DataType::F8E5M2),
    (onnx::FLOAT8E5M2FNUZ, DataType::F8E5M2FnUz),
    (onnx::UINT4, DataType::U4),
    (onnx::INT4, DataType::I4),
    (onnx::FLOAT4E2M1, DataType::F4E2M1Fn),
    (onnx::FLOAT8E8M0, DataType::F8E8M0Fnu),
    (onnx::UINT2, DataType::U2),
    (onnx::INT2, DataType::I2),
];

/// The types of ONNX that Tenon lacks, for messages.
const UNKNOWN: &[(i32, &str)] = &[(27, "float6e2m3"), (28, "float6e3m2")];

/// The data type for an integer of ONNX.
pub fn data_type(number: i64) -> Result<DataType> {
    let row = TYPES.iter().find(|(known, _)| i64::from(*known) == number);
    row.map(|&(_, dtype)| dtype).ok_or_else(|| {
        match UNKNOWN
            .iter()
            .find(|(known, _)| i64::from(*known) == number)
        {
            Some((_, name)) => Error::new(
                ErrorKind::Unsupported,
                format!("element type {name} is not supported"),
            ),
            None if number == i64::from(onnx::UNDEFINED) => {
                Error::new(ErrorKind::InvalidModel, "the element type is missing")
            }
            None => Error::new(
                ErrorKind::InvalidModel,
                format!("element type {number} does not exist"),
            ),
        }
    })
}

/// The integer of ONNX for a data type.
pub fn number(dtype: DataType) -> Result<i32> {
    let row = TYPES.iter().find(|(_, known)| *known == dtype);
    row.map(|&(number, _)| number).ok_or_else(|| {
        let text = format!("ONNX has no elements of type {dtype}");
        Error::new(ErrorKind::Unsupported, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_maps_to_one_integer() {
        for (index, &(number, dtype)) in TYPES.iter().enumerate() {
            assert_eq!(data_type(number.into()).unwrap(), dtype);
            assert_eq!(super::number(dtype).unwrap(), number);
            assert!(
                TYPES[..index]
                    .iter()
                    .all(|row| row.0 != number && row.1 != dtype)
            );
        }
        let kind = |number| data_type(number).unwrap_err().kind();
        assert_eq!(kind(27), ErrorKind::Unsupported);
        assert_eq!(kind(0), ErrorKind::InvalidModel);
        assert_eq!(kind(-1), ErrorKind::InvalidModel);
        assert_eq!(kind(i64::MAX), ErrorKind::InvalidModel);
    }
}
