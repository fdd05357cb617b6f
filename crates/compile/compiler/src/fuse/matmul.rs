//! Matmuls: MatMul and Gemm become tenon.MatMul with transposes, scale and bias.

use super::convolution::add_bias;
use crate::clean::perm_of;
use crate::quantize::WEIGHT_ONLY;
use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, Node, Tensor, ValueId};
use tenon_tensor::convert;

const MATMUL: &str = "tenon.MatMul";

/// MatMul of matrices, and Gemm: its C becomes a bias or a residual, else an addition.
pub(crate) fn from_plain(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let (Some(a), Some(b)) = (rewriter.input(node, 0), rewriter.input(node, 1)) else {
        return Ok(Outcome::Keep);
    };
    if !rewriter.is_float(a) || rewriter.shape(a)?.len() < 2 || rewriter.shape(b)?.len() < 2 {
        return Ok(Outcome::Keep);
    }
    match node.op.name {
        "MatMul" => {
            let inputs = vec![Some(a), Some(b)];
            rewriter
                .node_like(node, MATMUL, Attributes::new(), inputs)
                .map(Outcome::Replace)
        }
        "Gemm" => from_gemm(rewriter, node),
        _ => Ok(Outcome::Keep),
    }
}

fn from_gemm(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let mut attributes = Attributes::new();
    if node.attributes.flag("transB", false)? {
        attributes.set("trans_b", Attribute::Int(1));
    }
    let alpha = node.attributes.float("alpha", 1.0)?;
    if alpha != 1.0 {
        attributes.set("scale", Attribute::Float(alpha));
    }
    let mut inputs = vec![rewriter.input(node, 0), rewriter.input(node, 1)];
    let beta = node.attributes.float("beta", 1.0)?;
    let output = node.outputs.first().copied().flatten();
    let mut summand = None;
    if let (Some(c), Some(output)) = (rewriter.input(node, 2), output)
        && beta != 0.0
    {
        let columns = rewriter.shape(output)?.last().copied().unwrap_or(0);
        let shape = rewriter.shape(c)?.to_vec();
        let is_row = shape.iter().rev().skip(1).all(|&extent| extent == 1);
        let is_bias = is_row && rewriter.is_fixed(output, 0);
        let elements = rewriter.floats(Some(c)).filter(|_| is_bias);
        let bias = elements.and_then(|elements| broadcast_bias(&elements, beta, columns));
        let name = format!("{}.bias", node.name);
        let bias = match bias {
            Some(bias) => rewriter.add_floats(&name, [columns], &bias, c)?,
            None => None,
        };
        if bias.is_some() {
            inputs.push(bias);
        } else {
            let scaled = scaled(rewriter, node, c, beta)?;
            if is_row && shape.last() == Some(&columns) {
                let bias = rewriter.reshape(&name, scaled, &[columns])?;
                inputs.push(Some(bias));
            } else if rewriter.ty(c)? == rewriter.ty(output)? {
                inputs.extend([None, Some(scaled)]);
            } else {
                summand = Some(scaled);
            }
        }
    }
    if node.attributes.flag("transA", false)?
        && let Some(a) = inputs[0]
    {
        inputs[0] = Some(rewriter.transpose(&format!("{}.a", node.name), a, &[1, 0])?);
    }
    let Some(summand) = summand else {
        return rewriter
            .node_like(node, MATMUL, attributes, inputs)
            .map(Outcome::Replace);
    };
    let product = rewriter.emit(
        &format!("{}.product", node.name),
        MATMUL,
        attributes,
        &inputs,
    )?;
    let inputs = vec![Some(product), Some(summand)];
    rewriter
        .node_like(node, "Add", Attributes::new(), inputs)
        .map(Outcome::Replace)
}

/// `value` times `factor`.
fn scaled(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    value: ValueId,
    factor: f32,
) -> Result<ValueId> {
    if factor == 1.0 {
        return Ok(value);
    }
    let factor = Tensor::from_slice([0usize; 0], &[factor])?;
    let factor = convert(&factor, rewriter.ty(value)?.dtype())?;
    let factor = rewriter.add_constant(&format!("{}.beta", node.name), factor);
    let inputs = [Some(value), Some(factor)];
    rewriter.emit(
        &format!("{}.scaled", node.name),
        "Mul",
        Attributes::new(),
        &inputs,
    )
}

