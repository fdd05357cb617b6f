//! Layer and RMS normalisation that exporters write as means, differences and roots.

use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, Node, Tensor, ValueId};

/// (x - mean x) / sqrt(mean (x - mean x)^2 + epsilon) over the last dimension.
pub(crate) fn layer(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some((deviation, mean_square, epsilon)) = normalised(rewriter, node)? else {
        return Ok(Outcome::Keep);
    };
    let Some(difference) = rewriter
        .producer(deviation)
        .filter(|node| node.op.name == "Sub")
    else {
        return Ok(Outcome::Keep);
    };
    let &[Some(x), Some(mean)] = difference.inputs.as_slice() else {
        return Ok(Outcome::Keep);
    };
    let means = [
        mean_of(rewriter, mean)? == Some(x),
        is_square(rewriter, mean_square, deviation),
    ];
    if means != [true, true] {
        return Ok(Outcome::Keep);
    }
    replace(rewriter, node, "LayerNormalization", x, epsilon)
}

/// x / sqrt(mean x^2 + epsilon) over the last dimension.
pub(crate) fn root_mean_square(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    match normalised(rewriter, node)? {
        Some((x, mean_square, epsilon))
            if is_square(rewriter, mean_square, x)
                && rewriter
                    .producer(x)
                    .is_none_or(|node| node.op.name != "Sub") =>
        {
            replace(rewriter, node, "RMSNormalization", x, epsilon)
        }
        _ => Ok(Outcome::Keep),
    }
}

fn replace(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    op: &str,
    x: ValueId,
    epsilon: f32,
) -> Result<Outcome> {
    let Some(&extent) = rewriter
        .shape(x)?
        .last()
        .filter(|_| rewriter.is_fixed(x, 0))
    else {
        return Ok(Outcome::Keep);
    };
    let name = format!("{}.scale", node.name);
    let scale = rewriter.add_floats(&name, [extent], &vec![1.0; extent], x)?;
    let attributes = Attributes::new()
        .with("axis", Attribute::Int(-1))
        .with("epsilon", Attribute::Float(epsilon));
    rewriter
        .node_like(node, op, attributes, vec![Some(x), scale])
        .map(Outcome::Replace)
}

/// For v / sqrt(m + epsilon), or v times its reciprocal: v, the value of which m is the mean, and
/// epsilon.
fn normalised(rewriter: &Rewriter<'_>, node: &Node) -> Result<Option<(ValueId, ValueId, f32)>> {
    let &[Some(a), Some(b)] = node.inputs.as_slice() else {
        return Ok(None);
    };
    if !rewriter.is_float(a) {
        return Ok(None);
    }
    let sides = match node.op.name {
        "Div" => vec![(a, Some(b))],
        "Mul" => [(a, b), (b, a)]
            .into_iter()
            .map(|(value, inverse)| (value, inverted(rewriter, inverse)))
            .collect(),
        _ => return Ok(None),
    };
    for (value, root) in sides {
        let sum = root
            .and_then(|root| rewriter.producer(root))
            .filter(|node| node.op.name == "Sqrt")
            .and_then(|node| rewriter.input(node, 0))
            .and_then(|sum| rewriter.producer(sum))
            .filter(|node| node.op.name == "Add");
        let Some((mean, epsilon)) = sum.and_then(|node| rewriter.scalar_operand(node)) else {
            continue;
        };
        if let Some(of) = mean_of(rewriter, mean)? {
            return Ok(Some((value, of, epsilon)));
        }
    }
    Ok(None)
}

/// The value of which `value` is the reciprocal.
fn inverted(rewriter: &Rewriter<'_>, value: ValueId) -> Option<ValueId> {
    let node = rewriter.producer(value)?;
    match node.op.name {
        "Reciprocal" => rewriter.input(node, 0),
        "Div" if rewriter.scalar(rewriter.input(node, 0)) == Some(1.0) => rewriter.input(node, 1),
        _ => None,
    }
}

/// The value of which `value` is the mean over the last dimension with `keepdims`.
fn mean_of(rewriter: &Rewriter<'_>, value: ValueId) -> Result<Option<ValueId>> {
    let Some(node) = rewriter
        .producer(value)
        .filter(|node| node.op.name == "ReduceMean")
    else {
        return Ok(None);
    };
    let Some(input) = rewriter.input(node, 0) else {
        return Ok(None);
    };
    let last = rewriter.shape(input)?.len() as i64 - 1;
    let axes = rewriter
        .constant(rewriter.input(node, 1))
        .and_then(Tensor::to_i64s);
    let over_last = axes.is_some_and(|axes| axes == [-1] || axes == [last]);
    Ok((over_last && node.attributes.flag("keepdims", true)?).then_some(input))
}

fn is_square(rewriter: &Rewriter<'_>, value: ValueId, of: ValueId) -> bool {
    rewriter
        .producer(value)
        .is_some_and(|node| match node.op.name {
            "Mul" => node.inputs.iter().all(|input| *input == Some(of)),
            "Pow" => {
                rewriter.input(node, 0) == Some(of)
                    && rewriter.scalar(rewriter.input(node, 1)) == Some(2.0)
            }
            _ => false,
        })
}

/// Folds a scale or shift for each element of the last dimension into the normalisation.
pub(crate) fn layer_scale(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if !matches!(node.op.name, "Mul" | "Add") {
        return Ok(Outcome::Keep);
    }
    for (side, other) in [(0, 1), (1, 0)] {
        for op in ["LayerNormalization", "RMSNormalization"] {
            let Some(norm) = rewriter.sole_producer_of(node, side, op).cloned() else {
                continue;
            };
            if let Some(new) = scaled(rewriter, node, &norm, other)? {
                return Ok(Outcome::Replace(new));
            }
        }
    }
    Ok(Outcome::Keep)
}

fn scaled(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    norm: &Node,
    other: usize,
) -> Result<Option<Node>> {
    let (Some(x), Some(scale), Some(by)) = (
        rewriter.input(norm, 0),
        rewriter.input(norm, 1),
        rewriter.input(node, other),
    ) else {
        return Ok(None);
    };
    let rank = rewriter.shape(x)?.len() as i64;
    let axis = norm.attributes.int("axis", -1)?;
    let last = axis == -1 || axis == rank - 1;
    let fits = rewriter.shape(by)? == rewriter.shape(scale)?;
    if !last || !fits || rewriter.shape(x)?.len() < 2 {
        return Ok(None);
    }
    let mut new = norm.clone();
    new.outputs.clone_from(&node.outputs);
    let bias = rewriter.input(norm, 2);
    if node.op.name == "Add" {
        if bias.is_some() || norm.op.name != "LayerNormalization" {
            return Ok(None);
        }
        new.inputs.resize(3, None);
        new.inputs[2] = Some(by);
        return Ok(Some(new));
    }
    if bias.is_some() {
        return Ok(None);
    }
    let Some(old) = rewriter.floats(Some(scale)) else {
        return Ok(None);
    };
    if old.iter().all(|&element| element == 1.0) {
        new.inputs[1] = Some(by);
        return Ok(Some(new));
    }
    let Some(factor) = rewriter.floats(Some(by)) else {
        return Ok(None);
    };
    let product: Vec<f32> = old.iter().zip(factor.iter()).map(|(a, b)| a * b).collect();
    let name = format!("{}.scale", norm.name);
    new.inputs[1] = rewriter.add_floats(&name, [product.len()], &product, scale)?;
    Ok(new.inputs[1].is_some().then_some(new))
}
