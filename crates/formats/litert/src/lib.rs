//! Import of LiteRT (TFLite) models.
//!
//! [`Model::open`] reads a file and checks its structure; [`Model::to_onnx`] converts one of its signatures to an ONNX model:
//! its operators become operators of ONNX, images with their channels last become images with their channels first, and
//! quantised tensors become pairs of QuantizeLinear and DequantizeLinear. All that an ONNX model has follows from there:
//! symbolic dimensions, constants for inputs, control flow, and the import into a graph.
//!
//! ```
//! use tenon_litert::Model;
//! let error = Model::from_bytes(b"\x08\x01".to_vec(), &Default::default()).err().unwrap();
//! assert!(error.to_string().starts_with("not a LiteRT model"));
//! ```
#![deny(unsafe_code)]

mod control;
mod convert;
mod flexbuffer;
mod interface;
mod model;
mod names;
mod node;
mod operators;
mod problems;
mod proto;
mod schema;
mod sparse;
mod tensor;

pub use convert::SIGNATURES;
pub use model::{Model, is_model};
