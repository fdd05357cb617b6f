//! A copy as one loop nest over source and target, the input of the copy kernels.

use crate::Access;

/// Maximum rank of the common refinement of two patterns: a transpose splits four dimensions at four
/// boundaries, and the four dimensions of the target split them again.
pub(crate) const MAX_LOOPS: usize = 12;

/// A loop: its trip count and the byte steps of source and target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Loop {
    pub count: usize,
    pub from: isize,
    pub to: isize,
}

/// A loop nest, innermost first, around a run of contiguous bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nest {
    /// Bytes that are contiguous on both sides.
    pub run: usize,
    loops: [Loop; MAX_LOOPS],
    rank: usize,
    /// Offset that the first iteration reads, from the lowest byte of the source.
    pub from_start: usize,
    /// Offset that the first iteration writes, from the lowest byte of the target.
    pub to_start: usize,
    /// Whether no byte of the target is written twice, so that loops may run in any order.
    pub is_injective: bool,
}

impl Nest {
    /// The common refinement of two non-empty patterns of equal volume; `None` when the dimensions of
    /// one do not divide those of the other.
    pub fn new(mut reads: Vec<Dimension>, mut writes: Vec<Dimension>) -> Option<Self> {
        let mut nest = Self {
            run: 1,
            loops: Default::default(),
            rank: 0,
            from_start: start(&reads)?,
            to_start: start(&writes)?,
            is_injective: true,
        };
        reads.reverse();
        writes.reverse();
        while let (Some(read), Some(write)) = (reads.last_mut(), writes.last_mut()) {
            let count = read.count.min(write.count);
            let each = Loop {
                count,
                from: read.step,
                to: write.step,
            };
            if !read.split(count)? | !write.split(count)? {
                return None;
            }
            nest.push(each)?;
            for side in [&mut reads, &mut writes] {
                if side.last().is_some_and(|last| last.count == 1) {
                    side.pop();
                }
            }
        }
        nest.is_injective = nest.is_surely_injective();
        if nest.is_injective {
            nest.order_by_target()?;
        }
        nest.extract_run();
        Some(nest)
    }

    /// The loops around the run, innermost first.
    pub fn loops(&self) -> &[Loop] {
        &self.loops[..self.rank]
    }

    /// Adds an outer loop, merged into the outermost one where it continues it on both sides.
    fn push(&mut self, next: Loop) -> Option<()> {
        if next.count == 1 {
            return Some(());
        }
        if let Some(last) = self.loops[..self.rank].last_mut()
            && last.from.checked_mul(isize::try_from(last.count).ok()?) == Some(next.from)
            && last.to.checked_mul(isize::try_from(last.count).ok()?) == Some(next.to)
        {
            last.count *= next.count;
            return Some(());
        }
        *self.loops.get_mut(self.rank)? = next;
        self.rank += 1;
        Some(())
    }

    /// Turns an innermost loop over contiguous bytes into the run.
    fn extract_run(&mut self) {
        if let Some(&Loop {
            count,
            from: 1,
            to: 1,
        }) = self.loops().first()
        {
            self.run = count;
            self.loops.copy_within(1.., 0);
            self.rank -= 1;
        }
    }

    /// A sufficient condition for injective writes: sorted by length, each step is at least as long
    /// as the range that the shorter steps cover.
    fn is_surely_injective(&self) -> bool {
        let mut sorted = self.loops;
        let sorted = &mut sorted[..self.rank];
        sorted.sort_unstable_by_key(|each| each.to.unsigned_abs());
        let mut covered = 1usize;
        sorted.iter().all(|each| {
            let step = each.to.unsigned_abs();
            let clear = step >= covered;
            covered = step.saturating_mul(each.count - 1).saturating_add(covered);
            clear
        })
    }

    /// Reverses loops of negative target steps, sorts all by target step, so that the target is
    /// written in ascending order, and merges again.
    fn order_by_target(&mut self) -> Option<()> {
        let rank = std::mem::take(&mut self.rank);
        let mut sorted = self.loops;
        let sorted = &mut sorted[..rank];
        for each in sorted.iter_mut().filter(|each| each.to < 0) {
            let last = isize::try_from(each.count - 1).ok()?;
            self.from_start = self.from_start.checked_add_signed(last * each.from)?;
            self.to_start = self.to_start.checked_add_signed(last * each.to)?;
            (each.from, each.to) = (-each.from, -each.to);
        }
        sorted.sort_by_key(|each| each.to);
        sorted.iter().try_for_each(|each| self.push(*each))
    }
}

/// A dimension of the source or of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dimension {
    pub count: usize,
    pub step: isize,
}

impl Dimension {
    /// Splits off `count` inner iterations: the remaining outer loop steps over all of them. False
    /// when `count` does not divide the trip count; `None` when the step overflows.
    fn split(&mut self, count: usize) -> Option<bool> {
        if !self.count.is_multiple_of(count) {
            return Some(false);
        }
        self.count /= count;
        if self.count > 1 {
            self.step = self.step.checked_mul(isize::try_from(count).ok()?)?;
        }
        Some(true)
    }
}

