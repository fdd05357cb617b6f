//! Data movement: elements copied unchanged, or converted by `Cast`.

use super::rows::*;
use super::shapes::{
    Inferred, axes, axis_attribute, choice, dtype_attribute, expect_dtype, expect_scalar,
    expect_shape, extent, invalid, one, positive, product, rank, same, same_dtype, sum, too_large,
};
use crate::Inference;
use crate::geometry::{padding, slice_axes, split_sizes};
use crate::operator::AttributeDef;
use tenon_base::Result;
use tenon_tensor::{Shape, TensorType};

const SATURATE: AttributeDef = int(
    "saturate",
    "for f8: 1: values out of range saturate, 0: become NaN or infinite; default 1",
);
const BLOCK: AttributeDef = must(int("blocksize", "side of the square block"));

operators! { "movement"
    /// Dimensions in another order: output dimension i is input dimension perm[i].
    Movement "Transpose" (required("data", ANY)) -> (required("transposed", ANY))
        [ints("perm", "the order; default reversed")] transpose;
    /// The inputs concatenated along the axis.
    Movement "Concat" (variadic("inputs", ANY)) -> (required("concat_result", ANY))
        [must(int("axis", "the dimension of concatenation"))] concat;
    /// A part of the input: elements from `starts` to before `ends`, `steps` apart, along `axes`.
    Movement "Slice"
        (required("data", ANY), known(required("starts", INDICES)), known(required("ends", INDICES)),
         known(optional("axes", INDICES)), known(optional("steps", INDICES)))
        -> (required("output", ANY)) [] slice;
    /// The input split along the axis into parts of the extents `split`, or equal ones.
    Movement "Split" (required("input", ANY), known(optional("split", I64)))
        -> (variadic("outputs", ANY))
        [
            int("axis", "the dimension that is split; default 0"),
            int("num_outputs", "number of equal parts, when `split` is omitted"),
        ] split;
    /// The input broadcast with `shape`.
    Movement "Expand" (required("input", ANY), known(required("shape", I64)))
        -> (required("output", ANY)) [] expand;
    /// The input padded before and after each dimension; negative values crop.
    Movement "Pad"
        (required("data", ANY), known(required("pads", I64)), optional("constant_value", ANY),
         known(optional("axes", INDICES)))
        -> (required("output", ANY))
        [string("mode", "constant, reflect, edge or wrap; default constant")] pad;
    /// The input repeated along each dimension.
    Movement "Tile" (required("input", ANY), known(required("repeats", I64)))
        -> (required("output", ANY)) [] tile;
    /// Channels rearranged as blocks of pixels: [N, C, H, W] to [N, C/b², H b, W b].
    Movement "DepthToSpace" (required("input", ANY)) -> (required("output", ANY))
        [BLOCK, string("mode", "DCR: depth, column, row; CRD: column, row, depth; default DCR")]
        depth_to_space;
    /// Blocks of pixels rearranged as channels: [N, C, H, W] to [N, C b², H/b, W/b].
    Movement "SpaceToDepth" (required("input", ANY)) -> (required("output", ANY))
        [BLOCK, string("mode", "DCR: depth, column, row; CRD: column, row, depth; default DCR")]
        space_to_depth;
    /// The elements converted to another type: rounded towards zero for integers, != 0 for bool. For f8e8m0fnu the
    /// magnitude in f32 is rounded to a power of two, and infinity is NaN, as in ONNX's reference implementation.
    Movement "Cast" (required("input", ANY)) -> (required("output", ANY))
        [
            must(string("to", "the element type")),
            SATURATE,
            string("round_mode", "for f8e8m0fnu only: up, down or nearest; default up"),
        ] cast;
    /// The bits of the elements as another type of the same width.
    View "BitCast" (required("input", ANY)) -> (required("output", ANY))
        [must(string("to", "the element type"))] bit_cast;
    /// The elements converted to the type of the second input.
    Compute "CastLike" (required("input", ANY), required("target_type", ANY))
        -> (required("output", ANY))
        [SATURATE, string("round_mode", "for f8e8m0fnu only: up, down or nearest; default up")]
        cast_like;
    /// The input cropped or padded with zeros around its center to the extents `shape` of `axes`.
    Compute "CenterCropPad" (required("input_data", ANY), known(required("shape", INDICES)))
        -> (required("output_data", ANY))
        [ints("axes", "the dimensions of `shape`; default all")] center_crop_pad;
    /// The first `sequence_lens` elements of each batch element reversed.
    Compute "ReverseSequence" (required("input", ANY), required("sequence_lens", I64))
        -> (required("Y", ANY))
        [
            int("batch_axis", "the batch's dimension, 0 or 1; default 1"),
            int("time_axis", "the sequence's dimension, 1 or 0; default 0"),
        ] reverse_sequence;
}

