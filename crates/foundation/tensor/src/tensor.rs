//! A tensor: a type and its contiguous row-major bytes.

use crate::buffer::bytes_of;
use crate::{Buffer, BufferMut, DataType, Element, Shape, TensorType, strings};
use tenon_base::{Error, ErrorKind, Result};

/// A tensor in contiguous row-major layout. Cloning shares the bytes.
///
/// ```
/// use tenon_tensor::Tensor;
/// let tensor = Tensor::from_slice([2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
/// assert_eq!(tensor.ty().to_string(), "f32[2, 2]");
/// assert_eq!(tensor.as_slice::<f32>().unwrap()[2], 3.0);
/// ```
#[derive(Debug, Clone)]
pub struct Tensor {
    ty: TensorType,
    buffer: Buffer,
}

impl Tensor {
    /// A tensor over `buffer`, whose length must be that of the type; of strings see [`Tensor::from_strings`].
    pub fn new(ty: TensorType, buffer: Buffer) -> Result<Self> {
        if ty.dtype() == DataType::String {
            strings::check(&ty, &buffer)?;
            return Ok(Self { ty, buffer });
        }
        if buffer.len() != ty.bytes() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("the bytes do not fit a tensor {ty}"),
            )
            .expected(format_args!("{} bytes", ty.bytes()))
            .found(buffer.len()));
        }
        Ok(Self { ty, buffer })
    }

    /// A tensor of zeros, or of empty strings.
    pub fn zeroed(ty: TensorType) -> Result<Self> {
        let bytes = match ty.dtype() {
            DataType::String => ty.elements() * 8,
            _ => ty.bytes(),
        };
        let buffer = BufferMut::zeroed(bytes)?.freeze();
        Ok(Self { ty, buffer })
    }

    /// A tensor with a copy of `elements`.
    pub fn from_slice<T: Element>(shape: impl Into<Shape>, elements: &[T]) -> Result<Self> {
        let ty = TensorType::new(T::DATA_TYPE, shape)?;
        Self::new(ty, BufferMut::copy_of(bytes_of(elements))?.freeze())
    }

    /// A bool tensor with a copy of `elements`.
    pub fn from_bools(shape: impl Into<Shape>, elements: &[bool]) -> Result<Self> {
        let bytes: Vec<u8> = elements.iter().map(|&b| b.into()).collect();
        let ty = TensorType::new(DataType::Bool, shape)?;
        Self::new(ty, BufferMut::copy_of(&bytes)?.freeze())
    }

    /// A tensor of rank 0.
    pub fn scalar<T: Element>(value: T) -> Result<Self> {
        Self::from_slice(Shape::default(), &[value])
    }

    /// Data type and shape.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// The data type.
    pub fn dtype(&self) -> DataType {
        self.ty.dtype()
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        self.ty.shape()
    }

    /// The bytes, row-major; of strings their ends before them.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The underlying memory.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The elements, if they are of type `T` and aligned.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        if self.dtype() != T::DATA_TYPE {
            return None;
        }
        self.buffer.as_slice()
    }

    /// The same elements with another shape of the same element count.
    pub fn reshaped(&self, shape: impl Into<Shape>) -> Result<Self> {
        Self::new(TensorType::new(self.dtype(), shape)?, self.buffer.clone())
    }

    /// The elements of an integer or bool tensor as i64 (u64 above `i64::MAX` saturates); `None`
    /// for other types. For shapes, axes, indices.
    pub fn to_i64s(&self) -> Option<Vec<i64>> {
        fn all<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> i64) -> Vec<i64> {
            bytes
                .as_chunks::<N>()
                .0
                .iter()
                .map(|&chunk| read(chunk))
                .collect()
        }
        let bytes = self.bytes();
        Some(match self.dtype() {
            DataType::I64 => all(bytes, i64::from_le_bytes),
            DataType::I32 => all(bytes, |b| i32::from_le_bytes(b).into()),
            DataType::I16 => all(bytes, |b| i16::from_le_bytes(b).into()),
            DataType::I8 => all(bytes, |b| i8::from_le_bytes(b).into()),
            DataType::U64 => all(bytes, |b| {
                u64::from_le_bytes(b).try_into().unwrap_or(i64::MAX)
            }),
            DataType::U32 => all(bytes, |b| u32::from_le_bytes(b).into()),
            DataType::U16 => all(bytes, |b| u16::from_le_bytes(b).into()),
            DataType::U8 | DataType::Bool => all(bytes, |b| u8::from_le_bytes(b).into()),
            _ => return None,
        })
    }
}

impl PartialEq for Tensor {
    /// Equal type and bytes: a NaN equals itself, and zeros of opposite sign differ.
    fn eq(&self, other: &Self) -> bool {
        self.ty == other.ty && self.bytes() == other.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_length_is_refused() {
        let error = Tensor::from_slice([3], &[1i32, 2]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the bytes do not fit a tensor i32[3]: expected 12 bytes, found 8"
        );
    }

    #[test]
    fn integers_widen() {
        assert_eq!(
            Tensor::from_slice([2], &[-1i8, 5])
                .unwrap()
                .to_i64s()
                .unwrap(),
            [-1, 5]
        );
        assert_eq!(
            Tensor::from_slice([1], &[u64::MAX])
                .unwrap()
                .to_i64s()
                .unwrap(),
            [i64::MAX]
        );
        assert!(
            Tensor::from_slice([1], &[1.0f32])
                .unwrap()
                .to_i64s()
                .is_none()
        );
    }
}
