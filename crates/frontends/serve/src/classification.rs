//! The extension "classification": the greatest elements of an output instead of the tensor.

use crate::status::Refusal;
use tenon::tensor::convert;
use tenon::{DataType, Tensor};

/// The `count` greatest elements of each row as strings `value:index` or, with labels, `value:index:label`. Of one
/// dimension the whole is a row, of more dimensions each element of the first.
///
/// # Errors
/// An output of strings, or one without rows.
pub fn classes(labels: Option<&[String]>, output: &Tensor, count: u64) -> Result<Tensor, Refusal> {
    let shape = &output.shape()[..];
    let (rows, width) = match shape {
        [] => (1, 1),
        [width] => (1, *width),
        [rows, rest @ ..] => (*rows, rest.iter().product()),
    };
    if output.dtype() == DataType::String {
        return Err(Refusal::invalid("classification: the output has strings"));
    }
    let wide = convert(output, DataType::F64)?;
    let values = wide.as_slice::<f64>().unwrap_or_default();
    let labels = labels.filter(|labels| labels.len() == width);
    let count = usize::try_from(count).unwrap_or(width).min(width);
    let mut texts = Vec::new();
    for row in values.chunks(width.max(1)) {
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|&one, &other| row[other].total_cmp(&row[one]));
        texts.extend(order.iter().take(count).map(|&index| {
            let value = value_text(output.dtype(), row[index]);
            match labels.and_then(|labels| labels.get(index)) {
                Some(label) => format!("{value}:{index}:{label}"),
                None => format!("{value}:{index}"),
            }
        }));
    }
    let shape = match shape.len() {
        0 | 1 => vec![count],
        _ => vec![rows, count],
    };
    Ok(Tensor::from_strings(shape, &texts)?)
}

/// As many digits as the type needs.
fn value_text(dtype: DataType, value: f64) -> String {
    match dtype {
        DataType::F64 => value.to_string(),
        _ if dtype.is_float() => (value as f32).to_string(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_elements_of_each_row() {
        let labels = ["none", "one", "two"].map(str::to_owned);
        let scores = Tensor::from_slice([2, 3], &[0.5f32, 2.25, -1.0, 7.0, 0.1, 8.0]).unwrap();
        let found = classes(Some(&labels), &scores, 2).unwrap();
        assert_eq!(found.shape()[..], [2, 2]);
        let texts: Vec<&str> = found.strings().unwrap().collect();
        assert_eq!(texts, ["2.25:1:one", "0.5:0:none", "8:2:two", "7:0:none"]);
        let all = classes(None, &scores, 100).unwrap();
        assert_eq!(all.shape()[..], [2, 3]);
        let row = Tensor::from_slice([2], &[3i32, 4]).unwrap();
        let one = classes(Some(&labels), &row, 1).unwrap();
        assert_eq!(one.strings().unwrap().collect::<Vec<_>>(), ["4:1"]);
        let strings = Tensor::from_strings([1], &["a"]).unwrap();
        assert!(classes(None, &strings, 1).is_err());
        let empty = Tensor::zeroed("f32[0, 3]".parse().unwrap()).unwrap();
        assert_eq!(
            classes(Some(&labels), &empty, 1).unwrap().shape()[..],
            [0, 1]
        );
    }
}