fn transpose(node: &Inference<'_>) -> Inferred {
    let data = node.input(0)?;
    let dims = data.shape().len();
    let Some(perm) = node.attributes.ints("perm")? else {
        return one(
            data.dtype(),
            data.shape().iter().rev().copied().collect::<Vec<_>>(),
        );
    };
    let order = axes(perm, dims, "attribute 'perm'")?;
    if order.len() != dims {
        return Err(invalid("attribute 'perm' has the wrong length")
            .expected(dims)
            .found(format_args!("{perm:?}")));
    }
    one(
        data.dtype(),
        order
            .iter()
            .map(|&axis| data.shape()[axis])
            .collect::<Vec<_>>(),
    )
}

fn concat(node: &Inference<'_>) -> Inferred {
    let dtype = same_dtype(node, &vec!["inputs"; node.inputs.len()])?;
    let mut shape = node.input(0)?.shape().to_vec();
    let axis = axis_attribute(node, 0, shape.len())?;
    for index in 1..node.inputs.len() {
        let other = node.input(index)?.shape();
        let fits = other.len() == shape.len()
            && (0..shape.len()).all(|dim| dim == axis || other[dim] == shape[dim]);
        if !fits {
            return Err(
                invalid(format!("input {index} does not fit those before it"))
                    .expected(format_args!("{shape:?} but for dimension {axis}"))
                    .found(other),
            );
        }
        shape[axis] = sum(shape[axis], other[axis], "the output")?;
    }
    one(dtype, shape)
}

fn slice(node: &Inference<'_>) -> Inferred {
    let shape = slice_axes(node)?
        .iter()
        .map(|axis| axis.length)
        .collect::<Vec<_>>();
    one(node.input(0)?.dtype(), shape)
}

fn split(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    let axis = axis_attribute(node, 0, input.shape().len())?;
    let sizes = split_sizes(node, input.shape()[axis])?;
    let part = |size| {
        let mut shape = input.shape().to_vec();
        shape[axis] = size;
        TensorType::new(input.dtype(), shape)
    };
    sizes.into_iter().map(part).collect()
}

/// The extents in an input.
pub(super) fn listed(node: &Inference<'_>, index: usize, name: &str) -> Result<Vec<usize>> {
    let name = format!("input '{name}'");
    let values = node.ints(index)?.unwrap_or_default();
    values.iter().map(|&value| extent(value, &name)).collect()
}

fn expand(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    let declared = Shape::new(listed(node, 1, "shape")?);
    let shape = input.shape().broadcast(&declared).ok_or_else(|| {
        invalid("input 'shape' does not broadcast with the input")
            .expected(format_args!("a shape that fits {}", input.shape()))
            .found(&declared)
    })?;
    one(input.dtype(), shape)
}

fn pad(node: &Inference<'_>) -> Inferred {
    let data = node.input(0)?;
    let mode = choice(
        node,
        "mode",
        "constant",
        &["constant", "reflect", "edge", "wrap"],
    )?;
    if let Some(value) = node.optional(2) {
        expect_dtype(value, "constant_value", data.dtype())?;
        expect_scalar(node, 2, "constant_value")?;
    }
    let mut shape = data.shape().to_vec();
    for (axis, (before, after)) in padding(node)?.into_iter().enumerate() {
        shape[axis] = padded(shape[axis], before, after, mode).map_err(|error| {
            error.found(format_args!("{before} and {after} around {}", shape[axis]))
        })?;
    }
    one(data.dtype(), shape)
}

fn padded(length: usize, before: i64, after: i64, mode: &str) -> Result<usize> {
    let all = length as i128 + i128::from(before) + i128::from(after);
    // Cropping comes first, and must not exceed the extent.
    let kept = length as i128 + i128::from(before.min(0)) + i128::from(after.min(0));
    if kept < 0 {
        return Err(invalid("input 'pads' crops more than the extent"));
    }
    let added = i128::from(before.max(after).max(0));
    let source = match mode {
        "reflect" => kept - 1,
        "edge" | "wrap" => (kept > 0).into(),
        _ => return usize::try_from(all).map_err(|_| too_large("the output", all)),
    };
    // A reflection has at most the elements besides the reflected edge.
    if added > 0 && (source < 1 || (mode == "reflect" && added > source)) {
        return Err(invalid(format!(
            "input 'pads' exceeds the elements that mode '{mode}' repeats"
        )));
    }
    usize::try_from(all).map_err(|_| too_large("the output", all))
}

