//! Element types: their codes, sizes and names.

use crate::DType;

macro_rules! dtypes {
    ($($name:ident $text:literal $size:expr;)*) => {
        impl DType {
            /// Every element type, by code.
            pub const ALL: &'static [DType] = &[$(DType::$name,)*];

            /// The MLIR form of the type (`i32`, `complex<f32>`, `!corert.string`).
            pub fn mlir(self) -> &'static str {
                match self { $(DType::$name => $text,)* }
            }

            /// Size of an element in a dense attribute; `None` for types without a fixed size and
            /// for quantized types, which dense attributes do not support.
            pub fn size(self) -> Option<usize> {
                match self { $(DType::$name => $size,)* }
            }
        }
    };
}

dtypes! {
    Invalid "none" None;
    UI8 "ui8" Some(1);
    UI16 "ui16" Some(2);
    UI32 "ui32" Some(4);
    UI64 "ui64" Some(8);
    I1 "i1" Some(1);
    I8 "i8" Some(1);
    I16 "i16" Some(2);
    I32 "i32" Some(4);
    I64 "i64" Some(8);
    F32 "f32" Some(4);
    F64 "f64" Some(8);
    Complex64 "complex<f32>" Some(8);
    Complex128 "complex<f64>" Some(16);
    F16 "f16" Some(2);
    BF16 "bf16" Some(2);
    String "!corert.string" None;
    Resource "!corert.resource" None;
    Variant "!corert.variant" None;
    QUI8 "!corert.quint8" None;
    QUI16 "!corert.quint16" None;
    QI8 "!corert.qint8" None;
    QI16 "!corert.qint16" None;
    QI32 "!corert.qint32" None;
}

impl DType {
    /// The type of a code (bef 1.3).
    pub fn from_code(code: u8) -> Option<DType> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The type of the real and of the imaginary part of a complex type.
    pub(crate) fn part(self) -> Option<DType> {
        match self {
            DType::Complex64 => Some(DType::F32),
            DType::Complex128 => Some(DType::F64),
            _ => None,
        }
    }

    /// The type of an MLIR form; signed integers map to signless ones (bef 1.4).
    pub fn from_mlir(text: &str) -> Option<DType> {
        let text = match text {
            "si8" => "i8",
            "si16" => "i16",
            "si32" => "i32",
            "si64" => "i64",
            other => other,
        };
        Self::ALL
            .iter()
            .copied()
            .filter(|t| *t != DType::Invalid)
            .find(|t| t.mlir() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_positions_and_names_read_back() {
        for (code, dtype) in DType::ALL.iter().enumerate() {
            assert_eq!(*dtype as usize, code);
            assert_eq!(DType::from_code(code as u8), Some(*dtype));
            if *dtype != DType::Invalid {
                assert_eq!(DType::from_mlir(dtype.mlir()), Some(*dtype));
            }
        }
        assert_eq!(DType::from_code(24), None);
    }
}
