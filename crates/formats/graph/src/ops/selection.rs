//! Selection: indices of elements, selected elements, cumulative sums.

use super::reduction::reduced_shape;
use super::rows::*;
use super::shapes::{
    Inferred, axis, axis_attribute, broadcast, expect_dtype, expect_scalar, extent, invalid, one,
    rank, same,
};
use crate::geometry::{selected_boxes, unique_elements};
use crate::operator::{AttributeDef, OperandDef};
use crate::{DataType, Inference};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{Tensor, TensorType};

const AXIS: AttributeDef = int("axis", "the dimension that is searched; default 0");
const KEEP: AttributeDef = int(
    "keepdims",
    "1: the dimension remains with extent 1; default 1",
);
const LAST: AttributeDef = int(
    "select_last_index",
    "among equal elements, 1: the last, 0: the first; default 0",
);
const EXCLUSIVE: AttributeDef = int("exclusive", "1: without the element itself; default 0");
const REVERSE: AttributeDef = int("reverse", "1: from the end to the start; default 0");
const ALONG: OperandDef = required("axis", INDICES);

operators! { "selection"
    /// X where the condition is true, else Y; all three are broadcast.
    Compute "Where" (required("condition", BOOL), required("X", ANY), required("Y", ANY))
        -> (required("output", ANY)) [] select;
    /// The index of the maximum along the axis.
    Compute "ArgMax" (required("data", NUMERIC)) -> (required("reduced", I64))
        [AXIS, KEEP, LAST] position;
    /// The index of the minimum along the axis.
    Compute "ArgMin" (required("data", NUMERIC)) -> (required("reduced", I64))
        [AXIS, KEEP, LAST] position;
    /// The K largest (or smallest) elements along the axis, and their indices.
    Compute "TopK" (required("X", NUMERIC), known(required("K", I64)))
        -> (required("Values", NUMERIC), required("Indices", I64))
        [
            int("axis", "the dimension that is searched; default -1"),
            int("largest", "1: the largest, 0: the smallest; default 1"),
            int("sorted", "1: sorted, largest (or smallest) first; default 1"),
        ] top_k;
    /// The cumulative sum along an axis.
    Compute "CumSum" (required("x", NUMERIC), ALONG) -> (required("y", NUMERIC))
        [EXCLUSIVE, REVERSE] running;
    /// The cumulative product along an axis.
    Compute "CumProd" (required("x", NUMERIC), ALONG) -> (required("y", NUMERIC))
        [EXCLUSIVE, REVERSE] running;
    /// The triangle of the last two dimensions on one side of a diagonal, 0 elsewhere.
    Compute "Trilu" (required("input", PLAIN), optional("k", I64)) -> (required("output", PLAIN))
        [int("upper", "1: the upper triangle, 0: the lower; default 1")] triangle;
    /// The second of `values` at each index along a new axis of extent `depth`, else the first.
    Compute "OneHot"
        (required("indices", NUMERIC), known(required("depth", NUMERIC)), required("values", ANY))
        -> (required("output", ANY))
        [int("axis", "the position of the new dimension in the output; default -1")] one_hot;
    /// The indices of nonzero elements, one column each.
    Compute "NonZero" (known(required("X", PLAIN))) -> (required("Y", I64)) [] non_zero;
    /// The distinct elements, or slices along the axis, in order; the index of the first occurrence of
    /// each, the inverse indices, and the counts.
    Compute "Unique" (known(required("X", PLAIN)))
        -> (required("Y", PLAIN), optional("indices", I64), optional("inverse_indices", I64),
            optional("counts", I64))
        [
            int("axis", "the dimension whose slices are compared; default: all, flattened"),
            int("sorted", "1: in ascending order; 0: in that of the input; default 1"),
        ] unique;
    /// Greedy non-maximum suppression: boxes [B, N, 4], scores [B, C, N]; rows of batch, class and box.
    Compute "NonMaxSuppression"
        (known(required("boxes", F32)), known(required("scores", F32)),
         known(optional("max_output_boxes_per_class", I64)), known(optional("iou_threshold", F32)),
         known(optional("score_threshold", F32)))
        -> (required("selected_indices", I64))
        [int("center_point_box", "1: boxes are center and extents, x first; 0: two corners; default 0")]
        suppression;
    /// The slices along the axis for which the condition is true; without axis, the elements.
    Compute "Compress" (required("input", ANY), known(required("condition", BOOL)))
        -> (required("output", ANY))
        [int("axis", "the dimension of the slices; default: all, flattened")] compress;
}

fn select(node: &Inference<'_>) -> Inferred {
    let dtype = node.input(1)?.dtype();
    expect_dtype(node.input(2)?, "Y", dtype)?;
    one(dtype, broadcast(node, &["condition", "X", "Y"])?)
}

fn position(node: &Inference<'_>) -> Inferred {
    let data = node.input(0)?;
    let axis = axis_attribute(node, 0, data.shape().len())?;
    if data.shape()[axis] == 0 {
        return Err(invalid("input 'data' has no elements along the axis").found(data.shape()));
    }
    let keep = node.attributes.flag("keepdims", true)?;
    one(DataType::I64, reduced_shape(data.shape(), &[axis], keep))
}

