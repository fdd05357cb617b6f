//! The arithmetic of shapes that inference and kernels share: sliding windows, slices, padding,
//! resizing, sums over labels. One definition, so that a kernel cannot disagree with the shape it
//! was given.

mod einsum;
mod resize;
mod slice;
mod window;

pub use einsum::{Equation, Label};
pub use resize::{ResizeAxis, resize_axes};
pub use slice::{SliceAxis, padding, slice_axes, split_sizes};
pub use window::Window;
