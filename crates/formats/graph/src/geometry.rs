//! The arithmetic of shapes that inference and kernels share: sliding windows, slices, padding,
//! resizing, sums over labels. One definition, so that a kernel cannot disagree with the shape it
//! was given.

mod distinct;
mod einsum;
mod resize;
mod slice;
mod suppression;
mod window;

pub use distinct::{Distinct, distinct};
pub use einsum::{Equation, Label};
pub use resize::{ResizeAxis, resize_axes};
pub use slice::{SliceAxis, padding, slice_axes, split_sizes};
pub use suppression::unsuppressed;
pub use window::Window;
