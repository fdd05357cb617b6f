//! Products of integers that are scaled behind them: as onnxruntime's dynamic quantisation writes them,
//! DynamicQuantizeLinear, MatMulInteger or ConvInteger, Cast to f32, and Mul by the product of both scales, of which that of
//! the left operand may be known when the model runs alone.

use super::products::{convolved, multiplied};
use super::{Parameters, Quantized};
use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::{DataType, Node, Tensor, ValueId};

/// Mul of a product of integers by its scales.
pub(crate) fn scaled(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if node.op.name != "Mul" {
        return Ok(Outcome::Keep);
    }
    for [sums, scales] in [[0, 1], [1, 0]] {
        let integers = rewriter
            .sole_producer_of(node, sums, "Cast")
            .and_then(|cast| {
                let mut products = ["MatMulInteger", "ConvInteger"].iter();
                products.find_map(|op| rewriter.sole_producer_of(cast, 0, op))
            });
        let is_f32 = match rewriter.input(node, sums) {
            Some(sums) => rewriter.ty(sums)?.dtype() == DataType::F32,
            None => false,
        };
        let Some(integers) = integers.filter(|_| is_f32).cloned() else {
            continue;
        };
        let is_convolution = integers.op.name == "ConvInteger";
        let columns_at = if is_convolution { 0 } else { 1 };
        let scales = rewriter.input(node, scales);
        let Some([x_scale, w_scale]) = scales_of(rewriter, node, scales)? else {
            continue;
        };
        let operands = [0, 1].map(|index| rewriter.input(&integers, index));
        let [Some(x), Some(w)] = operands else {
            continue;
        };
        let Some(w_scale) = columns(rewriter, node, (w, columns_at), w_scale)? else {
            continue;
        };
        let x = Quantized {
            bytes: x,
            parameters: Parameters {
                scale: x_scale,
                zero: rewriter.input(&integers, 2),
                axis: None,
            },
        };
        let w_zero = rewriter.input(&integers, 3);
        let mut is_each = false;
        for value in [Some(w_scale), w_zero].into_iter().flatten() {
            is_each |= rewriter.ty(value)?.elements() != 1;
        }
        let w = Quantized {
            bytes: w,
            parameters: Parameters {
                scale: w_scale,
                zero: w_zero,
                axis: is_each.then_some(columns_at),
            },
        };
        // Rows may have their own zero points.
        let is_scalar = match x.parameters.zero {
            Some(zero) => rewriter.ty(zero)?.elements() == 1,
            None => true,
        };
        if !is_scalar || w_zero.is_some_and(|zero| rewriter.constant(Some(zero)).is_none()) {
            continue;
        }
        // The product with the name and the results of the Mul.
        let product = Node {
            name: node.name.clone(),
            outputs: node.outputs.clone(),
            ..integers
        };
        let outcome = if is_convolution {
            convolved(rewriter, &product, [x, w], None, [None, None])?
        } else {
            multiplied(rewriter, &product, ([x, w], false), None, [None, None])?
        };
        return Ok(outcome);
    }
    Ok(Outcome::Keep)
}

/// The scale of the left operand, a scalar, and of the weights, a constant, whose product `value` is. Of a product that is
/// known the scale of the left operand is 1.
fn scales_of(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    value: Option<ValueId>,
) -> Result<Option<[ValueId; 2]>> {
    if let Some(known) = value.filter(|&value| rewriter.constant(Some(value)).is_some()) {
        if rewriter.ty(known)?.dtype() != DataType::F32 {
            return Ok(None);
        }
        let one = rewriter.add_constant(&format!("{}.one", node.name), Tensor::scalar(1f32)?);
        return Ok(Some([one, known]));
    }
    let product = value.and_then(|value| rewriter.producer(value));
    let Some(product) = product.filter(|node| node.op.name == "Mul") else {
        return Ok(None);
    };
    for [left, right] in [[0, 1], [1, 0]] {
        let both = [left, right].map(|side| rewriter.input(product, side));
        let [Some(left), Some(right)] = both else {
            continue;
        };
        let is_scale =
            |value: ValueId| -> Result<bool> { Ok(rewriter.ty(value)?.dtype() == DataType::F32) };
        let fits = rewriter.constant(Some(right)).is_some()
            && rewriter.ty(left)?.elements() == 1
            && is_scale(left)?
            && is_scale(right)?;
        if fits {
            return Ok(Some([left, right]));
        }
    }
    Ok(None)
}

/// The scales of weights as a scalar, or as a vector with one for each column of the product; `None` if they are others.
fn columns(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    (weights, at): (ValueId, usize),
    scale: ValueId,
) -> Result<Option<ValueId>> {
    let shape = rewriter.shape(scale)?.clone();
    let count = shape.elements();
    if count == 1 {
        return Ok(Some(scale));
    }
    let weights = rewriter.shape(weights)?;
    let Some(&columns) = weights.get(at) else {
        return Ok(None);
    };
    // Of a matmul the columns are the last dimension, of a convolution the second of its rank.
    let along = if at == 0 { weights.len() - 1 } else { 1 };
    let position = shape.len().checked_sub(along);
    if count != columns || position.and_then(|position| shape.get(position)) != Some(&columns) {
        return Ok(None);
    }
    if shape.len() == 1 {
        return Ok(Some(scale));
    }
    let Some(tensor) = rewriter.constant(Some(scale)) else {
        return Ok(None);
    };
    let vector = tensor.reshaped([columns])?;
    let name = format!("{}.scales", node.name);
    Ok(Some(rewriter.add_constant(&name, vector)))
}
