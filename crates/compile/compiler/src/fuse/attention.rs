//! Attention: softmax(scale Q K' + mask) V, including the transposes that split heads.
//!
//! Exporters write it on [batch, heads, positions, width]. `tenon.Attention` reads the layout of a
//! projection, [batch, positions, heads, width], so that the transposes are removed. Where keys and
//! values have heads before positions (a cache), heads are batches instead:
//! [batch * heads, positions, 1, width] is a view of these.

use super::matmul::factor_of;
use crate::clean::perm_of;
use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, Node, ValueId};

/// Swaps heads and positions.
const HEADS: [usize; 4] = [0, 2, 1, 3];

/// Scores below this are 0 after the softmax for all other scores.
const HIDDEN: f32 = -1e4;

/// Where(condition, scores, very low) adds a mask that is 0 or very low.
pub(crate) fn additive_mask(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if node.op.name != "Softmax" {
        return Ok(Outcome::Keep);
    }
    let Some(choice) = rewriter.sole_producer_of(node, 0, "Where").cloned() else {
        return Ok(Outcome::Keep);
    };
    let &[Some(condition), Some(scores), Some(low)] = choice.inputs.as_slice() else {
        return Ok(Outcome::Keep);
    };
    let Some(output) = choice.outputs.first().copied().flatten() else {
        return Ok(Outcome::Keep);
    };
    let is_low = rewriter
        .scalar(Some(low))
        .is_some_and(|number| number <= HIDDEN);
    if !is_low || rewriter.ty(scores)? != rewriter.ty(output)? {
        return Ok(Outcome::Keep);
    }
    let zero = rewriter.add_floats(&format!("{}.zero", choice.name), [], &[0.0], low)?;
    let inputs = [Some(condition), zero, Some(low)];
    let mask = rewriter.emit(
        &format!("{}.mask", choice.name),
        "Where",
        Attributes::new(),
        &inputs,
    )?;
    let inputs = [Some(scores), Some(mask)];
    let sum = rewriter.emit(&choice.name, "Add", Attributes::new(), &inputs)?;
    let mut new = node.clone();
    new.inputs[0] = Some(sum);
    Ok(Outcome::Replace(new))
}

/// The operands of a matched pattern.
struct AttentionPattern {
    /// [batch.., positions, width]
    q: ValueId,
    /// [batch.., positions, width], not transposed.
    k: ValueId,
    /// [batch.., positions, width]
    v: ValueId,
    mask: Option<ValueId>,
    scale: f32,
}

/// The matmul of a softmax and values.
pub(crate) fn attention(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some(parts) = find(rewriter, node)? else {
        return Ok(Outcome::Keep);
    };
    let rank = rewriter.shape(parts.q)?.len();
    let heads_first = |value| heads_peeled(rewriter, value);
    if rank == 4 && heads_first(parts.k)?.is_some() && heads_first(parts.v)?.is_some() {
        return positions_first(rewriter, node, &parts);
    }
    heads_as_batches(rewriter, node, &parts)
}

