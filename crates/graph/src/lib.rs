//! The tensor graph: nodes that apply operators to values, before it is lowered to a program.
//!
//! Operators stand in one table ([`operator`]); import, shape inference, the reference kernels,
//! documentation and the coverage report are driven by it. Shapes are static.
#![forbid(unsafe_code)]

mod attribute;
pub mod geometry;
mod graph;
pub mod operator;
mod ops;

pub use attribute::{Attribute, AttributeKind, Attributes};
pub use graph::{Graph, Node, NodeId, Value, ValueId};
pub use operator::{Inference, OperatorDef};
// The types that rows of the table and nodes are made of.
pub use tenon_tensor::{DataType, Shape, Tensor, TensorType};
