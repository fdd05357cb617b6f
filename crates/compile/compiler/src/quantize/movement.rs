//! Operators between a DequantizeLinear and a QuantizeLinear with the same parameters.

use super::{Parameters, Quantized};
use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::{Node, ValueId};

/// Operators that move the elements of their first input.
const MOVEMENTS: &[&str] = &[
    "Flatten",
    "Reshape",
    "Slice",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
    "DepthToSpace",
    "SpaceToDepth",
    "Expand",
    "Tile",
];

/// A QuantizeLinear of a DequantizeLinear with the same parameters: the tensor itself.
pub(crate) fn pair(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some((parameters, output)) = quantization(rewriter, node)? else {
        return Ok(Outcome::Keep);
    };
    let Some(x) = Quantized::of(rewriter, rewriter.input(node, 0))? else {
        return Ok(Outcome::Keep);
    };
    let is_same =
        x.parameters.equal(parameters, rewriter) && rewriter.same_type(x.bytes, output)?;
    Ok(match is_same {
        true => Outcome::Forward(vec![Some(x.bytes)]),
        false => Outcome::Keep,
    })
}

/// An operator that moves elements, between both: it moves those of the quantized tensor, which no backend has to support.
pub(crate) fn moved(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    inside(rewriter, node, |inner| match inner.op.name {
        "Concat" => inner.inputs.len(),
        name => usize::from(MOVEMENTS.contains(&name)),
    })
}

/// MaxPool between both. The order of quantized elements is that of their values, because scales are positive.
pub(crate) fn compared(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    inside(rewriter, node, |inner| {
        usize::from(inner.op.name == "MaxPool")
    })
}

/// The operator whose result `node`, a QuantizeLinear, quantizes, on quantized tensors; `operands` is the number of its
/// first inputs that are these, 0 for none.
fn inside(rewriter: &Rewriter<'_>, node: &Node, operands: fn(&Node) -> usize) -> Result<Outcome> {
    let Some((parameters, output)) = quantization(rewriter, node)? else {
        return Ok(Outcome::Keep);
    };
    let Some(x) = rewriter.input(node, 0).filter(|&x| rewriter.uses(x) == 1) else {
        return Ok(Outcome::Keep);
    };
    let Some(inner) = rewriter
        .producer(x)
        .filter(|inner| inner.outputs.len() == 1)
    else {
        return Ok(Outcome::Keep);
    };
    let count = operands(inner);
    if count == 0 {
        return Ok(Outcome::Keep);
    }
    let mut new = inner.clone();
    for input in &mut new.inputs[..count] {
        let Some(operand) = Quantized::of(rewriter, *input)? else {
            return Ok(Outcome::Keep);
        };
        let has_type = rewriter.ty(operand.bytes)?.dtype() == rewriter.ty(output)?.dtype();
        if !has_type || !operand.parameters.equal(parameters, rewriter) {
            return Ok(Outcome::Keep);
        }
        *input = Some(operand.bytes);
    }
    new.outputs.clone_from(&node.outputs);
    Ok(Outcome::Replace(new))
}

/// The parameters of a QuantizeLinear with one scale, and its output.
fn quantization(rewriter: &Rewriter<'_>, node: &Node) -> Result<Option<(Parameters, ValueId)>> {
    if node.op.name != "QuantizeLinear" {
        return Ok(None);
    }
    let parameters = Parameters::of(rewriter, node)?.filter(|it| it.axis.is_none());
    Ok(parameters.zip(node.outputs.first().copied().flatten()))
}