/// The pattern that ends in `node`, of rank 3 or 4.
fn find(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Option<AttentionPattern>> {
    if node.op.name != "MatMul" {
        return Ok(None);
    }
    let Some(softmax) = weights(rewriter, node) else {
        return Ok(None);
    };
    let (Some(mut scores), Some(v)) = (rewriter.input(&softmax, 0), rewriter.input(node, 1)) else {
        return Ok(None);
    };
    let shape = rewriter.shape(scores)?.to_vec();
    let rank = shape.len();
    let axis = softmax.attributes.int("axis", -1)?;
    let over_last = axis == -1 || axis == rank as i64 - 1;
    if !(3..=4).contains(&rank) || !over_last || !rewriter.is_float(scores) {
        return Ok(None);
    }
    let mut mask = None;
    let mut scale = 1.0;
    // From the softmax backwards: an Add of the mask, scales, the matmul of queries and keys.
    let product = loop {
        let inner = rewriter
            .producer(scores)
            .filter(|_| rewriter.uses(scores) == 1);
        let Some(inner) = inner else { return Ok(None) };
        match inner.op.name {
            "MatMul" => break inner.clone(),
            "Add" if mask.is_none() && scale == 1.0 => {
                let Some((sum, other)) = scores_and_mask(rewriter, inner, &shape)? else {
                    return Ok(None);
                };
                (scores, mask) = (sum, Some(other));
            }
            "Mul" | "Div" => match factor_of(rewriter, inner) {
                Some((value, factor)) if rewriter.shape(value)?.to_vec() == shape => {
                    scale *= factor;
                    scores = value;
                }
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }
    };
    let (Some(q), Some(transposed)) = (rewriter.input(&product, 0), rewriter.input(&product, 1))
    else {
        return Ok(None);
    };
    let (q, factor) = unscaled(rewriter, q)?;
    scale *= factor;
    let (transposed, factor) = unscaled(rewriter, transposed)?;
    scale *= factor;
    let shapes = [q, transposed, v].map(|value| rewriter.shape(value).map(|shape| shape.to_vec()));
    let [Ok(q_shape), Ok(k_shape), Ok(v_shape)] = shapes else {
        return Ok(None);
    };
    let outer = |shape: &[usize]| shape[..shape.len().saturating_sub(2)].to_vec();
    let same = [&q_shape, &k_shape, &v_shape]
        .iter()
        .all(|s| s.len() == rank)
        && outer(&q_shape) == outer(&k_shape)
        && outer(&q_shape) == outer(&v_shape);
    if !same {
        return Ok(None);
    }
    let k = untransposed(rewriter, node, transposed)?;
    Ok(Some(AttentionPattern {
        q,
        k,
        v,
        mask,
        scale,
    }))
}

/// The softmax that produces the first input of `node`, possibly through a guard that replaces NaN,
/// the weights of a fully masked query, by 0, as the fused operator does.
fn weights(rewriter: &Rewriter<'_>, node: &Node) -> Option<Node> {
    if let Some(softmax) = rewriter.sole_producer_of(node, 0, "Softmax") {
        return Some(softmax.clone());
    }
    let guard = rewriter.sole_producer_of(node, 0, "Where")?;
    let weights = rewriter.input(guard, 2)?;
    let test = rewriter.producer_of(guard, 0, "IsNaN")?;
    let softmax = rewriter.producer_of(guard, 2, "Softmax")?;
    let guards = rewriter.input(test, 0) == Some(weights)
        && rewriter.scalar(rewriter.input(guard, 1)) == Some(0.0)
        && rewriter.uses(weights) == 2;
    guards.then(|| softmax.clone())
}

/// The operands of an Add: the scores and the mask.
fn scores_and_mask(
    rewriter: &Rewriter<'_>,
    node: &Node,
    shape: &[usize],
) -> Result<Option<(ValueId, ValueId)>> {
    let &[Some(a), Some(b)] = node.inputs.as_slice() else {
        return Ok(None);
    };
    for (scores, mask) in [(a, b), (b, a)] {
        let product = rewriter.producer(scores).is_some_and(|node| {
            matches!(node.op.name, "MatMul" | "Mul" | "Div") && rewriter.uses(scores) == 1
        });
        if product && **rewriter.shape(scores)? == *shape {
            return Ok(Some((scores, mask)));
        }
    }
    Ok(None)
}

/// The value that `value` is a multiple of, with the factor, if the pattern is its only user.
fn unscaled(rewriter: &Rewriter<'_>, value: ValueId) -> Result<(ValueId, f32)> {
    let node = rewriter
        .producer(value)
        .filter(|_| rewriter.uses(value) == 1);
    if let Some((inner, factor)) = node.and_then(|node| factor_of(rewriter, node))
        && rewriter.ty(inner)? == rewriter.ty(value)?
    {
        return Ok((inner, factor));
    }
    Ok((value, 1.0))
}

/// The keys whose last two dimensions `value` has swapped.
fn untransposed(rewriter: &mut Rewriter<'_>, node: &Node, value: ValueId) -> Result<ValueId> {
    let rank = rewriter.shape(value)?.len();
    let mut swap: Vec<usize> = (0..rank).collect();
    swap.swap(rank - 1, rank - 2);
    if let Some(transpose) = rewriter
        .producer(value)
        .filter(|node| node.op.name == "Transpose")
    {
        let perm = perm_of(rewriter, transpose)?;
        let Some(source) = rewriter.input(transpose, 0) else {
            return Ok(value);
        };
        if perm == swap {
            return Ok(source);
        }
        // Split heads and the swap in one: [batch, positions, heads, width] to keys transposed.
        if perm == [0, 2, 3, 1] {
            return rewriter.transpose(&format!("{}.keys", node.name), source, &HEADS);
        }
    }
    rewriter.transpose(&format!("{}.keys", node.name), value, &swap)
}

/// The value of [batch, positions, heads, width] before the transpose to heads first.
fn heads_peeled(rewriter: &Rewriter<'_>, value: ValueId) -> Result<Option<ValueId>> {
    match rewriter
        .producer(value)
        .filter(|node| node.op.name == "Transpose")
    {
        Some(node) if perm_of(rewriter, node)? == HEADS => Ok(rewriter.input(node, 0)),
        _ => Ok(None),
    }
}

/// Attention on the results of the projections; its result is transposed to the layout of the model.
fn positions_first(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    parts: &AttentionPattern,
) -> Result<Outcome> {
    let mut inputs = Vec::new();
    for value in [parts.q, parts.k, parts.v] {
        inputs.push(Some(match heads_peeled(rewriter, value)? {
            Some(source) => source,
            None => rewriter.transpose(&node.name, value, &HEADS)?,
        }));
    }
    inputs.extend(parts.mask.map(Some));
    let perm = crate::rewrite::perm_attributes(&HEADS);
    let mut back = rewriter.node_like(node, "Transpose", perm, Vec::new())?;
    let op = "tenon.Attention";
    let fused = rewriter.emit_for(&mut back, "heads", op, attributes(parts), &inputs)?;
    back.inputs = fused.into_iter().map(Some).collect();
    Ok(Outcome::Replace(back))
}

/// Attention with one head for each batch and head of the model.
fn heads_as_batches(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    parts: &AttentionPattern,
) -> Result<Outcome> {
    let q_shape = rewriter.shape(parts.q)?.to_vec();
    let outer = q_shape[..q_shape.len() - 2].to_vec();
    let mask = match parts.mask {
        None => None,
        Some(mask) => match mask_of_batches(rewriter, node, mask, &outer)? {
            Some(mask) => Some(Some(mask)),
            None => return Ok(Outcome::Keep),
        },
    };
    let batches: usize = outer.iter().product();
    let mut inputs = Vec::new();
    for value in [parts.q, parts.k, parts.v] {
        let shape = rewriter.shape(value)?;
        let shape = [batches, shape[shape.len() - 2], 1, shape[shape.len() - 1]];
        inputs.push(Some(rewriter.reshape(&node.name, value, &shape)?));
    }
    inputs.extend(mask);
    let Some(output) = node.outputs.first().copied().flatten() else {
        return Ok(Outcome::Keep);
    };
    let shape = rewriter.shape(output)?.to_vec();
    let mut back = node.clone();
    let op = "tenon.Attention";
    let fused = rewriter.emit_for(&mut back, "heads", op, attributes(parts), &inputs)?;
    let Some(&fused) = fused.first() else {
        return Ok(Outcome::Keep);
    };
    rewriter
        .reshaped_node(&back, fused, &shape)
        .map(Outcome::Replace)
}

/// A mask for [batch * heads, 1, positions, positions]: batches and heads of the mask must be either
/// complete or broadcast.
fn mask_of_batches(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    mask: ValueId,
    outer: &[usize],
) -> Result<Option<ValueId>> {
    let shape = rewriter.shape(mask)?.to_vec();
    let rank = outer.len() + 2;
    if shape.len() > rank {
        return Ok(None);
    }
    let mut full = vec![1; rank - shape.len()];
    full.extend(&shape);
    let (mask_outer, planes) = full.split_at(outer.len());
    let batches: usize = mask_outer.iter().product();
    if batches != 1 && batches != outer.iter().product::<usize>() {
        return Ok(None);
    }
    let new = [batches, 1, planes[0], planes[1]];
    if shape == new {
        return Ok(Some(mask));
    }
    rewriter
        .reshape(&format!("{}.mask", node.name), mask, &new)
        .map(Some)
}

fn attributes(parts: &AttentionPattern) -> Attributes {
    Attributes::new().with("scale", Attribute::Float(parts.scale))
}
