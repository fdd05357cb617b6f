//! The largest difference that counts as agreement.

use super::Difference;
use tenon_backend::Backend;
use tenon_tensor::DataType;

/// The largest difference of two tensors that counts as agreement. A bound that is `None` is the larger one of
/// those of the two backends: what a backend states for the element type
/// ([`Backend::tolerances`](tenon_backend::Backend::tolerances)), otherwise the default; the reference implementation
/// counts as exact if it states none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tolerance {
    /// For floats: the largest difference over the largest element of the tensor, by default 10^-3. For types of 16
    /// bits or fewer at least one unit in the last place.
    pub relative: Option<f64>,
    /// For floats: the largest absolute difference that is always accepted, by default 10^-6.
    pub absolute: Option<f64>,
    /// For integers of 16 bits or fewer, the outputs of quantised operators: the largest difference, by default 1.
    /// Other types must be equal.
    pub steps: Option<u32>,
}

impl Tolerance {
    /// Whether a difference of two tensors of this type on two backends counts as agreement.
    pub fn accepts(
        &self,
        difference: &Difference,
        dtype: DataType,
        backends: [&dyn Backend; 2],
    ) -> bool {
        let bounds = Bounds::of_both(dtype, backends);
        if dtype.is_float() || matches!(dtype, DataType::C64 | DataType::C128) {
            let relative = self.relative.unwrap_or(bounds.relative);
            let absolute = self.absolute.unwrap_or(bounds.absolute);
            return difference.absolute <= absolute
                || difference.relative <= relative.max(step_of(dtype));
        }
        let steps = if dtype.is_integer() && dtype.bits() <= 16 {
            self.steps.map_or(bounds.absolute, f64::from)
        } else {
            0.0
        };
        difference.absolute <= steps
    }
}

/// The bounds for one element type; the absolute one of integers is in steps.
#[derive(Clone, Copy)]
struct Bounds {
    relative: f64,
    absolute: f64,
}

impl Bounds {
    fn default_of(dtype: DataType) -> Self {
        Self {
            relative: 1e-3,
            absolute: if dtype.is_integer() { 1.0 } else { 1e-6 },
        }
    }

    /// The larger ones of two backends.
    fn of_both(dtype: DataType, backends: [&dyn Backend; 2]) -> Self {
        let of_one = |backend: &dyn Backend| match backend.tolerance(dtype) {
            Some(stated) => Some(Self {
                relative: stated.relative,
                absolute: stated.absolute,
            }),
            None if backend.is_reference() => None,
            None => Some(Self::default_of(dtype)),
        };
        let larger = |a: Self, b: Self| Self {
            relative: a.relative.max(b.relative),
            absolute: a.absolute.max(b.absolute),
        };
        let bounds = backends.into_iter().filter_map(of_one).reduce(larger);
        bounds.unwrap_or_else(|| Self::default_of(dtype))
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
