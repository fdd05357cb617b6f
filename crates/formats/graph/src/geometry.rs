//! The arithmetic of shapes that inference and kernels share: sliding windows, slices, padding,
//! resizing, sums over labels. One definition, so that a kernel cannot disagree with the shape it
//! was given.

mod einsum;
mod resize;
mod slice;
mod suppression;
mod unique;
mod window;

pub use einsum::{Equation, Label};
pub use resize::{ResizeAxis, resize_axes};
pub use slice::{SliceAxis, padding, slice_axes, split_sizes};
pub use suppression::selected_boxes;
pub use unique::{UniqueElements, unique_elements};
pub use window::Window;
