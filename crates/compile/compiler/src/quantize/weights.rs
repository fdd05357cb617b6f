//! Matmuls with quantized weights alone.

use super::products::{bias_of_plain, right_operand};
use super::{WEIGHT_ONLY, is_weight_type};
use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, Node, ValueId};

/// MatMul and Gemm of a floating-point tensor and dequantized constant weights.
pub(crate) fn matmul(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let (Some(a), true) = (
        rewriter.input(node, 0),
        matches!(node.op.name, "MatMul" | "Gemm"),
    ) else {
        return Ok(Outcome::Keep);
    };
    let Some((right, turned)) = right_operand(rewriter, node)? else {
        return Ok(Outcome::Keep);
    };
    let producer = rewriter.producer(right);
    let Some(dequantize) = producer
        .filter(|node| node.op.name == "DequantizeLinear")
        .cloned()
    else {
        return Ok(Outcome::Keep);
    };
    let fits = rewriter.constant(Some(a)).is_none()
        && rewriter.shape(a)?.len() >= 2
        && rewriter.ty(a)?.dtype() == rewriter.ty(right)?.dtype();
    let Some(block) = block_of(rewriter, &dequantize, turned)?.filter(|_| fits) else {
        return Ok(Outcome::Keep);
    };
    let Some(bias) = bias_of_plain(rewriter, node)? else {
        return Ok(Outcome::Keep);
    };
    let mut attributes = Attributes::new();
    if turned {
        attributes.set("trans_b", Attribute::Int(1));
    }
    if block > 0 {
        attributes.set("block_size", Attribute::Int(block));
    }
    let of_weights = [0, 1, 2].map(|index| rewriter.input(&dequantize, index));
    let mut inputs = [&[Some(a)][..], &of_weights, &[bias]].concat();
    while inputs.last().is_some_and(Option::is_none) {
        inputs.pop();
    }
    rewriter
        .node_like(node, WEIGHT_ONLY, attributes, inputs)
        .map(Outcome::Replace)
}

/// The attribute `block_size` of a DequantizeLinear of constant weights; `None` where an operator on the weights has no such
/// scales: `turned` are the columns of the first dimension.
fn block_of(rewriter: &Rewriter<'_>, node: &Node, turned: bool) -> Result<Option<i64>> {
    let constants = [0, 1, 2].map(|index| rewriter.input(node, index));
    let [Some(weights), Some(scale), zero] = constants else {
        return Ok(None);
    };
    let mut all = [Some(weights), Some(scale), zero].into_iter().flatten();
    let known = all.all(|value: ValueId| rewriter.constant(Some(value)).is_some());
    let is_integer = is_weight_type(rewriter.ty(weights)?.dtype());
    let output = node.outputs.first().copied().flatten();
    let same_type = match output {
        Some(output) => rewriter.ty(output)?.dtype() == rewriter.ty(scale)?.dtype(),
        None => false,
    };
    if !known || !is_integer || !same_type || rewriter.shape(weights)?.len() != 2 {
        return Ok(None);
    }
    let block = node.attributes.int("block_size", 0)?;
    let axis = node.attributes.int("axis", 1)?.rem_euclid(2);
    // With blocks the axis is along K, else along the columns.
    let expected = i64::from(turned == (block > 0));
    let is_one = rewriter.ty(scale)?.elements() == 1 && block == 0;
    Ok((is_one || axis == expected).then_some(block))
}
