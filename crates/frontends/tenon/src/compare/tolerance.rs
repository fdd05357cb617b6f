//! When two results are alike.

use super::Difference;
use tenon_tensor::DataType;

/// How far two results may be apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// For numbers with a fraction: the largest difference over the largest number of the tensor.
    /// A type of 16 bits or fewer may be off by one step of its own besides.
    pub relative: f64,
    /// For numbers with a fraction: differences up to this one do not count.
    pub absolute: f64,
    /// For integers of 16 bits or fewer, which quantised operators make: how far they may be
    /// apart. Other types must be equal.
    pub steps: u32,
}

impl Default for Tolerance {
    /// A thousandth, and one step of quantised numbers.
    fn default() -> Self {
        Self {
            relative: 1e-3,
            absolute: 1e-6,
            steps: 1,
        }
    }
}

impl Tolerance {
    /// Whether tensors of this type may differ so much.
    pub fn accepts(&self, difference: &Difference, dtype: DataType) -> bool {
        if dtype.is_float() || matches!(dtype, DataType::C64 | DataType::C128) {
            let relative = self.relative.max(step_of(dtype));
            return difference.absolute <= self.absolute || difference.relative <= relative;
        }
        let steps = match dtype.is_integer() && dtype.bits() <= 16 {
            true => self.steps,
            false => 0,
        };
        difference.absolute <= f64::from(steps)
    }
}

/// The distance from 1 to the next number of a narrow type; 0 for the others.
fn step_of(dtype: DataType) -> f64 {
    match dtype {
        DataType::F16 => 1.0 / 1024.0,
        DataType::BF16 => 1.0 / 128.0,
        _ if dtype.bits() <= 8 => 0.25,
        _ => 0.0,
    }
}
