//! The data types of tensors: name, size and alignment.

#![allow(unsafe_code, reason = "element types as bytes")]

use std::fmt;
use std::str::FromStr;

use half::{bf16, f16};
use tenon_base::{Error, ErrorKind};

macro_rules! data_types {
    ($($(#[$doc:meta])* $name:ident, $text:literal, bits $bits:literal;)*) => {
        /// The type of a tensor's elements.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum DataType {
            $($(#[$doc])* $name,)*
        }

        impl DataType {
            /// Every data type, in table order.
            pub const ALL: &'static [DataType] = &[$(DataType::$name,)*];

            /// The name used in text forms, JSON and the command line.
            pub fn name(self) -> &'static str {
                match self { $(DataType::$name => $text,)* }
            }

            /// Bits of one element; 0 for strings, which have no fixed size.
            pub fn bits(self) -> usize {
                match self { $(DataType::$name => $bits,)* }
            }
        }

        impl FromStr for DataType {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                match text {
                    $($text => Ok(DataType::$name),)*
                    _ => Err(Error::new(ErrorKind::InvalidArgument, "unknown data type")
                        .expected(Self::ALL.iter().map(|t| t.name()).collect::<Vec<_>>().join(", "))
                        .found(text)),
                }
            }
        }
    };
}

data_types! {
    /// IEEE binary32.
    F32, "f32", bits 32;
    /// IEEE binary64.
    F64, "f64", bits 64;
    /// IEEE binary16.
    F16, "f16", bits 16;
    /// The upper half of a binary32.
    BF16, "bf16", bits 16;
    /// A binary32 that hardware may round; conversion is the identity.
    F32r, "f32r", bits 32;
    /// A binary32 of which only 10 mantissa bits are significant; conversion truncates.
    Tf32, "tf32", bits 32;
    /// 1-3-4 with infinities, `ml_dtypes.float8_e3m4`.
    F8E3M4, "f8e3m4", bits 8;
    /// 1-4-3 with infinities, `ml_dtypes.float8_e4m3`.
    F8E4M3, "f8e4m3", bits 8;
    /// 1-4-3 finite, one NaN per sign, `ml_dtypes.float8_e4m3fn`.
    F8E4M3Fn, "f8e4m3fn", bits 8;
    /// 1-4-3 finite, unsigned zero, one NaN, `ml_dtypes.float8_e4m3fnuz`.
    F8E4M3FnUz, "f8e4m3fnuz", bits 8;
    /// 1-5-2 with infinities, `ml_dtypes.float8_e5m2`.
    F8E5M2, "f8e5m2", bits 8;
    /// 1-5-2 finite, unsigned zero, one NaN, `ml_dtypes.float8_e5m2fnuz`.
    F8E5M2FnUz, "f8e5m2fnuz", bits 8;
    /// Signed, two elements per byte, the first in the low half.
    I4, "i4", bits 4;
    /// Unsigned, two elements per byte, the first in the low half.
    U4, "u4", bits 4;
    /// Two's complement.
    I8, "i8", bits 8;
    /// Two's complement.
    I16, "i16", bits 16;
    /// Two's complement.
    I32, "i32", bits 32;
    /// Two's complement.
    I64, "i64", bits 64;
    /// Unsigned.
    U8, "u8", bits 8;
    /// Unsigned.
    U16, "u16", bits 16;
    /// Unsigned.
    U32, "u32", bits 32;
    /// Unsigned.
    U64, "u64", bits 64;
    /// A byte, 0 or 1.
    Bool, "bool", bits 8;
    /// Two binary32: real, imaginary.
    C64, "c64", bits 64;
    /// Two binary64: real, imaginary.
    C128, "c128", bits 128;
    /// UTF-8 text (ONNX only).
    String, "string", bits 0;
    /// 1-2-1, all values finite, `ml_dtypes.float4_e2m1fn`; two elements per byte, the first in the low
    /// half.
    F4E2M1Fn, "f4e2m1fn", bits 4;
    /// A power of two from 2^-127 to 2^127, or NaN, `ml_dtypes.float8_e8m0fnu`.
    F8E8M0Fnu, "f8e8m0fnu", bits 8;
    /// Signed, four elements per byte, the first in the lowest bits.
    I2, "i2", bits 2;
    /// Unsigned, four elements per byte, the first in the lowest bits.
    U2, "u2", bits 2;
}

impl DataType {
    /// Size of `elements` in bytes, packed; `None` when it overflows or the type has no fixed size.
    pub fn bytes(self, elements: usize) -> Option<usize> {
        match self.bits() {
            0 => None,
            bits if bits < 8 => Some(elements.div_ceil(8 / bits)),
            bits => elements.checked_mul(bits / 8),
        }
    }

    /// Alignment of one element in bytes.
    pub fn alignment(self) -> usize {
        match self {
            DataType::C64 => 4,
            DataType::C128 => 8,
            other => (other.bits() / 8).max(1),
        }
    }

    /// Whether the type is a real floating-point format.
    pub fn is_float(self) -> bool {
        use DataType::*;
        matches!(
            self,
            F32 | F64
                | F16
                | BF16
                | F32r
                | Tf32
                | F8E3M4
                | F8E4M3
                | F8E4M3Fn
                | F8E4M3FnUz
                | F8E5M2
                | F8E5M2FnUz
                | F4E2M1Fn
                | F8E8M0Fnu
        )
    }

    /// Whether the type is an integer; bool is not.
    pub fn is_integer(self) -> bool {
        use DataType::*;
        matches!(
            self,
            I2 | U2 | I4 | U4 | I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64
        )
    }

    /// The least and the greatest value of an integer type of quantised elements.
    pub fn quantized_range(self) -> Option<[f64; 2]> {
        Some(match self {
            DataType::I2 => [-2.0, 1.0],
            DataType::U2 => [0.0, 3.0],
            DataType::I4 => [-8.0, 7.0],
            DataType::U4 => [0.0, 15.0],
            DataType::I8 => [i8::MIN.into(), i8::MAX.into()],
            DataType::U8 => [0.0, u8::MAX.into()],
            DataType::I16 => [i16::MIN.into(), i16::MAX.into()],
            DataType::U16 => [0.0, u16::MAX.into()],
            DataType::I32 => [i32::MIN.into(), i32::MAX.into()],
            _ => return None,
        })
    }

    /// The greatest finite value of a floating-point type of quantised elements, of 4 or 8 bits, to which
    /// conversions saturate.
    pub fn greatest_quantized(self) -> Option<f64> {
        Some(match self {
            DataType::F4E2M1Fn => 6.0,
            DataType::F8E3M4 => 15.5,
            DataType::F8E4M3 | DataType::F8E4M3FnUz => 240.0,
            DataType::F8E4M3Fn => 448.0,
            DataType::F8E5M2 | DataType::F8E5M2FnUz => 57344.0,
            _ => return None,
        })
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A Rust type with the representation of a data type, every bit pattern of which is valid.
///
/// # Safety
/// The type must have no padding, no invalid bit patterns, and the size and alignment of
/// [`Element::DATA_TYPE`].
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The data type whose elements these are.
    const DATA_TYPE: DataType;
}

macro_rules! elements {
    ($($rust:ty => $name:ident;)*) => {$(
        // SAFETY: a primitive integer or float, or a transparent wrapper of u16, of the size and
        // alignment of the data type; no padding, every bit pattern is valid.
        unsafe impl Element for $rust {
            const DATA_TYPE: DataType = DataType::$name;
        }
    )*};
}

elements! {
    f32 => F32; f64 => F64; f16 => F16; bf16 => BF16;
    i8 => I8; i16 => I16; i32 => I32; i64 => I64;
    u8 => U8; u16 => U16; u32 => U32; u64 => U64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for &dtype in DataType::ALL {
            assert_eq!(dtype.name().parse::<DataType>().unwrap(), dtype);
        }
        assert!("float".parse::<DataType>().is_err());
    }

    #[test]
    fn parts_of_bytes_round_up() {
        assert_eq!(DataType::U2.bytes(5), Some(2));
        assert_eq!(DataType::I2.bytes(usize::MAX), Some(usize::MAX / 4 + 1));
        assert_eq!(DataType::I4.bytes(3), Some(2));
        assert_eq!(DataType::F64.bytes(usize::MAX), None);
        assert_eq!(DataType::String.bytes(1), None);
    }

    #[test]
    fn the_greatest_quantized_value_is_that_of_all_codes() {
        for &dtype in DataType::ALL {
            let Some(greatest) = dtype.greatest_quantized() else {
                continue;
            };
            let bytes: Vec<u8> = (0..=255).collect();
            let buffer = crate::BufferMut::copy_of(&bytes).unwrap().freeze();
            let ty = crate::TensorType::new(dtype, [256 * 8 / dtype.bits()]).unwrap();
            let codes = crate::Tensor::new(ty, buffer).unwrap();
            let wide = crate::convert(&codes, DataType::F64).unwrap();
            let values = wide.as_slice::<f64>().unwrap().iter().copied();
            let finite = values.filter(|value| value.is_finite());
            assert_eq!(finite.reduce(f64::max), Some(greatest), "{dtype}");
        }
    }
}
