//! Pooling: one value for each window, or for each channel.

use super::rows::*;
use super::shapes::{Inferred, invalid, one, positive, rank};
use crate::geometry::Window;
use crate::operator::{AttributeDef, OperandDef};
use crate::{DataType, Inference};
use tenon_base::Result;
use tenon_tensor::TensorType;

const X: OperandDef = required("X", FLOATS);
const Y: OperandDef = required("Y", FLOATS);
const AUTO_PAD: AttributeDef = string(
    "auto_pad",
    "NOTSET (explicit pads), VALID, SAME_UPPER or SAME_LOWER; default NOTSET",
);
const CEIL_MODE: AttributeDef = int(
    "ceil_mode",
    "1: the last window may extend beyond the padding; default 0",
);
const DILATIONS: AttributeDef = ints(
    "dilations",
    "distance between elements of a window, for each spatial dimension; default 1s",
);
const KERNEL_SHAPE: AttributeDef = must(ints("kernel_shape", "spatial extents of a window"));
const PADS: AttributeDef = ints(
    "pads",
    "padding before each spatial dimension, then after each; default 0s",
);
const STRIDES: AttributeDef = ints(
    "strides",
    "distance between windows, for each spatial dimension; default 1s",
);
const P: AttributeDef = int("p", "the norm's exponent; default 2");

operators! { "pooling"
    /// The maximum of each window, and its index in X in row-major order.
    Compute "MaxPool" (required("X", NUMERIC))
        -> (required("Y", NUMERIC), optional("Indices", I64))
        [
            AUTO_PAD, CEIL_MODE, DILATIONS, KERNEL_SHAPE, PADS, STRIDES,
            int("storage_order", "1: indices are in column-major order; default 0"),
        ] max_pool;
    /// The mean of each window.
    Compute "AveragePool" (X) -> (Y)
        [
            AUTO_PAD, CEIL_MODE, DILATIONS, KERNEL_SHAPE, PADS, STRIDES,
            int("count_include_pad", "1: padding counts as elements of value 0; default 0"),
        ] pool;
    /// The p-norm of each window.
    Compute "LpPool" (X) -> (Y)
        [AUTO_PAD, CEIL_MODE, DILATIONS, KERNEL_SHAPE, PADS, STRIDES, P] lp_pool;
    /// The maximum of each channel.
    Compute "GlobalMaxPool" (X) -> (Y) [] global;
    /// The mean of each channel.
    Compute "GlobalAveragePool" (X) -> (Y) [] global;
    /// The p-norm of each channel.
    Compute "GlobalLpPool" (X) -> (Y) [P] global_lp;
    /// The inverse of MaxPool: elements of X at the indices I, 0 elsewhere.
    Compute "MaxUnpool"
        (required("X", FLOATS), required("I", I64), known(optional("output_shape", I64)))
        -> (required("output", FLOATS))
        [KERNEL_SHAPE, PADS, STRIDES] max_unpool;
}

/// `kernel_shape` for a tensor with `spatial` spatial dimensions.
fn kernel(node: &Inference<'_>, spatial: usize) -> Result<Vec<usize>> {
    let given = node.attributes.ints("kernel_shape")?.unwrap_or_default();
    if given.len() != spatial {
        return Err(invalid("attribute 'kernel_shape' has the wrong length")
            .expected(spatial)
            .found(format_args!("{given:?}")));
    }
    given
        .iter()
        .map(|&value| positive(value, "attribute 'kernel_shape'"))
        .collect()
}

fn pooled(node: &Inference<'_>) -> Result<TensorType> {
    let x = node.input(0)?;
    let dims = rank(x, "X", 3..=usize::MAX)?;
    let window = Window::sliding(node.attributes, &x.shape()[2..], &kernel(node, dims - 2)?)?;
    TensorType::new(x.dtype(), [&x.shape()[..2], &*window.output].concat())
}

fn pool(node: &Inference<'_>) -> Inferred {
    Ok(vec![pooled(node)?])
}

fn max_pool(node: &Inference<'_>) -> Inferred {
    let y = pooled(node)?;
    let indices = TensorType::new(DataType::I64, y.shape().clone())?;
    Ok(vec![y, indices])
}

fn lp_pool(node: &Inference<'_>) -> Inferred {
    positive(node.attributes.int("p", 2)?, "attribute 'p'")?;
    pool(node)
}

fn global(node: &Inference<'_>) -> Inferred {
    let x = node.input(0)?;
    let dims = rank(x, "X", 2..=usize::MAX)?;
    let mut shape = x.shape()[..2].to_vec();
    shape.resize(dims, 1);
    one(x.dtype(), shape)
}

fn global_lp(node: &Inference<'_>) -> Inferred {
    positive(node.attributes.int("p", 2)?, "attribute 'p'")?;
    global(node)
}

fn max_unpool(node: &Inference<'_>) -> Inferred {
    let x = node.input(0)?;
    let dims = rank(x, "X", 3..=usize::MAX)?;
    super::shapes::expect_shape(node.input(1)?, "I", x.shape())?;
    if let Some(values) = node.ints(2)? {
        if values.len() != dims {
            return Err(invalid("input 'output_shape' has the wrong length")
                .expected(dims)
                .found(values.len()));
        }
        let shape: Vec<usize> = values
            .iter()
            .map(|&value| super::shapes::extent(value, "input 'output_shape'"))
            .collect::<Result<_>>()?;
        return one(x.dtype(), shape);
    }
    let window = Window::transposed(node.attributes, &x.shape()[2..], &kernel(node, dims - 2)?)?;
    one(x.dtype(), [&x.shape()[..2], &*window.output].concat())
}
