//! Views: the same bytes with another shape.

use super::rows::*;
use super::shapes::{Inferred, axes, axis, extent, invalid, one, same, too_large};
use crate::Inference;
use tenon_tensor::Shape;

operators! { "view"
    /// The elements in another shape; -1 is the remaining extent, 0 the input's extent of that dimension.
    View "Reshape" (required("data", ANY), known(required("shape", I64)))
        -> (required("reshaped", ANY))
        [int("allowzero", "1: 0 means an extent of 0; default 0")] reshape;
    /// A matrix of the dimensions before `axis` and those from it on.
    View "Flatten" (required("input", ANY)) -> (required("output", ANY))
        [int("axis", "the first dimension of the columns; default 1")] flatten;
    /// Without the dimensions `axes`, which must be 1; by default without all dimensions of 1.
    View "Squeeze" (required("data", ANY), known(optional("axes", I64)))
        -> (required("squeezed", ANY)) [] squeeze;
    /// With dimensions of 1 inserted at these positions of the output.
    View "Unsqueeze" (required("data", ANY), known(required("axes", I64)))
        -> (required("expanded", ANY)) [] unsqueeze;
    /// The input itself.
    View "Identity" (required("input", ANY)) -> (required("output", ANY)) [] same;
    /// The input itself: dropout applies in training only.
    View "Dropout"
        (required("data", FLOATS), optional("ratio", FLOATS), optional("training_mode", BOOL))
        -> (required("output", FLOATS)) [int("seed", "used in training only")] dropout;
}

fn reshape(node: &Inference<'_>) -> Inferred {
    let data = node.input(0)?;
    let declared = node.ints(1)?.unwrap_or_default();
    let allow_zero = node.attributes.flag("allowzero", false)?;
    let mut open = None;
    let mut dims = Vec::with_capacity(declared.len());
    for (index, &dim) in declared.iter().enumerate() {
        dims.push(match dim {
            -1 if open.is_some() => {
                return Err(invalid("input 'shape' holds -1 more than once")
                    .found(format_args!("{declared:?}")));
            }
            -1 => {
                open = Some(index);
                1
            }
            0 if !allow_zero => *data.shape().get(index).ok_or_else(|| {
                invalid("input 'shape' holds 0 where the input has no dimension")
                    .expected(format_args!("at most {} dimensions", data.shape().len()))
                    .found(format_args!("{declared:?}"))
            })?,
            _ => extent(dim, "input 'shape'")?,
        });
    }
    let unfit = || {
        invalid("input 'shape' does not hold the input's elements")
            .expected(format_args!(
                "{} elements, as {}",
                data.elements(),
                data.shape()
            ))
            .found(format_args!("{declared:?}"))
    };
    let known = Shape::new(&*dims)
        .checked_elements()
        .ok_or_else(|| too_large("input 'shape'", format_args!("{declared:?}")))?;
    if let Some(index) = open {
        if known == 0 || !data.elements().is_multiple_of(known) {
            return Err(unfit());
        }
        dims[index] = data.elements() / known;
    } else if known != data.elements() {
        return Err(unfit());
    }
    one(data.dtype(), dims)
}

fn flatten(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    let rank = input.shape().len();
    let at = node.attributes.int("axis", 1)?;
    // The end is a position too.
    let at = if usize::try_from(at) == Ok(rank) {
        rank
    } else {
        axis(at, rank, "attribute 'axis'")?
    };
    let count = |dims: &[usize]| {
        Shape::new(dims)
            .checked_elements()
            .ok_or_else(|| too_large("the output", format_args!("{dims:?}")))
    };
    one(
        input.dtype(),
        [count(&input.shape()[..at])?, count(&input.shape()[at..])?],
    )
}

fn squeeze(node: &Inference<'_>) -> Inferred {
    let data = node.input(0)?;
    let shape = data.shape();
    let Some(given) = node.ints(1)? else {
        return one(
            data.dtype(),
            shape
                .iter()
                .copied()
                .filter(|&d| d != 1)
                .collect::<Vec<_>>(),
        );
    };
    let named = axes(&given, shape.len(), "input 'axes'")?;
    for &axis in &named {
        if shape[axis] != 1 {
            return Err(invalid("input 'axes' names a dimension that is not 1")
                .expected("1")
                .found(format_args!("{} in dimension {axis}", shape[axis])));
        }
    }
    let kept = (0..shape.len())
        .filter(|axis| !named.contains(axis))
        .map(|axis| shape[axis]);
    one(data.dtype(), kept.collect::<Vec<_>>())
}

fn unsqueeze(node: &Inference<'_>) -> Inferred {
    let data = node.input(0)?;
    let given = node.ints(1)?.unwrap_or_default();
    let rank = data.shape().len() + given.len();
    let mut new = vec![false; rank];
    axes(&given, rank, "input 'axes'")?
        .into_iter()
        .for_each(|axis| new[axis] = true);
    let mut old = data.shape().iter().copied();
    let dims = new
        .into_iter()
        .map(|new| if new { 1 } else { old.next().unwrap_or(1) });
    one(data.dtype(), dims.collect::<Vec<_>>())
}

fn dropout(node: &Inference<'_>) -> Inferred {
    super::shapes::expect_scalar(node, 1, "ratio")?;
    if node.optional(2).is_some() && node.ints(2)?.is_some_and(|training| training.contains(&1)) {
        return Err(invalid("input 'training_mode' must be false").found("true"));
    }
    same(node)
}
