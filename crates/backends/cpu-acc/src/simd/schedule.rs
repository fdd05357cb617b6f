//! Chunks of a loop, as many for each thread. Within the share of a thread they follow guided self-scheduling
//! (Polychronopoulos and Kuck, "Guided Self-Scheduling", IEEE Transactions on Computers, 1987): large chunks first, which
//! cost less, small chunks at the end, which other threads steal to balance the load.

use super::k_blocks::balanced_part;
use std::ops::Range;

/// Most chunks of a loop.
const MAX_CHUNKS: usize = 128;

/// A loop's iterations, divided into chunks.
pub(super) struct Schedule {
    ends: [usize; MAX_CHUNKS],
    count: usize,
}

impl Schedule {
    /// Each chunk is half of what remains of a thread's share, and at least `least` iterations while that many remain.
    /// Shares differ by at most one iteration and have equally many chunks; the last chunk of a share may be empty.
    pub fn guided(iterations: usize, threads: usize, least: usize) -> Self {
        let threads = threads.clamp(1, MAX_CHUNKS);
        let share = iterations.div_ceil(threads);
        let mut ends = [0; MAX_CHUNKS];
        let (mut end, mut chunks) = (0, 0);
        while end < share {
            let left = share - end;
            let fewest = left.div_ceil(MAX_CHUNKS / threads - chunks);
            end += left.div_ceil(2).max(least).max(fewest).min(left);
            ends[chunks] = end;
            chunks += 1;
        }
        let mut schedule = Self::empty();
        for thread in 0..threads {
            let part = balanced_part(iterations, threads, thread);
            for &end in &ends[..chunks] {
                schedule.push(part.start + end.min(part.len()));
            }
        }
        schedule
    }

    /// At most `count` chunks whose sizes differ by at most one.
    pub fn even(iterations: usize, count: usize) -> Self {
        let count = count.clamp(1, MAX_CHUNKS).min(iterations);
        let mut schedule = Self::empty();
        for chunk in 0..count {
            schedule.push(balanced_part(iterations, count, chunk).end);
        }
        schedule
    }

    fn empty() -> Self {
        Self {
            ends: [0; MAX_CHUNKS],
            count: 0,
        }
    }

    fn push(&mut self, end: usize) {
        self.ends[self.count] = end;
        self.count += 1;
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
            }
        }
        let sizes = |schedule: Schedule| -> Vec<usize> {
            (0..schedule.count())
                .map(|i| schedule.chunk(i).len())
                .collect()
        };
        let guided = |least| sizes(Schedule::guided(24, 2, least));
        assert_eq!(guided(1), [6, 3, 2, 1, 6, 3, 2, 1]);
        assert_eq!(guided(4), [6, 4, 2, 6, 4, 2]);
        assert_eq!(sizes(Schedule::guided(7, 2, 1)), [2, 1, 1, 2, 1, 0]);
        assert_eq!(sizes(Schedule::even(7, 3)), [3, 2, 2]);
        assert_eq!(sizes(Schedule::even(2, 3)), [1, 1]);
    }
}
