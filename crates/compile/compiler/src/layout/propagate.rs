//! Operators that work in any layout: a transpose before them moves behind them.

use super::{
    RANKS, channels_last, moved_axis, to_channels_last, to_first, to_last, transposed_back,
};
use crate::rewrite::{Outcome, Rewriter, perm_attributes};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, Node, Tensor, ValueId};

/// Elementwise operators; inputs of other shapes are broadcast.
const ELEMENTWISE: &[&str] = &[
    "Abs",
    "Add",
    "And",
    "Cast",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "DequantizeLinear",
    "Div",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "Greater",
    "GreaterOrEqual",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Less",
    "LessOrEqual",
    "Log",
    "Max",
    "Mean",
    "Min",
    "Mish",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "PRelu",
    "Pow",
    "QuantizeLinear",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Sub",
    "Sum",
    "Swish",
    "Tanh",
    "ThresholdedRelu",
    "Where",
    "Xor",
];

/// Elementwise operators. Scalars stay; constants are transposed at compile time.
pub(crate) fn elementwise(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some(output) = node.outputs.first().copied().flatten() else {
        return Ok(Outcome::Keep);
    };
    let rank = rewriter.shape(output)?.len();
    if !ELEMENTWISE.contains(&node.op.name)
        || !RANKS.contains(&rank)
        || !leads(rewriter, node, rank)?
    {
        return Ok(Outcome::Keep);
    }
    let mut attributes = node.attributes.clone();
    // Only scalar scales: per-channel ones would need their axis moved.
    if matches!(node.op.name, "QuantizeLinear" | "DequantizeLinear") {
        for &extra in node.inputs.iter().skip(1).flatten() {
            if rewriter.ty(extra)?.elements() != 1 {
                return Ok(Outcome::Keep);
            }
        }
        attributes.remove("axis");
    }
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for &input in &node.inputs {
        inputs.push(match input {
            Some(value) if rewriter.ty(value)?.elements() != 1 => {
                Some(broadcast(rewriter, node, value, rank)?)
            }
            other => other,
        });
    }
    transposed_back(rewriter, node, node.op.name, attributes, &inputs)
}

/// Whether an input of the output's rank is a transposed channels-last value. With one spatial
/// dimension every swap of the last two dimensions is such a transpose, those of transformers too: no
/// other input may then require a new one when executing.
fn leads(rewriter: &Rewriter<'_>, node: &Node, rank: usize) -> Result<bool> {
    let mut leads = false;
    for &input in node.inputs.iter().flatten() {
        let last = channels_last(rewriter, input)?.is_some();
        leads |= last;
        let constant = rewriter.constant(Some(input)).is_some();
        if rank == 3 && !last && !constant && rewriter.ty(input)?.elements() != 1 {
            return Ok(false);
        }
    }
    Ok(leads)
}

/// An operand of at most `rank` dimensions with channels last.
fn broadcast(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    value: ValueId,
    rank: usize,
) -> Result<ValueId> {
    let shape = rewriter.shape(value)?.to_vec();
    if shape.len() == rank {
        return to_channels_last(rewriter, node, value);
    }
    let mut full = vec![1; rank - shape.len()];
    full.extend(shape);
    let value = rewriter.reshape(&node.name, value, &full)?;
    rewriter.transpose(&node.name, value, &to_last(rank))
}

/// Concat, Softmax, Slice, Pad and Resize: axes are mapped, lists over all axes permuted.
pub(crate) fn along_axes(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some(x) = rewriter.input(node, 0) else {
        return Ok(Outcome::Keep);
    };
    let known = matches!(
        node.op.name,
        "Concat" | "Softmax" | "LogSoftmax" | "Slice" | "Pad" | "Resize"
    );
    let rank = rewriter.shape(x)?.len();
    if !known || !RANKS.contains(&rank) || !leads(rewriter, node, rank)? {
        return Ok(Outcome::Keep);
    }
    let all_axes = 0..rank as i64;
    let mut attributes = node.attributes.clone();
    let mut inputs = node.inputs.clone();
    match node.op.name {
        "Concat" | "Softmax" | "LogSoftmax" => {
            let Some(axis) = moved_axis(node.attributes.int("axis", -1)?, rank) else {
                return Ok(Outcome::Keep);
            };
            // The rule `softmax` would transpose it again.
            if rank == 3 && node.op.name != "Concat" && axis + 1 != rank as i64 {
                return Ok(Outcome::Keep);
            }
            attributes.set("axis", Attribute::Int(axis));
            for input in &mut inputs {
                if let Some(value) = *input {
                    *input = Some(to_channels_last(rewriter, node, value)?);
                }
            }
            return transposed_back(rewriter, node, node.op.name, attributes, &inputs);
        }
        "Slice" => {
            let starts = ints(rewriter, node, 1).map_or(0, |starts| starts.len());
            let axes = ints(rewriter, node, 3).unwrap_or_else(|| (0..starts as i64).collect());
            let Some(axes) = moved_axes(&axes, rank) else {
                return Ok(Outcome::Keep);
            };
            inputs.resize(inputs.len().max(4), None);
            inputs[3] = Some(int_constant(rewriter, node, "axes", &axes)?);
        }
        "Pad" => {
            let axes = ints(rewriter, node, 3).unwrap_or_else(|| all_axes.collect());
            let Some(axes) = moved_axes(&axes, rank) else {
                return Ok(Outcome::Keep);
            };
            inputs.resize(4, None);
            inputs[3] = Some(int_constant(rewriter, node, "axes", &axes)?);
        }
        _ => {
            // Resize: without axes, the lists cover all four.
            let axes = node.attributes.ints("axes")?;
            let axes = match axes {
                None | Some([]) => all_axes.collect(),
                Some(axes) => axes.to_vec(),
            };
            let Some(axes) = moved_axes(&axes, rank) else {
                return Ok(Outcome::Keep);
            };
            attributes.set("axes", Attribute::Ints(axes));
        }
    }
    inputs[0] = Some(to_channels_last(rewriter, node, x)?);
    transposed_back(rewriter, node, node.op.name, attributes, &inputs)
}

