//! Slices, pads and splits with resolved indices.

use crate::Inference;
use crate::ops::shapes::{axes, extent, invalid, too_large};
use tenon_base::Result;

/// The slice of one dimension: `length` elements from `start`, `step` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceAxis {
    /// The first element.
    pub start: usize,
    /// The distance between elements; may be negative, not 0.
    pub step: i64,
    /// The number of elements.
    pub length: usize,
}

/// The slice of each dimension of the input of `Slice`; dimensions not in `axes` are whole.
pub fn slice_axes(node: &Inference<'_>) -> Result<Vec<SliceAxis>> {
    let shape = node.input(0)?.shape();
    let starts = node.ints(1)?.unwrap_or_default();
    let ends = node.ints(2)?.unwrap_or_default();
    let named = match node.ints(3)? {
        Some(values) => axes(&values, shape.len(), "input 'axes'")?,
        None => (0..starts.len()).collect(),
    };
    let steps = node.ints(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    for (name, length) in [
        ("starts", starts.len()),
        ("ends", ends.len()),
        ("steps", steps.len()),
    ] {
        if length != named.len() {
            return Err(invalid(format!("input '{name}' has the wrong length"))
                .expected(named.len())
                .found(length));
        }
    }
    let mut whole: Vec<SliceAxis> = shape
        .iter()
        .map(|&length| SliceAxis {
            start: 0,
            step: 1,
            length,
        })
        .collect();
    for (index, &axis) in named.iter().enumerate() {
        let target = whole.get_mut(axis).ok_or_else(|| {
            invalid("input 'starts' has more entries than the tensor dimensions")
                .expected(shape.len())
                .found(starts.len())
        })?;
        *target = one_axis(starts[index], ends[index], steps[index], target.length)?;
    }
    Ok(whole)
}

fn one_axis(start: i64, end: i64, step: i64, length: usize) -> Result<SliceAxis> {
    if step == 0 {
        return Err(invalid("input 'steps' holds a zero")
            .expected("not 0")
            .found(0));
    }
    if length == 0 {
        return Ok(SliceAxis {
            start: 0,
            step,
            length: 0,
        });
    }
    let (length, step) = (length as i128, i128::from(step));
    let from_end = |position: i64| {
        let position = i128::from(position);
        if position < 0 {
            position + length
        } else {
            position
        }
    };
    // ONNX clamps indices to the dimension: a slice with negative step starts at an element (in NumPy
    // it may start before the first) and ends before the first at most.
    let (low, high) = if step > 0 {
        (0, length)
    } else {
        (-1, length - 1)
    };
    let start_at = from_end(start).clamp(0, high);
    let end_at = from_end(end).clamp(low, high);
    let span = if step > 0 {
        end_at - start_at
    } else {
        start_at - end_at
    };
    let count = if span <= 0 {
        0
    } else {
        (span + step.abs() - 1) / step.abs()
    };
    Ok(SliceAxis {
        start: usize::try_from(start_at).unwrap_or(0),
        step: step as i64,
        length: count as usize,
    })
}

/// The elements that `Pad` adds before and after each dimension; negative values crop.
pub fn padding(node: &Inference<'_>) -> Result<Vec<(i64, i64)>> {
    let rank = node.input(0)?.shape().len();
    let pads = node.ints(1)?.unwrap_or_default();
    let named = match node.ints(3)? {
        Some(values) => axes(&values, rank, "input 'axes'")?,
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * named.len() {
        return Err(invalid("input 'pads' has the wrong length")
            .expected(format_args!("{}, two for each dimension", 2 * named.len()))
            .found(pads.len()));
    }
    let mut padding = vec![(0, 0); rank];
    for (index, &axis) in named.iter().enumerate() {
        padding[axis] = (pads[index], pads[named.len() + index]);
    }
    Ok(padding)
}

/// The extents of the outputs of `Split` along its axis of extent `length`.
pub fn split_sizes(node: &Inference<'_>, length: usize) -> Result<Vec<usize>> {
    if let Some(values) = node.ints(1)? {
        return explicit_sizes(&values, node.outputs, length);
    }
    let parts = match node.attributes.int("num_outputs", 0)? {
        0 => node.outputs,
        given if usize::try_from(given) == Ok(node.outputs) => node.outputs,
        given => {
            return Err(
                invalid("attribute 'num_outputs' is not the number of outputs")
                    .expected(node.outputs)
                    .found(given),
            );
        }
    };
    if parts == 0 {
        return Ok(Vec::new());
    }
    // Equal parts; the last is smaller when the length does not divide evenly.
    let part = length.div_ceil(parts);
    let sizes: Vec<usize> = (0..parts)
        .map(|index| length.saturating_sub(index.saturating_mul(part)).min(part))
        .collect();
    Ok(sizes)
}

fn explicit_sizes(values: &[i64], outputs: usize, length: usize) -> Result<Vec<usize>> {
    if values.len() != outputs {
        return Err(invalid("input 'split' has the wrong length")
            .expected(format_args!("{outputs}, one for each output"))
            .found(values.len()));
    }
    let sizes: Vec<usize> = values
        .iter()
        .map(|&value| extent(value, "input 'split'"))
        .collect::<Result<_>>()?;
    let total = sizes
        .iter()
        .try_fold(0usize, |total, &size| total.checked_add(size))
        .ok_or_else(|| too_large("input 'split'", format_args!("{values:?}")))?;
    if total != length {
        return Err(invalid("input 'split' does not add up to the dimension")
            .expected(length)
            .found(format_args!("{values:?}")));
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(start: i64, end: i64, step: i64, length: usize) -> (usize, usize) {
        let axis = one_axis(start, end, step, length).unwrap();
        (axis.start, axis.length)
    }

    #[test]
    fn slices_follow_onnx() {
        assert_eq!(axis(1, 4, 1, 5), (1, 3));
        assert_eq!(axis(-3, i64::MAX, 1, 5), (2, 3));
        assert_eq!(axis(-1, i64::MIN, -1, 5), (4, 5));
        assert_eq!(axis(4, 0, -2, 5), (4, 2));
        assert_eq!(axis(3, 1, 1, 5).1, 0);
        assert_eq!(axis(-7, -9, -1, 5), (0, 1), "as ONNX, not as NumPy");
        assert_eq!(axis(0, 5, i64::MAX, 5), (0, 1));
        assert_eq!(axis(9, 0, -1, 5), (4, 4));
        assert_eq!(axis(0, 9, 1, 0).1, 0);
        assert_eq!(axis(0, i64::MIN, -1, 0).1, 0);
        assert!(one_axis(0, 1, 0, 5).is_err());
        assert_eq!(axis(i64::MIN, i64::MAX, i64::MIN, 5).1, 0);
    }

    #[test]
    fn split_sizes_must_sum_to_the_extent() {
        assert_eq!(explicit_sizes(&[2, 3], 2, 5).unwrap(), [2, 3]);
        assert!(explicit_sizes(&[2, 2], 2, 5).is_err());
        assert!(explicit_sizes(&[i64::MAX, i64::MAX, 7], 3, 5).is_err());
        assert!(explicit_sizes(&[6, -1], 2, 5).is_err());
    }
}