fn tile(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    let repeats = listed(node, 1, "repeats")?;
    if repeats.len() != input.shape().len() {
        return Err(invalid("input 'repeats' has the wrong length")
            .expected(input.shape().len())
            .found(repeats.len()));
    }
    let dims = input.shape().iter().zip(&repeats);
    let shape = dims
        .map(|(&dim, &times)| product(dim, times, "the output"))
        .collect::<Result<Vec<_>>>()?;
    one(input.dtype(), shape)
}

fn depth_to_space(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    rank(input, "input", 4..=4)?;
    choice(node, "mode", "DCR", &["DCR", "CRD"])?;
    let block = positive(
        node.attributes.int("blocksize", 0)?,
        "attribute 'blocksize'",
    )?;
    let square = product(block, block, "attribute 'blocksize'")?;
    let shape = input.shape();
    if !shape[1].is_multiple_of(square) {
        return Err(
            invalid("attribute 'blocksize' does not divide the channels")
                .expected(format_args!("{} channels in blocks of {square}", shape[1]))
                .found(block),
        );
    }
    let (height, width) = (
        product(shape[2], block, "the output")?,
        product(shape[3], block, "the output")?,
    );
    one(input.dtype(), [shape[0], shape[1] / square, height, width])
}

fn space_to_depth(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    rank(input, "input", 4..=4)?;
    choice(node, "mode", "DCR", &["DCR", "CRD"])?;
    let block = positive(
        node.attributes.int("blocksize", 0)?,
        "attribute 'blocksize'",
    )?;
    let shape = input.shape();
    if !shape[2].is_multiple_of(block) || !shape[3].is_multiple_of(block) {
        return Err(invalid("attribute 'blocksize' does not divide the plane")
            .expected(format_args!("a divisor of {} and {}", shape[2], shape[3]))
            .found(block));
    }
    let square = product(block, block, "attribute 'blocksize'")?;
    let channels = product(shape[1], square, "the output")?;
    one(
        input.dtype(),
        [shape[0], channels, shape[2] / block, shape[3] / block],
    )
}

fn cast(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    one(
        dtype_attribute(node, "to", input.dtype())?,
        input.shape().clone(),
    )
}

fn bit_cast(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    let dtype = dtype_attribute(node, "to", input.dtype())?;
    if dtype.bits() != input.dtype().bits() || dtype.bits() == 0 {
        return Err(invalid("attribute 'to' is a type of another width")
            .expected(format_args!("{} bits", input.dtype().bits()))
            .found(dtype));
    }
    one(dtype, input.shape().clone())
}

fn cast_like(node: &Inference<'_>) -> Inferred {
    one(node.input(1)?.dtype(), node.input(0)?.shape().clone())
}

fn center_crop_pad(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    let mut shape = input.shape().to_vec();
    let named = match node.attributes.ints("axes")? {
        Some(values) => axes(values, shape.len(), "attribute 'axes'")?,
        None => (0..shape.len()).collect(),
    };
    let declared = listed(node, 1, "shape")?;
    if declared.len() != named.len() {
        return Err(invalid("input 'shape' has the wrong length")
            .expected(named.len())
            .found(declared.len()));
    }
    named
        .iter()
        .zip(declared)
        .for_each(|(&axis, dim)| shape[axis] = dim);
    one(input.dtype(), shape)
}

fn reverse_sequence(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    rank(input, "input", 2..=usize::MAX)?;
    let batch = node.attributes.int("batch_axis", 1)?;
    let time = node.attributes.int("time_axis", 0)?;
    if (batch, time) != (0, 1) && (batch, time) != (1, 0) {
        return Err(
            invalid("attributes 'batch_axis' and 'time_axis' are out of range")
                .expected("0 and 1, or 1 and 0")
                .found(format_args!("{batch} and {time}")),
        );
    }
    expect_shape(
        node.input(1)?,
        "sequence_lens",
        &[input.shape()[batch as usize]],
    )?;
    same(node)
}
