//! Outputs that are maps: a row of the tensor is a map with a column for each key.

use super::{Element, elements};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{MapKey, MapKeys, Tensor};

/// The maps in the first `most` elements of a tensor, as keys and values.
///
/// # Errors
/// A tensor whose last extent is not the number of keys.
pub fn maps<'a>(
    tensor: &Tensor,
    keys: &'a MapKeys,
    most: usize,
) -> Result<Vec<Vec<(MapKey<'a>, Element)>>> {
    if tensor.shape().last() != Some(&keys.len()) {
        let error = Error::new(
            ErrorKind::ExecutionFailed,
            "a map does not have a column for each key",
        );
        return Err(error.expected(keys.len()).found(tensor.ty()));
    }
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let values = elements(tensor, most / keys.len() * keys.len())?;
    let rows = values.chunks(keys.len());
    Ok(rows
        .map(|row| keys.iter().zip(row.iter().cloned()).collect())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_map() {
        let keys = MapKeys::parse(r#"["a", "b"]"#).unwrap();
        let scores = Tensor::from_slice([2, 2], &[0.25f32, 0.75, 1.0, 0.0]).unwrap();
        let text = |most| {
            let maps = maps(&scores, &keys, most).unwrap();
            let rows = maps.iter().map(|map| {
                let pairs = map.iter().map(|(key, value)| format!("{key}: {value}"));
                pairs.collect::<Vec<_>>().join(", ")
            });
            rows.collect::<Vec<_>>().join("; ")
        };
        assert_eq!(text(4), r#""a": 0.25, "b": 0.75; "a": 1.0, "b": 0.0"#);
        assert_eq!(text(3), r#""a": 0.25, "b": 0.75"#);
        let wide = Tensor::from_slice([1, 3], &[0.0f32; 3]).unwrap();
        assert!(maps(&wide, &keys, 9).is_err());
    }
}