/// The dimensions of a checked pattern, innermost first, without those of size 1, adjacent ones
/// merged; `None` when they exceed the address space.
pub(crate) fn dimensions(access: &Access) -> Option<Vec<Dimension>> {
    let mut dimensions: Vec<Dimension> = Vec::new();
    for (&count, &step) in access.sizes.iter().zip(&access.steps) {
        let (count, step) = (usize::try_from(count).ok()?, isize::try_from(step).ok()?);
        if count == 1 {
            continue;
        }
        match dimensions.last_mut() {
            Some(last)
                if last.step.checked_mul(isize::try_from(last.count).ok()?) == Some(step) =>
            {
                last.count = last.count.checked_mul(count)?;
            }
            _ => dimensions.push(Dimension { count, step }),
        }
    }
    Some(dimensions)
}

/// Offset of the first element of a pattern from its lowest byte.
pub(crate) fn start(dimensions: &[Dimension]) -> Option<usize> {
    let backwards = dimensions.iter().filter(|dim| dim.step < 0);
    backwards
        .map(|dim| dim.step.unsigned_abs().checked_mul(dim.count - 1))
        .try_fold(0usize, |start, bytes| start.checked_add(bytes?))
}

/// The order in which a transpose reads a source of dimensions `reads` (docs/dma.md, "Transpose");
/// `None` when the shape does not split them at whole iterations.
pub(crate) fn transposed(
    mut reads: Vec<Dimension>,
    element_size: usize,
    shape: [usize; 4],
) -> Option<Vec<Dimension>> {
    let [a, b, c, d] = shape;
    reads.reverse();
    let mut groups = [(); 5].map(|()| Vec::new());
    for (group, mut left) in groups.iter_mut().zip([element_size, d, b, c, a]) {
        while left > 1 {
            let read = reads.last_mut()?;
            let count = left.min(read.count);
            if !left.is_multiple_of(count) {
                return None;
            }
            let step = read.step;
            if !read.split(count)? {
                return None;
            }
            group.push(Dimension { count, step });
            left /= count;
            if read.count == 1 {
                reads.pop();
            }
        }
    }
    groups.swap(1, 4);
    Some(groups.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VariableId;
    use tenon_tensor::DataType;

    fn access(sizes: &[u64], steps: &[i64]) -> Access {
        Access {
            variable: VariableId(0),
            offset: 0,
            sizes: sizes.into(),
            steps: steps.into(),
            dtype: DataType::U8,
        }
    }

    fn refined(from: &Access, to: &Access) -> Option<Nest> {
        Nest::new(dimensions(from)?, dimensions(to)?)
    }

    #[test]
    fn patterns_of_different_shape_have_a_common_refinement() {
        // 24 successive bytes into three rows of 8, 16 apart.
        let nest = refined(&access(&[24], &[1]), &access(&[8, 3], &[1, 16])).unwrap();
        assert_eq!(nest.run, 8);
        assert_eq!(
            nest.loops(),
            [Loop {
                count: 3,
                from: 8,
                to: 16
            }]
        );
        assert!(nest.is_injective);
        assert!(refined(&access(&[6, 2], &[1, 8]), &access(&[4, 3], &[1, 8])).is_none());
    }

    #[test]
    fn a_target_written_twice_is_not_injective() {
        let nest = refined(&access(&[4, 3], &[1, 4]), &access(&[4, 3], &[1, 0])).unwrap();
        assert!(!nest.is_injective);
        let nest = refined(&access(&[4, 3], &[1, 4]), &access(&[4, 3], &[1, 2])).unwrap();
        assert!(!nest.is_injective);
    }

    #[test]
    fn a_transpose_is_ordered_by_its_target() {
        let from = access(&[4, 5, 7], &[1, 4, 20]);
        let to = access(&[4, 5, 7], &[1, 28, 4]);
        let nest = refined(&from, &to).unwrap();
        assert_eq!(nest.run, 4);
        let inner = Loop {
            count: 7,
            from: 20,
            to: 4,
        };
        assert_eq!(
            nest.loops(),
            [
                inner,
                Loop {
                    count: 5,
                    from: 4,
                    to: 28
                }
            ]
        );
    }

    #[test]
    fn loops_with_negative_target_steps_are_reversed() {
        // Both sides backwards: contiguous runs. The source alone: a row read backwards.
        let back = access(&[4, 3], &[1, -4]);
        assert_eq!(refined(&back, &back).unwrap().run, 12);
        let reversed = refined(&back, &access(&[12], &[1])).unwrap();
        assert_eq!((reversed.from_start, reversed.to_start), (8, 0));
        assert_eq!(reversed.loops()[0].from, -4);
        let reversed = refined(&access(&[12], &[1]), &back).unwrap();
        assert_eq!((reversed.from_start, reversed.to_start), (8, 0));
        assert_eq!(reversed.loops()[0].from, -4);
        assert_eq!(reversed.loops()[0].to, 4);
    }

    #[test]
    fn a_transpose_reads_by_columns() {
        let dims = |list: &[(usize, isize)]| -> Vec<Dimension> {
            let dims = list.iter().map(|&(count, step)| Dimension { count, step });
            dims.collect()
        };
        // Three rows of two elements of four bytes.
        let order = transposed(dims(&[(24, 1)]), 4, [3, 1, 1, 2]).unwrap();
        assert_eq!(order, dims(&[(4, 1), (3, 8), (2, 4)]));
        assert!(transposed(dims(&[(6, 1), (4, 9)]), 4, [3, 1, 1, 2]).is_none());
    }
}
