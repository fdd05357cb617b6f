//! Identity nodes, and nodes with a simpler equivalent operator.

use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::operator::Arity;
use tenon_graph::{Attribute, Attributes, DataType, Node, Tensor, ValueId};

/// Removes data movement and arithmetic whose result is an input.
pub(crate) fn pass_through(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let (Some(input), Some(&Some(output))) = (rewriter.input(node, 0), node.outputs.first()) else {
        return Ok(Outcome::Keep);
    };
    let same_type = rewriter.same_type(input, output)?;
    let ints = |index| {
        rewriter
            .constant(rewriter.input(node, index))
            .and_then(Tensor::to_i64s)
    };
    let passes = match node.op.name {
        "Cast" | "Expand" | "Tile" => same_type,
        "Concat" => node.inputs.len() == 1,
        "Split" => node.outputs.len() == 1,
        "Slice" => {
            same_type
                && (rewriter.input(node, 4).is_none()
                    || ints(4).is_some_and(|steps| steps.iter().all(|&step| step > 0)))
        }
        "Pad" => ints(1).is_some_and(|pads| pads.iter().all(|&pad| pad == 0)),
        "Sum" | "Mean" | "Max" | "Min" => node.inputs.len() == 1,
        "Transpose" => super::views::perm_of(rewriter, node)?.is_sorted(),
        "Add" | "Sub" | "Mul" | "Div" | "Pow" => {
            return Ok(neutral(rewriter, node, output)?
                .map_or(Outcome::Keep, |value| Outcome::Forward(vec![Some(value)])));
        }
        _ => false,
    };
    Ok(if passes {
        Outcome::Forward(vec![Some(input)])
    } else {
        Outcome::Keep
    })
}

