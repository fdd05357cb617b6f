//! Sparse host tensors in coordinate (COO) format.

use super::element::name;
use super::{DenseHostTensor, HostElement, TensorShape, failed, reserved};
use std::fmt;
use tenon_base::Result;
use tenon_bef::DType;
use tenon_executor::HostAllocator;

/// A sparse tensor: a row of coordinates and a value for each element that is not zero.
#[derive(Debug, Clone)]
pub struct CooHostTensor {
    dtype: DType,
    shape: TensorShape,
    /// One row per value, one column per dimension of the shape.
    indices: DenseHostTensor,
    values: DenseHostTensor,
}

impl CooHostTensor {
    /// The elements of a dense tensor that are not zero.
    ///
    /// Coordinates are computed as by the original, which decomposes a flat index by the dimensions
    /// in forward order: correct for square shapes, and expected by its programs for others
    /// (bef 4.3).
    pub fn from_dense<T: HostElement>(
        allocator: &HostAllocator,
        dense: &DenseHostTensor,
        zero: T,
    ) -> Result<Self> {
        let rank = dense.shape().rank();
        let mut count = 0usize;
        dense.for_each(|value: T| count += usize::from(value != zero))?;
        let mut values = reserved(count)?;
        let mut indices = reserved(count.saturating_mul(rank))?;
        let mut flat = 0;
        dense.for_each(|value: T| {
            if value != zero {
                values.push(value);
                coordinates(flat, dense.shape().dimensions(), &mut indices);
            }
            flat += 1;
        })?;
        let rows = values.len() as i64;
        let value_tensor = allocate::<T>(allocator, &[rows], "value")?;
        let index_tensor = allocate::<i64>(allocator, &[rows, rank as i64], "index")?;
        value_tensor.set(&values)?;
        index_tensor.set(&indices)?;
        Ok(Self {
            dtype: T::DTYPE,
            shape: dense.shape().clone(),
            indices: index_tensor,
            values: value_tensor,
        })
    }

    /// The dense tensor. Of duplicate coordinates the last value counts; an error for coordinates
    /// outside of the shape.
    pub fn to_dense<T: HostElement>(&self, allocator: &HostAllocator) -> Result<DenseHostTensor> {
        let dense = DenseHostTensor::allocate::<T>(allocator, self.shape.clone())?;
        let mut elements = dense.values::<T>()?;
        let (values, indices) = (self.values.values::<T>()?, self.indices.values::<i64>()?);
        let rank = self.shape.rank();
        for (row, value) in values.into_iter().enumerate() {
            let index = &indices[row * rank..(row + 1) * rank];
            let strides = index.iter().zip(self.shape.dimensions());
            let flat = strides.fold(0i64, |flat, (&at, &dimension)| {
                flat.wrapping_mul(dimension).wrapping_add(at)
            });
            let slot = usize::try_from(flat)
                .ok()
                .and_then(|flat| elements.get_mut(flat));
            *slot.ok_or_else(|| {
                failed(format!("a coordinate is outside of shape {}", self.shape))
                    .found(format!("{index:?}"))
            })? = value;
        }
        dense.set(&elements)?;
        Ok(dense)
    }

    /// Whether coordinates are equal, and values up to 2 units in the last place.
    pub fn agrees<T: HostElement>(&self, other: &Self) -> Result<bool> {
        let values = self.values.agrees(&other.values, |a: T, b| a.close(b, 2))?;
        Ok(values && self.indices.agrees(&other.indices, |a: i64, b| a == b)?)
    }

    /// The shape of the dense tensor.
    pub fn shape(&self) -> &TensorShape {
        &self.shape
    }
}

/// Decomposes a flat index as the original does.
fn coordinates(flat: i64, dimensions: &[i64], to: &mut Vec<i64>) {
    let start = to.len();
    let mut rest = flat;
    for &dimension in dimensions {
        to.push(rest % dimension);
        rest /= dimension;
    }
    to[start..].reverse();
}

