//! Iteration over the units of an access pattern: for operations on elements, and for copies between
//! patterns whose dimensions do not divide each other.

use crate::loops::{Dimension, dimensions, start};
use crate::{Access, MAX_DIMENSIONS};

/// A cursor over the units of an access pattern.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    /// Innermost first; unused dimensions have count 1.
    dims: [Dimension; MAX_DIMENSIONS],
    index: [usize; MAX_DIMENSIONS],
    /// Offset of the first unit from the lowest byte of the pattern.
    start: usize,
    offset: usize,
}

/// Units at equal distances: a part of the innermost dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub offset: usize,
    pub count: usize,
    pub step: isize,
}

impl Row {
    /// The offset of unit `index`.
    pub fn at(&self, index: usize) -> usize {
        offset_after(self.offset, index, self.step)
    }
}

/// The offset `count` steps further. Offsets inside a checked pattern do not wrap; intermediate
/// products of negative steps may.
fn offset_after(offset: usize, count: usize, step: isize) -> usize {
    offset.wrapping_add_signed(step.wrapping_mul(count as isize))
}

impl Walk {
    /// A cursor over units of `unit` bytes of a checked pattern, which is a whole number of them.
    pub fn new(access: &Access, unit: usize) -> Option<Self> {
        let mut dims = dimensions(access)?;
        let start = start(&dims)?;
        if unit > 1 {
            let first = dims.first_mut()?;
            if first.step != 1 || !first.count.is_multiple_of(unit) {
                return None;
            }
            *first = Dimension {
                count: first.count / unit,
                step: isize::try_from(unit).ok()?,
            };
            if first.count == 1 && dims.len() > 1 {
                dims.remove(0);
            }
        }
        let mut fixed = [Dimension {
            count: 1,
            step: isize::try_from(unit).ok()?,
        }; MAX_DIMENSIONS];
        fixed.get_mut(..dims.len())?.copy_from_slice(&dims);
        Some(Self {
            dims: fixed,
            index: [0; MAX_DIMENSIONS],
            start,
            offset: start,
        })
    }

    /// Number of units.
    pub fn len(&self) -> usize {
        self.dims.iter().map(|dim| dim.count).product()
    }

    /// Moves to unit `number`.
    pub fn seek(&mut self, mut number: usize) {
        self.offset = self.start;
        for (dim, index) in self.dims.iter().zip(&mut self.index) {
            *index = number % dim.count;
            number /= dim.count;
            self.offset = offset_after(self.offset, *index, dim.step);
        }
    }

    /// The step in bytes and the units per iteration of the outermost dimension, when its iterations
    /// access disjoint ascending byte ranges.
    pub fn outermost(&self, bytes: usize) -> Option<(usize, usize)> {
        let axis = self.dims.iter().rposition(|dim| dim.count > 1)?;
        let mut inner = bytes;
        for dim in &self.dims[..axis] {
            inner =
                inner.checked_add(usize::try_from(dim.step).ok()?.checked_mul(dim.count - 1)?)?;
        }
        let step = usize::try_from(self.dims[axis].step).ok()?;
        let units = self.dims[..axis].iter().map(|dim| dim.count).product();
        (inner <= step).then_some((step, units))
    }

    /// A cursor over at most the first `count` iterations of the outermost dimension.
    pub fn first(&self, count: usize) -> Self {
        let mut walk = *self;
        if let Some(outer) = walk.dims.iter_mut().rfind(|dim| dim.count > 1) {
            outer.count = outer.count.min(count);
        }
        walk
    }

    /// The units that [`Walk::next`] returns.
    pub fn row(&self, most: usize) -> Row {
        let inner = self.dims[0];
        let count = most.min(inner.count - self.index[0]);
        Row {
            offset: self.offset,
            count,
            step: inner.step,
        }
    }

    /// Returns at most `most` units of the innermost dimension and advances past them. Wraps around at
    /// the end of the pattern.
    pub fn next(&mut self, most: usize) -> Row {
        let row = self.row(most);
        self.index[0] += row.count;
        self.offset = row.at(row.count);
        for axis in 0..MAX_DIMENSIONS {
            let dim = self.dims[axis];
            if self.index[axis] < dim.count {
                break;
            }
            self.index[axis] = 0;
            self.offset = offset_after(self.offset, dim.count, dim.step.wrapping_neg());
            if axis + 1 < MAX_DIMENSIONS {
                self.index[axis + 1] += 1;
                self.offset = offset_after(self.offset, 1, self.dims[axis + 1].step);
            }
        }
        row
    }
}

/// The largest unit that divides the innermost runs of both patterns.
pub(crate) fn common_unit(a: &Access, b: &Access) -> usize {
    let run = |access: &Access| match dimensions(access).as_deref() {
        Some([first, ..]) if first.step == 1 => first.count,
        _ => 1,
    };
    gcd(run(a), run(b)).max(1)
}

/// The greatest common divisor.
pub(crate) fn gcd(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VariableId;
    use smallvec::smallvec;
    use tenon_tensor::DataType;

    #[test]
    fn next_returns_rows_in_order_and_seek_finds_each_unit() {
        let access = Access {
            variable: VariableId(0),
            offset: 0,
            sizes: smallvec![8, 3, 2],
            steps: smallvec![1, 16, 100],
            dtype: DataType::F32,
        };
        let mut walk = Walk::new(&access, 4).unwrap();
        assert_eq!(walk.len(), 12);
        let mut offsets = Vec::new();
        while offsets.len() < 12 {
            let row = walk.next(3);
            offsets.extend((0..row.count).map(|index| row.at(index)));
        }
        assert_eq!(
            offsets,
            [0, 4, 16, 20, 32, 36, 100, 104, 116, 120, 132, 136]
        );
        assert_eq!(walk.next(1).offset, 0);
        let back = Access {
            offset: 200,
            steps: smallvec![1, -16, -100],
            ..access
        };
        assert_eq!(Walk::new(&back, 4).unwrap().next(9).offset, 132);
        for (number, &offset) in offsets.iter().enumerate() {
            walk.seek(number);
            assert_eq!(
                walk.next(1),
                Row {
                    offset,
                    count: 1,
                    step: 4
                }
            );
        }
    }
}
