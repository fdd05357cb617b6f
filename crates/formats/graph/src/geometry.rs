//! Shape arithmetic shared by inference and kernels: sliding windows, slices, padding, resizing,
//! regions, Einsum equations. One definition, so that kernels and inferred shapes agree.

mod einsum;
mod grid;
mod interpolation;
mod ngrams;
mod region;
mod resize;
mod slice;
mod suppression;
mod unique;
mod window;

pub use einsum::{Equation, Label};
pub use grid::SampledAxis;
pub use interpolation::{AxisWeights, Interpolation};
pub use ngrams::{NgramGroup, NgramPool};
pub use region::{RegionSampling, RegionSide, pooled_pixels};
pub use resize::{ResizeAxis, resize_axes};
pub use slice::{SliceAxis, padding, slice_axes, split_sizes};
pub use suppression::selected_boxes;
pub use unique::{UniqueElements, unique_elements};
pub use window::Window;
