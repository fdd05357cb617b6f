//! Convolutions. Tensors are batch, channels, then one to any number of spatial dimensions.

use super::quantize::expect_scales_of_product;
use super::rows::*;
use super::shapes::{
    Inferred, expect_optional_shape, expect_scalar, expect_shape, invalid, one, one_or_each,
    positive, product, rank, same_dtype,
};
use crate::geometry::Window;
use crate::operator::AttributeDef;
use crate::{DataType, Inference};
use tenon_base::Result;
use tenon_tensor::{Shape, TensorType};

const AUTO_PAD: AttributeDef = string(
    "auto_pad",
    "NOTSET (explicit pads), VALID, SAME_UPPER or SAME_LOWER; default NOTSET",
);
const DILATIONS: AttributeDef = ints(
    "dilations",
    "distance between elements of the kernel, for each spatial dimension; default 1s",
);
const GROUP: AttributeDef = int("group", "groups of channels; default 1");
const KERNEL_SHAPE: AttributeDef = ints("kernel_shape", "spatial extents of W; default W's own");
const PADS: AttributeDef = ints(
    "pads",
    "padding before each spatial dimension, then after each; default 0s",
);
const STRIDES: AttributeDef = ints(
    "strides",
    "distance between windows, for each spatial dimension; default 1s",
);

operators! { "convolution"
    /// Convolution: X [N, C, spatial...], W [M, C/group, kernel...], B [M]; Y [N, M, spatial...].
    Compute "Conv" (required("X", FLOATS), required("W", FLOATS), optional("B", FLOATS))
        -> (required("Y", FLOATS))
        [AUTO_PAD, DILATIONS, GROUP, KERNEL_SHAPE, PADS, STRIDES] conv;
    /// Transposed convolution: X [N, C, spatial...], W [C, M/group, kernel...], B [M].
    Compute "ConvTranspose" (required("X", FLOATS), required("W", FLOATS), optional("B", FLOATS))
        -> (required("Y", FLOATS))
        [
            AUTO_PAD, DILATIONS, GROUP, KERNEL_SHAPE, PADS, STRIDES,
            ints("output_padding", "elements added after each spatial dimension; default 0s"),
            ints("output_shape", "spatial extents of the output, which then determine the padding"),
        ] conv_transpose;
    /// Convolution of bytes without scales; sums are i32.
    Compute "ConvInteger"
        (required("x", BYTES), required("w", BYTES), optional("x_zero_point", BYTES),
         optional("w_zero_point", BYTES))
        -> (required("y", I32))
        [AUTO_PAD, DILATIONS, GROUP, KERNEL_SHAPE, PADS, STRIDES] conv_integer;
    /// Convolution of quantized tensors with a quantized result.
    Compute "QLinearConv"
        (required("x", BYTES), required("x_scale", F32), required("x_zero_point", BYTES),
         required("w", BYTES), required("w_scale", F32), required("w_zero_point", BYTES),
         required("y_scale", F32), required("y_zero_point", BYTES), optional("B", I32))
        -> (required("y", BYTES))
        [AUTO_PAD, DILATIONS, GROUP, KERNEL_SHAPE, PADS, STRIDES] qlinear_conv;
    /// Convolution with kernel positions shifted by `offset` [N, offset_group 2 prod(kernel),
    /// spatial...] and weighted by `mask`.
    Compute "DeformConv"
        (required("X", FLOATS), required("W", FLOATS), required("offset", FLOATS),
         optional("B", FLOATS), optional("mask", FLOATS))
        -> (required("Y", FLOATS))
        [
            DILATIONS, GROUP, KERNEL_SHAPE, PADS, STRIDES,
            int("offset_group", "groups of channels with separate offsets; default 1"),
        ] deform_conv;
}

/// The kernel: spatial extents of W, which `kernel_shape` must repeat when it is there.
fn kernel<'a>(node: &Inference<'a>, weights: &'a TensorType) -> Result<&'a [usize]> {
    let kernel = &weights.shape()[2..];
    let agrees = match node.attributes.ints("kernel_shape")? {
        None | Some([]) => true,
        Some(given) => {
            given.len() == kernel.len()
                && given
                    .iter()
                    .zip(kernel)
                    .all(|(&a, &b)| usize::try_from(a) == Ok(b))
        }
    };
    if agrees {
        return Ok(kernel);
    }
    Err(
        invalid("attribute 'kernel_shape' does not repeat the extents of W")
            .expected(format_args!("{kernel:?}"))
            .found(format_args!(
                "{:?}",
                node.attributes.ints("kernel_shape")?.unwrap_or_default()
            )),
    )
}

