//! Data movement: descriptors with strided access patterns, their checks, and their execution on
//! memory. `docs/dma.md` holds the rules where the format leaves a choice.
//!
//! ```
//! use tenon_dma::{StridedView, VariableId, copy_strided};
//! // The transpose of a 2x3 matrix of f32 is a strided copy: 3 rows of 2, read 12 bytes apart.
//! let from = StridedView::new(VariableId(0), 0, [4, 12]);
//! let to = StridedView::new(VariableId(1), 0, [8, 4]);
//! let descriptors = copy_strided(4, &[3, 2], &from, &to).unwrap();
//! assert_eq!(descriptors.len(), 1);
//! assert_eq!(descriptors[0].to.sizes[..], [4, 2, 3]);
//! ```

mod check;
mod copy_strided;
mod descriptor;
pub mod engine;
mod loops;
mod mover;
mod plan;
mod rounding;
mod simd;
mod typed;
mod walk;

pub use check::ByteRange;
pub use copy_strided::{StridedView, cast_contiguous, copy_strided};
pub use descriptor::{
    Access, Constant, Descriptor, Extents, MAX_DIMENSIONS, MAX_SOURCES, Operation, Steps,
    VariableId,
};
pub use plan::Plan;
pub use rounding::StochasticRounding;
