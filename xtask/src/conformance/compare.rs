//! Comparison of tensors.

use tenon_tensor::{DataType, Tensor, convert};

/// The elements as f64, which is exact for all types below 64 bits.
fn elements(tensor: &Tensor) -> Result<Vec<f64>, String> {
    let wide = convert(tensor, DataType::F64).map_err(|error| error.to_string())?;
    let elements = wide.as_slice::<f64>();
    elements
        .map(<[f64]>::to_vec)
        .ok_or_else(|| format!("{} has no numeric elements", tensor.ty()))
}

/// Compares types and elements. `is_close` compares an expected and a found element; integers of 64
/// bits must be equal.
pub(super) fn compare(
    expected: &Tensor,
    found: &Tensor,
    is_close: impl Fn(f64, f64) -> bool,
) -> Result<(), String> {
    if expected.ty() != found.ty() {
        return Err(format!("expected {}, found {}", expected.ty(), found.ty()));
    }
    if let (Some(expected), Some(found)) = (expected.strings(), found.strings()) {
        let (expected, found): (Vec<&str>, Vec<&str>) = (expected.collect(), found.collect());
        return match expected == found {
            true => Ok(()),
            false => Err(format!("expected {expected:?}, found {found:?}")),
        };
    }
    if matches!(expected.dtype(), DataType::I64 | DataType::U64) {
        if expected.bytes() == found.bytes() {
            return Ok(());
        }
        let (expected, found) = (expected.to_i64s(), found.to_i64s());
        return Err(format!("expected {expected:?}, found {found:?}"));
    }
    let pairs = elements(expected)?.into_iter().zip(elements(found)?);
    for (index, (expected, found)) in pairs.enumerate() {
        let same = expected == found || (expected.is_nan() && found.is_nan());
        if !same && !is_close(expected, found) {
            return Err(format!(
                "element {index}: expected {expected}, found {found}"
            ));
        }
    }
    Ok(())
}