/// Checks the shapes of X and W, whose names are `names`, and returns the shape of the output.
fn output_shape(
    node: &Inference<'_>,
    x: &TensorType,
    w: &TensorType,
    names: [&str; 2],
) -> Result<Vec<usize>> {
    let dims = rank(x, names[0], 3..=usize::MAX)?;
    rank(w, names[1], dims..=dims)?;
    let group = positive(node.attributes.int("group", 1)?, "attribute 'group'")?;
    let (channels, filters) = (x.shape()[1], w.shape()[0]);
    if w.shape()[1].checked_mul(group) != Some(channels) {
        return Err(invalid(format!(
            "input '{}' has the wrong number of channels",
            names[1]
        ))
        .expected(format_args!("{channels} / group {group} in dimension 1"))
        .found(w.shape()));
    }
    if !filters.is_multiple_of(group) {
        return Err(invalid("attribute 'group' does not divide the filters")
            .expected(format_args!("a divisor of {filters}"))
            .found(group));
    }
    let window = Window::sliding(node.attributes, &x.shape()[2..], kernel(node, w)?)?;
    Ok([&[x.shape()[0], filters], &*window.output].concat())
}

fn conv(node: &Inference<'_>) -> Inferred {
    let dtype = same_dtype(node, &["X", "W", "B"])?;
    let (x, w) = (node.input(0)?, node.input(1)?);
    let shape = output_shape(node, x, w, ["X", "W"])?;
    expect_optional_shape(node, 2, "B", &shape[1..2])?;
    one(dtype, shape)
}

fn conv_transpose(node: &Inference<'_>) -> Inferred {
    let dtype = same_dtype(node, &["X", "W", "B"])?;
    let (x, w) = (node.input(0)?, node.input(1)?);
    let dims = rank(x, "X", 3..=usize::MAX)?;
    rank(w, "W", dims..=dims)?;
    let group = positive(node.attributes.int("group", 1)?, "attribute 'group'")?;
    let channels = x.shape()[1];
    if w.shape()[0] != channels || !channels.is_multiple_of(group) {
        return Err(invalid("input 'W' has the wrong number of channels")
            .expected(format_args!("{channels} in dimension 0, in {group} groups"))
            .found(w.shape()));
    }
    let filters = product(w.shape()[1], group, "the number of filters")?;
    let window = Window::transposed(node.attributes, &x.shape()[2..], kernel(node, w)?)?;
    expect_optional_shape(node, 2, "B", &[filters])?;
    one(dtype, [&[x.shape()[0], filters], &*window.output].concat())
}

fn conv_integer(node: &Inference<'_>) -> Inferred {
    let shape = output_shape(node, node.input(0)?, node.input(1)?, ["x", "w"])?;
    expect_scalar(node, 2, "x_zero_point")?;
    one_or_each(node, 3, "w_zero_point", shape[1])?;
    one(DataType::I32, shape)
}

fn qlinear_conv(node: &Inference<'_>) -> Inferred {
    let shape = output_shape(node, node.input(0)?, node.input(3)?, ["x", "w"])?;
    for (index, name) in [
        (1, "x_scale"),
        (2, "x_zero_point"),
        (6, "y_scale"),
        (7, "y_zero_point"),
    ] {
        expect_scalar(node, index, name)?;
    }
    one_or_each(node, 4, "w_scale", shape[1])?;
    one_or_each(node, 5, "w_zero_point", shape[1])?;
    expect_optional_shape(node, 8, "B", &shape[1..2])?;
    expect_scales_of_product(node, [(1, "x_scale"), (4, "w_scale"), (6, "y_scale")])?;
    one(node.input(7)?.dtype(), shape)
}

fn deform_conv(node: &Inference<'_>) -> Inferred {
    let dtype = same_dtype(node, &["X", "W", "offset", "B", "mask"])?;
    let (x, w) = (node.input(0)?, node.input(1)?);
    let shape = output_shape(node, x, w, ["X", "W"])?;
    let groups = positive(
        node.attributes.int("offset_group", 1)?,
        "attribute 'offset_group'",
    )?;
    if !x.shape()[1].is_multiple_of(groups) {
        return Err(
            invalid("attribute 'offset_group' does not divide the channels")
                .expected(format_args!("a divisor of {}", x.shape()[1]))
                .found(groups),
        );
    }
    let kernel = Shape::new(&w.shape()[2..]).elements();
    let weights = product(groups, kernel, "input 'mask'")?;
    let offsets = product(weights, w.shape().len() - 2, "input 'offset'")?;
    let moved = |channels: usize| [&[shape[0], channels], &shape[2..]].concat();
    expect_shape(node.input(2)?, "offset", &moved(offsets))?;
    expect_optional_shape(node, 3, "B", &shape[1..2])?;
    expect_optional_shape(node, 4, "mask", &moved(weights))?;
    one(dtype, shape)
}
