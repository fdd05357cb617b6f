//! Normalizations.

use super::rows::*;
use super::shapes::{
    Inferred, axes, axis_attribute, broadcasts_to, expect_shape, invalid, positive, rank, same,
    same_dtype,
};
use crate::operator::{AttributeDef, OperandDef};
use crate::{DataType, Inference};
use tenon_base::Result;
use tenon_tensor::TensorType;

const X: OperandDef = required("X", FLOATS);
const Y: OperandDef = required("Y", FLOATS);
const EPSILON: AttributeDef = float("epsilon", "added to the variance; default 1e-5");
const STASH: AttributeDef = int(
    "stash_type",
    "ONNX's number of the type in which statistics are computed: 1 (f32) or 16 (bf16); default 1",
);

operators! { "normalization"
    /// (X - mean) / sqrt(var + epsilon) * scale + B, with constant statistics for each channel.
    Compute "BatchNormalization"
        (X, required("scale", FLOATS), required("B", FLOATS), required("input_mean", FLOATS),
         required("input_var", FLOATS))
        -> (Y)
        [
            EPSILON,
            float("momentum", "used in training only; default 0.9"),
            int("training_mode", "must be 0; default 0"),
        ] batch;
    /// The same with the statistics of each channel of each batch element.
    Compute "InstanceNormalization"
        (required("input", FLOATS), required("scale", FLOATS), required("B", FLOATS))
        -> (required("output", FLOATS)) [EPSILON] instance;
    /// The same with the statistics of groups of channels of each batch element.
    Compute "GroupNormalization" (X, required("scale", FLOATS), required("bias", FLOATS)) -> (Y)
        [EPSILON, must(int("num_groups", "number of groups, a divisor of the channels")), STASH]
        group;
    /// The same with the statistics over the dimensions from `axis` on.
    Compute "LayerNormalization" (X, required("Scale", FLOATS), optional("B", FLOATS))
        -> (Y, optional("Mean", FLOATS), optional("InvStdDev", FLOATS))
        [int("axis", "the first dimension of the statistics; default -1"), EPSILON, STASH] layer;
    /// X divided by the root of its mean square over the dimensions from `axis` on, times scale.
    Compute "RMSNormalization" (X, required("scale", FLOATS)) -> (Y)
        [int("axis", "the first dimension of the mean; default -1"), EPSILON, STASH] rms;
    /// (X - mean) / standard deviation over some dimensions.
    Compute "MeanVarianceNormalization" (X) -> (Y)
        [ints("axes", "the dimensions of the statistics; default 0, 2, 3")] mean_variance;
    /// X divided by its norm along the axis; 0 where that is 0.
    Compute "LpNormalization" (required("input", FLOATS)) -> (required("output", FLOATS))
        [
            int("axis", "the dimension of the norm; default -1"),
            int("p", "the norm's exponent, 1 or 2; default 2"),
        ] lp;
    /// X / (bias + alpha / size * sum of squares over `size` channels around)^beta.
    Compute "LRN" (X) -> (Y)
        [
            float("alpha", "factor of the sum; default 1e-4"),
            float("beta", "exponent; default 0.75"),
            float("bias", "added to the sum; default 1"),
            must(int("size", "number of channels summed over")),
        ] local_response;
}

/// Checks that the inputs `names` from 1 on have one element for each channel.
fn each_channel(node: &Inference<'_>, names: &[&str]) -> Result<()> {
    let x = node.input(0)?;
    rank(x, names[0], 2..=usize::MAX)?;
    for (index, name) in names.iter().enumerate().skip(1) {
        expect_shape(node.input(index)?, name, &x.shape()[1..2])?;
    }
    Ok(())
}

fn batch(node: &Inference<'_>) -> Inferred {
    // A vector is a batch of one channel (ONNX, BatchNormalization).
    let x = node.input(0)?;
    rank(x, "X", 1..=usize::MAX)?;
    let channels = x.shape().get(1).copied().unwrap_or(1);
    for (index, name) in [(1, "scale"), (2, "B"), (3, "input_mean"), (4, "input_var")] {
        expect_shape(node.input(index)?, name, &[channels])?;
    }
    if node.attributes.flag("training_mode", false)? {
        return Err(invalid("attribute 'training_mode' must be 0").found(1));
    }
    same(node)
}

fn instance(node: &Inference<'_>) -> Inferred {
    let names = ["input", "scale", "B"];
    same_dtype(node, &names)?;
    each_channel(node, &names)?;
    same(node)
}

fn group(node: &Inference<'_>) -> Inferred {
    let names = ["X", "scale", "bias"];
    same_dtype(node, &names)?;
    each_channel(node, &names)?;
    let channels = node.input(0)?.shape()[1];
    let groups = positive(
        node.attributes.int("num_groups", 0)?,
        "attribute 'num_groups'",
    )?;
    if !channels.is_multiple_of(groups) {
        return Err(
            invalid("attribute 'num_groups' does not divide the channels")
                .expected(format_args!("a divisor of {channels}"))
                .found(groups),
        );
    }
    same(node)
}

fn layer(node: &Inference<'_>) -> Inferred {
    same_dtype(node, &["X", "Scale", "B"])?;
    let x = node.input(0)?;
    let axis = axis_attribute(node, -1, x.shape().len())?;
    for (index, name) in [(1, "Scale"), (2, "B")] {
        if let Some(ty) = node.optional(index) {
            broadcasts_to(ty, name, x.shape())?;
        }
    }
    let mut shape = x.shape().to_vec();
    shape[axis..].fill(1);
    let statistics = TensorType::new(stash(node)?, shape)?;
    Ok(vec![x.clone(), statistics.clone(), statistics])
}

/// The type of statistics, by ONNX's number.
fn stash(node: &Inference<'_>) -> Result<DataType> {
    match node.attributes.int("stash_type", 1)? {
        1 => Ok(DataType::F32),
        16 => Ok(DataType::BF16),
        other => Err(invalid("attribute 'stash_type' has an unknown value")
            .expected("1 (f32) or 16 (bf16)")
            .found(other)),
    }
}

fn rms(node: &Inference<'_>) -> Inferred {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    axis_attribute(node, -1, x.shape().len())?;
    stash(node)?;
    broadcasts_to(scale, "scale", x.shape())?;
    super::shapes::one(scale.dtype(), x.shape().clone())
}

fn mean_variance(node: &Inference<'_>) -> Inferred {
    let rank = node.input(0)?.shape().len();
    let given = node.attributes.ints("axes")?.unwrap_or(&[0, 2, 3]);
    axes(given, rank, "attribute 'axes'")?;
    same(node)
}

fn lp(node: &Inference<'_>) -> Inferred {
    axis_attribute(node, -1, node.input(0)?.shape().len())?;
    match node.attributes.int("p", 2)? {
        1 | 2 => same(node),
        other => Err(invalid("attribute 'p' is out of range")
            .expected("1 or 2")
            .found(other)),
    }
}

fn local_response(node: &Inference<'_>) -> Inferred {
    rank(node.input(0)?, "X", 2..=usize::MAX)?;
    positive(node.attributes.int("size", 0)?, "attribute 'size'")?;
    same(node)
}
