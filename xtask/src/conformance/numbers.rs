//! Comparing tensors.

use tenon_tensor::{DataType, Tensor, convert};

/// The elements as f64, in which those of all types below 64 bits are exact.
fn numbers(tensor: &Tensor) -> Result<Vec<f64>, String> {
    let wide = convert(tensor, DataType::F64).map_err(|error| error.to_string())?;
    let numbers = wide.as_slice::<f64>();
    numbers
        .map(<[f64]>::to_vec)
        .ok_or_else(|| format!("{} has no numbers", tensor.ty()))
}

/// Compares types and elements; `near` says whether an expected and a found number are close
/// enough. Wide integers are equal or not.
pub(super) fn compare(
    expected: &Tensor,
    found: &Tensor,
    near: impl Fn(f64, f64) -> bool,
) -> Result<(), String> {
    if expected.ty() != found.ty() {
        return Err(format!("expected {}, found {}", expected.ty(), found.ty()));
    }
    if matches!(expected.dtype(), DataType::I64 | DataType::U64) {
        return match expected.bytes() == found.bytes() {
            true => Ok(()),
            false => Err(format!(
                "expected {:?}, found {:?}",
                expected.to_i64s(),
                found.to_i64s()
            )),
        };
    }
    let pairs = numbers(expected)?.into_iter().zip(numbers(found)?);
    for (index, (expected, found)) in pairs.enumerate() {
        let same = expected == found || (expected.is_nan() && found.is_nan());
        if !same && !near(expected, found) {
            return Err(format!(
                "element {index}: expected {expected}, found {found}"
            ));
        }
    }
    Ok(())
}
