//! ONNX files into graphs.
//!
//! [`Model::open`] maps and decodes a file and tells its [`Signature`]; [`Model::graph`] makes of it
//! a [`Graph`](tenon_graph::Graph) of the newest operators: symbolic dimensions are filled in,
//! functions inlined, older operators upgraded, constants read. A model that cannot be imported is
//! refused with all its problems at once.
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
mod external;
mod import;
mod model;
mod order;
pub mod proto;
mod resolve;
mod scope;
mod signature;
mod tensor;
mod unsupported;
mod upgrade;
mod wire;

pub use import::Evaluator;
pub use model::{CpuCall, CutGraph, ImportOptions, Model};
pub use signature::{Dimension, Signature, ValueSignature};
pub use upgrade::{NEWEST, OLDEST};
