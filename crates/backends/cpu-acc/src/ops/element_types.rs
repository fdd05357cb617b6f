//! Kernels generic over the element type: by size where elements are moved, by type where they are
//! computed.

use tenon_backend::{Reason, Refusal};
use tenon_tensor::DataType;

/// [`tenon_tensor::match_type`] of floating-point types; other types of input `$input` are refused.
macro_rules! floats {
    ($dtype:expr, $input:expr, $T:ident => $body:expr) => {
        tenon_tensor::match_type!($dtype, $T: float => $body,
            found => Err($crate::ops::element_types::refuse_type($input, found)))
    };
}

/// [`tenon_tensor::match_type`] of integers of whole bytes; other types of input `$input` are refused.
macro_rules! integers {
    ($dtype:expr, $input:expr, $T:ident => $body:expr) => {
        tenon_tensor::match_type!($dtype, $T: integer => $body,
            found => Err($crate::ops::element_types::refuse_type($input, found)))
    };
}

/// [`tenon_tensor::match_type`] of integers and floating-point types; other types of input `$input` are refused.
macro_rules! numeric {
    ($dtype:expr, $input:expr, $T:ident => $body:expr) => {
        tenon_tensor::match_type!($dtype, $T: numeric => $body,
            found => Err($crate::ops::element_types::refuse_type($input, found)))
    };
}

/// [`tenon_tensor::match_type`] of words of the element's size, to move elements; other types of input `$input` are refused.
macro_rules! sized {
    ($dtype:expr, $input:expr, $T:ident => $body:expr) => {
        tenon_tensor::match_type!($dtype, $T: word => $body,
            found => Err($crate::ops::element_types::refuse_type($input, found)))
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

pub(super) use {floats, integers, numeric, of_float, sized};

/// The refusal of an input of type `found`.
pub(super) fn refuse_type(input: usize, found: DataType) -> Refusal {
    Reason::InputType { input, found }.into()
}
