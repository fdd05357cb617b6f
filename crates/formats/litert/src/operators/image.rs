//! Convolutions, and operators that exchange space with depth or batch. Images are batch, space, channels.

use super::pooling::padding;
use crate::model::{invalid, unsupported};
use crate::node::Operation;
use crate::proto::{self, Attributes};
use crate::schema::tflite as schema;
use crate::tensor::TensorInfo;
use schema::{ActivationFunctionType as Activation, Padding};
use tenon_base::Result;

/// Weights [outputs, kernel..., inputs].
pub(super) fn conv_2d(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op
        .operator
        .builtin_options_as_conv_2_doptions()
        .ok_or_else(without_options)?;
    op.expect_rank(1, 4)?;
    let group = match (last(&*op.info(0)?), last(&*op.info(1)?)) {
        (channels, inputs) if channels > 0 && inputs > 0 => channels / inputs,
        _ => 1,
    };
    let dilations = (options.dilation_h_factor(), options.dilation_w_factor());
    let strides = (options.stride_h(), options.stride_w());
    let attributes = window_2d(options.padding(), strides, dilations, group)?;
    convolution(
        op,
        4,
        &[0, 3, 1, 2],
        attributes,
        options.fused_activation_function(),
    )
}

/// Weights [1, kernel..., outputs].
pub(super) fn depthwise(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op
        .operator
        .builtin_options_as_depthwise_conv_2_doptions()
        .ok_or_else(without_options)?;
    op.expect_rank(1, 4)?;
    let channels = match last(&*op.info(0)?) {
        channels if channels > 0 => channels,
        _ => last(&*op.info(1)?) / i64::from(options.depth_multiplier()).max(1),
    };
    let dilations = (options.dilation_h_factor(), options.dilation_w_factor());
    let strides = (options.stride_h(), options.stride_w());
    let attributes = window_2d(options.padding(), strides, dilations, channels)?;
    convolution(
        op,
        4,
        &[3, 0, 1, 2],
        attributes,
        options.fused_activation_function(),
    )
}

/// The attributes of a convolution over two dimensions, of which each pair is (height, width).
fn window_2d(
    pads: Padding,
    strides: (i32, i32),
    dilations: (i32, i32),
    group: i64,
) -> Result<Attributes> {
    Ok(vec![
        padding(pads)?,
        ints2("strides", strides.0, strides.1),
        ints2("dilations", dilations.0, dilations.1),
        proto::int("group", group),
    ])
}

/// Weights [kernel..., inputs, outputs].
pub(super) fn conv_3d(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op
        .operator
        .builtin_options_as_conv_3_doptions()
        .ok_or_else(without_options)?;
    let list = |values: [i32; 3]| values.map(i64::from).to_vec();
    let strides = list([options.stride_d(), options.stride_h(), options.stride_w()]);
    let dilations = [
        options.dilation_d_factor(),
        options.dilation_h_factor(),
        options.dilation_w_factor(),
    ];
    let attributes = vec![
        padding(options.padding())?,
        proto::ints("strides", strides),
        proto::ints("dilations", list(dilations)),
    ];
    convolution(
        op,
        5,
        &[4, 3, 0, 1, 2],
        attributes,
        options.fused_activation_function(),
    )
}