/// `elements` times `beta`, broadcast to `columns`.
pub(crate) fn broadcast_bias(elements: &[f32], beta: f32, columns: usize) -> Option<Vec<f32>> {
    match elements {
        [element] => Some(vec![element * beta; columns]),
        _ if elements.len() == columns => Some(elements.iter().map(|n| n * beta).collect()),
        _ => None,
    }
}

/// Fuses a Transpose of the last two dimensions of B as the attribute of a transposed B. A keeps its
/// Transpose: kernels require contiguous rows of A.
pub(crate) fn transposed_b(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if node.op.name != MATMUL {
        return Ok(Outcome::Keep);
    }
    let Some(transpose) = rewriter.producer_of(node, 1, "Transpose") else {
        return Ok(Outcome::Keep);
    };
    let mut perm = perm_of(rewriter, transpose)?;
    let rank = perm.len();
    if rank < 2 {
        return Ok(Outcome::Keep);
    }
    perm.swap(rank - 1, rank - 2);
    if !perm.is_sorted() {
        return Ok(Outcome::Keep);
    }
    let mut new = node.clone();
    new.inputs[1] = rewriter.input(transpose, 0);
    let turned = !node.attributes.flag("trans_b", false)?;
    new.attributes.set("trans_b", Attribute::Int(turned.into()));
    Ok(Outcome::Replace(new))
}

/// Fuses the scale of an input.
pub(crate) fn scaled_input(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if node.op.name != MATMUL {
        return Ok(Outcome::Keep);
    }
    for index in [0, 1] {
        for op in ["Mul", "Div"] {
            let Some(scaling) = rewriter.sole_producer_of(node, index, op) else {
                continue;
            };
            let Some((value, factor)) = factor_of(rewriter, scaling) else {
                continue;
            };
            let (Some(input), scaled) = (rewriter.input(node, index), value) else {
                continue;
            };
            if rewriter.ty(input)? != rewriter.ty(scaled)? {
                continue;
            }
            let mut new = node.clone();
            new.inputs[index] = Some(scaled);
            let scale = node.attributes.float("scale", 1.0)?;
            new.attributes
                .set("scale", Attribute::Float(scale * factor));
            return Ok(Outcome::Replace(new));
        }
    }
    Ok(Outcome::Keep)
}

/// The value that a Mul or Div scales, and the factor.
pub(crate) fn factor_of(rewriter: &Rewriter<'_>, node: &Node) -> Option<(ValueId, f32)> {
    match node.op.name {
        "Mul" => rewriter.scalar_operand(node),
        "Div" => {
            let number = rewriter.scalar(rewriter.input(node, 1))?;
            let value = rewriter.input(node, 0)?;
            (number != 0.0).then_some((value, 1.0 / number))
        }
        _ => None,
    }
}

/// Fuses the addition of a constant for each column as the bias.
pub(crate) fn bias(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    add_bias(
        rewriter,
        node,
        &[MATMUL, "tenon.QuantizedMatMul", WEIGHT_ONLY],
    )
}

/// Fuses the scale of the result of a matmul without epilogue.
pub(crate) fn scaled_result(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some((value, factor)) = factor_of(rewriter, node) else {
        return Ok(Outcome::Keep);
    };
    let Some(side) = node.inputs.iter().position(|input| *input == Some(value)) else {
        return Ok(Outcome::Keep);
    };
    let Some(product) = rewriter.sole_producer_of(node, side, MATMUL) else {
        return Ok(Outcome::Keep);
    };
    let (Some(made), Some(output)) = (
        product.outputs.first().copied().flatten(),
        node.outputs.first().copied().flatten(),
    ) else {
        return Ok(Outcome::Keep);
    };
    let plain = product.inputs.len() == 2
        && product.attributes.string("activation", "none")? == "none"
        && rewriter.ty(made)? == rewriter.ty(output)?;
    if !plain {
        return Ok(Outcome::Keep);
    }
    let mut new = product.clone();
    let scale = product.attributes.float("scale", 1.0)?;
    new.attributes
        .set("scale", Attribute::Float(scale * factor));
    new.outputs.clone_from(&node.outputs);
    Ok(Outcome::Replace(new))
}
