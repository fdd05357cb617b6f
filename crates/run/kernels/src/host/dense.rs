//! Dense host tensors.

use super::element::{name, print};
use super::{HostBuffer, HostElement, TensorShape, failed, reserved};
use std::fmt;
use tenon_base::Result;
use tenon_bef::{DType, Dense};
use tenon_executor::HostAllocator;

/// The number of values that a tensor prints.
const PRINTED: usize = 16;

/// A tensor of fixed-size elements, row-major. Clones share the elements, which kernels write in
/// place; chains order the writes.
#[derive(Debug, Clone)]
pub struct DenseHostTensor {
    dtype: DType,
    shape: TensorShape,
    buffer: HostBuffer,
}

impl DenseHostTensor {
    /// A tensor of zeros; an error when the allocator or the system has not enough memory.
    pub fn allocate<T: HostElement>(allocator: &HostAllocator, shape: TensorShape) -> Result<Self> {
        Self::allocate_as(allocator, T::DTYPE, shape)
    }

    fn allocate_as(allocator: &HostAllocator, dtype: DType, shape: TensorShape) -> Result<Self> {
        let buffer = bytes(dtype, &shape).and_then(|size| HostBuffer::allocate(allocator, size));
        let buffer = buffer.ok_or_else(|| failed("Cannot allocate tensor"))?;
        Ok(Self {
            dtype,
            shape,
            buffer,
        })
    }

    /// A tensor over `buffer`, which must have exactly its size; `kernel` is the name for the
    /// error.
    pub fn over<T: HostElement>(
        buffer: HostBuffer,
        shape: TensorShape,
        kernel: &str,
    ) -> Result<Self> {
        let dtype = T::DTYPE;
        if bytes(dtype, &shape) != Some(buffer.size()) {
            return Err(failed(format!(
                "{kernel} failed: buffer_size ({}) is not equal to the number of elements in \
                 shape ({shape}) times element size ({})",
                buffer.size(),
                size_of_element(dtype)
            )));
        }
        Ok(Self {
            dtype,
            shape,
            buffer,
        })
    }

