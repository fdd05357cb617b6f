//! The ops (facts 3), one function each, over whole tensors.

mod copying;
mod dropout;
mod elements;
mod embedding;
mod fused;
mod matmul;
mod quantise;
mod reduce;
mod sparse;
mod splice;
mod topk;

pub use copying::copy;
pub use dropout::dropout;
pub use elements::{add, maximum, multiply, relu, subtract, unary};
pub use embedding::embedding;
pub use fused::fused;
pub use matmul::{Product, depthwise, matmul};
pub use quantise::{dequantization, quantization, requantization};
pub use reduce::{Along, reduce};
pub use sparse::{Sparse, sparse_matmul};
pub use splice::{Part, splice};
pub use topk::topk;

use crate::format;
use crate::tensor::Tensor;
use std::borrow::Borrow;
use tenon_base::{Error, ErrorKind, Result};
use tenon_netlist::{AttributeKey as Key, AttributeValue, Attributes, FusedOp, Op, OpKind};

/// What an op is computed with.
pub struct Context<'n> {
    /// The op.
    pub op: &'n Op,
    /// The fused op it names.
    pub fused: Option<&'n FusedOp>,
    /// Whether the tiles are small, so that the special-function unit computes all of each.
    pub small_tiles: bool,
}

/// What an op makes of its inputs, before relu and rounding, and the faults met on the way.
pub fn compute<T: Borrow<Tensor>>(
    context: &Context<'_>,
    inputs: &[T],
    faults: &mut Vec<Fault>,
) -> Result<Tensor> {
    let op = context.op;
    let attributes = &op.attributes;
    let input = |index: usize| {
        let input = inputs.get(index).map(Borrow::borrow);
        input.ok_or_else(|| wrong(op, format!("input {index} is missing")))
    };
    match op.kind.value {
        OpKind::Matmul if attributes.is(Key::Identity) => {
            let sparse = Sparse::of(op);
            let bias = attributes.is(Key::Bias).then(|| input(3)).transpose()?;
            sparse_matmul(&sparse, input(0)?, input(1)?, input(2)?, bias)
                .map_err(|why| wrong(op, why))
        }
        OpKind::Matmul => matmul(&Product::of(op), inputs).map_err(|why| wrong(op, why)),
        OpKind::Depthwise => {
            let bias = attributes.is(Key::Bias).then(|| input(2)).transpose()?;
            depthwise(input(0)?, input(1)?, bias).map_err(|why| wrong(op, why))
        }
        OpKind::Splice => {
            let parts = Part::of(op).map_err(|why| wrong(op, why))?;
            splice(op, &parts, inputs).map_err(|why| wrong(op, why))
        }
        OpKind::Embedding => {
            let count = usize::try_from(attributes.integer(Key::NumIndices)).unwrap_or(0);
            let grid = op.blocking.grid_size.value[0] as usize;
            embedding(input(0)?, input(1)?, count, grid).map_err(|why| wrong(op, why))
        }
        OpKind::Topk => {
            let k = usize::try_from(attributes.integer(Key::K)).unwrap_or(0);
            let parts = op.blocking.grid_size.value[1] as usize;
            let places = attributes.word(Key::Sort) == Some("argmax");
            topk(input(0)?, input(1)?, k, parts, places).map_err(|why| wrong(op, why))
        }
        OpKind::FusedOp => {
            let fused_op = context
                .fused
                .ok_or_else(|| wrong(op, "its fused op is missing"))?;
            fused(context, fused_op, inputs, faults)
        }
        OpKind::Tilizer => Ok(copy(input(0)?)),
        OpKind::Buffer | OpKind::Drainer => Err(wrong(
            op,
            format!("type {} computes nothing", op.kind.value),
        )),
        kind => simple(kind, attributes, inputs, context.small_tiles, None, faults)
            .map_err(|why| wrong(op, why)),
    }
}

/// Ops that work element by element or along a dimension, alone or inside a fused op. `old` is what
/// the output held before: elements that the special-function unit leaves out keep it.
fn simple<T: Borrow<Tensor>>(
    kind: OpKind,
    attributes: &Attributes,
    inputs: &[T],
    small_tiles: bool,
    old: Option<&Tensor>,
    faults: &mut Vec<Fault>,
) -> Result<Tensor, String> {
    let input = |index: usize| input_of(inputs, index);
    let zero_point = attributes.number(Key::ZeroPoint).unwrap_or(0.0) as f32;
    if kind.is_binary() {
        let (a, b) = (input(0)?, input(1)?);
        if a.shape() != b.shape() {
            return Err(format!(
                "inputs of shapes {:?} and {:?}",
                a.shape(),
                b.shape()
            ));
        }
        return Ok(match kind {
            OpKind::Add => add(a, b),
            OpKind::Subtract => subtract(a, b),
            OpKind::Multiply => multiply(a, b),
            OpKind::Maximum => maximum(a, b),
            OpKind::Quantization => quantization(a, b, zero_point),
            OpKind::Requantization => requantization(a, b, zero_point),
            _ => dequantization(a, b, zero_point),
        });
    }
    if kind.is_sfpu() {
        let vector = match small_tiles {
            true => None,
            false => attributes.word(Key::Vector).filter(|word| *word != "rc"),
        };
        return unary(kind, attributes, input(0)?, vector, old, faults);
    }
    match kind {
        OpKind::Reduce => {
            let along = Along::of(attributes)?;
            reduce(along, input(0)?)
        }
        _ if kind.is_copy() => Ok(copy(input(0)?)),
        _ => Err(format!("type {kind} has no place here")),
    }
}

/// An input, or that it is missing.
fn input_of<T: Borrow<Tensor>>(inputs: &[T], index: usize) -> Result<&Tensor, String> {
    let input = inputs.get(index).map(Borrow::borrow);
    input.ok_or(format!("input {index} is missing"))
}

/// What relu an op asks for, if any.
pub fn relu_of(attributes: &Attributes) -> Option<(f32, bool)> {
    attributes.is(Key::ReluEn).then(|| {
        let threshold = attributes.number(Key::ReluThreshold).unwrap_or(0.0) as f32;
        let mode = attributes.word(Key::ReluMode).unwrap_or("none");
        (threshold, mode.eq_ignore_ascii_case("max"))
    })
}

/// A fault of the numbers, not of the netlist: it is told, and the run goes on (facts 10.12).
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// What happened.
    pub what: &'static str,
    /// The element of the op's output.
    pub element: usize,
    /// What was computed on.
    pub value: f32,
}

fn wrong(op: &Op, why: impl Into<String>) -> Error {
    Error::new(
        ErrorKind::ExecutionFailed,
        format!("op '{}': {}", op.name.value, why.into()),
    )
}

/// A list of three integers, as splice has them.
fn triple(value: &AttributeValue) -> Option<[usize; 3]> {
    let AttributeValue::List(parts) = value else {
        return None;
    };
    let parts: Option<Vec<usize>> = parts
        .iter()
        .map(|part| usize::try_from(*part).ok())
        .collect();
    parts?.try_into().ok()
}

/// Rounds a result that lands in a buffer of integers.
fn to_integers(tensor: Tensor, format: tenon_netlist::DataFormat) -> Tensor {
    match format {
        tenon_netlist::DataFormat::Int8 => tensor.map(1, format::int8),
        tenon_netlist::DataFormat::Int32 => tensor.map(1, format::int32),
        _ => tensor,
    }
}

#[cfg(test)]
mod tests;
