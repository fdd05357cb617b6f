//! Makes descriptors for strided copies of any rank.

use crate::{Access, Descriptor, Extents, MAX_DIMENSIONS, Operation, VariableId};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::DataType;

/// Where the elements of an array lie: a variable, the byte of the first element, and the bytes
/// between neighbours along each dimension, outermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StridedView {
    /// The variable.
    pub variable: VariableId,
    /// Byte of the first element.
    pub offset: u64,
    /// Bytes from an element to the next, one a dimension, outermost first. 0 repeats, a negative
    /// one goes backwards.
    pub strides: Vec<i64>,
}

impl StridedView {
    /// A place in a variable.
    pub fn new(variable: VariableId, offset: u64, strides: impl Into<Vec<i64>>) -> Self {
        Self {
            variable,
            offset,
            strides: strides.into(),
        }
    }

    /// Row-major and without gaps.
    pub fn contiguous(
        variable: VariableId,
        offset: u64,
        element_bytes: usize,
        shape: &[usize],
    ) -> Self {
        let mut strides = vec![0i64; shape.len()];
        let mut stride = i64::try_from(element_bytes).unwrap_or(i64::MAX);
        for (axis, &extent) in shape.iter().enumerate().rev() {
            strides[axis] = stride;
            stride = stride.saturating_mul(i64::try_from(extent.max(1)).unwrap_or(i64::MAX));
        }
        Self {
            variable,
            offset,
            strides,
        }
    }
}

/// A loop over elements: how many, and the byte steps of both sides.
#[derive(Clone, Copy)]
struct Dimension {
    count: u64,
    from: i64,
    to: i64,
}

/// The descriptors that copy an array of elements of `element_bytes` and `shape` (outermost first)
/// from one place to another. Neighbouring dimensions merge where both sides allow; where more
/// remain than a descriptor has, the outermost ones become several descriptors. An array without
/// elements needs none.
///
/// A negative stride goes backwards from the place's first element. Fails when the ranks differ or an
/// offset overflows.
pub fn copy_strided(
    element_bytes: usize,
    shape: &[usize],
    from: &StridedView,
    to: &StridedView,
) -> Result<Vec<Descriptor>> {
    let rank = shape.len();
    if from.strides.len() != rank || to.strides.len() != rank {
        return Err(
            Error::new(ErrorKind::InvalidArgument, "ranks of a strided copy differ")
                .expected(rank)
                .found(format_args!(
                    "{} and {}",
                    from.strides.len(),
                    to.strides.len()
                )),
        );
    }
    if element_bytes == 0 || shape.contains(&0) {
        return Ok(Vec::new());
    }
    // Bytes of an element are the innermost loop of every access pattern.
    let mut dims = vec![Dimension {
        count: element_bytes as u64,
        from: 1,
        to: 1,
    }];
    for axis in (0..rank).rev() {
        let (from, to) = (from.strides[axis], to.strides[axis]);
        push_merged(
            &mut dims,
            Dimension {
                count: shape[axis] as u64,
                from,
                to,
            },
        );
    }
    split(&dims, from, to)
}

/// Adds a loop outside of the others, as part of the outermost one if it only continues it.
fn push_merged(dims: &mut Vec<Dimension>, dim: Dimension) {
    if dim.count == 1 {
        return;
    }
    if let Some(last) = dims.last_mut() {
        let continues = |step: i64, next: i64| {
            i64::try_from(last.count)
                .ok()
                .and_then(|count| step.checked_mul(count))
                == Some(next)
        };
        if continues(last.from, dim.from)
            && continues(last.to, dim.to)
            && let Some(count) = last.count.checked_mul(dim.count)
        {
            last.count = count;
            return;
        }
    }
    dims.push(dim);
}

