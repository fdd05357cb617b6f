//! Tensors: data types with their exact conversions, shapes, aligned shared buffers, strided
//! views, `.npy` and `.npz`.

mod buffer;
mod convert;
mod dtype;
pub mod npy;

mod shape;
mod small_float;
mod tensor;
mod view;
pub mod whole_file;

pub use buffer::{ALIGNMENT, Buffer, BufferMut};
pub use convert::{Convert, convert, converter};
pub use dtype::{DataType, Element};
pub use shape::{Shape, TensorType};
pub use tensor::Tensor;
pub use view::View;
