//! Outputs for people: the first numbers, and the topmost classes with their labels.

use std::collections::BTreeMap;
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, Tensor, convert};

/// Metadata key of the class labels, joined by newlines (docs/package.md).
pub const LABELS: &str = "tenon.labels";

/// A class and its score.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Its position.
    pub index: usize,
    /// Its label, or its position in text.
    pub label: String,
    /// Its score.
    pub value: f64,
}

/// The model's class labels, when it has some.
pub fn labels(metadata: &BTreeMap<String, String>) -> Option<Vec<String>> {
    metadata
        .get(LABELS)
        .map(|text| text.lines().map(str::to_owned).collect())
}

/// The `count` largest elements of an output that scores classes: floats of shape `[N]` or
/// `[1, N]`, with N at least 2, and as many as there are labels when there are some. `None` for
/// other outputs.
pub fn topmost(
    output: &Tensor,
    labels: Option<&[String]>,
    count: usize,
) -> Result<Option<Vec<Class>>> {
    let classes = match output.shape()[..] {
        [n] | [1, n] if n >= 2 => n,
        _ => return Ok(None),
    };
    if !output.dtype().is_float() || labels.is_some_and(|labels| labels.len() != classes) {
        return Ok(None);
    }
    let values = numbers(output, usize::MAX)?;
    let mut order: Vec<usize> = (0..classes).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
    let class = |index: usize| Class {
        index,
        label: labels.map_or_else(|| index.to_string(), |labels| labels[index].clone()),
        value: values[index],
    };
    Ok(Some(order.into_iter().take(count).map(class).collect()))
}

/// The first `most` elements as f64.
pub fn numbers(tensor: &Tensor, most: usize) -> Result<Vec<f64>> {
    let count = tensor.ty().elements().min(most);
    let part = if count == tensor.ty().elements() {
        tensor.reshaped([count])?
    } else {
        let bytes = tensor.dtype().bytes(count).unwrap_or(0);
        let ty = tenon_tensor::TensorType::new(tensor.dtype(), [count])?;
        let buffer = tensor.buffer().slice(0..bytes);
        Tensor::new(
            ty,
            buffer.ok_or_else(|| Error::new(ErrorKind::Internal, "a short tensor"))?,
        )?
    };
    let wide = convert(&part, DataType::F64)?;
    Ok(wide.as_slice::<f64>().unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_come_first() {
        let scores = Tensor::from_slice([1, 3], &[0.1f32, 0.7, 0.2]).unwrap();
        let names = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let top = topmost(&scores, Some(&names), 2).unwrap().unwrap();
        assert_eq!((top[0].label.as_str(), top[1].index), ("b", 2));
        assert!(topmost(&scores, Some(&names[..2]), 2).unwrap().is_none());
        let picture = Tensor::from_slice([2, 3], &[0.0f32; 6]).unwrap();
        assert!(topmost(&picture, None, 2).unwrap().is_none());
    }

    #[test]
    fn numbers_widen() {
        let tensor = Tensor::from_slice([3], &[1i8, -2, 3]).unwrap();
        assert_eq!(numbers(&tensor, 2).unwrap(), [1.0, -2.0]);
    }
}