/// The other operand of an Add of 0, a Mul of 1 or another operation with its neutral element.
fn neutral(rewriter: &Rewriter<'_>, node: &Node, output: ValueId) -> Result<Option<ValueId>> {
    let commutes = matches!(node.op.name, "Add" | "Mul");
    let number = if matches!(node.op.name, "Add" | "Sub") {
        0.0
    } else {
        1.0
    };
    for (side, other) in [(1, 0), (0, 1)] {
        if side == 0 && !commutes {
            continue;
        }
        let (Some(constant), Some(other)) =
            (rewriter.input(node, side), rewriter.input(node, other))
        else {
            continue;
        };
        let one = rewriter
            .constant(Some(constant))
            .filter(|tensor| tensor.ty().elements() == 1);
        let holds = one.and_then(number_of) == Some(number);
        if holds && rewriter.same_type(other, output)? {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

fn number_of(tensor: &Tensor) -> Option<f64> {
    match tensor.dtype() {
        DataType::F32 => tensor
            .as_slice::<f32>()?
            .first()
            .map(|&number| number.into()),
        DataType::F64 => tensor.as_slice::<f64>()?.first().copied(),
        DataType::Bool => None,
        _ => tensor.to_i64s()?.first().map(|&number| number as f64),
    }
}

/// Replaces an operator by an equivalent one that is cheaper, or that more rules match.
pub(crate) fn simpler_operator(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some(input) = rewriter.input(node, 0) else {
        return Ok(Outcome::Keep);
    };
    if node.op.name == "ConstantOfShape" {
        return filled(rewriter, node, input);
    }
    let make = |op: &str, inputs| {
        rewriter
            .node_like(node, op, Attributes::new(), inputs)
            .map(Outcome::Replace)
    };
    match node.op.name {
        "CastLike" => cast(rewriter, node, input),
        "Pow" if rewriter.is_float(input) => match rewriter.scalar(rewriter.input(node, 1)) {
            _ if !same_shape(rewriter, node)? => Ok(Outcome::Keep),
            Some(2.0) => make("Mul", vec![Some(input), Some(input)]),
            Some(0.5) => make("Sqrt", vec![Some(input)]),
            _ => Ok(Outcome::Keep),
        },
        "Clip" if rewriter.is_float(input) => {
            let bound = |index| rewriter.input(node, index);
            match (bound(1), bound(2)) {
                (None, None) => Ok(Outcome::Forward(vec![Some(input)])),
                (Some(_), None) if rewriter.scalar(bound(1)) == Some(0.0) => {
                    make("Relu", vec![Some(input)])
                }
                _ => Ok(Outcome::Keep),
            }
        }
        "Concat" => without_empty(rewriter, node),
        "Sum" if node.inputs.len() == 2 => make("Add", node.inputs.clone()),
        "Max" | "Min" if node.inputs.len() == 2 && rewriter.is_float(input) => {
            bound(rewriter, node)
        }
        _ => Ok(Outcome::Keep),
    }
}

/// A CastLike, whose second operand provides a type alone, becomes a Cast.
fn cast(rewriter: &Rewriter<'_>, node: &Node, input: ValueId) -> Result<Outcome> {
    let Some(like) = rewriter.input(node, 1) else {
        return Ok(Outcome::Keep);
    };
    let to = rewriter.ty(like)?.dtype().name().to_owned();
    let attributes = node.attributes.clone();
    let attributes = attributes.with("to", Attribute::String(to));
    rewriter
        .node_like(node, "Cast", attributes, vec![Some(input)])
        .map(Outcome::Replace)
}

/// A ConstantOfShape too large to be stored becomes an Expand of one element.
fn filled(rewriter: &mut Rewriter<'_>, node: &Node, shape: ValueId) -> Result<Outcome> {
    let fill = match node.attributes.tensor("value")? {
        Some(tensor) => tensor.reshaped(Vec::new())?,
        None => Tensor::scalar(0.0f32)?,
    };
    let fill = rewriter.add_constant(&format!("{}.fill", node.name), fill);
    let inputs = vec![Some(fill), Some(shape)];
    rewriter
        .node_like(node, "Expand", Attributes::new(), inputs)
        .map(Outcome::Replace)
}

fn same_shape(rewriter: &Rewriter<'_>, node: &Node) -> Result<bool> {
    Ok(match (node.inputs.first(), node.outputs.first()) {
        (Some(&Some(input)), Some(&Some(output))) => {
            rewriter.shape(input)? == rewriter.shape(output)?
        }
        _ => false,
    })
}

/// Max and Min with a scalar become Clip.
fn bound(rewriter: &Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some((value, _)) = rewriter.scalar_operand(node) else {
        return Ok(Outcome::Keep);
    };
    let output = node.outputs.first().copied().flatten();
    if output.is_none_or(|output| rewriter.ty(output).ok() != rewriter.ty(value).ok()) {
        return Ok(Outcome::Keep);
    }
    let limit = node
        .inputs
        .iter()
        .copied()
        .flatten()
        .find(|&id| id != value);
    let inputs = if node.op.name == "Max" {
        vec![Some(value), limit]
    } else {
        vec![Some(value), None, limit]
    };
    rewriter
        .node_like(node, "Clip", Attributes::new(), inputs)
        .map(Outcome::Replace)
}

fn without_empty(rewriter: &Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for &input in node.inputs.iter() {
        if let Some(id) = input
            && rewriter.ty(id)?.elements() > 0
        {
            inputs.push(input);
        }
    }
    if inputs.is_empty() || inputs.len() == node.inputs.len() {
        return Ok(Outcome::Keep);
    }
    rewriter
        .node_like(node, "Concat", node.attributes.clone(), inputs)
        .map(Outcome::Replace)
}

/// Removes unused optional outputs, so that they are not computed.
pub(crate) fn unused_outputs(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let unused = |(index, output): (usize, &Option<ValueId>)| {
        let optional = node
            .op
            .outputs
            .get(index)
            .is_some_and(|def| def.arity == Arity::Optional);
        optional && output.is_some_and(|output| rewriter.uses(output) == 0)
    };
    if !node.outputs.iter().enumerate().any(unused) {
        return Ok(Outcome::Keep);
    }
    let mut new = node.clone();
    for (index, output) in node.outputs.iter().enumerate() {
        if unused((index, output)) {
            new.outputs[index] = None;
        }
    }
    while new.outputs.last().is_some_and(Option::is_none) {
        new.outputs.pop();
    }
    Ok(Outcome::Replace(new))
}

/// Makes the default fill value of a Pad explicit, so that a descriptor can read it.
pub(crate) fn explicit_fill(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if node.op.name != "Pad"
        || rewriter.input(node, 2).is_some()
        || node.attributes.string("mode", "constant")? != "constant"
    {
        return Ok(Outcome::Keep);
    }
    let Some(input) = rewriter.input(node, 0) else {
        return Ok(Outcome::Keep);
    };
    let ty = tenon_graph::TensorType::new(rewriter.ty(input)?.dtype(), Vec::new())?;
    if ty.bytes() == 0 {
        return Ok(Outcome::Keep);
    }
    let zero = rewriter.add_constant(&format!("{}.fill", node.name), Tensor::zeroed(ty)?);
    let mut new = node.clone();
    new.inputs.resize(new.inputs.len().max(3), None);
    new.inputs[2] = Some(zero);
    Ok(Outcome::Replace(new))
}
