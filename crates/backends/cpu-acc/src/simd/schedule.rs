//! Chunks of a loop that threads take in turn, by guided self-scheduling (Polychronopoulos and Kuck,
//! "Guided Self-Scheduling", IEEE Transactions on Computers, 1987): large chunks first, which cost
//! less, small chunks at the end, which balance the load.

use std::ops::Range;

/// Most chunks of a loop.
const MAX_CHUNKS: usize = 128;

/// A loop's iterations, divided into chunks.
pub(super) struct Schedule {
    ends: [usize; MAX_CHUNKS],
    count: usize,
}

impl Schedule {
    /// Each chunk is half of a thread's share of the remaining iterations, and at least `least` of
    /// them while that many remain.
    pub fn guided(iterations: usize, threads: usize, least: usize) -> Self {
        Self::new(iterations, |left, _| {
            left.div_ceil(2 * threads.max(1)).max(least)
        })
    }

    /// At most `count` chunks whose sizes differ by at most one.
    pub fn even(iterations: usize, count: usize) -> Self {
        Self::new(iterations, |left, chunk| {
            left.div_ceil(count.saturating_sub(chunk).max(1))
        })
    }

    /// `size` returns the size of a chunk from the remaining iterations and the chunk's index.
    fn new(iterations: usize, size: impl Fn(usize, usize) -> usize) -> Self {
        let mut schedule = Self {
            ends: [0; MAX_CHUNKS],
            count: 0,
        };
        let mut end = 0;
        while end < iterations && schedule.count < MAX_CHUNKS {
            let left = iterations - end;
            let fewest = left.div_ceil(MAX_CHUNKS - schedule.count);
            end += size(left, schedule.count).max(fewest).min(left);
            schedule.ends[schedule.count] = end;
            schedule.count += 1;
        }
        schedule
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// The iterations of a chunk.
    pub fn chunk(&self, index: usize) -> Range<usize> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_the_loop_in_order() {
        for (iterations, threads, least) in [
            (0, 2, 1),
            (1, 2, 1),
            (7, 1, 3),
            (24, 2, 1),
            (128, 2, 4),
            (100_000, 64, 1),
            (usize::MAX / 2, 1000, 0),
        ] {
            let guided = Schedule::guided(iterations, threads, least);
            for schedule in [guided, Schedule::even(iterations, threads)] {
                let all: Vec<Range<usize>> =
                    (0..schedule.count()).map(|i| schedule.chunk(i)).collect();
                let ends = all.iter().map(|chunk| chunk.end);
                let starts = all.iter().map(|chunk| chunk.start);
                assert!(starts.eq([0].into_iter().chain(ends).take(all.len())));
                assert_eq!(all.last().map_or(0, |chunk| chunk.end), iterations);
                assert!(all.iter().all(|chunk| !chunk.is_empty()));
            }
        }
        let sizes = |schedule: Schedule| -> Vec<usize> {
            (0..schedule.count())
                .map(|i| schedule.chunk(i).len())
                .collect()
        };
        let guided = |least| sizes(Schedule::guided(24, 2, least));
        assert_eq!(guided(1), [6, 5, 4, 3, 2, 1, 1, 1, 1]);
        assert_eq!(guided(4), [6, 5, 4, 4, 4, 1]);
        assert_eq!(sizes(Schedule::even(7, 3)), [3, 2, 2]);
        assert_eq!(sizes(Schedule::even(2, 3)), [1, 1]);
    }
}
