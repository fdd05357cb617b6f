//! Operators on images with a separate channels-last operator.

use super::{RANKS, channels_last, to_channels_last, transposed_back};
use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::geometry::Window;
use tenon_graph::{Attribute, Attributes, DataType, Node, Tensor, ValueId};

/// Conv and ConvTranspose of one to three spatial dimensions.
pub(crate) fn convolution(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let (Some(x), Some(w)) = (rewriter.input(node, 0), rewriter.input(node, 1)) else {
        return Ok(Outcome::Keep);
    };
    let op = match node.op.name {
        "Conv" => "tenon.Conv",
        "ConvTranspose" => "tenon.ConvTranspose",
        _ => return Ok(Outcome::Keep),
    };
    if !rewriter.is_float(x) || !RANKS.contains(&rewriter.shape(x)?.len()) {
        return Ok(Outcome::Keep);
    }
    let kernel = rewriter.shape(w)?[2..].to_vec();
    let mut attributes = if op == "tenon.Conv" {
        window(rewriter, node, x, &kernel)?
    } else {
        transposed_window(&node.attributes, &rewriter.shape(x)?[2..], &kernel)?
    };
    attributes.set("group", Attribute::Int(node.attributes.int("group", 1)?));
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(to_channels_last(rewriter, node, x)?);
    transposed_back(rewriter, node, op, attributes, &inputs)
}

/// MaxPool without the output of indices, and AveragePool, of images that have the channels last
/// already: a pool with the channels first needs no transpose, which is a pass over the image.
pub(crate) fn pool(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let op = match node.op.name {
        "MaxPool" if node.outputs.iter().skip(1).flatten().next().is_none() => "tenon.MaxPool",
        "AveragePool" => "tenon.AveragePool",
        _ => return Ok(Outcome::Keep),
    };
    let Some(x) = rewriter.input(node, 0) else {
        return Ok(Outcome::Keep);
    };
    let is_byte = matches!(rewriter.ty(x)?.dtype(), DataType::U8 | DataType::I8);
    if !(rewriter.is_float(x) || is_byte) || rewriter.shape(x)?.len() != 4 {
        return Ok(Outcome::Keep);
    }
    let Some(last) = channels_last(rewriter, x)? else {
        return Ok(Outcome::Keep);
    };
    let kernel: Vec<usize> = node
        .attributes
        .ints("kernel_shape")?
        .unwrap_or_default()
        .iter()
        .map(|&extent| extent as usize)
        .collect();
    let mut attributes = window(rewriter, node, x, &kernel)?;
    attributes.set("kernel_shape", ints(&kernel));
    for name in ["ceil_mode", "count_include_pad"] {
        if let Some(value) = node.attributes.value(name) {
            attributes.set(name, value.clone());
        }
    }
    transposed_back(rewriter, node, op, attributes, &[Some(last)])
}

/// Global pools become reductions over height and width.
pub(crate) fn global_pool(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let op = match node.op.name {
        "GlobalAveragePool" => "ReduceMean",
        "GlobalMaxPool" => "ReduceMax",
        _ => return Ok(Outcome::Keep),
    };
    let Some(x) = rewriter.input(node, 0) else {
        return Ok(Outcome::Keep);
    };
    let rank = rewriter.shape(x)?.len() as i64;
    if rank < 3 {
        return Ok(Outcome::Keep);
    }
    let axes: Vec<i64> = (2..rank).collect();
    let axes = Tensor::from_slice([axes.len()], &axes)?;
    let axes = rewriter.add_constant(&format!("{}.axes", node.name), axes);
    let keep = Attributes::new().with("keepdims", Attribute::Int(1));
    rewriter
        .node_like(node, op, keep, vec![Some(x), Some(axes)])
        .map(Outcome::Replace)
}

/// The window of a node with the image `x`, with explicit padding unless that depends on a size that is not known.
pub(crate) fn window(
    rewriter: &Rewriter<'_>,
    node: &Node,
    x: ValueId,
    kernel: &[usize],
) -> Result<Attributes> {
    let window = Window::sliding(&node.attributes, &rewriter.shape(x)?[2..], kernel)?;
    let mut explicit = explicit(&window, &window.pads_end);
    if pads_vary(rewriter, node, x)? {
        explicit.remove("pads");
        let auto_pad = node.attributes.string("auto_pad", "NOTSET")?;
        explicit.set("auto_pad", Attribute::String(auto_pad.to_owned()));
    }
    Ok(explicit)
}

/// Whether the padding of a node with the image `x` depends on sizes that are known only when the model runs: that of
/// `SAME_UPPER` and `SAME_LOWER` is what the last of the windows lacks, which with strides differs from size to size.
pub(crate) fn pads_vary(rewriter: &Rewriter<'_>, node: &Node, x: ValueId) -> Result<bool> {
    let same = node
        .attributes
        .string("auto_pad", "NOTSET")?
        .starts_with("SAME");
    let strides = node.attributes.ints("strides")?.unwrap_or_default();
    let spatial = rewriter.extents(x).unwrap_or_default().iter().skip(2);
    let mut strides = spatial.zip(strides);
    Ok(same && strides.any(|(extent, &stride)| stride != 1 && extent.constant().is_none()))
}

/// The window of a transposed convolution with explicit padding and output padding.
fn transposed_window(
    attributes: &Attributes,
    input: &[usize],
    kernel: &[usize],
) -> Result<Attributes> {
    let window = Window::transposed(attributes, input, kernel)?;
    // The extents of the output without padding after it, and what they differ from the output's.
    let whole = |axis: usize| {
        let windows = (input[axis].saturating_sub(1)).saturating_mul(window.strides[axis]);
        windows.saturating_add(window.dilated_kernel(axis))
    };
    let axes = 0..window.rank();
    let needed = |axis: usize| window.output[axis].saturating_add(window.pads_begin[axis]);
    let after: Vec<usize> = axes
        .clone()
        .map(|axis| whole(axis).saturating_sub(needed(axis)))
        .collect();
    let extra: Vec<usize> = axes
        .map(|axis| needed(axis).saturating_sub(whole(axis)))
        .collect();
    Ok(explicit(&window, &after).with("output_padding", ints(&extra)))
}

/// The attributes of a window, with the padding after it.
fn explicit(window: &Window, after: &[usize]) -> Attributes {
    let pads = [&*window.pads_begin, after].concat();
    Attributes::new()
        .with("strides", ints(&window.strides))
        .with("dilations", ints(&window.dilations))
        .with("pads", ints(&pads))
}

fn ints(list: &[usize]) -> Attribute {
    Attribute::Ints(list.iter().map(|&value| value as i64).collect())
}
