//! Data types by the names and formats of Python's array libraries.

use std::ffi::CStr;
use tenon::DataType;

/// The types that NumPy has by itself.
pub fn numpy_name(dtype: DataType) -> Option<&'static str> {
    use DataType::*;
    Some(match dtype {
        F32 | F32r | Tf32 => "float32",
        F64 => "float64",
        F16 => "float16",
        I8 => "int8",
        I16 => "int16",
        I32 => "int32",
        I64 => "int64",
        U8 => "uint8",
        U16 => "uint16",
        U32 => "uint32",
        U64 => "uint64",
        Bool => "bool",
        C64 => "complex64",
        C128 => "complex128",
        _ => return None,
    })
}

/// The types that the package `ml_dtypes` adds to NumPy.
pub fn ml_name(dtype: DataType) -> Option<&'static str> {
    use DataType::*;
    Some(match dtype {
        BF16 => "bfloat16",
        F8E3M4 => "float8_e3m4",
        F8E4M3 => "float8_e4m3",
        F8E4M3Fn => "float8_e4m3fn",
        F8E4M3FnUz => "float8_e4m3fnuz",
        F8E5M2 => "float8_e5m2",
        F8E5M2FnUz => "float8_e5m2fnuz",
        F8E8M0Fnu => "float8_e8m0fnu",
        F4E2M1Fn => "float4_e2m1fn",
        I4 => "int4",
        U4 => "uint4",
        I2 => "int2",
        U2 => "uint2",
        _ => return None,
    })
}

/// The type of the name of an `ml_dtypes` type.
pub fn of_ml_name(name: &str) -> Option<DataType> {
    let mut all = DataType::ALL.iter().copied();
    all.find(|&dtype| ml_name(dtype) == Some(name))
}

/// The format in the buffer protocol (the module `struct`; `Z` of NumPy); `None` if it has none.
pub fn format(dtype: DataType) -> Option<&'static CStr> {
    use DataType::*;
    Some(match dtype {
        F32 | F32r | Tf32 => c"f",
        F64 => c"d",
        F16 => c"e",
        I8 => c"b",
        I16 => c"h",
        I32 => c"i",
        I64 => c"q",
        U8 => c"B",
        U16 => c"H",
        U32 => c"I",
        U64 => c"Q",
        Bool => c"?",
        C64 => c"Zf",
        C128 => c"Zd",
        _ => return None,
    })
}

/// The elements of a format: their type, and whether their bytes are in the reverse order.
pub fn of_format(format: &CStr, item_bytes: usize) -> Option<(DataType, bool)> {
    let text = format.to_bytes();
    let (is_reversed, letters) = match text {
        [b'@' | b'=' | b'^', letters @ ..] => (false, letters),
        [b'<', letters @ ..] => (cfg!(target_endian = "big"), letters),
        [b'>' | b'!', letters @ ..] => (cfg!(target_endian = "little"), letters),
        letters => (false, letters),
    };
    let dtype = match (letters, item_bytes) {
        (b"?", 1) => DataType::Bool,
        (b"e", 2) => DataType::F16,
        (b"f", 4) => DataType::F32,
        (b"d" | b"g", 8) => DataType::F64,
        (b"Zf", 8) => DataType::C64,
        (b"Zd", 16) => DataType::C128,
        (b"b" | b"h" | b"i" | b"l" | b"q" | b"n", 1) => DataType::I8,
        (b"h" | b"i" | b"l" | b"q" | b"n", 2) => DataType::I16,
        (b"i" | b"l" | b"q" | b"n", 4) => DataType::I32,
        (b"i" | b"l" | b"q" | b"n", 8) => DataType::I64,
        (b"B", 1) => DataType::U8,
        (b"H" | b"I" | b"L" | b"Q" | b"N", 2) => DataType::U16,
        (b"I" | b"L" | b"Q" | b"N", 4) => DataType::U32,
        (b"I" | b"L" | b"Q" | b"N", 8) => DataType::U64,
        _ => return None,
    };
    Some((dtype, is_reversed && item_bytes > 1))
}

/// Bytes of an element's real values, which have a byte order.
pub fn number_bytes(dtype: DataType) -> usize {
    match dtype {
        DataType::C64 => 4,
        DataType::C128 => 8,
        other => (other.bits() / 8).max(1),
    }
}
