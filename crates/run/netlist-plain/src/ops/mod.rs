//! The ops (netlist 3.1), one function per op, on whole tensors.

mod copying;
mod dropout;
mod elementwise;
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
pub use elementwise::{add, maximum, multiply, relu, subtract, unary};
pub use embedding::embedding;
pub use fused::fused;
pub use matmul::{MatmulOptions, depthwise, matmul};
pub use quantise::{dequantization, quantization, requantization};
pub use reduce::{ReduceDimension, reduce};
pub use sparse::{SparseSizes, sparse_matmul};
pub use splice::{SplicePart, splice};
pub use topk::topk;

use crate::error::{failed, of_op};
use crate::tensor::Tensor;
use std::borrow::Borrow;
use tenon_base::Result;
use tenon_netlist::{AttributeKey as Key, AttributeValue, Attributes, FusedOp, Op, OpKind};

/// The context of the computation of an op.
pub struct Context<'n> {
    /// The op.
    pub op: &'n Op,
    /// Its fused op.
    pub fused: Option<&'n FusedOp>,
    /// Whether the tiles are small, so that vector modes have no effect.
    pub small_tiles: bool,
}

/// Computes an op, without ReLU and rounding of the output, and collects numerical faults.
pub fn compute<T: Borrow<Tensor>>(
    context: &Context<'_>,
    inputs: &[T],
    faults: &mut Faults,
) -> Result<Tensor> {
    output_of(context, inputs, faults).map_err(|error| of_op(context.op, error))
}

fn output_of<T: Borrow<Tensor>>(
    context: &Context<'_>,
    inputs: &[T],
    faults: &mut Faults,
) -> Result<Tensor> {
    let op = context.op;
    let attributes = &op.attributes;
    let input = |index: usize| input_of(inputs, index);
    match op.kind.value {
        OpKind::Matmul if attributes.is(Key::Identity) => {
            let sparse = SparseSizes::of(op);
            let bias = attributes.is(Key::Bias).then(|| input(3)).transpose()?;
            sparse_matmul(&sparse, input(0)?, input(1)?, input(2)?, bias)
        }
        OpKind::Matmul => matmul(&MatmulOptions::of(op), inputs),
        OpKind::Depthwise => {
            let bias = attributes.is(Key::Bias).then(|| input(2)).transpose()?;
            depthwise(input(0)?, input(1)?, bias)
        }
        OpKind::Splice => {
            let parts = SplicePart::of(op)?;
            splice(op, &parts, inputs)
        }
        OpKind::Embedding => {
            let count = usize::try_from(attributes.integer(Key::NumIndices)).unwrap_or(0);
            let grid = op.blocking.grid_size.value[0] as usize;
            embedding(input(0)?, input(1)?, count, grid)
        }
        OpKind::Topk => {
            let k = usize::try_from(attributes.integer(Key::K)).unwrap_or(0);
            let parts = op.blocking.grid_size.value[1] as usize;
            let returns_indices = attributes.word(Key::Sort) == Some("argmax");
            topk(input(0)?, input(1)?, k, parts, returns_indices)
        }
        OpKind::FusedOp => {
            let fused_op = context.fused;
            let fused_op = fused_op.ok_or_else(|| failed("its fused op is missing"))?;
            fused(context, fused_op, inputs, faults)
        }
        OpKind::Tilizer => copy(input(0)?),
        OpKind::Buffer | OpKind::Drainer => {
            Err(failed(format!("{} has no implementation", op.kind.value)))
        }
        kind => simple(kind, attributes, inputs, context.small_tiles, None, faults),
    }
}

/// Elementwise ops, copies and reductions, alone or in a fused op. `old` is the previous content of
/// the output, for elements that a vector mode does not compute.
fn simple<T: Borrow<Tensor>>(
    kind: OpKind,
    attributes: &Attributes,
    inputs: &[T],
    small_tiles: bool,
    old: Option<&Tensor>,
    faults: &mut Faults,
) -> Result<Tensor> {
    let input = |index: usize| input_of(inputs, index);
    let zero_point = attributes.number(Key::ZeroPoint).unwrap_or(0.0) as f32;
    if kind.is_binary() {
        let (a, b) = (input(0)?, input(1)?);
        if a.shape() != b.shape() {
            return Err(failed(format!(
                "the inputs have different shapes, {:?} and {:?}",
                a.shape(),
                b.shape()
            )));
        }
        return match kind {
            OpKind::Add => add(a, b),
            OpKind::Subtract => subtract(a, b),
            OpKind::Multiply => multiply(a, b),
            OpKind::Maximum => maximum(a, b),
            OpKind::Quantization => quantization(a, b, zero_point),
            OpKind::Requantization => requantization(a, b, zero_point),
            _ => dequantization(a, b, zero_point),
        };
    }
    if kind.is_sfpu() {
        let vector = attributes
            .word(Key::Vector)
            .filter(|word| *word != "rc" && !small_tiles);
        return unary(kind, attributes, input(0)?, vector, old, faults);
    }
    match kind {
        OpKind::Reduce => {
            let dimension = ReduceDimension::of(attributes)?;
            reduce(dimension, input(0)?)
        }
        _ if kind.is_copy() => copy(input(0)?),
        _ => Err(failed(format!("{kind} is not supported here"))),
    }
}

/// An input by index.
fn input_of<T: Borrow<Tensor>>(inputs: &[T], index: usize) -> Result<&Tensor> {
    let input = inputs.get(index).map(Borrow::borrow);
    input.ok_or_else(|| failed(format!("input {index} is missing")))
}

/// The ReLU of an op: the threshold, and whether its mode is max.
pub fn relu_of(attributes: &Attributes) -> Option<(f32, bool)> {
    attributes.is(Key::ReluEn).then(|| {
        let threshold = attributes.number(Key::ReluThreshold).unwrap_or(0.0) as f32;
        let mode = attributes.word(Key::ReluMode).unwrap_or("none");
        (threshold, mode.eq_ignore_ascii_case("max"))
    })
}

/// A numerical fault: it is reported, and the run continues (netlist 3.1).
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The description.
    pub what: &'static str,
    /// The index of the element of the output.
    pub element: usize,
    /// The operand.
    pub value: f32,
}

/// The numerical faults of an op.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Faults {
    /// The first fault.
    pub first: Option<Fault>,
    /// The number of faults.
    pub count: u64,
}

impl Faults {
    fn record(&mut self, fault: Fault) {
        self.first.get_or_insert(fault);
        self.count += 1;
    }
}

/// A list of three integers, the parameter of a splice.
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

#[cfg(test)]
mod tests;
