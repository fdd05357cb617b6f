//! Post-training quantisation of ONNX models: an f32 model becomes a model in QDQ form, standard ONNX.
//!
//! A [`Plan`] selects the nodes that are computed in integers and the activations that are quantised for
//! them. The caller executes [`Plan::observed_model`] on calibration data, gathers a [`Histogram`] of each
//! observed activation, and gets the quantised model from [`Plan::quantized_model`]. With [`Scheme::Int4`]
//! weights alone are quantised, which needs no data.
//!
//! The rules follow those of the operators
//! [QuantizeLinear](https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html) and
//! [DequantizeLinear](https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html): activations are u8 with a
//! zero point, one scale for each tensor; weights are i8, symmetric, one scale for each output channel;
//! biases are i32 with the product of both scales. Weights of 4 bits are u4 with a scale and a zero point for each block.

#![forbid(unsafe_code)]

mod edit;
mod half;
mod index;
mod int4;
mod int8;
mod operator_sets;
mod parameters;
mod plan;
mod products;
mod range;
mod regions;
mod unread;
mod weights;

pub use plan::{Exclusions, IsolatedNode, NodeState, Plan, PlannedNode, Scheme};
pub use range::{Calibration, Histogram, Range};
