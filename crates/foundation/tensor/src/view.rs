//! Strided views: permuted, sliced and broadcast tensors without a copy.

use crate::buffer::elements_of;
use crate::{BufferMut, DataType, Element, Shape, Tensor, TensorType};
use tenon_base::{Error, ErrorKind, Result};

/// Elements of a tensor addressed through a shape and strides. Elements of less than a byte are not
/// supported.
///
/// ```
/// use tenon_tensor::{Tensor, View};
/// let tensor = Tensor::from_slice([2, 3], &[1i32, 2, 3, 4, 5, 6])?;
/// let columns = View::new(&tensor)?.permute(&[1, 0])?;
/// assert_eq!(columns.iter::<i32>().unwrap().collect::<Vec<_>>(), [1, 4, 2, 5, 3, 6]);
/// let last = columns.slice(0, 2, 1, 1)?;
/// assert_eq!(last.to_tensor()?, Tensor::from_slice([1, 2], &[3, 6])?);
/// # Ok::<(), tenon_base::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct View<'a> {
    bytes: &'a [u8],
    dtype: DataType,
    shape: Shape,
    /// Stride of each dimension in elements.
    strides: Vec<isize>,
    /// Index of the first element.
    start: isize,
}

impl<'a> View<'a> {
    /// A view of a whole tensor.
    pub fn new(tensor: &'a Tensor) -> Result<Self> {
        let shape = tensor.shape().clone();
        let strides = shape
            .strides()
            .into_iter()
            .map(|stride| stride as isize)
            .collect();
        Self::strided(tensor.bytes(), tensor.dtype(), shape, strides)
    }