fn top_k(node: &Inference<'_>) -> Inferred {
    let x = node.input(0)?;
    let axis = axis_attribute(node, -1, x.shape().len())?;
    let k = extent(only(node.ints(1)?.unwrap_or_default(), "K")?, "input 'K'")?;
    if k > x.shape()[axis] {
        return Err(invalid("input 'K' is larger than the dimension")
            .expected(format_args!("at most {}", x.shape()[axis]))
            .found(k));
    }
    let mut shape = x.shape().to_vec();
    shape[axis] = k;
    let values = TensorType::new(x.dtype(), shape.clone())?;
    Ok(vec![values, TensorType::new(DataType::I64, shape)?])
}

fn only<T>(values: Vec<T>, name: &str) -> Result<T> {
    let found = values.len();
    let mut values = values.into_iter();
    match (values.next(), found) {
        (Some(value), 1) => Ok(value),
        _ => Err(invalid(format!("input '{name}' is not a scalar"))
            .expected("one element")
            .found(found)),
    }
}

fn running(node: &Inference<'_>) -> Inferred {
    let dims = rank(node.input(0)?, "x", 1..=usize::MAX)?;
    expect_scalar(node, 1, "axis")?;
    // The axis does not determine the shape; it is checked when it is constant.
    if let Some(values) = node.constant(1).and_then(Tensor::to_i64s) {
        axis(only(values, "axis")?, dims, "input 'axis'")?;
    }
    same(node)
}

fn triangle(node: &Inference<'_>) -> Inferred {
    rank(node.input(0)?, "input", 2..=usize::MAX)?;
    expect_scalar(node, 1, "k")?;
    same(node)
}

fn one_hot(node: &Inference<'_>) -> Inferred {
    let (indices, values) = (node.input(0)?, node.input(2)?);
    super::shapes::expect_shape(values, "values", &[2])?;
    let depth = only(node.float_values(1)?.unwrap_or_default(), "depth")?;
    if !(0.0..9e15).contains(&depth) {
        return Err(invalid("input 'depth' is out of range")
            .expected("at least 0")
            .found(depth));
    }
    let mut shape = indices.shape().to_vec();
    let at = axis(
        node.attributes.int("axis", -1)?,
        shape.len() + 1,
        "attribute 'axis'",
    )?;
    shape.insert(at, depth as usize);
    one(values.dtype(), shape)
}

fn non_zero(node: &Inference<'_>) -> Inferred {
    let x = node.input(0)?;
    let elements = node.constant(0).ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "input 'X' decides the output's shape, but its value is not known when compiling",
        )
    })?;
    // A scalar is treated as a tensor of one dimension.
    one(
        DataType::I64,
        [x.shape().len().max(1), count_non_zero(elements)],
    )
}

fn count_non_zero(tensor: &Tensor) -> usize {
    let width = (tensor.dtype().bits() / 8).max(1);
    let is_float = tensor.dtype().is_float();
    tensor
        .bytes()
        .chunks_exact(width)
        .filter(|bytes| match bytes.split_last() {
            // A zero may be negative: the sign is the top bit of the last byte.
            Some((last, rest)) if is_float => last << 1 != 0 || rest.iter().any(|&b| b != 0),
            _ => bytes.iter().any(|&b| b != 0),
        })
        .count()
}

fn unique(node: &Inference<'_>) -> Inferred {
    let (x, found) = (node.input(0)?, unique_elements(node)?);
    let count = found.first.len();
    let shape = if found.by_axis {
        let mut shape = x.shape().to_vec();
        let axis = axis_attribute(node, 0, shape.len())?;
        shape[axis] = count;
        shape
    } else {
        vec![count]
    };
    let list = |length: usize| TensorType::new(DataType::I64, [length]);
    let mut types = vec![
        TensorType::new(x.dtype(), shape)?,
        list(count)?,
        list(found.extent)?,
        list(count)?,
    ];
    types.truncate(node.outputs.max(1));
    Ok(types)
}

fn suppression(node: &Inference<'_>) -> Inferred {
    one(DataType::I64, [selected_boxes(node)?.len(), 3])
}

fn compress(node: &Inference<'_>) -> Inferred {
    let (input, condition) = (node.input(0)?, node.input(1)?);
    rank(condition, "condition", 1..=1)?;
    let taken = |length: usize, flags: &[i64]| {
        if flags.len() > length {
            return Err(invalid("input 'condition' is longer than the dimension")
                .expected(format_args!("at most {length}"))
                .found(flags.len()));
        }
        Ok(flags.iter().filter(|&&flag| flag != 0).count())
    };
    let flags = node.ints(1)?.unwrap_or_default();
    if node.attribute("axis").is_none() {
        return one(input.dtype(), [taken(input.elements(), &flags)?]);
    }
    let mut shape = input.shape().to_vec();
    let axis = axis_attribute(node, 0, shape.len())?;
    shape[axis] = taken(shape[axis], &flags)?;
    one(input.dtype(), shape)
}
