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

/// Whether an operator between both works on the quantized tensors themselves, which need one type then.
pub(super) fn works_on_bytes(node: &Node) -> bool {
    moved_inputs(node) > 0 || compared_inputs(node) > 0
}

/// The number of first inputs of which an operator moves the elements.
fn moved_inputs(node: &Node) -> usize {
    match node.op.name {
        "Concat" => node.inputs.len(),
        name => usize::from(MOVEMENTS.contains(&name)),
    }
}

/// The same where it compares them.
fn compared_inputs(node: &Node) -> usize {
    usize::from(node.op.name == "MaxPool")
}

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
    inside(rewriter, node, moved_inputs)
}

/// MaxPool between both. The order of quantized elements is that of their values, because scales are positive.
pub(crate) fn compared(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    inside(rewriter, node, compared_inputs)
}

/// The operator whose result `node`, a QuantizeLinear, quantizes, on quantized tensors; `operands` is the number of its
/// first inputs that are these, 0 for none.
fn inside(rewriter: &Rewriter<'_>, node: &Node, operands: fn(&Node) -> usize) -> Result<Outcome> {
    let Some((parameters, output)) = quantization(rewriter, node)? else {
        return Ok(Outcome::Keep);
    };
    let Some(inner) = quantized_alone(rewriter, node) else {
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

/// QuantizeLinear of a Concat of dequantized tensors whose parameters differ from those of the result. It is an elementwise
/// operator, so it is moved to the inputs of the Concat, which then moves bytes.
pub(crate) fn concatenated(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some((parameters, output)) = quantization(rewriter, node)? else {
        return Ok(Outcome::Keep);
    };
    let inner = quantized_alone(rewriter, node).filter(|inner| inner.op.name == "Concat");
    let Some(mut concat) = inner.cloned() else {
        return Ok(Outcome::Keep);
    };
    let dtype = rewriter.ty(output)?.dtype();
    let mut operands = Vec::with_capacity(concat.inputs.len());
    for &input in &concat.inputs {
        let Some(operand) = Quantized::of(rewriter, input)? else {
            return Ok(Outcome::Keep);
        };
        let is_same = rewriter.ty(operand.bytes)?.dtype() == dtype
            && operand.parameters.equal(parameters, rewriter);
        operands.push(is_same.then_some(operand.bytes));
    }
    for (input, operand) in concat.inputs.iter_mut().zip(operands) {
        let bytes = match operand {
            Some(bytes) => bytes,
            None => {
                let mut inputs = node.inputs.clone();
                inputs[0] = *input;
                let attributes = node.attributes.clone();
                rewriter.emit(&node.name, node.op.name, attributes, &inputs)?
            }
        };
        *input = Some(bytes);
    }
    concat.outputs.clone_from(&node.outputs);
    Ok(Outcome::Replace(concat))
}

/// The node with one output, whose result `node` alone reads.
fn quantized_alone<'r>(rewriter: &'r Rewriter<'_>, node: &Node) -> Option<&'r Node> {
    let x = rewriter.input(node, 0).filter(|&x| rewriter.uses(x) == 1)?;
    let inner = rewriter.producer(x)?;
    (inner.outputs.len() == 1).then_some(inner)
}

/// The parameters of a QuantizeLinear with one scale, and its output.
fn quantization(rewriter: &Rewriter<'_>, node: &Node) -> Result<Option<(Parameters, ValueId)>> {
    if node.op.name != "QuantizeLinear" {
        return Ok(None);
    }
    let parameters = Parameters::of(rewriter, node)?.filter(|it| it.axis.is_none());
    Ok(parameters.zip(node.outputs.first().copied().flatten()))
}
