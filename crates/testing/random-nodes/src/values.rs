//! Elements of inputs.

use crate::Choices;
use half::{bf16, f16};
use tenon_base::Result;
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

/// The elements of an input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Values {
    /// Small values.
    Small,
    /// Values so small that a recurrence with them converges, so that it does not amplify rounding.
    Contracting,
    /// Some of them NaN, infinities, zeros of both signs or the limits of the type.
    Special,
    /// Positive powers of two, as scales: quotients by them are exact.
    Scales,
    /// Positions in a dimension of this extent, of both signs.
    Positions(usize),
}

/// A tensor of type `ty`; `None` for types without a generator.
pub(crate) fn tensor(
    ty: &TensorType,
    values: Values,
    choices: &mut Choices<'_>,
) -> Option<Result<Tensor>> {
    // A separate generator: elements are many, and which ones hardly matters.
    let mut state = 1 + choices.below(65536) as u64;
    let mut next = || {
        // Knuth's MMIX generator.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let count = ty.elements();
    let mut real = || match (values, next()) {
        (Values::Special, n) if n % 13 == 0 => [
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            -0.0,
            0.0,
            64.0,
            -64.0,
            1e-30,
        ][(n / 13 % 8) as usize],
        (Values::Positions(extent), n) => (n as usize % extent.max(1)) as f32,
        (Values::Contracting, n) => ((n % 257) as f32 / 64.0 - 2.0) / 16.0,
        (Values::Scales, n) => [0.25, 0.5, 1.0, 2.0][(n % 4) as usize],
        // Exact in half precision, and distinct enough for comparisons.
        (_, n) => (n % 257) as f32 / 64.0 - 2.0,
    };
    macro_rules! floats {
        ($T:ty, $from:expr) => {{
            let elements: Vec<$T> = (0..count).map(|_| $from(real())).collect();
            Tensor::from_slice(ty.shape().clone(), &elements)
        }};
    }
    macro_rules! integers {
        ($T:ty) => {{
            let elements: Vec<$T> = (0..count)
                .map(|_| match (values, next()) {
                    (Values::Special, n) if n % 13 == 0 => {
                        [<$T>::MIN, <$T>::MAX, 0, <$T>::MAX - 1][(n / 13 % 4) as usize]
                    }
                    (Values::Positions(extent), n) => {
                        let extent = extent.max(1) as i64;
                        let at = i64::from(n) % extent;
                        let signed = <$T>::MIN != 0 && n % 3 == 0;
                        (if signed { at - extent } else { at }) as $T
                    }
                    (_, n) => ((n % 15) as i64 - 5) as $T,
                })
                .collect();
            Tensor::from_slice(ty.shape().clone(), &elements)
        }};
    }
    Some(match ty.dtype() {
        DataType::F32 => floats!(f32, |x| x),
        DataType::F64 => floats!(f64, f64::from),
        DataType::F16 => floats!(f16, f16::from_f32),
        DataType::BF16 => floats!(bf16, bf16::from_f32),
        DataType::I8 => integers!(i8),
        DataType::I16 => integers!(i16),
        DataType::I32 => integers!(i32),
        DataType::I64 => integers!(i64),
        DataType::U8 => integers!(u8),
        DataType::U16 => integers!(u16),
        DataType::U32 => integers!(u32),
        DataType::U64 => integers!(u64),
        DataType::Bool => {
            let elements: Vec<bool> = (0..count).map(|_| next() % 2 == 0).collect();
            Tensor::from_bools(ty.shape().clone(), &elements)
        }
        // Any bits are an element of the other types of 2 to 8 bits.
        _ if (2..=8).contains(&ty.dtype().bits()) => bits(ty, next),
        _ => return None,
    })
}

/// A tensor of arbitrary bits.
fn bits(ty: &TensorType, mut next: impl FnMut() -> u32) -> Result<Tensor> {
    let bytes: Vec<u8> = (0..ty.bytes()).map(|_| next() as u8).collect();
    Tensor::new(ty.clone(), BufferMut::copy_of(&bytes)?.freeze())
}