fn ints(rewriter: &Rewriter<'_>, node: &Node, index: usize) -> Option<Vec<i64>> {
    rewriter
        .constant(rewriter.input(node, index))
        .and_then(Tensor::to_i64s)
}

fn moved_axes(axes: &[i64], rank: usize) -> Option<Vec<i64>> {
    axes.iter().map(|&axis| moved_axis(axis, rank)).collect()
}

fn int_constant(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    what: &str,
    list: &[i64],
) -> Result<ValueId> {
    let tensor = Tensor::from_slice([list.len()], list)?;
    Ok(rewriter.add_constant(&format!("{}.{what}", node.name), tensor))
}

/// Reductions. Without the reduced dimensions, the others must stay in order.
pub(crate) fn reduction(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some(x) = rewriter.input(node, 0) else {
        return Ok(Outcome::Keep);
    };
    let by_attribute = matches!(node.op.name, "ArgMax" | "ArgMin");
    let rank = rewriter.shape(x)?.len();
    if !(by_attribute || node.op.name.starts_with("Reduce")) || !RANKS.contains(&rank) {
        return Ok(Outcome::Keep);
    }
    let Some(source) = channels_last(rewriter, x)? else {
        return Ok(Outcome::Keep);
    };
    let axes = if by_attribute {
        vec![node.attributes.int("axis", 0)?]
    } else {
        match ints(rewriter, node, 1) {
            Some(axes) if !axes.is_empty() => axes,
            _ => return Ok(Outcome::Keep),
        }
    };
    let Some(axes) = moved_axes(&axes, rank) else {
        return Ok(Outcome::Keep);
    };
    let mut attributes = node.attributes.clone();
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(source);
    if by_attribute {
        attributes.set("axis", Attribute::Int(axes[0]));
    } else {
        inputs[1] = Some(int_constant(rewriter, node, "axes", &axes)?);
    }
    if node.attributes.flag("keepdims", true)? {
        return transposed_back(rewriter, node, node.op.name, attributes, &inputs);
    }
    // Positions in [N, spatial..., C] of the kept dimensions, in the order of [N, C, spatial...].
    let kept: Vec<i64> = to_first(rank)
        .into_iter()
        .map(|axis| axis as i64)
        .filter(|axis| !axes.contains(axis))
        .collect();
    if !kept.is_sorted() {
        return Ok(Outcome::Keep);
    }
    let new = rewriter.node_like(node, node.op.name, attributes, inputs)?;
    Ok(Outcome::Replace(new))
}

/// Split: a transpose for each part.
pub(crate) fn split(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some(x) = rewriter.input(node, 0) else {
        return Ok(Outcome::Keep);
    };
    let rank = rewriter.shape(x)?.len();
    if node.op.name != "Split" || !RANKS.contains(&rank) {
        return Ok(Outcome::Keep);
    }
    let (Some(source), Some(axis)) = (
        channels_last(rewriter, x)?,
        moved_axis(node.attributes.int("axis", 0)?, rank),
    ) else {
        return Ok(Outcome::Keep);
    };
    let mut attributes = node.attributes.clone();
    attributes.set("axis", Attribute::Int(axis));
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(source);
    let parts = rewriter.emit_for(&mut node.clone(), "nchw", "Split", attributes, &inputs)?;
    let mut values = Vec::with_capacity(parts.len());
    for part in parts {
        let back = rewriter.transpose(&format!("{}.nchw", node.name), part, &to_first(rank))?;
        values.push(Some(back));
    }
    Ok(Outcome::Forward(values))
}

/// Softmax along another dimension than the last becomes one along the last, which kernels implement.
pub(crate) fn softmax(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let (Some(x), "Softmax" | "LogSoftmax") = (rewriter.input(node, 0), node.op.name) else {
        return Ok(Outcome::Keep);
    };
    let rank = rewriter.shape(x)?.len();
    let axis = node.attributes.int("axis", -1)?;
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    let Ok(axis) = usize::try_from(axis) else {
        return Ok(Outcome::Keep);
    };
    if axis + 1 >= rank || !rewriter.is_float(x) {
        return Ok(Outcome::Keep);
    }
    // A swap is its inverse.
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(axis, rank - 1);
    let x = rewriter.transpose(&format!("{}.last", node.name), x, &perm)?;
    let mut back = rewriter.node_like(node, "Transpose", perm_attributes(&perm), Vec::new())?;
    let attributes = Attributes::new().with("axis", Attribute::Int(-1));
    let made = rewriter.emit_for(&mut back, "back", node.op.name, attributes, &[Some(x)])?;
    back.inputs = made.into_iter().map(Some).collect();
    Ok(Outcome::Replace(back))
}
