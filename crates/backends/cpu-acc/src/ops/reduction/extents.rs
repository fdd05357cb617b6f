//! The loops over the kept and reduced dimensions of a tensor. Adjacent dimensions that are all reduced,
//! or all kept, are one.

use std::ops::Range;

/// A loop over a dimension: its extent and the distance of its elements.
pub(in crate::ops) type Loop = (usize, usize);

/// A tensor as kept and reduced dimensions, of which the innermost are contiguous.
#[derive(Debug, Clone, Default)]
pub(in crate::ops) struct Extents {
    /// Kept dimensions before the last, outermost first.
    pub(in crate::ops) kept: Vec<Loop>,
    /// Reduced dimensions before the last, outermost first.
    pub(in crate::ops) far: Vec<Loop>,
    /// Elements of a row, or rows of a matrix of columns.
    pub(in crate::ops) length: usize,
    /// Columns; 1 for a row.
    pub(in crate::ops) inner: usize,
}

/// The offset of position `index` of nested loops.
#[inline(always)]
pub(in crate::ops) fn offset(loops: &[Loop], mut index: usize) -> usize {
    if loops.is_empty() {
        return 0;
    }
    if let &[(_, stride)] = loops {
        return index * stride;
    }
    let mut at = 0;
    for &(extent, stride) in loops.iter().rev() {
        at += index % extent * stride;
        index /= extent;
    }
    at
}

impl Extents {
    pub(in crate::ops) fn new(shape: &[usize], reduced: &[bool]) -> Self {
        let mut dims: Vec<(usize, bool)> = Vec::new();
        for (&extent, &reduced) in shape.iter().zip(reduced) {
            match dims.last_mut() {
                _ if extent == 1 => {}
                Some((above, same)) if *same == reduced => *above *= extent,
                _ => dims.push((extent, reduced)),
            }
        }
        let inner = match dims.last() {
            Some(&(extent, false)) => {
                dims.pop();
                extent
            }
            _ => 1,
        };
        let length = dims.pop().map_or(1, |(extent, _)| extent);
        let mut stride = length * inner;
        let mut loops = Self {
            length,
            inner,
            ..Self::default()
        };
        for &(extent, reduced) in dims.iter().rev() {
            let list = if reduced {
                &mut loops.far
            } else {
                &mut loops.kept
            };
            list.insert(0, (extent, stride));
            stride *= extent;
        }
        loops
    }

    /// Positions of the reduced dimensions: rows of columns, or elements of rows.
    pub(in crate::ops) fn positions(&self) -> usize {
        self.far.iter().map(|dim| dim.0).product::<usize>() * self.length
    }

    /// Kept positions before the columns.
    pub(in crate::ops) fn lines(&self) -> usize {
        self.kept.iter().map(|dim| dim.0).product()
    }

    /// The parts of a range of outputs that are each in one line: the offset of the line's first element,
    /// and the columns.
    #[inline(always)]
    pub(super) fn line_parts(
        &self,
        outputs: Range<usize>,
    ) -> impl Iterator<Item = (usize, Range<usize>)> {
        // There are no outputs where there are no columns.
        let inner = self.inner.max(1);
        let (mut line, mut column) = (outputs.start / inner, outputs.start % inner);
        let mut left = outputs.len();
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let count = (inner - column).min(left);
            let part = (offset(&self.kept, line), column..column + count);
            left -= count;
            (line, column) = (line + 1, 0);
            Some(part)
        })
    }
}

/// Whether each dimension is one of `axes`, which shape inference has checked.
pub(in crate::ops) fn reduced_dimensions(axes: &[i64], rank: usize) -> Vec<bool> {
    let mut reduced = vec![false; rank];
    for &axis in axes {
        let axis = if axis < 0 { axis + rank as i64 } else { axis };
        reduced[axis as usize] = true;
    }
    reduced
}
