//! The difference of two tensors.

use crate::outputs::{Element, elements};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, Tensor, convert};

/// The difference of two tensors of one shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Largest |a - b|.
    pub absolute: f64,
    /// Largest |a - b| over the largest |b| of the whole tensor: an element near zero has no
    /// larger weight than others.
    pub relative: f64,
    /// Whether the largest element of each row (last axis) has the same index.
    pub same_top: bool,
    /// The element of the largest difference, counted row-major.
    pub worst: usize,
}

impl Difference {
    /// Compares `found` with `expected`; NaN equals NaN, and its difference from other values is infinite.
    pub fn between(found: &Tensor, expected: &Tensor) -> Result<Self> {
        if found.shape() != expected.shape() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "tensors of different shapes cannot be compared",
            )
            .expected(expected.ty())
            .found(found.ty()));
        }
        let exact = integers(found)?.zip(integers(expected)?);
        let wide = |tensor: &Tensor| convert(tensor, DataType::F64);
        let (found, expected) = (wide(found)?, wide(expected)?);
        let (a, b) = (as_f64(&found)?, as_f64(&expected)?);
        let (mut absolute, mut worst, mut largest) = (0.0f64, 0, 0.0f64);
        for (index, (&a, &b)) in a.iter().zip(b).enumerate() {
            let exact = exact.as_ref().map(|(a, b)| a[index].abs_diff(b[index]));
            let difference = match (a.is_nan(), b.is_nan()) {
                _ if exact.is_some() => exact.unwrap_or(0) as f64,
                (true, true) => 0.0,
                (false, false) if a == b => 0.0,
                (false, false) => (a - b).abs(),
                _ => f64::INFINITY,
            };
            if difference > absolute {
                (absolute, worst) = (difference, index);
            }
            if b.is_finite() {
                largest = largest.max(b.abs());
            }
        }
        let relative = if absolute == 0.0 {
            0.0
        } else {
            absolute / largest.max(f64::MIN_POSITIVE)
        };
        let row = expected.shape().last().copied().unwrap_or(1).max(1);
        let same_top = a.chunks(row).zip(b.chunks(row)).all(|(a, b)| {
            // Equal largest values count as one.
            top(a) == top(b)
                || b.get(top(a))
                    .zip(b.get(top(b)))
                    .is_some_and(|(x, y)| x == y)
        });
        Ok(Self {
            absolute,
            relative,
            same_top,
            worst,
        })
    }
}

/// The elements of a tensor of 64-bit integers, which f64 does not represent exactly; `None` for
/// other types.
fn integers(tensor: &Tensor) -> Result<Option<Vec<i128>>> {
    if !matches!(tensor.dtype(), DataType::I64 | DataType::U64) {
        return Ok(None);
    }
    let integer = |element: &Element| match element {
        Element::Integer(number) => Some(*number),
        _ => None,
    };
    Ok(elements(tensor, usize::MAX)?.iter().map(integer).collect())
}

fn as_f64(tensor: &Tensor) -> Result<&[f64]> {
    tensor
        .as_slice()
        .ok_or_else(|| Error::new(ErrorKind::Internal, "a conversion to f64 is not f64"))
}

/// The index of the largest value; 0 if there is none.
pub(crate) fn top(values: &[f64]) -> usize {
    (0..values.len())
        .max_by(|&a, &b| values[a].total_cmp(&values[b]).then(b.cmp(&a)))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_relative_to_the_whole() {
        let a = Tensor::from_slice([3], &[1.0f32, 10.0, 0.001]).unwrap();
        let b = Tensor::from_slice([3], &[1.0f32, 10.0, 0.0]).unwrap();
        let difference = Difference::between(&a, &b).unwrap();
        assert!(difference.relative < 1.1e-4 && difference.same_top && difference.worst == 2);
    }

    #[test]
    fn wide_integers_are_compared_exactly() {
        let a = Tensor::from_slice([2], &[(1i64 << 53) + 1, 7]).unwrap();
        let b = Tensor::from_slice([2], &[1i64 << 53, 7]).unwrap();
        let difference = Difference::between(&a, &b).unwrap();
        assert!(difference.absolute == 1.0 && difference.relative > 0.0);
        let c = Tensor::from_slice([2], &[u64::MAX, 7]).unwrap();
        assert!(Difference::between(&c, &b).unwrap().absolute > 1e19);
    }

    #[test]
    fn nan_differs_from_every_value() {
        let a = Tensor::from_slice([2], &[f32::NAN, 1.0]).unwrap();
        let b = Tensor::from_slice([2], &[0.0f32, 1.0]).unwrap();
        assert_eq!(Difference::between(&a, &a).unwrap().absolute, 0.0);
        assert_eq!(Difference::between(&a, &b).unwrap().absolute, f64::INFINITY);
        assert!(Difference::between(&a, &Tensor::from_slice([1], &[0.0f32]).unwrap()).is_err());
    }
}
