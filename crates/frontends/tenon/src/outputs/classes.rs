//! Outputs of classifiers: the classes with the highest scores, with their labels.

use super::{Element, elements};
use std::collections::BTreeMap;
use tenon_base::Result;
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
    pub value: Element,
}

/// The model's class labels, when it has some.
pub fn class_labels(metadata: &BTreeMap<String, String>) -> Option<Vec<String>> {
    metadata
        .get(LABELS)
        .map(|text| text.lines().map(str::to_owned).collect())
}

/// The largest deviation of a sum of probabilities from 1, for many values of a narrow type.
const SUM_TOLERANCE: f64 = 1e-2;

/// Whether an output scores classes: floats of shape `[N]` or `[1, N]` with N at least 2, and
/// either as many labels or probabilities, of which none is negative and the sum is 1.
pub fn is_classification(output: &Tensor, labels: Option<&[String]>) -> Result<bool> {
    let Some(classes) = scores(output) else {
        return Ok(false);
    };
    if let Some(labels) = labels {
        return Ok(labels.len() == classes);
    }
    let wide = convert(output, DataType::F64)?;
    let values = wide.as_slice::<f64>().unwrap_or_default();
    let sum: f64 = values.iter().sum();
    Ok(values.iter().all(|&value| value >= 0.0) && (sum - 1.0).abs() <= SUM_TOLERANCE)
}

/// The `count` largest elements of a vector of floats, the largest first; `None` for other
/// outputs. Labels count when there is one for each element.
pub fn top_classes(
    output: &Tensor,
    labels: Option<&[String]>,
    count: usize,
) -> Result<Option<Vec<Class>>> {
    let Some(classes) = scores(output) else {
        return Ok(None);
    };
    let labels = labels.filter(|labels| labels.len() == classes);
    let wide = convert(output, DataType::F64)?;
    let values = wide.as_slice::<f64>().unwrap_or_default();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
    order.truncate(count);
    let largest: Vec<f64> = order.iter().map(|&index| values[index]).collect();
    let largest = Tensor::from_slice([largest.len()], &largest)?;
    let largest = elements(&convert(&largest, output.dtype())?, usize::MAX)?;
    let class = |(index, value): (usize, Element)| Class {
        index,
        label: labels.map_or_else(|| index.to_string(), |labels| labels[index].clone()),
        value,
    };
    Ok(Some(order.into_iter().zip(largest).map(class).collect()))
}

/// How many classes an output can score by its type.
fn scores(output: &Tensor) -> Option<usize> {
    match output.shape()[..] {
        [n] | [1, n] if n >= 2 && output.dtype().is_float() => Some(n),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_come_first() {
        let scores = Tensor::from_slice([1, 3], &[0.1f32, 0.7, 0.2]).unwrap();
        let names = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let top = top_classes(&scores, Some(&names), 2).unwrap().unwrap();
        assert_eq!((top[0].label.as_str(), top[1].index), ("b", 2));
        assert_eq!(top[0].value.to_string(), "0.7");
        let picture = Tensor::from_slice([2, 3], &[0.0f32; 6]).unwrap();
        assert!(top_classes(&picture, None, 2).unwrap().is_none());
    }

    #[test]
    fn a_vector_is_a_classification_when_it_has_labels_or_probabilities() {
        let names = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let is = |values: [f32; 3], labels: Option<&[String]>| {
            is_classification(&Tensor::from_slice([1, 3], &values).unwrap(), labels).unwrap()
        };
        assert!(is([0.1, 0.7, 0.2], None));
        assert!(is([3.0, -7.0, 2.0], Some(&names)));
        assert!(!is([3.0, -7.0, 2.0], None));
        assert!(!is([0.5, 0.7, -0.2], None));
        assert!(!is([f32::NAN, 0.5, 0.5], None));
        assert!(!is([0.1, 0.7, 0.2], Some(&names[..2])));
    }
}
