//! A copy as one nest of loops over both sides, in the form the fast kernels want.

use crate::Access;

/// Loops that the refinement of two access patterns can have.
pub(crate) const MAX_LOOPS: usize = 8;

/// A loop: how many iterations, and the byte steps of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Loop {
    pub count: usize,
    pub from: usize,
    pub to: usize,
}

/// A nest of loops, innermost first, around a run of successive bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nest {
    /// Bytes that lie together on both sides.
    pub run: usize,
    loops: [Loop; MAX_LOOPS],
    rank: usize,
    /// Whether no byte of the target is written twice, so that loops may run in any order.
    pub is_injective: bool,
}

impl Nest {
    /// The common refinement of two patterns that visit as many bytes, neither of them none;
    /// `None` when the dimensions of one do not divide those of the other.
    pub fn new(from: &Access, to: &Access) -> Option<Self> {
        let mut nest = Self {
            run: 1,
            loops: Default::default(),
            rank: 0,
            is_injective: true,
        };
        let (mut reads, mut writes) = (dimensions(from)?, dimensions(to)?);
        reads.reverse();
        writes.reverse();
        while let (Some(read), Some(write)) = (reads.last_mut(), writes.last_mut()) {
            let count = read.count.min(write.count);
            if read.count % count != 0 || write.count % count != 0 {
                return None;
            }
            nest.push(Loop {
                count,
                from: read.step,
                to: write.step,
            });
            for side in [&mut reads, &mut writes] {
                if let Some(last) = side.last_mut() {
                    last.count /= count;
                    last.step = last.step.checked_mul(count)?;
                    if last.count == 1 {
                        side.pop();
                    }
                }
            }
        }
        nest.take_run();
        nest.is_injective = nest.writes_once();
        if nest.is_injective {
            nest.order_by_target();
        }
        Some(nest)
    }

    /// The loops around the run, innermost first.
    pub fn loops(&self) -> &[Loop] {
        &self.loops[..self.rank]
    }

    /// Adds a loop outside of the others, as part of the last one if it only continues it.
    fn push(&mut self, next: Loop) {
        if next.count == 1 {
            return;
        }
        if let Some(last) = self.loops[..self.rank].last_mut()
            && last.from.checked_mul(last.count) == Some(next.from)
            && last.to.checked_mul(last.count) == Some(next.to)
        {
            last.count *= next.count;
            return;
        }
        // Two patterns of four dimensions refine to at most seven.
        if let Some(slot) = self.loops.get_mut(self.rank) {
            *slot = next;
            self.rank += 1;
        }
    }

    fn take_run(&mut self) {
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

    /// Each step at least as long as all that the shorter ones cover: enough to be sure.
    fn writes_once(&self) -> bool {
        let mut sorted = self.loops;
        let sorted = &mut sorted[..self.rank];
        sorted.sort_unstable_by_key(|each| each.to);
        let mut covered = self.run;
        sorted.iter().all(|each| {
            let clear = each.to >= covered;
            covered = each
                .to
                .saturating_mul(each.count - 1)
                .saturating_add(covered);
            clear
        })
    }

    /// Orders the loops so that the target is written from its start to its end, and merges again.
    fn order_by_target(&mut self) {
        let rank = std::mem::take(&mut self.rank);
        let mut sorted = self.loops;
        sorted[..rank].sort_by_key(|each| each.to);
        for each in &sorted[..rank] {
            self.push(*each);
        }
    }
}

/// A dimension of one side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dimension {
    pub count: usize,
    pub step: usize,
}

/// The dimensions of a checked pattern that do anything, innermost first and merged; `None` when
/// they do not fit the address space.
pub(crate) fn dimensions(access: &Access) -> Option<Vec<Dimension>> {
    let mut dimensions: Vec<Dimension> = Vec::new();
    for (&count, &step) in access.sizes.iter().zip(&access.steps) {
        let (count, step) = (usize::try_from(count).ok()?, usize::try_from(step).ok()?);
        if count == 1 {
            continue;
        }
        match dimensions.last_mut() {
            Some(last) if last.step.checked_mul(last.count) == Some(step) => {
                last.count = last.count.checked_mul(count)?;
            }
            _ => dimensions.push(Dimension { count, step }),
        }
    }
    Some(dimensions)
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

    #[test]
    fn patterns_of_other_shape_meet() {
        // 24 successive bytes into three rows of 8, 16 apart.
        let nest = Nest::new(&access(&[24], &[1]), &access(&[8, 3], &[1, 16])).unwrap();
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
        assert!(Nest::new(&access(&[6, 2], &[1, 8]), &access(&[4, 3], &[1, 8])).is_none());
    }

    #[test]
    fn a_target_written_twice_is_known() {
        let nest = Nest::new(&access(&[4, 3], &[1, 4]), &access(&[4, 3], &[1, 0])).unwrap();
        assert!(!nest.is_injective);
        let nest = Nest::new(&access(&[4, 3], &[1, 4]), &access(&[4, 3], &[1, 2])).unwrap();
        assert!(!nest.is_injective);
    }

    #[test]
    fn a_transpose_is_ordered_by_its_target() {
        let from = access(&[4, 5, 7], &[1, 4, 20]);
        let to = access(&[4, 5, 7], &[1, 28, 4]);
        let nest = Nest::new(&from, &to).unwrap();
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
}