/// One descriptor for each combination of the dimensions that a descriptor has no room for.
fn split(dims: &[Dimension], from: &StridedView, to: &StridedView) -> Result<Vec<Descriptor>> {
    // The loops with the fewest iterations are the ones to unroll; the first holds the bytes.
    let mut unrolled: Vec<usize> = (1..dims.len()).collect();
    unrolled.sort_by_key(|&index| dims[index].count);
    unrolled.truncate(dims.len().saturating_sub(MAX_DIMENSIONS));
    unrolled.sort_unstable();
    let inner: Vec<Dimension> = (0..dims.len())
        .filter(|index| !unrolled.contains(index))
        .map(|index| dims[index])
        .collect();
    let mut places = vec![(from.offset, to.offset)];
    for &index in unrolled.iter().rev() {
        let dim = dims[index];
        let mut next = Vec::with_capacity(places.len());
        for &(from_offset, to_offset) in &places {
            for step in 0..dim.count {
                next.push((
                    moved(from_offset, dim.from, step)?,
                    moved(to_offset, dim.to, step)?,
                ));
            }
        }
        places = next;
    }
    let sizes: Extents = inner.iter().map(|dim| dim.count).collect();
    let access = |variable, offset, steps| Access {
        variable,
        offset,
        sizes: sizes.clone(),
        steps,
        dtype: DataType::U8,
    };
    Ok(places
        .into_iter()
        .map(|(from_offset, to_offset)| {
            Descriptor::copy(
                access(
                    from.variable,
                    from_offset,
                    inner.iter().map(|dim| dim.from).collect(),
                ),
                access(
                    to.variable,
                    to_offset,
                    inner.iter().map(|dim| dim.to).collect(),
                ),
            )
        })
        .collect())
}

fn moved(offset: u64, step: i64, count: u64) -> Result<u64> {
    i64::try_from(count)
        .ok()
        .and_then(|count| step.checked_mul(count))
        .and_then(|bytes| offset.checked_add_signed(bytes))
        .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "a strided copy overflows"))
}

/// The descriptor that converts `elements` packed elements.
pub fn cast_contiguous(
    elements: usize,
    from: (VariableId, u64, DataType),
    to: (VariableId, u64, DataType),
) -> Result<Descriptor> {
    let access = |(variable, offset, dtype): (VariableId, u64, DataType)| {
        let bytes = dtype
            .bytes(elements)
            .filter(|_| crate::check::is_movable(dtype));
        let bytes = bytes.ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!("elements {dtype} do not move by cast"),
            )
        })?;
        Ok::<_, Error>(Access {
            dtype,
            ..Access::bytes(variable, offset, bytes as u64)
        })
    };
    Ok(Descriptor {
        operation: Operation::Cast,
        from: vec![access(from)?],
        to: access(to)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: VariableId = VariableId(0);
    const B: VariableId = VariableId(1);

    #[test]
    fn a_plain_copy_is_one_run() {
        let shape = [2, 3, 4];
        let from = StridedView::contiguous(A, 8, 4, &shape);
        let to = StridedView::contiguous(B, 0, 4, &shape);
        let descriptors = copy_strided(4, &shape, &from, &to).unwrap();
        assert_eq!(
            descriptors,
            [Descriptor::copy(
                Access::bytes(A, 8, 96),
                Access::bytes(B, 0, 96)
            )]
        );
    }

    #[test]
    fn concat_along_the_last_axis_keeps_rows() {
        let from = StridedView::contiguous(A, 0, 4, &[5, 3]);
        let to = StridedView::new(B, 12, [24, 4]);
        let descriptors = copy_strided(4, &[5, 3], &from, &to).unwrap();
        assert_eq!(descriptors.len(), 1);
        assert_eq!(descriptors[0].to.sizes[..], [12, 5]);
        assert_eq!(descriptors[0].to.steps[..], [1, 24]);
        assert_eq!(descriptors[0].from[0].steps[..], [1, 12]);
    }

    #[test]
    fn more_dimensions_become_more_descriptors() {
        // The full reversal of five axes: nothing merges, 5 + 1 dimensions, 2 * 3 descriptors.
        let shape = [2, 3, 4, 5, 6];
        let to = StridedView::contiguous(B, 0, 4, &shape);
        let from = StridedView::new(A, 0, [4, 8, 24, 96, 480]);
        let descriptors = copy_strided(4, &shape, &from, &to).unwrap();
        assert_eq!(descriptors.len(), 6);
        assert_eq!(descriptors[5].from[0].offset, 4 + 2 * 8);
        assert!(descriptors.iter().all(|d| d.check(|_| Some(2880)).is_ok()));
    }

    #[test]
    fn empty_and_wrong_copies() {
        let place = StridedView::contiguous(A, 0, 4, &[0, 3]);
        assert_eq!(copy_strided(4, &[0, 3], &place, &place).unwrap(), []);
        assert!(copy_strided(4, &[3], &place, &place).is_err());
        let back = StridedView::new(A, 8, [-4]);
        let list = copy_strided(4, &[3], &back, &StridedView::new(B, 0, [4])).unwrap();
        assert_eq!((list.len(), &list[0].from[0].steps[..]), (1, &[1, -4][..]));
    }
}