/// A convolution of input 0 with input 1, whose dimensions in the order of ONNX are `order`, plus input 2.
fn convolution(
    op: &mut Operation<'_, '_>,
    rank: usize,
    order: &[usize],
    attributes: Attributes,
    activation: Activation,
) -> Result<()> {
    op.expect_rank(0, rank)?;
    let x = op.image(0)?;
    let mut inputs = vec![x, op.weights(1, order)?];
    if op.has_input(2) {
        inputs.push(op.real(2)?);
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let y = op.emit("Conv", &inputs, attributes)?;
    let y = op.activated(y, activation)?;
    op.set_image(0, y, rank)
}

/// Transposed convolution to the size of input 0: weights [outputs, kernel..., inputs], image, bias.
pub(super) fn transpose_conv(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op
        .operator
        .builtin_options_as_transpose_conv_options()
        .ok_or_else(without_options)?;
    let size = op.ints(0, "output shape")?;
    let (weights, image) = (op.info(1)?, op.info(2)?);
    let (&[_, height, width, _], &[_, kernel_h, kernel_w, _], &[_, rows, columns, _]) = (
        size.as_slice(),
        weights.shape.as_slice(),
        image.shape.as_slice(),
    ) else {
        return Err(invalid(
            "an output shape, weights or an image has the wrong number of dimensions",
        )
        .expected("four"));
    };
    let same = match options.padding() {
        Padding::SAME => true,
        Padding::VALID => false,
        other => return padding(other).map(drop),
    };
    let strides = [options.stride_h().into(), options.stride_w().into()];
    let axes = [
        (height, rows, kernel_h, strides[0]),
        (width, columns, kernel_w, strides[1]),
    ];
    let (mut before, mut after, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for (output, input, kernel, stride) in axes {
        if input < 0 {
            return Err(unsupported(
                "an image whose size is not known when compiling is not supported",
            ));
        }
        let whole = (input - 1)
            .max(0)
            .saturating_mul(stride)
            .saturating_add(kernel);
        let cut = whole.saturating_sub(output).max(0);
        let start = if same { cut / 2 } else { 0 };
        before.push(start);
        after.push(cut - start);
        added.push(output.saturating_sub(whole).max(0));
    }
    let attributes = vec![
        proto::ints("strides", strides),
        proto::ints("pads", [before, after].concat()),
        proto::ints("output_padding", added),
    ];
    let mut inputs = vec![op.image(2)?, op.weights(1, &[3, 0, 1, 2])?];
    if op.has_input(3) {
        inputs.push(op.real(3)?);
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let y = op.emit("ConvTranspose", &inputs, attributes)?;
    let y = op.activated(y, options.fused_activation_function())?;
    op.set_image(0, y, 4)
}

pub(super) fn space_to_depth(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_space_to_depth_options();
    let block = options.ok_or_else(without_options)?.block_size();
    block_moved(op, "SpaceToDepth", block)
}

pub(super) fn depth_to_space(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_depth_to_space_options();
    let block = options.ok_or_else(without_options)?.block_size();
    block_moved(op, "DepthToSpace", block)
}

fn block_moved(op: &mut Operation<'_, '_>, operator: &str, block: i32) -> Result<()> {
    op.expect_rank(0, 4)?;
    let attributes = vec![proto::int("blocksize", block.into())];
    if op.has_one_form(&[0], &[0])? {
        let x = op.stored_image(0)?;
        let y = op.emit(operator, &[&x], attributes)?;
        return op.set_stored_image(0, y, 4);
    }
    let x = op.image(0)?;
    let y = op.emit(operator, &[&x], attributes)?;
    op.set_image(0, y, 4)
}

/// The blocks of input 1, and the pairs of input 2, for the spatial dimensions from 1 on.
fn blocks(op: &mut Operation<'_, '_>) -> Result<(Vec<i64>, Vec<[i64; 2]>)> {
    let blocks = op.ints(1, "block shape")?;
    let pairs = op.ints(2, "pads or crops")?;
    let pairs: Vec<[i64; 2]> = pairs.as_chunks::<2>().0.to_vec();
    let rank = op.info(0)?.rank();
    if pairs.len() != blocks.len() || blocks.len() >= rank || blocks.iter().any(|&block| block < 1)
    {
        return Err(invalid("the blocks do not fit the image")
            .expected(format_args!(
                "positive blocks and two pads for each, for less than {rank} dimensions"
            ))
            .found(format_args!("{blocks:?} and {pairs:?}")));
    }
    Ok((blocks, pairs))
}

/// Blocks of space become images of the batch.
pub(super) fn space_to_batch(op: &mut Operation<'_, '_>) -> Result<()> {
    let (blocks, pads) = blocks(op)?;
    let info = op.info(0)?;
    let (rank, spatial) = (info.rank(), blocks.len());
    let mut padded = info.shape.clone();
    let mut amounts = vec![0i64; 2 * rank];
    for (at, &[before, after]) in pads.iter().enumerate() {
        let extent = &mut padded[at + 1];
        if *extent < 0 {
            return Err(unsupported(
                "an image whose size is not known when compiling is not supported",
            ));
        }
        *extent = extent.saturating_add(before).saturating_add(after);
        amounts[at + 1] = before;
        amounts[rank + at + 1] = after;
    }
    let stored = op.stored(0)?;
    let amounts = op.i64_constant(&amounts);
    let zero = super::movement::zero(op, &info)?;
    let x = op.emit("Pad", &[&stored, &amounts, &zero], Vec::new())?;
    // [N, s1 / b1, b1, ..., rest]; the batch follows from the others.
    let mut shape = vec![-1];
    for (&block, &extent) in blocks.iter().zip(&padded[1..]) {
        shape.extend([extent / block, block]);
    }
    shape.extend(known(&info.shape[spatial + 1..])?);
    let inner: Vec<i64> = (0..spatial as i64).map(|at| 2 * at + 2).collect();
    let outer = (0..spatial as i64).map(|at| 2 * at + 1);
    let rest = 2 * spatial as i64 + 1..shape.len() as i64;
    let order: Vec<i64> = inner
        .into_iter()
        .chain([0])
        .chain(outer)
        .chain(rest)
        .collect();
    let mut result = vec![-1];
    result.extend(
        blocks
            .iter()
            .zip(&padded[1..])
            .map(|(&block, &extent)| extent / block),
    );
    result.extend(&info.shape[spatial + 1..]);
    let y = exchanged(op, x, &shape, order, &result)?;
    op.set_stored(0, y)
}

/// Images of the batch become blocks of space.
pub(super) fn batch_to_space(op: &mut Operation<'_, '_>) -> Result<()> {
    let (blocks, crops) = blocks(op)?;
    let info = op.info(0)?;
    let (rank, spatial) = (info.rank(), blocks.len());
    let extents = known(&info.shape[1..])?;
    // [b1, ..., N, s1, ..., rest]
    let mut shape = blocks.clone();
    shape.push(-1);
    shape.extend(&extents);
    let count = spatial as i64;
    let mut order = vec![count];
    for at in 0..count {
        order.extend([count + 1 + at, at]);
    }
    order.extend(2 * count + 1..shape.len() as i64);
    let whole: Vec<i64> = blocks
        .iter()
        .zip(&extents)
        .map(|(&block, &extent)| block.saturating_mul(extent))
        .collect();
    let mut result = vec![-1];
    result.extend(&whole);
    result.extend(&extents[spatial..]);
    let stored = op.stored(0)?;
    let mut y = exchanged(op, stored, &shape, order, &result)?;
    if crops.iter().any(|crop| *crop != [0, 0]) && rank > 0 {
        let starts: Vec<i64> = crops.iter().map(|crop| crop[0]).collect();
        let ends: Vec<i64> = crops
            .iter()
            .zip(&whole)
            .map(|(crop, &extent)| extent.saturating_sub(crop[1]))
            .collect();
        let axes: Vec<i64> = (1..=count).collect();
        let [starts, ends, axes] = [starts, ends, axes].map(|list| op.i64_constant(&list));
        y = op.emit("Slice", &[&y, &starts, &ends, &axes], Vec::new())?;
    }
    op.set_stored(0, y)
}

/// A value with its dimensions taken apart, moved and joined.
fn exchanged(
    op: &mut Operation<'_, '_>,
    x: String,
    apart: &[i64],
    order: Vec<i64>,
    joined: &[i64],
) -> Result<String> {
    let apart = op.i64_constant(apart);
    let x = op.emit("Reshape", &[&x, &apart], Vec::new())?;
    let x = op.emit("Transpose", &[&x], vec![proto::ints("perm", order)])?;
    let joined = op.i64_constant(joined);
    op.emit("Reshape", &[&x, &joined], Vec::new())
}

/// Extents that must be known when compiling.
fn known(extents: &[i64]) -> Result<Vec<i64>> {
    if extents.iter().any(|&extent| extent < 0) {
        return Err(unsupported(
            "an image whose size is not known when compiling is not supported",
        ));
    }
    Ok(extents.to_vec())
}

fn last(info: &TensorInfo) -> i64 {
    info.shape.last().copied().unwrap_or(-1)
}

fn ints2(name: &str, first: i32, second: i32) -> tenon_onnx::proto::AttributeProto {
    proto::ints(name, vec![first.into(), second.into()])
}

fn without_options() -> tenon_base::Error {
    invalid("the options of the operator are missing, or of another operator")
}
