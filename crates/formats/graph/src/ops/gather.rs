//! Gather and scatter: elements read from, or written to, the indices of another tensor.

use super::rows::*;
use super::shapes::{
    Inferred, axis, axis_attribute, choice, expect_dtype, expect_shape, extent, invalid, one, rank,
    same,
};
use crate::Inference;
use crate::operator::AttributeDef;
use tenon_base::Result;
use tenon_tensor::Shape;

const AXIS: AttributeDef = int("axis", "the dimension of the indices; default 0");
const REDUCTION: AttributeDef = string(
    "reduction",
    "none (the update replaces), add, mul, max or min; default none",
);
const REDUCTIONS: &[&str] = &["none", "add", "mul", "max", "min"];

operators! { "gather"
    /// Slices of `data` along the axis: the axis is replaced by the dimensions of `indices`.
    /// Negative indices count from the end.
    Compute "Gather" (required("data", ANY), required("indices", INDICES))
        -> (required("output", ANY)) [AXIS] gather;
    /// For each position in `indices` the element of `data` at the same position, except that the index
    /// replaces its coordinate along the axis.
    Compute "GatherElements" (required("data", ANY), required("indices", INDICES))
        -> (required("output", ANY)) [AXIS] gather_elements;
    /// The last dimension of `indices` has coordinates in the first dimensions of `data`.
    Compute "GatherND" (required("data", ANY), required("indices", I64))
        -> (required("output", ANY))
        [int("batch_dims", "leading dimensions that are batches; default 0")] gather_nd;
    /// `data` with `updates` at the `indices` along the axis.
    Compute "ScatterElements"
        (required("data", ANY), required("indices", INDICES), required("updates", ANY))
        -> (required("output", ANY)) [AXIS, REDUCTION] scatter_elements;
    /// `data` with `updates` at the coordinates in the last dimension of `indices`.
    Compute "ScatterND"
        (required("data", ANY), required("indices", I64), required("updates", ANY))
        -> (required("output", ANY)) [REDUCTION] scatter_nd;
    /// A cache of keys or values with `update` written along the axis, from `write_indices` on.
    Compute "TensorScatter"
        (required("past_cache", ANY), required("update", ANY), optional("write_indices", I64))
        -> (required("present_cache", ANY))
        [
            int("axis", "the sequence's dimension, not the first; default -2"),
            string("mode", "linear, or circular: positions wrap at the end; default linear"),
        ] tensor_scatter;
}

fn gather(node: &Inference<'_>) -> Inferred {
    let (data, indices) = (node.input(0)?, node.input(1)?);
    let axis = axis_attribute(node, 0, data.shape().len())?;
    let (before, after) = (&data.shape()[..axis], &data.shape()[axis + 1..]);
    one(data.dtype(), [before, indices.shape(), after].concat())
}

fn gather_elements(node: &Inference<'_>) -> Inferred {
    let (data, indices) = (node.input(0)?, node.input(1)?);
    let dims = rank(data, "data", 1..=usize::MAX)?;
    let axis = axis_attribute(node, 0, dims)?;
    rank(indices, "indices", dims..=dims)?;
    expect_within(indices.shape(), data.shape(), axis)?;
    one(data.dtype(), indices.shape().clone())
}

/// Refuses indices along `axis` that are larger than the data in another dimension.
fn expect_within(indices: &Shape, data: &Shape, axis: usize) -> Result<()> {
    let mut dims = (0..data.len()).filter(|&dim| dim != axis);
    if dims.any(|dim| indices[dim] > data[dim]) {
        return Err(invalid("input 'indices' is larger than the data")
            .expected(format_args!("at most {data} but for dimension {axis}"))
            .found(indices));
    }
    Ok(())
}

fn gather_nd(node: &Inference<'_>) -> Inferred {
    let (data, indices) = (node.input(0)?, node.input(1)?);
    let dims = rank(data, "data", 1..=usize::MAX)?;
    let index_dims = rank(indices, "indices", 1..=usize::MAX)?;
    let batch = extent(
        node.attributes.int("batch_dims", 0)?,
        "attribute 'batch_dims'",
    )?;
    if batch >= dims.min(index_dims) || data.shape()[..batch] != indices.shape()[..batch] {
        return Err(
            invalid("attribute 'batch_dims' names dimensions that differ")
                .expected(format_args!("leading dimensions of {}", data.shape()))
                .found(format_args!("{batch} of {}", indices.shape())),
        );
    }
    let depth = indices.shape()[index_dims - 1];
    if depth == 0 || depth > dims - batch {
        return Err(invalid("input 'indices' names too many dimensions")
            .expected(format_args!("1 to {}", dims - batch))
            .found(depth));
    }
    let shape = [
        &indices.shape()[..index_dims - 1],
        &data.shape()[batch + depth..],
    ]
    .concat();
    one(data.dtype(), shape)
}

fn scatter_elements(node: &Inference<'_>) -> Inferred {
    let (data, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
    expect_dtype(updates, "updates", data.dtype())?;
    choice(node, "reduction", "none", REDUCTIONS)?;
    let dims = rank(data, "data", 1..=usize::MAX)?;
    let axis = axis_attribute(node, 0, dims)?;
    rank(indices, "indices", dims..=dims)?;
    expect_shape(updates, "updates", indices.shape())?;
    expect_within(indices.shape(), data.shape(), axis)?;
    same(node)
}

fn scatter_nd(node: &Inference<'_>) -> Inferred {
    let (data, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
    expect_dtype(updates, "updates", data.dtype())?;
    choice(node, "reduction", "none", REDUCTIONS)?;
    let dims = rank(data, "data", 1..=usize::MAX)?;
    let index_dims = rank(indices, "indices", 1..=usize::MAX)?;
    let depth = indices.shape()[index_dims - 1];
    if depth > dims {
        return Err(invalid("input 'indices' names too many dimensions")
            .expected(format_args!("at most {dims}"))
            .found(depth));
    }
    let expected = [&indices.shape()[..index_dims - 1], &data.shape()[depth..]].concat();
    expect_shape(updates, "updates", &expected)?;
    same(node)
}

fn tensor_scatter(node: &Inference<'_>) -> Inferred {
    let (cache, update) = (node.input(0)?, node.input(1)?);
    expect_dtype(update, "update", cache.dtype())?;
    choice(node, "mode", "linear", &["linear", "circular"])?;
    let dims = rank(cache, "past_cache", 2..=usize::MAX)?;
    let axis = axis(node.attributes.int("axis", -2)?, dims, "attribute 'axis'")?;
    if axis == 0 {
        return Err(invalid("attribute 'axis' is the batch's dimension")
            .expected("not 0")
            .found(0));
    }
    rank(update, "update", dims..=dims)?;
    let fits = (0..dims).all(|dim| {
        if dim == axis {
            update.shape()[dim] <= cache.shape()[dim]
        } else {
            update.shape()[dim] == cache.shape()[dim]
        }
    });
    if !fits {
        return Err(invalid("input 'update' does not fit the cache")
            .expected(format_args!(
                "{} or less in dimension {axis}",
                cache.shape()
            ))
            .found(update.shape()));
    }
    if let Some(indices) = node.optional(2) {
        expect_shape(indices, "write_indices", &cache.shape()[..1])?;
    }
    same(node)
}
