//! Host tensors of strings.

use super::{List, TensorShape, failed};
use std::fmt;
use tenon_base::Result;

/// The number of strings that a tensor prints.
const PRINTED: usize = 16;

/// A tensor of strings, row-major.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StringHostTensor {
    shape: TensorShape,
    values: Vec<String>,
}

impl StringHostTensor {
    /// A tensor of `values`; their number must be that of the shape's elements.
    pub fn new(shape: TensorShape, values: Vec<String>) -> Result<Self> {
        if usize::try_from(shape.elements()?) != Ok(values.len()) {
            return Err(failed("Shape mismatch"));
        }
        Ok(Self { shape, values })
    }

    /// Its shape.
    pub fn shape(&self) -> &TensorShape {
        &self.shape
    }

    /// The strings.
    pub fn values(&self) -> &[String] {
        &self.values
    }
}

impl fmt::Display for StringHostTensor {
    /// `StringHostTensor shape = [2], values = ["a", "b"]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = self.values.iter().take(PRINTED).map(|text| Quoted(text));
        let list = List(quoted).to_string();
        let (list, end) = if self.values.len() > PRINTED {
            (list.strip_suffix("]").unwrap_or(&list), ", ... ]")
        } else {
            (list.as_str(), "")
        };
        write!(
            f,
            "StringHostTensor shape = {}, values = {list}{end}",
            self.shape
        )
    }
}

/// A string in quotes, unescaped as in the original.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(shape: &[i64], values: &[&str]) -> Result<StringHostTensor> {
        let values = values.iter().map(|&text| text.to_owned()).collect();
        StringHostTensor::new(TensorShape::new(shape)?, values)
    }

    #[test]
    fn a_tensor_prints_its_strings() {
        assert_eq!(
            tensor(&[2], &["string", "tensor"]).unwrap().to_string(),
            "StringHostTensor shape = [2], values = [\"string\", \"tensor\"]"
        );
        let many = tensor(&[17], &["]"; 17]).unwrap().to_string();
        assert!(many.ends_with("\"]\", \"]\", ... ]"), "{many}");
    }

    #[test]
    fn the_number_of_strings_must_match_the_shape() {
        assert_eq!(
            tensor(&[3], &["a"]).unwrap_err().to_string(),
            "Shape mismatch"
        );
    }
}
