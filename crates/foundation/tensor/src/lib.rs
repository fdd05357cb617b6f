//! Tensors: data types with exact conversions, shapes, aligned shared buffers, strided views,
//! `.npy` and `.npz`, and files that are replaced atomically.

pub mod atomic_file;
mod buffer;
mod buffer_pool;
mod convert;
pub mod dlpack;
mod dtype;
mod e8m0;
mod map_keys;
mod match_type;
mod model_value;
pub mod npy;
mod packing;
mod shape;
mod shared_memory;
mod signature;
pub mod size;
mod small_float;
mod strings;
mod tensor;
mod view;

pub use buffer::{ALIGNMENT, Buffer, BufferMut};
pub use buffer_pool::BufferPool;
pub use convert::{ConvertFn, convert, converter};
pub use dtype::{DataType, Element};
pub use e8m0::E8m0Rounding;
/// The 16-bit floating-point types among the elements.
pub use half::{bf16, f16};
pub use map_keys::{MapKey, MapKeys};
pub use model_value::{ModelValue, ValueKind};
pub use packing::Packing;
pub use shape::{Shape, TensorType};
pub use shared_memory::SharedMemory;
pub use signature::{Dimension, Signature};
pub use tensor::Tensor;
pub use view::View;
