//! The epilogue of a convolution or matmul: bias and residual.

use crate::quantize::{
    BIAS as QUANTIZED_BIAS, PRODUCTS as QUANTIZED_PRODUCTS, WEIGHT_ONLY, has_plain_sums,
    is_open_product,
};
use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::{Node, ValueId};

/// Operators with a bias, a residual at the position after it, and an activation.
pub(crate) const PRODUCTS: [&str; 4] = [
    "tenon.Conv",
    "tenon.ConvTranspose",
    "tenon.MatMul",
    WEIGHT_ONLY,
];

/// The position of the bias among the inputs of a product.
fn bias_position(operator: &str) -> usize {
    match operator {
        WEIGHT_ONLY => 4,
        _ if QUANTIZED_PRODUCTS.contains(&operator) => QUANTIZED_BIAS,
        _ => 2,
    }
}

/// Fuses the addition of a constant for each channel into a convolution without bias.
pub(crate) fn bias(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let convolutions = ["tenon.Conv", "tenon.ConvTranspose", "tenon.QuantizedConv"];
    add_bias(rewriter, node, &convolutions)
}

/// Fuses the addition of a bias into a product of one of `operators`.
pub(crate) fn add_bias(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    operators: &[&str],
) -> Result<Outcome> {
    if node.op.name != "Add" {
        return Ok(Outcome::Keep);
    }
    for (side, other) in [(0, 1), (1, 0)] {
        let Some(product) = open_product(rewriter, node, side, operators)? else {
            continue;
        };
        let position = bias_position(product.op.name);
        if product.inputs.get(position).copied().flatten().is_some() {
            continue;
        }
        let Some(output) = node.outputs.first().copied().flatten() else {
            continue;
        };
        let Some(bias) = bias_of(rewriter, node, rewriter.input(node, other), output)? else {
            continue;
        };
        let mut new = product;
        new.inputs.resize(new.inputs.len().max(position + 1), None);
        new.inputs[position] = Some(bias);
        new.outputs.clone_from(&node.outputs);
        return Ok(Outcome::Replace(new));
    }
    Ok(Outcome::Keep)
}

/// A producer of one of `operators` with `node` as its only user, the same shape and no activation.
fn open_product(
    rewriter: &Rewriter<'_>,
    node: &Node,
    side: usize,
    operators: &[&str],
) -> Result<Option<Node>> {
    let mut producers = operators.iter();
    let producer = producers.find_map(|op| rewriter.sole_producer_of(node, side, op));
    let Some(product) = producer else {
        return Ok(None);
    };
    let (Some(made), Some(output)) = (
        product.outputs.first().copied().flatten(),
        node.outputs.first().copied().flatten(),
    ) else {
        return Ok(None);
    };
    // A residual of a quantized product may be behind a quantization of the sums.
    let is_closed = QUANTIZED_PRODUCTS.contains(&product.op.name)
        && !(is_open_product(product) && has_plain_sums(product)?);
    let open = !is_closed
        && product.attributes.string("activation", "none")? == "none"
        && rewriter.ty(made)? == rewriter.ty(output)?;
    Ok(open.then(|| product.clone()))
}

/// A constant operand of an Add as a bias: one value for each element of the last dimension.
fn bias_of(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    value: Option<ValueId>,
    output: ValueId,
) -> Result<Option<ValueId>> {
    let Some(tensor) = rewriter.constant(value) else {
        return Ok(None);
    };
    let Some(&extent) = rewriter.shape(output)?.last() else {
        return Ok(None);
    };
    let elements = tensor.ty().elements();
    if **tensor.shape() == [extent] {
        return Ok(value);
    }
    let name = format!("{}.bias", node.name);
    if let Some(number) = rewriter.scalar(value) {
        return rewriter.add_floats(&name, [extent], &vec![number; extent], output);
    }
    if !rewriter.is_float(output) || elements != extent || tensor.shape().last() != Some(&extent) {
        return Ok(None);
    }
    let tensor = tensor.reshaped([extent])?;
    Ok(Some(rewriter.add_constant(&name, tensor)))
}

/// Fuses the addition of a value of the result's shape as the residual.
pub(crate) fn residual(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if node.op.name != "Add" {
        return Ok(Outcome::Keep);
    }
    for (side, other) in [(0, 1), (1, 0)] {
        let Some(product) = open_product(rewriter, node, side, &PRODUCTS)? else {
            continue;
        };
        let (Some(other), Some(output)) = (
            rewriter.input(node, other),
            node.outputs.first().copied().flatten(),
        ) else {
            continue;
        };
        let position = bias_position(product.op.name) + 1;
        let taken = product.inputs.get(position).copied().flatten().is_some();
        let constant = rewriter.constant(Some(other)).is_some();
        if taken || constant || rewriter.ty(other)? != rewriter.ty(output)? {
            continue;
        }
        let mut new = product;
        new.inputs.resize(position + 1, None);
        new.inputs[position] = Some(other);
        new.outputs.clone_from(&node.outputs);
        return Ok(Outcome::Replace(new));
    }
    Ok(Outcome::Keep)
}
