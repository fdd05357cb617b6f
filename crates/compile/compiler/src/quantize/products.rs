//! Convolutions and matmuls on quantized tensors, and what is fused into them.

use super::{ADDEND, PRODUCTS, Parameters, Quantized, Y_SCALE};
use crate::clean::perm_of;
use crate::fuse::{broadcast_bias, is_activation};
use crate::layout::{self, channels_last, to_channels_last, transposed_back, window};
use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, DataType, Node, Tensor, ValueId};

/// The scale and the zero point of an output.
type OutputParameters = [Option<ValueId>; 2];

/// Conv of dequantized tensors.
pub(crate) fn convolution(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if node.op.name != "Conv" {
        return Ok(Outcome::Keep);
    }
    let (x, w) = (rewriter.input(node, 0), rewriter.input(node, 1));
    let (Some(x), Some(w)) = (Quantized::of(rewriter, x)?, Quantized::of(rewriter, w)?) else {
        return Ok(Outcome::Keep);
    };
    let bias = rewriter.input(node, 2);
    convolved(rewriter, node, [x, w], bias, [None, None])
}

/// QLinearConv.
pub(crate) fn quantized_convolution(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if node.op.name != "QLinearConv" {
        return Ok(Outcome::Keep);
    }
    let Some([x, w]) = linear_operands(rewriter, node, 0)? else {
        return Ok(Outcome::Keep);
    };
    let bias = match rewriter.input(node, 8) {
        None => None,
        Some(bias) => match dequantized_bias(rewriter, node, bias, [x, w])? {
            None => return Ok(Outcome::Keep),
            bias => bias,
        },
    };
    let output = [rewriter.input(node, 6), rewriter.input(node, 7)];
    convolved(rewriter, node, [x, w], bias, output)
}

/// The operands of QLinearConv or QLinearMatMul, if the parameters are constants and the scales f32. Several scales of the
/// second operand are along `axis`.
fn linear_operands(
    rewriter: &Rewriter<'_>,
    node: &Node,
    axis: usize,
) -> Result<Option<[Quantized; 2]>> {
    for (index, is_scale) in [
        (1, true),
        (2, false),
        (4, true),
        (5, false),
        (6, true),
        (7, false),
    ] {
        let tensor = rewriter.constant(rewriter.input(node, index));
        if !tensor.is_some_and(|tensor| !is_scale || tensor.dtype() == DataType::F32) {
            return Ok(None);
        }
    }
    let operand = |first: usize, axis: usize| {
        let [bytes, scale, zero] = [0, 1, 2].map(|nth| rewriter.input(node, first + nth));
        let elements = |value| rewriter.constant(value).map_or(1, |it| it.ty().elements());
        let has_axis = elements(scale) != 1 || elements(zero) != 1;
        Some(Quantized {
            bytes: bytes?,
            parameters: Parameters {
                scale: scale?,
                zero,
                axis: has_axis.then_some(axis),
            },
        })
    };
    let operands = operand(0, usize::MAX).zip(operand(3, axis));
    Ok(operands.map(|(x, w)| [x, w]))
}

/// The constant bias of i32 in units of the product of the operands' scales, as f32.
fn dequantized_bias(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    bias: ValueId,
    [x, w]: [Quantized; 2],
) -> Result<Option<ValueId>> {
    let scale = rewriter.scalar(Some(x.parameters.scale));
    let integers = rewriter.constant(Some(bias)).and_then(Tensor::to_i64s);
    let (Some(scale), Some(integers), Some(scales)) =
        (scale, integers, rewriter.floats(Some(w.parameters.scale)))
    else {
        return Ok(None);
    };
    let each = scales.iter().cycle();
    let elements: Vec<f32> = integers
        .iter()
        .zip(each)
        .map(|(&integer, &each)| (integer as f64 * f64::from(scale) * f64::from(each)) as f32)
        .collect();
    let tensor = Tensor::from_slice([elements.len()], &elements)?;
    Ok(Some(
        rewriter.add_constant(&format!("{}.bias", node.name), tensor),
    ))
}