fn allocate<T: HostElement>(
    allocator: &HostAllocator,
    shape: &[i64],
    what: &str,
) -> Result<DenseHostTensor> {
    DenseHostTensor::allocate::<T>(allocator, TensorShape::new(shape)?)
        .map_err(|_| failed(format!("Cannot allocate {what} tensor")))
}

impl fmt::Display for CooHostTensor {
    /// One line, and an empty one: the original's text ends with a newline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CooHostTensor dtype = {}, shape = {}, indices = ",
            name(self.dtype),
            self.shape
        )?;
        self.indices.print_values(f, usize::MAX)?;
        f.write_str(", values = ")?;
        self.values.print_values(f, usize::MAX)?;
        f.write_str("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_executor::{AllocatorKind, Log};

    fn malloc() -> HostAllocator {
        HostAllocator::new(AllocatorKind::Malloc, Log::default())
    }

    fn dense<T: HostElement>(shape: &[i64], values: &[T]) -> DenseHostTensor {
        let shape = TensorShape::new(shape).unwrap();
        let tensor = DenseHostTensor::allocate::<T>(&malloc(), shape).unwrap();
        tensor.set(values).unwrap();
        tensor
    }

    #[test]
    fn coordinates_are_those_of_the_original() {
        let sparse = CooHostTensor::from_dense(&malloc(), &dense(&[3, 2], &[4i32; 6]), 0).unwrap();
        assert_eq!(
            sparse.to_string(),
            "CooHostTensor dtype = i32, shape = [3, 2], \
             indices = [0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2], values = [4, 4, 4, 4, 4, 4]\n"
        );
        let none = CooHostTensor::from_dense(&malloc(), &dense(&[2, 3], &[0i32; 6]), 0).unwrap();
        assert_eq!(
            none.to_string(),
            "CooHostTensor dtype = i32, shape = [2, 3], indices = [], values = []\n"
        );
    }

    #[test]
    fn square_tensors_round_trip() {
        let values: Vec<f32> = (0..100).map(|i| (i % 7) as f32).collect();
        let before = dense(&[10, 10], &values);
        let sparse = CooHostTensor::from_dense(&malloc(), &before, 0.0f32).unwrap();
        let after = sparse.to_dense::<f32>(&malloc()).unwrap();
        assert!(before.agrees(&after, |a: f32, b| a == b).unwrap());
        assert!(sparse.agrees::<f32>(&sparse.clone()).unwrap());
        let other = CooHostTensor::from_dense(&malloc(), &dense(&[1], &[1.0f32]), 0.0f32).unwrap();
        assert!(!sparse.agrees::<f32>(&other).unwrap());
    }

    #[test]
    fn all_ranks_round_trip() {
        let scalar = CooHostTensor::from_dense(&malloc(), &dense(&[], &[7i32]), 0).unwrap();
        assert!(
            scalar
                .to_string()
                .ends_with("shape = [], indices = [], values = [7]\n")
        );
        assert_eq!(
            scalar
                .to_dense::<i32>(&malloc())
                .unwrap()
                .values::<i32>()
                .unwrap(),
            [7]
        );
        let cube: Vec<i32> = (0..27).collect();
        let sparse = CooHostTensor::from_dense(&malloc(), &dense(&[3, 3, 3], &cube), 0).unwrap();
        let back = sparse.to_dense::<i32>(&malloc()).unwrap();
        assert_eq!(back.values::<i32>().unwrap(), cube);
    }

    #[test]
    fn a_coordinate_outside_is_an_error() {
        // Dimensions in forward order give (2, 1) for the last of [2, 3].
        let sparse = CooHostTensor::from_dense(&malloc(), &dense(&[2, 3], &[1i32; 6]), 0).unwrap();
        assert_eq!(
            sparse.to_dense::<i32>(&malloc()).unwrap_err().to_string(),
            "a coordinate is outside of shape [2, 3]: found [2, 0]"
        );
    }
}
