//! Shapes of the `ts` dialect: known, and with unknown dimensions.

use super::{List, failed};
use std::fmt;
use tenon_base::Result;

/// An unknown dimension, as programs write it.
const UNKNOWN: i64 = -1;

/// The dimensions of a tensor, outermost first, none negative.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TensorShape(Vec<i64>);

impl TensorShape {
    /// A shape of these dimensions; an error when one is negative.
    pub fn new(dimensions: impl Into<Vec<i64>>) -> Result<Self> {
        let dimensions = dimensions.into();
        match dimensions.iter().find(|&&dimension| dimension < 0) {
            Some(negative) => Err(failed("a shape has a negative dimension").found(negative)),
            None => Ok(Self(dimensions)),
        }
    }

    /// Its dimensions.
    pub fn dimensions(&self) -> &[i64] {
        &self.0
    }

    /// The rank: the number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// One dimension; an error for an index out of range.
    pub fn dimension(&self, index: i32) -> Result<i64> {
        let found = usize::try_from(index)
            .ok()
            .and_then(|index| self.0.get(index));
        found.copied().ok_or_else(|| {
            failed(format!("shape {self} has no such dimension"))
                .expected(format_args!("an index below {}", self.rank()))
                .found(index)
        })
    }

    /// The product of its dimensions; an error when it is too large.
    pub fn elements(&self) -> Result<i64> {
        if self.0.contains(&0) {
            return Ok(0);
        }
        let product = self
            .0
            .iter()
            .try_fold(1i64, |product, &dimension| product.checked_mul(dimension));
        product.ok_or_else(|| failed(format!("shape {self} has too many elements")))
    }
}

impl fmt::Display for TensorShape {
    /// `[3, 2]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        List(self.0.iter()).fmt(f)
    }
}

/// A shape with unknown dimensions or unknown rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialShape(Option<Vec<i64>>);

impl PartialShape {
    /// A shape of unknown rank.
    pub const UNRANKED: Self = Self(None);

    /// A shape of these dimensions, -1 for an unknown one; an error for other negative values.
    pub fn new(dimensions: impl Into<Vec<i64>>) -> Result<Self> {
        let dimensions = dimensions.into();
        match dimensions.iter().find(|&&dimension| dimension < UNKNOWN) {
            Some(negative) => Err(failed("a shape has a negative dimension")
                .expected("-1 where it is unknown")
                .found(negative)),
            None => Ok(Self(Some(dimensions))),
        }
    }

    /// The shape, if all dimensions are known; otherwise an error that lists the unknown ones.
    pub fn known(&self) -> Result<TensorShape> {
        let Some(dimensions) = &self.0 else {
            return Err(failed("Unknown rank"));
        };
        let unknown = dimensions
            .iter()
            .enumerate()
            .filter(|&(_, &dimension)| dimension == UNKNOWN)
            .map(|(index, _)| index);
        if unknown.clone().next().is_none() {
            return Ok(TensorShape(dimensions.clone()));
        }
        let text = format!(
            "Unknown dimensions at following indices = {}",
            List(unknown)
        );
        Err(failed(text))
    }
}

impl From<&TensorShape> for PartialShape {
    fn from(shape: &TensorShape) -> Self {
        Self(Some(shape.0.clone()))
    }
}

impl fmt::Display for PartialShape {
    /// `[-1, 57]`, or `Unknown rank`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(dimensions) => List(dimensions.iter()).fmt(f),
            None => f.write_str("Unknown rank"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_print_and_count_elements() {
        let shape = TensorShape::new([1, 57, 92]).unwrap();
        assert_eq!(shape.to_string(), "[1, 57, 92]");
        assert_eq!(shape.elements().unwrap(), 5244);
        assert_eq!(shape.dimension(2).unwrap(), 92);
        assert_eq!(TensorShape::default().to_string(), "[]");
        assert_eq!(TensorShape::default().elements().unwrap(), 1);
        assert_eq!(
            TensorShape::new([i64::MAX, i64::MAX, 0])
                .unwrap()
                .elements()
                .unwrap(),
            0
        );
    }

    #[test]
    fn wrong_shapes_are_errors() {
        let shape = TensorShape::new([65535; 7]).unwrap();
        assert!(
            shape
                .elements()
                .unwrap_err()
                .to_string()
                .contains("too many elements")
        );
        assert_eq!(
            shape.dimension(7).unwrap_err().to_string(),
            "shape [65535, 65535, 65535, 65535, 65535, 65535, 65535] has no such dimension: \
             expected an index below 7, found 7"
        );
        assert!(shape.dimension(-1).is_err());
        assert!(TensorShape::new([1, -1]).is_err());
        assert!(PartialShape::new([-2]).is_err());
    }

    #[test]
    fn a_partial_shape_reports_unknown_dimensions() {
        let text = |shape: &PartialShape| shape.known().unwrap_err().to_string();
        let partial = PartialShape::new([-1, 57, -1]).unwrap();
        assert_eq!(partial.to_string(), "[-1, 57, -1]");
        assert_eq!(
            text(&partial),
            "Unknown dimensions at following indices = [0, 2]"
        );
        assert_eq!(PartialShape::UNRANKED.to_string(), "Unknown rank");
        assert_eq!(text(&PartialShape::UNRANKED), "Unknown rank");
        let shape = TensorShape::new([1, 57]).unwrap();
        assert_eq!(PartialShape::from(&shape).known().unwrap(), shape);
    }
}
