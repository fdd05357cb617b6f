//! Import of ONNX files as graphs.
//!
//! [`Model::open`] maps and decodes a file and has its [`Signature`]; [`Model::graph`] converts it to
//! a [`Graph`](tenon_graph::Graph) of the newest operators: symbolic dimensions are substituted,
//! functions inlined, older operators upgraded, constants read. All problems of a model are reported
//! together.
//!
//! ```
//! use tenon_onnx::Model;
//! let error = Model::from_bytes(b"\x08\x01", &Default::default()).err().unwrap();
//! assert_eq!(error.to_string(), "not an ONNX model: the file holds no graph");
//! ```
#![forbid(unsafe_code)]

mod attribute;
mod dimension;
mod draft;
mod dtype;
mod files;
mod import;
mod maps;
mod model;
mod order;
pub mod proto;
mod resolve;
mod scope;
mod signature;
mod tensor;
mod unsupported;
mod upgrade;
mod weights;
mod wire;

pub use import::Evaluator;
pub use model::{CpuCall, ExampleSizes, ImportOptions, Model, PartitionedGraph};
pub use signature::{Dimension, Signature, ValueSignature};
pub use tensor::tensor;
pub use upgrade::{NEWEST, OLDEST};
