//! Comparison of results with those of `CpuRef`.

use tenon_backend::Tolerance;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::Attributes;
use tenon_graph::operator::operator;
use tenon_tensor::{DataType, Tensor, TensorType};

/// The tolerance for types without a stated one (backends 8.3): relative, and absolute if either side is zero.
const NEAR_ZERO: f64 = 1e-6;
const RELATIVE: f64 = 0.01;

/// Description of the first element outside of the tolerance, which is that stated for the type or the usual one.
pub(crate) fn difference(
    expected: &Tensor,
    found: &Tensor,
    stated: Option<&Tolerance>,
) -> Result<Option<String>> {
    if expected.ty() != found.ty() {
        return Ok(Some(format!(
            "expected {}, found {}",
            expected.ty(),
            found.ty()
        )));
    }
    let (left, right) = (as_f64(expected)?, as_f64(found)?);
    let finite = left.iter().filter(|value| value.is_finite());
    let largest = finite.fold(0.0f64, |largest, value| largest.max(value.abs()));
    let is_close = |expected, found| match stated {
        _ if !f64::is_finite(expected) || !f64::is_finite(found) => {
            expected == found || (expected.is_nan() && found.is_nan())
        }
        Some(stated) => stated.accepts((expected - found).abs(), largest),
        None => is_usual(expected, found),
    };
    let pairs = left.into_iter().zip(right).enumerate();
    let mut wrong = pairs.filter(|(_, (expected, found))| !is_close(*expected, *found));
    Ok(wrong.next().map(|(index, (expected, found))| {
        let tolerance = stated.map(|stated| format!(" (stated tolerance: {stated})"));
        format!(
            "element {index}: expected {expected}, found {found}{}",
            tolerance.unwrap_or_default()
        )
    }))
}

fn is_usual(expected: f64, found: f64) -> bool {
    if expected == 0.0 || found == 0.0 {
        (expected - found).abs() <= NEAR_ZERO
    } else {
        (expected - found).abs() <= RELATIVE * expected.abs()
    }
}

/// The elements as f64, converted by `CpuRef`.
fn as_f64(tensor: &Tensor) -> Result<Vec<f64>> {
    if let Some(integers) = tensor.to_i64s() {
        return Ok(integers.into_iter().map(|value| value as f64).collect());
    }
    let cast = operator("Cast").ok_or_else(|| Error::new(ErrorKind::Internal, "no Cast"))?;
    let attributes = Attributes::new().with("to", tenon_graph::Attribute::String("f64".into()));
    let ty = TensorType::new(DataType::F64, tensor.shape().clone())?;
    let reference = tenon_cpu_ref::CpuRef;
    let outputs =
        tenon_backend::evaluate(&reference, cast, &attributes, &[Some(tensor)], &[Some(ty)])?;
    let output = outputs.into_iter().flatten().next();
    let elements = output.and_then(|output| output.as_slice::<f64>().map(<[f64]>::to_vec));
    elements.ok_or_else(|| Error::new(ErrorKind::Internal, "Cast returned no f64 tensor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_per_cent_is_within_the_tolerance_and_nan_equals_nan() {
        let tensor = |values: &[f32]| Tensor::from_slice([values.len()], values).unwrap();
        let same = |a: &[f32], b: &[f32]| difference(&tensor(a), &tensor(b), None).unwrap();
        assert_eq!(same(&[1.0, f32::NAN, 0.0], &[1.009, f32::NAN, 5e-7]), None);
        assert_eq!(
            same(&[1.0, 2.0], &[1.0, 2.1]).unwrap(),
            "element 1: expected 2, found 2.0999999046325684"
        );
        assert!(same(&[f32::INFINITY], &[1.0]).is_some());
        assert!(same(&[1.0], &[1.0, 2.0]).is_some());
    }

    #[test]
    fn a_stated_tolerance_replaces_the_usual_one() {
        let tensor = |values: &[f32]| Tensor::from_slice([values.len()], values).unwrap();
        let same = |a: &[f32], b: &[f32], relative| {
            let stated = Tolerance {
                dtype: DataType::F32,
                relative,
                absolute: 1e-9,
            };
            difference(&tensor(a), &tensor(b), Some(&stated)).unwrap()
        };
        // Relative to the largest element, not to each.
        assert_eq!(same(&[8.0, 0.5, 0.0], &[8.5, 0.25, 0.5], 0.0625), None);
        assert_eq!(
            same(&[8.0, 1.0], &[8.0, 1.75], 0.0625).unwrap(),
            "element 1: expected 1, found 1.75 (stated tolerance: f32 0.0625 relative, 0.000000001 absolute)"
        );
        // A narrower one than the usual.
        assert!(same(&[8.0], &[8.0625], 1e-3).is_some());
        assert!(same(&[f32::INFINITY], &[8.0], 0.5).is_some());
    }
}
