//! Shapes: the extents of a tensor, outermost first.

use crate::DataType;
use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use tenon_base::{Error, ErrorKind, Result};

/// The extents of a tensor, outermost dimension first; empty for a scalar.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[usize; INLINE_RANK]>);

/// Shapes of at most this rank are stored without an allocation.
const INLINE_RANK: usize = 5;

impl Shape {
    /// A shape with these extents.
    pub fn new(dims: impl AsRef<[usize]>) -> Self {
        Self(SmallVec::from_slice(dims.as_ref()))
    }

    /// Number of elements, `None` on overflow.
    pub fn checked_elements(&self) -> Option<usize> {
        // An extent of zero makes the tensor empty, whatever the others are.
        if self.0.contains(&0) {
            return Some(0);
        }
        self.0
            .iter()
            .try_fold(1usize, |product, &dim| product.checked_mul(dim))
    }

    /// Number of elements, saturating; [`TensorType::new`] checks that it does not overflow.
    pub fn elements(&self) -> usize {
        self.checked_elements().unwrap_or(usize::MAX)
    }

    /// Element strides of the contiguous row-major layout.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1usize; self.0.len()];
        for axis in (1..self.0.len()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(self.0[axis]);
        }
        strides
    }

    /// The shape that both broadcast to (NumPy rules), `None` if they are incompatible.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let rank = self.len().max(other.len());
        let dim = |shape: &Shape, axis: usize| {
            (axis + shape.len())
                .checked_sub(rank)
                .map_or(1, |index| shape[index])
        };
        (0..rank)
            .map(|axis| match (dim(self, axis), dim(other, axis)) {
                (a, b) if a == b => Some(a),
                (1, b) => Some(b),
                (a, 1) => Some(a),
                _ => None,
            })
            .collect::<Option<_>>()
            .map(Shape)
    }
}

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl<T: AsRef<[usize]>> From<T> for Shape {
    fn from(dims: T) -> Self {
        Self::new(dims)
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(dims: I) -> Self {
        Self(dims.into_iter().collect())
    }
}

impl fmt::Display for Shape {
    /// `[2, 3]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Maximum size of a tensor in bytes: the address space of current machines. Sums and small
/// multiples of such sizes do not overflow.
const MAX_BYTES: usize = 1 << 48;

/// A data type and a shape whose size in bytes, without extents of zero, fits the address space.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    dtype: DataType,
    shape: Shape,
}

impl TensorType {
    /// Fails if the size in bytes exceeds 2^48. Extents of zero are left out of the product:
    /// strides and parts of the shape must not overflow either.
    pub fn new(dtype: DataType, shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        let extents = shape.iter().filter(|&&extent| extent > 0);
        let elements = extents.fold(1usize, |product, &extent| product.saturating_mul(extent));
        let bytes = match dtype {
            DataType::String => Some(elements),
            _ => dtype.bytes(elements),
        };
        let fits = bytes.is_some_and(|bytes| bytes <= MAX_BYTES);
        if !fits {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("a tensor of type {dtype} and shape {shape} is larger than memory can be"),
            ));
        }
        Ok(Self { dtype, shape })
    }

    /// The data type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.elements()
    }

    /// Bytes of the contiguous layout; 0 for strings.
    pub fn bytes(&self) -> usize {
        self.dtype.bytes(self.elements()).unwrap_or(0)
    }
}

impl fmt::Display for TensorType {
    /// `f32[2, 3]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

impl FromStr for TensorType {
    type Err = Error;

    /// Parses the form of `Display`: `f32[2, 3]`.
    fn from_str(text: &str) -> Result<Self> {
        let malformed = || {
            Error::new(ErrorKind::InvalidArgument, "not the type of a tensor")
                .expected("a data type and extents, such as f32[2, 3]")
                .found(text)
        };
        let (dtype, extents) = text.split_once('[').ok_or_else(malformed)?;
        let extents = extents.strip_suffix(']').ok_or_else(malformed)?;
        let extents = match extents.trim() {
            "" => Vec::new(),
            list => list
                .split(',')
                .map(|extent| extent.trim().parse().map_err(|_| malformed()))
                .collect::<Result<Vec<usize>>>()?,
        };
        Self::new(dtype.parse()?, extents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_follows_numpy() {
        let broadcast = |a: &[usize], b: &[usize]| Shape::new(a).broadcast(&Shape::new(b));
        assert_eq!(broadcast(&[2, 1, 3], &[4, 1]), Some(Shape::new([2, 4, 3])));
        assert_eq!(broadcast(&[], &[5]), Some(Shape::new([5])));
        assert_eq!(broadcast(&[2], &[3]), None);
        assert_eq!(broadcast(&[0], &[1]), Some(Shape::new([0])));
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert!(TensorType::new(DataType::F32, [usize::MAX, 2]).is_err());
        assert!(TensorType::new(DataType::F32, [1 << 62]).is_err());
        assert!(TensorType::new(DataType::F32, [1 << 40, 1 << 40, 0]).is_err());
        assert!(TensorType::new(DataType::String, [1 << 49]).is_err());
        let empty = TensorType::new(DataType::F32, [1 << 40, 0]).unwrap();
        assert_eq!(empty.bytes(), 0);
        assert_eq!(
            TensorType::new(DataType::F32, [2, 3]).unwrap().to_string(),
            "f32[2, 3]"
        );
    }

    #[test]
    fn types_print_and_parse_back() {
        for (dtype, extents) in [
            (DataType::F32, vec![]),
            (DataType::I4, vec![7]),
            (DataType::Bool, vec![2, 0, 3]),
        ] {
            let ty = TensorType::new(dtype, extents).unwrap();
            assert_eq!(ty.to_string().parse::<TensorType>().unwrap(), ty);
        }
        for text in [
            "",
            "f32",
            "f32[2",
            "f32[-1]",
            "f99[2]",
            "f32[,]",
            "f32[9999999999999999999]",
        ] {
            assert!(text.parse::<TensorType>().is_err(), "{text}");
        }
    }
}
