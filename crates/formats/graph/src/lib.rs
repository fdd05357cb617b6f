//! The tensor graph: nodes that apply operators to values. The compiler lowers it to a program.
//!
//! One table defines the operators ([`operator`]); import, shape inference, the reference kernels, the
//! documentation and the coverage report are derived from it. Shapes are fixed, or expressions of the
//! graph's symbols ([`infer_symbolic`]).
//!
//! ```
//! use tenon_graph::{Graph, verify};
//! let mut graph: Graph = r#"
//!     graph "example" (%x: f32[2, 3]) -> (%y) {
//!       const %w: f32[3, 4] = fill 0.5
//!       %h = MatMul(%x, %w)
//!       %y = Softmax(%h) {axis = 1} @last
//!     }"#
//!     .parse()?;
//! graph.infer_types()?;
//! verify(&graph)?;
//! assert_eq!(graph.value(graph.outputs[0]).ty.as_ref().unwrap().to_string(), "f32[2, 4]");
//! # Ok::<(), tenon_base::Error>(())
//! ```
#![forbid(unsafe_code)]

mod attribute;
mod check;
pub mod control;
mod cost;
mod edit;
pub mod elementwise;
pub mod geometry;
mod graph;
pub mod host;
mod list;
mod markdown;
pub mod operator;
mod ops;
pub mod random;
mod state_pairs;
mod symbolic;
mod text;
pub mod trees;
mod verify;

pub use attribute::{Attribute, AttributeKind, Attributes};
pub use check::{
    check_attributes, check_inputs, check_node, check_outputs, check_types, infer, infer_node,
};
pub use cost::Cost;
pub use edit::UniqueNames;
pub use graph::{DataSize, DataSizeSource, Graph, Node, NodeId, SizeElements, Value, ValueId};
pub use list::{ElementShape, List, ListType};
pub use markdown::operator_table_markdown;
pub use operator::{Inference, OperatorDef};
pub use state_pairs::{StatePair, find_state_pairs, resolve_state_pairs};
pub use symbolic::{
    SymbolicOutput, check_node_sizes, check_sizes, extents_of_example, infer_symbolic, shape_for,
    size_tensor,
};
pub use verify::verify;
// The types in the signatures of this crate.
pub use tenon_tensor::{DataType, Shape, Tensor, TensorType, ValueKind};
