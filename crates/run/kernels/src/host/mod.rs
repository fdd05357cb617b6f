//! The value types of the host tensor dialects: shapes, buffers, dense, string and coordinate
//! tensors, and their printed forms (bef 4.3).

mod attribute;
mod buffer;
mod coo;
mod dense;
mod element;
pub mod float_format;
mod shape;
mod string;

pub use attribute::{Element, Elements};
pub use buffer::HostBuffer;
pub use coo::CooHostTensor;
pub use dense::DenseHostTensor;
pub use element::HostElement;
pub use shape::{PartialShape, TensorShape};
pub use string::StringHostTensor;

use tenon_base::{Error, ErrorKind, Result, bounded};

/// The error of a failed kernel; the text is that of the original where it has one (bef 4.1, 4.3).
pub(crate) fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::ExecutionFailed, message)
}

/// An empty vector with capacity for `count` elements; the error text is that of the original.
fn reserved<T>(count: usize) -> Result<Vec<T>> {
    bounded::with_capacity_within("tensor", count, usize::MAX)
        .map_err(|_| failed("Cannot allocate tensor").found(format!("{count} elements")))
}

/// `[1, 2, 3]`, as shapes, indices and values print.
struct List<T>(T);

impl<I: Iterator<Item: std::fmt::Display> + Clone> std::fmt::Display for List<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[")?;
        for (index, item) in self.0.clone().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{item}")?;
        }
        f.write_str("]")
    }
}