/// A convolution with the channels last.
pub(super) fn convolved(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    [x, w]: [Quantized; 2],
    bias: Option<ValueId>,
    output: OutputParameters,
) -> Result<Outcome> {
    let fits = layout::RANKS.contains(&rewriter.shape(x.bytes)?.len())
        && x.parameters.axis.is_none()
        && w.parameters.axis.is_none_or(|axis| axis == 0)
        && rewriter.constant(Some(x.bytes)).is_none()
        && rewriter.constant(Some(w.bytes)).is_some();
    if !fits {
        return Ok(Outcome::Keep);
    }
    let kernel = rewriter.shape(w.bytes)?[2..].to_vec();
    let mut attributes = window(rewriter, node, x.bytes, &kernel)?;
    attributes.set("group", Attribute::Int(node.attributes.int("group", 1)?));
    let bytes = to_channels_last(rewriter, node, x.bytes)?;
    let inputs = inputs([Quantized { bytes, ..x }, w], bias, output);
    transposed_back(rewriter, node, "tenon.QuantizedConv", attributes, &inputs)
}

/// The inputs of an operator of [`PRODUCTS`].
fn inputs(
    [x, w]: [Quantized; 2],
    bias: Option<ValueId>,
    output: OutputParameters,
) -> Vec<Option<ValueId>> {
    let mut inputs = [&x.inputs()[..], &w.inputs(), &[bias], &output].concat();
    while inputs.last().is_some_and(Option::is_none) {
        inputs.pop();
    }
    inputs
}

/// MatMul and Gemm of dequantized tensors.
pub(crate) fn matmul(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if !matches!(node.op.name, "MatMul" | "Gemm") {
        return Ok(Outcome::Keep);
    }
    let Some(a) = Quantized::of(rewriter, rewriter.input(node, 0))? else {
        return Ok(Outcome::Keep);
    };
    let Some((right, turned)) = right_operand(rewriter, node)? else {
        return Ok(Outcome::Keep);
    };
    let Some(b) = Quantized::of(rewriter, Some(right))? else {
        return Ok(Outcome::Keep);
    };
    let Some(bias) = bias_of_plain(rewriter, node)? else {
        return Ok(Outcome::Keep);
    };
    multiplied(rewriter, node, ([a, b], turned), bias, [None, None])
}

/// The weights of a MatMul or Gemm, and whether their last two dimensions are swapped; `None` for weights that are transposed
/// otherwise.
pub(super) fn right_operand(
    rewriter: &Rewriter<'_>,
    node: &Node,
) -> Result<Option<(ValueId, bool)>> {
    let mut turned = node.op.name == "Gemm" && node.attributes.flag("transB", false)?;
    let mut right = rewriter.input(node, 1);
    if let Some(transpose) = rewriter.producer_of(node, 1, "Transpose") {
        let mut perm = perm_of(rewriter, transpose)?;
        let rank = perm.len();
        if rank >= 2 {
            perm.swap(rank - 1, rank - 2);
        }
        if !perm.is_sorted() {
            return Ok(None);
        }
        turned = !turned;
        right = rewriter.input(transpose, 0);
    }
    Ok(right.map(|right| (right, turned)))
}

/// The bias of a MatMul or Gemm, if there is one; `None` for a Gemm that is not a product plus a bias.
pub(super) fn bias_of_plain(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
) -> Result<Option<Option<ValueId>>> {
    if node.op.name != "Gemm" {
        return Ok(Some(None));
    }
    let plain = !node.attributes.flag("transA", false)?
        && node.attributes.float("alpha", 1.0)? == 1.0
        && node.attributes.float("beta", 1.0)? == 1.0;
    match rewriter.input(node, 2) {
        _ if !plain => Ok(None),
        None => Ok(Some(None)),
        Some(c) => Ok(row_bias(rewriter, node, c)?.map(Some)),
    }
}

