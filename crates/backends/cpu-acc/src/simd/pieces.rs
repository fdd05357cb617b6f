//! Pieces of a loop for threads that take them in turn: large ones first, which cost less, small
//! ones in the end, so that no thread waits long for another.

use std::ops::Range;

/// Most pieces of a loop.
const MOST: usize = 128;

/// Things in a row, cut in pieces.
pub(super) struct Pieces {
    ends: [usize; MOST],
    count: usize,
}

impl Pieces {
    /// Each piece is half of a thread's share of what is left, and no fewer than `least` things
    /// while there are as many.
    pub fn shrinking(things: usize, threads: usize, least: usize) -> Self {
        Self::new(things, |left, _| {
            left.div_ceil(2 * threads.max(1)).max(least)
        })
    }

    /// At most `count` pieces, as equal as can be.
    pub fn alike(things: usize, count: usize) -> Self {
        Self::new(things, |left, cut| {
            left.div_ceil(count.saturating_sub(cut).max(1))
        })
    }

    /// `size` tells how many of those left are the piece of a number.
    fn new(things: usize, size: impl Fn(usize, usize) -> usize) -> Self {
        let mut pieces = Self {
            ends: [0; MOST],
            count: 0,
        };
        let mut end = 0;
        while end < things && pieces.count < MOST {
            let left = things - end;
            let fewest = left.div_ceil(MOST - pieces.count);
            end += size(left, pieces.count).max(fewest).min(left);
            pieces.ends[pieces.count] = end;
            pieces.count += 1;
        }
        pieces
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// The things of a piece.
    pub fn piece(&self, index: usize) -> Range<usize> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_all_in_order() {
        for (things, threads, least) in [
            (0, 2, 1),
            (1, 2, 1),
            (7, 1, 3),
            (24, 2, 1),
            (128, 2, 4),
            (100_000, 64, 1),
            (usize::MAX / 2, 1000, 0),
        ] {
            let shrinking = Pieces::shrinking(things, threads, least);
            for pieces in [shrinking, Pieces::alike(things, threads)] {
                let all: Vec<Range<usize>> = (0..pieces.count()).map(|i| pieces.piece(i)).collect();
                let ends = all.iter().map(|piece| piece.end);
                let starts = all.iter().map(|piece| piece.start);
                assert!(starts.eq([0].into_iter().chain(ends).take(all.len())));
                assert_eq!(all.last().map_or(0, |piece| piece.end), things);
                assert!(all.iter().all(|piece| !piece.is_empty()));
            }
        }
        let sizes = |pieces: Pieces| -> Vec<usize> {
            (0..pieces.count()).map(|i| pieces.piece(i).len()).collect()
        };
        let shrinking = |least| sizes(Pieces::shrinking(24, 2, least));
        assert_eq!(shrinking(1), [6, 5, 4, 3, 2, 1, 1, 1, 1]);
        assert_eq!(shrinking(4), [6, 5, 4, 4, 4, 1]);
        assert_eq!(sizes(Pieces::alike(7, 3)), [3, 2, 2]);
        assert_eq!(sizes(Pieces::alike(2, 3)), [1, 1]);
    }
}
