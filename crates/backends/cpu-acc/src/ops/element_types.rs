//! Kernels generic over the element type: by size where elements are moved, by type where they are
//! computed.

use tenon_backend::{Reason, Refusal};
use tenon_tensor::DataType;

/// Evaluates `$body` with `$T` as the unsigned integer of the size of the data type, to move elements.
macro_rules! sized {
    ($dtype:expr, $input:expr, $T:ident => $body:expr) => {
        match $dtype.bits() {
            8 => {
                type $T = u8;
                $body
            }
            16 => {
                type $T = u16;
                $body
            }
            32 => {
                type $T = u32;
                $body
            }
            64 => {
                type $T = u64;
                $body
            }
            _ => Err($crate::ops::element_types::refuse_type($input, $dtype)),
        }
    };
}

/// Evaluates `$body` with `$T` as the integer or floating-point type of the data type.
macro_rules! numeric {
    ($dtype:expr, $input:expr, $T:ident => $body:expr) => {
        $crate::ops::element_types::numeric!(@each $dtype, $input, $T => $body;
            F32 f32, F64 f64, F16 half::f16, BF16 half::bf16, I8 i8, I16 i16, I32 i32, I64 i64,
            U8 u8, U16 u16, U32 u32, U64 u64)
    };
    (@each $dtype:expr, $input:expr, $T:ident => $body:expr; $($name:ident $rust:ty),*) => {
        match $dtype {
            $(tenon_tensor::DataType::$name => {
                type $T = $rust;
                $body
            })*
            found => Err($crate::ops::element_types::refuse_type($input, found)),
        }
    };
}

/// Evaluates `$body` with `$T` as the floating-point type of the data type.
macro_rules! floating {
    ($dtype:expr, $input:expr, $T:ident => $body:expr) => {
        $crate::ops::element_types::numeric!(@each $dtype, $input, $T => $body;
            F32 f32, F64 f64, F16 half::f16, BF16 half::bf16)
    };
}

/// Evaluates `$body` with `$T` as the element type of a [`FloatType`](crate::floats::FloatType).
macro_rules! of_float {
    ($float:expr, $T:ident => $body:expr) => {
        match $float {
            $crate::floats::FloatType::F32 => {
                type $T = f32;
                $body
            }
            $crate::floats::FloatType::F16 => {
                type $T = half::f16;
                $body
            }
            $crate::floats::FloatType::Bf16 => {
                type $T = half::bf16;
                $body
            }
        }
    };
}

pub(super) use {floating, numeric, of_float, sized};

/// The refusal of an input of type `found`.
pub(super) fn refuse_type(input: usize, found: DataType) -> Refusal {
    Reason::InputType { input, found }.into()
}
