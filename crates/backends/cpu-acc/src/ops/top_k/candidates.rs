//! The list of candidates for the best elements of a lane.

use super::keys::Keyed;

/// The best candidates of a lane so far. A candidate is the rank and the position of an element where
/// the rank has 32 bits, else the position.
pub(super) struct Candidates<'a> {
    pub(super) list: &'a mut [u64],
    pub(super) len: usize,
}

impl Candidates<'_> {
    #[inline(always)]
    pub(super) fn push<T: Keyed>(&mut self, rank: u64, position: usize, kept: bool) {
        self.list[self.len] = if T::NARROW {
            rank << 32 | position as u64
        } else {
            position as u64
        };
        self.len += usize::from(kept);
    }

    /// Keeps the best `count` candidates, and returns the position of the worst of them. `rank_at` is the
    /// rank of the element at a position.
    pub(super) fn reduce<T: Keyed>(
        &mut self,
        count: usize,
        rank_at: impl Fn(usize) -> u64,
    ) -> usize {
        let list = &mut self.list[..self.len];
        self.len = count;
        if T::NARROW {
            let worst = *list.select_nth_unstable(count - 1).1;
            return worst as u32 as usize;
        }
        let order = |&at: &u64| (rank_at(at as usize), at);
        *list.select_nth_unstable_by_key(count - 1, order).1 as usize
    }

    /// Writes the positions of the best candidates in order.
    pub(super) fn finish<T: Keyed>(&mut self, to: &mut [u64], rank_at: impl Fn(usize) -> u64) {
        if self.len > to.len() {
            self.reduce::<T>(to.len(), &rank_at);
        }
        let list = &mut self.list[..self.len];
        if T::NARROW {
            list.sort_unstable();
        } else {
            list.sort_unstable_by_key(|&at| (rank_at(at as usize), at));
        }
        for (to, &candidate) in to.iter_mut().zip(&*list) {
            *to = if T::NARROW {
                candidate & u64::from(u32::MAX)
            } else {
                candidate
            };
        }
    }
}