/// C of a Gemm as a bias; `None` if it is no constant with an element for each column.
fn row_bias(rewriter: &mut Rewriter<'_>, node: &Node, c: ValueId) -> Result<Option<ValueId>> {
    let Some(output) = node.outputs.first().copied().flatten() else {
        return Ok(None);
    };
    let columns = rewriter.shape(output)?.last().copied().unwrap_or(0);
    let shape = rewriter.shape(c)?;
    if **shape == [columns] {
        return Ok(Some(c));
    }
    let is_row = shape.iter().rev().skip(1).all(|&extent| extent == 1);
    let elements = rewriter.floats(Some(c)).filter(|_| is_row);
    let bias = elements.and_then(|elements| broadcast_bias(&elements, 1.0, columns));
    match bias {
        Some(bias) => rewriter.add_floats(&format!("{}.bias", node.name), [columns], &bias, c),
        None => Ok(None),
    }
}

/// QLinearMatMul.
pub(crate) fn quantized_matmul(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some(b) = rewriter.input(node, 3) else {
        return Ok(Outcome::Keep);
    };
    if node.op.name != "QLinearMatMul" {
        return Ok(Outcome::Keep);
    }
    let columns = rewriter.shape(b)?.len().wrapping_sub(1);
    let Some(operands) = linear_operands(rewriter, node, columns)? else {
        return Ok(Outcome::Keep);
    };
    let output = [rewriter.input(node, 6), rewriter.input(node, 7)];
    multiplied(rewriter, node, (operands, false), None, output)
}

/// A matmul with constant weights; `turned`: with the last two dimensions of B swapped.
pub(super) fn multiplied(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    ([a, b], turned): ([Quantized; 2], bool),
    bias: Option<ValueId>,
    output: OutputParameters,
) -> Result<Outcome> {
    let (left, right) = (
        rewriter.shape(a.bytes)?.len(),
        rewriter.shape(b.bytes)?.len(),
    );
    let columns = right.wrapping_sub(if turned { 2 } else { 1 });
    let fits = left >= 2
        && right >= 2
        && a.parameters.axis.is_none()
        && b.parameters.axis.is_none_or(|axis| axis == columns)
        && rewriter.constant(Some(a.bytes)).is_none()
        && rewriter.constant(Some(b.bytes)).is_some();
    if !fits {
        return Ok(Outcome::Keep);
    }
    let mut attributes = Attributes::new();
    if turned {
        attributes.set("trans_b", Attribute::Int(1));
    }
    let inputs = inputs([a, b], bias, output);
    rewriter
        .node_like(node, "tenon.QuantizedMatMul", attributes, inputs)
        .map(Outcome::Replace)
}

/// Moves the transpose behind a quantized convolution behind the activation or the QuantizeLinear that reads it.
pub(crate) fn before_transpose(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some(x) = rewriter.input(node, 0) else {
        return Ok(Outcome::Keep);
    };
    if node.op.name != "QuantizeLinear" && !is_activation(rewriter, node)? {
        return Ok(Outcome::Keep);
    }
    let Some(source) = channels_last(rewriter, x)? else {
        return Ok(Outcome::Keep);
    };
    let is_open = rewriter.producer(source).is_some_and(is_open_product);
    if !is_open || rewriter.uses(x) != 1 || rewriter.uses(source) != 1 {
        return Ok(Outcome::Keep);
    }
    layout::elementwise(rewriter, node)
}

/// Whether a node is an operator on quantized tensors with a result of f32.
pub(crate) fn is_open_product(node: &Node) -> bool {
    PRODUCTS.contains(&node.op.name) && !has_input(node, Y_SCALE)
}

/// Whether an operator of [`PRODUCTS`] may add a residual to its sums: it has neither one nor an activation.
pub(crate) fn has_plain_sums(node: &Node) -> Result<bool> {
    Ok(!has_input(node, ADDEND) && node.attributes.string("activation", "none")? == "none")
}

fn has_input(node: &Node, index: usize) -> bool {
    node.inputs.get(index).copied().flatten().is_some()
}