    /// A view of `bytes` through a shape and strides in elements, from the first element on.
    pub fn strided(
        bytes: &'a [u8],
        dtype: DataType,
        shape: Shape,
        strides: Vec<isize>,
    ) -> Result<Self> {
        if dtype.bits() < 8 {
            let text = format!("elements of type {dtype} have no strides");
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let view = Self {
            bytes,
            dtype,
            shape,
            strides,
            start: 0,
        };
        let count = (bytes.len() / (dtype.bits() / 8)) as isize;
        let fits = view.strides.len() == view.shape.len()
            && view
                .extent()
                .is_some_and(|(low, high)| low >= 0 && high < count.max(1));
        if !fits || view.shape.checked_elements().is_none() {
            return Err(invalid("the strides of a view lead outside of its tensor"));
        }
        Ok(view)
    }

    /// The lowest and the highest index; `None` on overflow.
    fn extent(&self) -> Option<(isize, isize)> {
        if self.shape.contains(&0) {
            return Some((0, 0));
        }
        let mut extent = (self.start, self.start);
        for (&count, &stride) in self.shape.iter().zip(&self.strides) {
            let last = isize::try_from(count - 1).ok()?.checked_mul(stride)?;
            let side = if last < 0 {
                &mut extent.0
            } else {
                &mut extent.1
            };
            *side = side.checked_add(last)?;
        }
        Some(extent)
    }

    /// The data type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Dimension `order[i]` as dimension `i`.
    pub fn permute(mut self, order: &[usize]) -> Result<Self> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..self.shape.len()) {
            return Err(invalid("not an order of the dimensions of a view")
                .expected(format_args!("each of 0..{} once", self.shape.len()))
                .found(format_args!("{order:?}")));
        }
        self.strides = order.iter().map(|&axis| self.strides[axis]).collect();
        self.shape = Shape::new(
            order
                .iter()
                .map(|&axis| self.shape[axis])
                .collect::<Vec<_>>(),
        );
        Ok(self)
    }

    /// `count` elements of a dimension from `start`, `step` apart; `step` may be negative.
    pub fn slice(mut self, axis: usize, start: usize, count: usize, step: isize) -> Result<Self> {
        let outside = || invalid("a slice outside of its dimension");
        let extent = *self.shape.get(axis).ok_or_else(outside)?;
        if count > 0 {
            let last = isize::try_from(count - 1)
                .ok()
                .and_then(|count| count.checked_mul(step));
            let last = last
                .and_then(|last| start.checked_add_signed(last))
                .ok_or_else(outside)?;
            if start >= extent || last >= extent {
                return Err(outside().expected(format_args!("positions below {extent}")));
            }
            self.start += start as isize * self.strides[axis];
        }
        // The stride of a dimension of at most one element is irrelevant.
        self.strides[axis] = if count > 1 {
            self.strides[axis] * step
        } else {
            0
        };
        let mut shape = self.shape.to_vec();
        shape[axis] = count;
        self.shape = Shape::new(shape);
        Ok(self)
    }

    /// The view broadcast to a shape (NumPy rules).
    pub fn broadcast(mut self, shape: impl Into<Shape>) -> Result<Self> {
        let shape = shape.into();
        if self.shape.broadcast(&shape).as_ref() != Some(&shape)
            || shape.checked_elements().is_none()
        {
            return Err(invalid("a view does not broadcast to the shape")
                .expected(&self.shape)
                .found(&shape));
        }
        let added = shape.len() - self.shape.len();
        let stride = |axis: usize| match axis.checked_sub(added) {
            Some(inner) if self.shape[inner] == shape[axis] => self.strides[inner],
            _ => 0,
        };
        self.strides = (0..shape.len()).map(stride).collect();
        self.shape = shape;
        Ok(self)
    }

    /// Indices of the elements in the tensor, row-major.
    fn positions(&self) -> impl Iterator<Item = usize> + '_ {
        let mut index = vec![0; self.shape.len()];
        let mut position = self.start;
        (0..self.shape.elements()).map(move |_| {
            let here = position;
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                position += self.strides[axis];
                if index[axis] < self.shape[axis] {
                    break;
                }
                position -= self.shape[axis] as isize * self.strides[axis];
                index[axis] = 0;
            }
            here as usize
        })
    }

    /// The elements, row-major, if they are of type `T` and aligned.
    pub fn iter<T: Element>(&self) -> Option<impl Iterator<Item = T> + '_> {
        let elements = elements_of::<T>(self.bytes)?;
        (self.dtype == T::DATA_TYPE).then(|| self.positions().map(|position| elements[position]))
    }

    /// A copy of the elements in row-major order.
    pub fn to_tensor(&self) -> Result<Tensor> {
        let ty = TensorType::new(self.dtype, self.shape.clone())?;
        let mut buffer = BufferMut::zeroed(ty.bytes())?;
        match self.dtype.bits() / 8 {
            1 => self.copy_to::<1>(&mut buffer),
            2 => self.copy_to::<2>(&mut buffer),
            4 => self.copy_to::<4>(&mut buffer),
            8 => self.copy_to::<8>(&mut buffer),
            _ => self.copy_to::<16>(&mut buffer),
        }
        Tensor::new(ty, buffer.freeze())
    }

    fn copy_to<const N: usize>(&self, target: &mut [u8]) {
        let elements = self.bytes.as_chunks::<N>().0;
        for (target, position) in target
            .as_chunks_mut::<N>()
            .0
            .iter_mut()
            .zip(self.positions())
        {
            *target = elements[position];
        }
    }
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ascending(shape: &[usize]) -> Tensor {
        let count = shape.iter().product::<usize>() as i32;
        Tensor::from_slice(shape, &(0..count).collect::<Vec<_>>()).unwrap()
    }

    fn elements(view: &View<'_>) -> Vec<i32> {
        let copied = view.to_tensor().unwrap();
        let elements: Vec<i32> = view.iter().unwrap().collect();
        assert_eq!(copied.as_slice::<i32>().unwrap(), elements);
        elements
    }

    #[test]
    fn slices_step_forwards_and_backwards() {
        let tensor = ascending(&[3, 4]);
        let view = View::new(&tensor).unwrap();
        assert_eq!(
            elements(&view.clone().slice(1, 3, 2, -2).unwrap()),
            [3, 1, 7, 5, 11, 9]
        );
        assert_eq!(
            elements(&view.clone().slice(0, 1, 1, 1).unwrap()),
            [4, 5, 6, 7]
        );
        assert_eq!(
            elements(&view.clone().slice(0, 9, 0, 1).unwrap()),
            [0i32; 0]
        );
        assert!(view.clone().slice(1, 0, 2, -1).is_err());
        assert!(view.clone().slice(1, 1, 4, 1).is_err());
        assert!(view.clone().slice(1, 1, usize::MAX, isize::MAX).is_err());
        assert!(view.slice(2, 0, 1, 1).is_err());
    }

    #[test]
    fn broadcasting_repeats_elements() {
        let tensor = ascending(&[2, 1]);
        let view = View::new(&tensor).unwrap();
        assert_eq!(
            elements(&view.clone().broadcast([2, 2, 2]).unwrap()),
            [0, 0, 1, 1, 0, 0, 1, 1]
        );
        assert!(view.clone().broadcast([3, 2]).is_err());
        assert!(view.broadcast([2]).is_err());
        let scalar = Tensor::scalar(7i32).unwrap();
        let view = View::new(&scalar).unwrap().broadcast([3]).unwrap();
        assert_eq!(elements(&view), [7, 7, 7]);
    }

    #[test]
    fn strides_out_of_bounds_are_refused() {
        let bytes = [0; 24];
        let view = |shape: &[usize], strides: &[isize]| {
            View::strided(&bytes, DataType::F32, Shape::new(shape), strides.into())
        };
        assert!(view(&[2, 3], &[1, 2]).is_ok());
        assert!(view(&[2, 3], &[2, 2]).is_err());
        assert!(view(&[2], &[-1]).is_err());
        assert!(view(&[2], &[]).is_err());
        assert!(view(&[usize::MAX], &[isize::MAX]).is_err());
        assert!(View::strided(&bytes, DataType::U4, Shape::new([2]), vec![1]).is_err());
    }

    proptest! {
        #[test]
        fn permutations_follow_the_index(
            shape in proptest::collection::vec(0usize..4, 0..=4),
            seed in any::<u64>(),
        ) {
            let tensor = ascending(&shape);
            let mut order: Vec<usize> = (0..shape.len()).collect();
            order.sort_by_key(|&axis| seed.rotate_left(axis as u32 * 11) & 0xff);
            let view = View::new(&tensor).unwrap().permute(&order).unwrap();
            let strides = tensor.shape().strides();
            for (index, element) in elements(&view).into_iter().enumerate() {
                let mut rest = index;
                let mut position = 0;
                for &axis in order.iter().rev() {
                    position += rest % shape[axis] * strides[axis];
                    rest /= shape[axis];
                }
                prop_assert_eq!(element as usize, position);
            }
        }
    }
}
