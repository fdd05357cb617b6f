//! The largest difference that counts as agreement.

use super::Difference;
use tenon_tensor::DataType;

/// The largest difference of two tensors that counts as agreement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// For floats: the largest difference over the largest element of the tensor. For types of 16
    /// bits or fewer at least one unit in the last place.
    pub relative: f64,
    /// For floats: the largest absolute difference that is always accepted.
    pub absolute: f64,
    /// For integers of 16 bits or fewer, the outputs of quantised operators: the largest difference.
    /// Other types must be equal.
    pub steps: u32,
}

impl Default for Tolerance {
    /// A relative difference of 10^-3, and 1 for quantised values.
    fn default() -> Self {
        Self {
            relative: 1e-3,
            absolute: 1e-6,
            steps: 1,
        }
    }
}

impl Tolerance {
    /// Whether a difference of two tensors of this type counts as agreement.
    pub fn accepts(&self, difference: &Difference, dtype: DataType) -> bool {
        if dtype.is_float() || matches!(dtype, DataType::C64 | DataType::C128) {
            let relative = self.relative.max(step_of(dtype));
            return difference.absolute <= self.absolute || difference.relative <= relative;
        }
        let steps = if dtype.is_integer() && dtype.bits() <= 16 {
            self.steps
        } else {
            0
        };
        difference.absolute <= f64::from(steps)
    }
}

/// The greatest relative distance of two neighbours of a type of 16 bits or fewer; 0 for other types.
fn step_of(dtype: DataType) -> f64 {
    match dtype {
        DataType::F16 => 1.0 / 1024.0,
        DataType::BF16 => 1.0 / 128.0,
        DataType::F8E8M0Fnu => 1.0,
        DataType::F4E2M1Fn => 0.5,
        _ if dtype.bits() <= 8 => 0.25,
        _ => 0.0,
    }
}
