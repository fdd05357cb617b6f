//! Walks the units of an access pattern in order: for operations on elements, and for copies
//! between patterns whose dimensions do not divide each other.

use crate::loops::{Dimension, dimensions, start};
use crate::{Access, MAX_DIMENSIONS};

/// A position in an access pattern that visits units of some bytes each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    /// Innermost first; those left over count 1.
    dims: [Dimension; MAX_DIMENSIONS],
    index: [usize; MAX_DIMENSIONS],
    /// Of the first unit, from the lowest byte of the pattern.
    start: usize,
    offset: usize,
}

/// Units at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub offset: usize,
    pub count: usize,
    pub step: isize,
}

impl Row {
    /// Where unit `index` starts.
    pub fn at(&self, index: usize) -> usize {
        moved(self.offset, index, self.step)
    }
}

/// Steps away from an offset. Inside a checked pattern nothing wraps; the products of steps taken back
/// may.
fn moved(offset: usize, count: usize, step: isize) -> usize {
    offset.wrapping_add_signed(step.wrapping_mul(count as isize))
}

impl Walk {
    /// The units of `unit` bytes of a checked pattern, which are whole.
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

    /// Units in all.
    pub fn len(&self) -> usize {
        self.dims.iter().map(|dim| dim.count).product()
    }

    /// Goes to a unit by its number.
    pub fn seek(&mut self, mut number: usize) {
        self.offset = self.start;
        for (dim, index) in self.dims.iter().zip(&mut self.index) {
            *index = number % dim.count;
            number /= dim.count;
            self.offset = moved(self.offset, *index, dim.step);
        }
    }

    /// The outermost dimension, when its iterations touch ranges of bytes that follow each other:
    /// the bytes from one to the next, and the units of each.
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

    /// The first iterations of the outermost dimension, at most so many.
    pub fn first(&self, count: usize) -> Self {
        let mut walk = *self;
        if let Some(outer) = walk.dims.iter_mut().rfind(|dim| dim.count > 1) {
            outer.count = outer.count.min(count);
        }
        walk
    }

    /// The units that [`Walk::next`] would give.
    pub fn row(&self, most: usize) -> Row {
        let inner = self.dims[0];
        let count = most.min(inner.count - self.index[0]);
        Row {
            offset: self.offset,
            count,
            step: inner.step,
        }
    }

    /// The next units at equal distances, at most `most`, and moves behind them. At the end it
    /// starts again.
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
            self.offset = moved(self.offset, dim.count, dim.step.wrapping_neg());
            if axis + 1 < MAX_DIMENSIONS {
                self.index[axis + 1] += 1;
                self.offset = moved(self.offset, 1, self.dims[axis + 1].step);
            }
        }
        row
    }
}

/// The largest unit of which the innermost runs of both patterns are whole multiples.
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
    fn rows_in_order_and_seeking() {
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
