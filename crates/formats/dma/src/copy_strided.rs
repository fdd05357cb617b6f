//! Lowers strided copies of any rank to descriptors: adjacent dimensions are merged, dimensions
//! beyond the limit of a descriptor are unrolled.

use crate::{Access, Descriptor, Extents, MAX_DIMENSIONS, Operation, VariableId};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::DataType;

/// A strided view of a variable: the byte offset of its first element and the byte stride of each
/// dimension, outermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StridedView {
    /// The variable.
    pub variable: VariableId,
    /// Byte of the first element.
    pub offset: u64,
    /// Byte strides, one per dimension, outermost first. 0 repeats an element, a negative stride
    /// goes backwards.
    pub strides: Vec<i64>,
}

impl StridedView {
    /// A view of a variable.
    pub fn new(variable: VariableId, offset: u64, strides: impl Into<Vec<i64>>) -> Self {
        Self {
            variable,
            offset,
            strides: strides.into(),
        }
    }

    /// A contiguous row-major view.
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

/// A loop: its trip count and the byte steps of source and target.
#[derive(Clone, Copy)]
struct Dimension {
    count: u64,
    from: i64,
    to: i64,
}

/// The descriptors that copy an array of elements of `element_bytes` and `shape` (outermost first)
/// from one view to another. Adjacent dimensions are merged where the strides of both sides allow;
/// dimensions beyond [`MAX_DIMENSIONS`] are unrolled into several descriptors. An empty array
/// yields no descriptor.
///
/// # Errors
/// When the ranks differ or an offset overflows.
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
    // The innermost loop of every access pattern is over the bytes of an element.
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

/// Adds an outer loop, merged into the outermost one where it continues it on both sides.
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

/// Unrolls dimensions beyond [`MAX_DIMENSIONS`]: one descriptor per combination of their indices.
fn split(dims: &[Dimension], from: &StridedView, to: &StridedView) -> Result<Vec<Descriptor>> {
    // Unroll the loops with the fewest iterations; never loop 0, the bytes of an element.
    let mut unrolled: Vec<usize> = (1..dims.len()).collect();
    unrolled.sort_by_key(|&index| dims[index].count);
    unrolled.truncate(dims.len().saturating_sub(MAX_DIMENSIONS));
    unrolled.sort_unstable();
    let inner: Vec<Dimension> = (0..dims.len())
        .filter(|index| !unrolled.contains(index))
        .map(|index| dims[index])
        .collect();
    let mut offsets = vec![(from.offset, to.offset)];
    for &index in unrolled.iter().rev() {
        let dim = dims[index];
        let mut next = Vec::with_capacity(offsets.len());
        for &(from_offset, to_offset) in &offsets {
            for step in 0..dim.count {
                next.push((
                    offset_after(from_offset, dim.from, step)?,
                    offset_after(to_offset, dim.to, step)?,
                ));
            }
        }
        offsets = next;
    }
    let sizes: Extents = inner.iter().map(|dim| dim.count).collect();
    let access = |variable, offset, steps| Access {
        variable,
        offset,
        sizes: sizes.clone(),
        steps,
        dtype: DataType::U8,
    };
    Ok(offsets
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

fn offset_after(offset: u64, step: i64, count: u64) -> Result<u64> {
    i64::try_from(count)
        .ok()
        .and_then(|count| step.checked_mul(count))
        .and_then(|bytes| offset.checked_add_signed(bytes))
        .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "a strided copy overflows"))
}

/// The descriptor that casts `elements` contiguous elements.
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
                format!("cast does not support elements of type {dtype}"),
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
    fn a_contiguous_copy_is_one_descriptor_of_one_run() {
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
    fn dimensions_beyond_the_limit_are_unrolled() {
        // The reversal of five axes merges nothing: 5 + 1 dimensions, 2 * 3 descriptors.
        let shape = [2, 3, 4, 5, 6];
        let to = StridedView::contiguous(B, 0, 4, &shape);
        let from = StridedView::new(A, 0, [4, 8, 24, 96, 480]);
        let descriptors = copy_strided(4, &shape, &from, &to).unwrap();
        assert_eq!(descriptors.len(), 6);
        assert_eq!(descriptors[5].from[0].offset, 4 + 2 * 8);
        assert!(descriptors.iter().all(|d| d.check(|_| Some(2880)).is_ok()));
    }

    #[test]
    fn empty_copies_need_no_descriptor_and_ranks_must_match() {
        let view = StridedView::contiguous(A, 0, 4, &[0, 3]);
        assert_eq!(copy_strided(4, &[0, 3], &view, &view).unwrap(), []);
        assert!(copy_strided(4, &[3], &view, &view).is_err());
        let back = StridedView::new(A, 8, [-4]);
        let list = copy_strided(4, &[3], &back, &StridedView::new(B, 0, [4])).unwrap();
        assert_eq!((list.len(), &list[0].from[0].steps[..]), (1, &[1, -4][..]));
    }
}