/// Fuses the addition of a tensor of the same shape to the result, which may be quantized and dequantized before.
pub(crate) fn residual(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some(&Some(output)) = node.outputs.first() else {
        return Ok(Outcome::Keep);
    };
    if node.op.name != "Add" {
        return Ok(Outcome::Keep);
    }
    for (side, other) in [(0, 1), (1, 0)] {
        let (Some(sum), Some(other)) = (rewriter.input(node, side), rewriter.input(node, other))
        else {
            continue;
        };
        let fits = rewriter.ty(sum)?.dtype() == DataType::F32
            && rewriter.same_type(sum, output)?
            && rewriter.same_type(other, output)?
            && rewriter.constant(Some(other)).is_none();
        let product = if fits { summed(rewriter, sum)? } else { None };
        let Some((product, requantization)) = product else {
            continue;
        };
        let quantized = Quantized::of(rewriter, Some(other))?;
        let addend = match quantized.filter(|it| it.parameters.axis.is_none()) {
            Some(quantized) => quantized.inputs(),
            None => [Some(other), None, None],
        };
        let mut new = product;
        new.inputs.resize(Y_SCALE, None);
        new.inputs.extend([None, None]);
        new.inputs.extend(addend);
        new.inputs.extend(requantization);
        while new.inputs.last().is_some_and(Option::is_none) {
            new.inputs.pop();
        }
        new.outputs.clone_from(&node.outputs);
        return Ok(Outcome::Replace(new));
    }
    Ok(Outcome::Keep)
}

/// The operator of [`PRODUCTS`] that computes `value` for one use alone, and the parameters that its result is quantized
/// and dequantized with.
fn summed(rewriter: &Rewriter<'_>, value: ValueId) -> Result<Option<(Node, [Option<ValueId>; 2])>> {
    let Some(producer) = rewriter.producer(value) else {
        return Ok(None);
    };
    if rewriter.uses(value) != 1 {
        return Ok(None);
    }
    if is_open_product(producer) {
        let product = has_plain_sums(producer)?.then(|| (producer.clone(), [None, None]));
        return Ok(product);
    }
    let Some(Quantized { bytes, parameters }) = Quantized::of(rewriter, Some(value))? else {
        return Ok(None);
    };
    let Some(product) = rewriter.producer(bytes) else {
        return Ok(None);
    };
    if !PRODUCTS.contains(&product.op.name)
        || rewriter.uses(bytes) != 1
        || !has_plain_sums(product)?
    {
        return Ok(None);
    }
    let input = |index: usize| rewriter.input(product, index);
    let Some(scale) = input(Y_SCALE) else {
        return Ok(None);
    };
    let own = Parameters {
        scale,
        zero: input(Y_SCALE + 1),
        axis: None,
    };
    let equal = own.equal(parameters, rewriter);
    Ok(equal.then(|| (product.clone(), [Some(own.scale), own.zero])))
}

/// Fuses the QuantizeLinear of the result.
pub(crate) fn output(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let (Some(x), Some(&Some(y))) = (rewriter.input(node, 0), node.outputs.first()) else {
        return Ok(Outcome::Keep);
    };
    if node.op.name != "QuantizeLinear" || rewriter.uses(x) != 1 {
        return Ok(Outcome::Keep);
    }
    let parameters = Parameters::of(rewriter, node)?.filter(|it| it.axis.is_none());
    let product = rewriter.producer(x).filter(|node| is_open_product(node));
    let (Some(parameters), Some(product)) = (parameters, product) else {
        return Ok(Outcome::Keep);
    };
    let mut new = product.clone();
    let mut zero = parameters.zero;
    if zero.is_none() && rewriter.ty(y)?.dtype() == DataType::I8 {
        // Without a zero point the result is u8.
        zero = Some(rewriter.add_constant(&format!("{}.zero", node.name), Tensor::scalar(0i8)?));
    }
    let len = Y_SCALE + if zero.is_some() { 2 } else { 1 };
    new.inputs.resize(new.inputs.len().max(len), None);
    new.inputs[Y_SCALE] = Some(parameters.scale);
    if zero.is_some() {
        new.inputs[Y_SCALE + 1] = zero;
    }
    new.outputs.clone_from(&node.outputs);
    Ok(Outcome::Replace(new))
}