    /// A tensor with the elements of a dense attribute.
    pub fn from_attribute(allocator: &HostAllocator, dense: &Dense) -> Result<Self> {
        let shape = TensorShape::new(dense.shape.as_slice())?;
        let tensor = Self::allocate_as(allocator, dense.dtype, shape)?;
        if tensor.buffer.size() != dense.data.len() {
            return Err(failed("a dense attribute has another size than its shape")
                .expected(format_args!("{} bytes", tensor.buffer.size()))
                .found(dense.data.len()));
        }
        tensor
            .buffer
            .write(|bytes| bytes.copy_from_slice(&dense.data));
        Ok(tensor)
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its shape.
    pub fn shape(&self) -> &TensorShape {
        &self.shape
    }

    /// Its bytes.
    pub fn buffer(&self) -> &HostBuffer {
        &self.buffer
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.buffer.size() / size_of_element(self.dtype)
    }

    /// The elements; an error when they have another type, or the system has not enough memory.
    pub fn values<T: HostElement>(&self) -> Result<Vec<T>> {
        let mut values = reserved(self.elements())?;
        self.for_each(|value: T| values.push(value))?;
        Ok(values)
    }

    /// Calls `visit` with each element; an error when they have another type.
    pub(super) fn for_each<T: HostElement>(&self, visit: impl FnMut(T)) -> Result<()> {
        self.check::<T>()?;
        let size = size_of_element(T::DTYPE);
        let read = |bytes: &[u8]| bytes.chunks_exact(size).map(T::read).for_each(visit);
        self.buffer.read(read);
        Ok(())
    }

    /// Sets all elements to `value`.
    pub fn fill<T: HostElement>(&self, value: T) -> Result<()> {
        self.check::<T>()?;
        let size = size_of_element(T::DTYPE);
        self.buffer
            .write(|bytes| bytes.chunks_exact_mut(size).for_each(|to| value.write(to)));
        Ok(())
    }

    /// Sets the elements.
    pub fn set<T: HostElement>(&self, values: &[T]) -> Result<()> {
        self.check::<T>()?;
        if values.len() != self.elements() {
            return Err(failed(format!(
                "Incorrect number of values for the tensor: {}, but expected {}",
                values.len(),
                self.elements()
            )));
        }
        let size = size_of_element(T::DTYPE);
        self.buffer.write(|bytes| {
            for (to, value) in bytes.chunks_exact_mut(size).zip(values) {
                value.write(to);
            }
        });
        Ok(())
    }

    /// Whether the shapes are equal and `same` holds for all pairs of elements.
    pub fn agrees<T: HostElement>(
        &self,
        other: &Self,
        same: impl Fn(T, T) -> bool,
    ) -> Result<bool> {
        self.check::<T>()?;
        other.check::<T>()?;
        if self.shape != other.shape {
            return Ok(false);
        }
        let size = size_of_element(T::DTYPE);
        Ok(self.buffer.read_both(&other.buffer, |mine, theirs| {
            let pairs = mine.chunks_exact(size).zip(theirs.chunks_exact(size));
            pairs.into_iter().all(|(a, b)| same(T::read(a), T::read(b)))
        }))
    }

    fn check<T: HostElement>(&self) -> Result<()> {
        if self.dtype == T::DTYPE {
            return Ok(());
        }
        Err(failed("a tensor has elements of another type")
            .expected(name(T::DTYPE))
            .found(name(self.dtype)))
    }

    /// Prints its elements, at most `limit`, as a list.
    pub(super) fn print_values(&self, f: &mut fmt::Formatter<'_>, limit: usize) -> fmt::Result {
        f.write_str("[")?;
        let size = size_of_element(self.dtype);
        self.buffer.read(|bytes| {
            let elements = bytes.chunks_exact(size);
            for (index, element) in elements.take(limit).enumerate() {
                if index > 0 {
                    f.write_str(", ")?;
                }
                print(self.dtype, element, f)?;
            }
            Ok(())
        })?;
        if self.elements() > limit {
            f.write_str(", ... ")?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for DenseHostTensor {
    /// `DenseHostTensor dtype = i32, shape = [3, 2], values = [1, 2]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DenseHostTensor dtype = {}, shape = {}, values = ",
            name(self.dtype),
            self.shape
        )?;
        self.print_values(f, PRINTED)
    }
}

/// Bytes of a tensor; `None` when they are too many, or the type has no fixed size.
fn bytes(dtype: DType, shape: &TensorShape) -> Option<usize> {
    let elements = usize::try_from(shape.elements().ok()?).ok()?;
    elements.checked_mul(dtype.size()?)
}

/// Bytes of one element. Tensors only have types of a fixed size.
fn size_of_element(dtype: DType) -> usize {
    dtype.size().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_executor::{AllocatorKind, BF16, Complex64, Complex128, F16, Log};

    fn malloc() -> HostAllocator {
        HostAllocator::new(AllocatorKind::Malloc, Log::default())
    }

    fn tensor<T: HostElement>(shape: &[i64], values: &[T]) -> DenseHostTensor {
        let shape = TensorShape::new(shape).unwrap();
        let tensor = DenseHostTensor::allocate::<T>(&malloc(), shape).unwrap();
        tensor.set(values).unwrap();
        tensor
    }

    #[test]
    fn tensors_print_in_the_published_format() {
        let text = |tensor: &DenseHostTensor| tensor.to_string();
        assert_eq!(
            text(&tensor(&[3, 2], &[1i32, -1, 1, -1, 1, -1])),
            "DenseHostTensor dtype = i32, shape = [3, 2], values = [1, -1, 1, -1, 1, -1]"
        );
        assert_eq!(
            text(&tensor(&[], &[1.0f32])),
            "DenseHostTensor dtype = f32, shape = [], values = [1.000000e+00]"
        );
        assert_eq!(
            text(&tensor(&[0], &[0u64; 0])),
            "DenseHostTensor dtype = u64, shape = [0], values = []"
        );
        assert_eq!(
            text(&tensor(&[17], &[-128i8; 17])),
            format!(
                "DenseHostTensor dtype = i8, shape = [17], values = [{}, ... ]",
                ["-128"; 16].join(", ")
            )
        );
    }

    #[test]
    fn every_type_of_element_prints() {
        let values = |tensor: DenseHostTensor| {
            let text = tensor.to_string();
            text.split_once("dtype = ")
                .unwrap()
                .1
                .replace("shape = [1], values = ", "")
        };
        assert_eq!(values(tensor(&[1], &[200u8])), "u8, [200]");
        assert_eq!(values(tensor(&[1], &[u16::MAX])), "u16, [65535]");
        assert_eq!(values(tensor(&[1], &[u32::MAX])), "u32, [4294967295]");
        assert_eq!(values(tensor(&[1], &[i16::MIN])), "i16, [-32768]");
        assert_eq!(
            values(tensor(&[1], &[i64::MIN])),
            "i64, [-9223372036854775808]"
        );
        assert_eq!(values(tensor(&[1], &[-0.5f64])), "f64, [-5.000000e-01]");
        assert_eq!(values(tensor(&[1], &[true])), "i1, [1]");
        assert_eq!(values(tensor(&[1], &[F16(0x3C00)])), "f16, [fp16(15360)]");
        assert_eq!(values(tensor(&[1], &[BF16(0x3F80)])), "bf16, [bf16(16256)]");
        let complex = Complex64 {
            real: 1.0,
            imaginary: -2.0,
        };
        assert_eq!(
            values(tensor(&[1], &[complex])),
            "complex64, [(1.000000e+00,-2.000000e+00)]"
        );
        let complex = Complex128 {
            real: 0.0,
            imaginary: 0.25,
        };
        assert_eq!(
            values(tensor(&[1], &[complex])),
            "complex128, [(0.000000e+00,2.500000e-01)]"
        );
    }

    #[test]
    fn a_tensor_without_memory_is_an_error() {
        let shape = TensorShape::new([1024]).unwrap();
        let fixed = HostAllocator::new(AllocatorKind::TestFixedSize1k, Log::new(|_, _| ()));
        for (allocator, shape) in [
            (&fixed, shape),
            (&malloc(), TensorShape::new([i64::MAX, 2]).unwrap()),
            (&malloc(), TensorShape::new([1 << 61]).unwrap()),
        ] {
            let error = DenseHostTensor::allocate::<f32>(allocator, shape).unwrap_err();
            assert_eq!(error.to_string(), "Cannot allocate tensor");
        }
        assert!(DenseHostTensor::allocate::<f32>(&fixed, TensorShape::new([32]).unwrap()).is_ok());
    }

    #[test]
    fn wrong_types_and_counts_are_errors() {
        let values = tensor(&[2], &[1i32, 2]);
        assert_eq!(
            values.set(&[1i32]).unwrap_err().to_string(),
            "Incorrect number of values for the tensor: 1, but expected 2"
        );
        assert_eq!(
            values.fill(1.0f32).unwrap_err().to_string(),
            "a tensor has elements of another type: expected f32, found i32"
        );
        let shape = TensorShape::new([3, 1]).unwrap();
        let wrong = DenseHostTensor::over::<f32>(values.buffer().clone(), shape, "dht.make_tensor");
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "dht.make_tensor failed: buffer_size (8) is not equal to the number of elements in \
             shape ([3, 1]) times element size (4)"
        );
    }

    #[test]
    fn tensors_compare_equal_and_close() {
        let equal = |a: &DenseHostTensor, b| a.agrees(b, |x: f32, y| x == y).unwrap();
        let close =
            |a: &DenseHostTensor, b, ulps| a.agrees(b, |x: f32, y| x.close(y, ulps)).unwrap();
        let one = tensor(&[1], &[1.0f32]);
        let next = tensor(&[1], &[1.0f32 + 4.0 * f32::EPSILON]);
        assert!(equal(&one, &one) && !equal(&one, &next));
        assert!(close(&one, &next, 2) && !close(&one, &next, 1));
        assert!(!close(&tensor(&[1], &[f32::NAN]), &one, 2));
        assert!(close(
            &tensor(&[1], &[0.0f32]),
            &tensor(&[1], &[1e-45f32]),
            2
        ));
        assert!(!equal(&one, &tensor(&[1, 1], &[1.0f32])));
        let complex = |imaginary| {
            tensor(
                &[],
                &[Complex128 {
                    real: 1.0,
                    imaginary,
                }],
            )
        };
        let same = |x: Complex128, y| x.close(y, 2);
        assert!(complex(1.0).agrees(&complex(1.0), same).unwrap());
        assert!(!complex(1.0).agrees(&complex(1.1), same).unwrap());
    }

    #[test]
    fn an_attribute_becomes_a_tensor() {
        let dense = Dense {
            dtype: DType::I32,
            shape: vec![2, 2],
            data: [1i32, 1, 2, 2]
                .iter()
                .flat_map(|x| x.to_le_bytes())
                .collect(),
        };
        let tensor = DenseHostTensor::from_attribute(&malloc(), &dense).unwrap();
        assert_eq!(tensor.values::<i32>().unwrap(), [1, 1, 2, 2]);
        let short = Dense {
            data: vec![0; 3],
            ..dense
        };
        assert!(DenseHostTensor::from_attribute(&malloc(), &short).is_err());
    }
}
