//! Operators of `com.microsoft` on quantized tensors and QLinearConv with groups, as onnxruntime writes models in QOperator form: DequantizeLinear of
//! each tensor, the operator of ONNX, and QuantizeLinear of its result.

use super::microsoft::{operand, renamed};
use crate::draft::{Draft, DraftNode};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Attribute, Attributes, ValueId};

#[rustfmt::skip]
pub(super) const ADAPTERS: &[(&str, super::Adapter)] = &[
    ("QGemm",                    gemm),
    ("QLinearAdd",               |draft, node| elementwise(draft, node, "Add", 2)),
    ("QLinearAveragePool",       |draft, node| pool(draft, node, "AveragePool")),
    ("QLinearConcat",            concat),
    ("QLinearGlobalAveragePool", |draft, node| pool(draft, node, "GlobalAveragePool")),
    ("QLinearLeakyRelu",         |draft, node| elementwise(draft, node, "LeakyRelu", 1)),
    ("QLinearMul",               |draft, node| elementwise(draft, node, "Mul", 2)),
    ("QLinearSigmoid",           |draft, node| elementwise(draft, node, "Sigmoid", 1)),
    ("QLinearSoftmax",           softmax),
];

/// DequantizeLinear of the tensor, scale and zero point from input `first` on; several scales are along `axis`.
fn dequantized(draft: &mut Draft, node: &DraftNode, first: usize, axis: Option<i64>) -> ValueId {
    let mut inputs: Vec<_> = (first..first + 3)
        .map(|index| operand(node, index))
        .collect();
    if inputs[2].is_none() {
        inputs.pop();
    }
    let axis = axis.map(|axis| ("axis".to_owned(), Attribute::Int(axis)));
    draft.step(
        node,
        "DequantizeLinear",
        axis.into_iter().collect(),
        &inputs,
    )
}

/// QuantizeLinear of `result` with the scale and the zero point from input `first` on. Without a zero point the type is
/// that of input 0.
fn quantized(draft: &Draft, node: DraftNode, result: ValueId, first: usize) -> DraftNode {
    let mut inputs = vec![Some(result), operand(&node, first)];
    let mut attributes = Attributes::new();
    match operand(&node, first + 1) {
        None => {
            let dtype = operand(&node, 0).and_then(|x| draft.info(x).dtype);
            if let Some(dtype) = dtype {
                attributes.set("output_dtype", Attribute::String(dtype.name().into()));
            }
        }
        zero => inputs.push(zero),
    }
    renamed(node, "QuantizeLinear", attributes, inputs)
}

/// QLinearConv with groups: a Conv between DequantizeLinear and QuantizeLinear, so that backends choose how they compute it.
/// Depthwise convolutions are fast in f32.
pub(super) fn grouped_convolution(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    if node.attributes.int("group", 1)? == 1 {
        return Ok(node);
    }
    let x = dequantized(draft, &node, 0, None);
    let w = dequantized(draft, &node, 3, Some(0));
    let mut inputs = vec![Some(x), Some(w)];
    if let Some(bias) = operand(&node, 8) {
        inputs.push(Some(dequantized_bias(draft, &node, bias, 0)));
    }
    let result = draft.step(&node, "Conv", node.attributes.clone(), &inputs);
    Ok(quantized(draft, node, result, 6))
}

/// A bias of i32 in units of the product of the scales, which are inputs 1 and 4.
fn dequantized_bias(draft: &mut Draft, node: &DraftNode, bias: ValueId, axis: i64) -> ValueId {
    let scales = [operand(node, 1), operand(node, 4)];
    let scale = draft.step(node, "Mul", Attributes::new(), &scales);
    let axis = Attributes::new().with("axis", Attribute::Int(axis));
    draft.step(node, "DequantizeLinear", axis, &[Some(bias), Some(scale)])
}

/// `operator` of the first `count` tensors, with the attributes of the node.
fn elementwise(
    draft: &mut Draft,
    node: DraftNode,
    operator: &str,
    count: usize,
) -> Result<DraftNode> {
    let operands: Vec<_> = (0..count)
        .map(|nth| Some(dequantized(draft, &node, 3 * nth, None)))
        .collect();
    let result = draft.step(&node, operator, node.attributes.clone(), &operands);
    Ok(quantized(draft, node, result, 3 * count))
}

/// A pool of images with the channels first.
fn pool(draft: &mut Draft, mut node: DraftNode, operator: &str) -> Result<DraftNode> {
    if node.attributes.flag("channels_last", false)? {
        return Err(unsupported("channels_last", 1));
    }
    node.attributes.remove("channels_last");
    elementwise(draft, node, operator, 1)
}

/// Softmax of the forms since operator set 13; before, it was over all dimensions from the axis on, which is the same for
/// the last.
fn softmax(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let version = node.attributes.int("opset", 0)?;
    let rank = operand(&node, 0).and_then(|x| draft.info(x).rank);
    let axis = node
        .attributes
        .int("axis", if version < 13 { 1 } else { -1 })?;
    let is_last = axis == -1 || rank.is_some_and(|rank| axis + 1 == rank as i64);
    if version < 13 && !is_last {
        return Err(unsupported("opset", version));
    }
    node.attributes.remove("opset");
    node.attributes.set("axis", Attribute::Int(axis));
    elementwise(draft, node, "Softmax", 1)
}

/// The scale and the zero point of the result are before the tensors.
fn concat(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let tensors = (2..node.inputs.len()).step_by(3);
    let tensors: Vec<_> = tensors
        .map(|first| Some(dequantized(draft, &node, first, None)))
        .collect();
    let result = draft.step(&node, "Concat", node.attributes.clone(), &tensors);
    Ok(quantized(draft, node, result, 0))
}

/// Gemm; C is of i32 in units of the product of the scales. Without a scale the result is not quantized.
fn gemm(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let alpha = node.attributes.float("alpha", 1.0)?;
    let a = dequantized(draft, &node, 0, None);
    let columns = i64::from(!node.attributes.flag("transB", false)?);
    let b = dequantized(draft, &node, 3, Some(columns));
    let mut inputs = vec![Some(a), Some(b)];
    if let Some(c) = operand(&node, 6) {
        if alpha != 1.0 {
            return Err(unsupported("alpha", alpha));
        }
        inputs.push(Some(dequantized_bias(draft, &node, c, -1)));
    }
    if operand(&node, 7).is_none() {
        let attributes = node.attributes.clone();
        return Ok(renamed(node, "Gemm", attributes, inputs));
    }
    let result = draft.step(&node, "Gemm", node.attributes.clone(), &inputs);
    Ok(quantized(draft, node, result, 7))
}

fn unsupported(attribute: &str, found: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unsupported, found.to_string()).at(crate::attribute::place(attribute))
}
