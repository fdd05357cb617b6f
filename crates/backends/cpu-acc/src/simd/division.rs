//! The division of a matrix product among threads, and of the rows of its output into tiles.

use super::Simd;
use super::k_blocks::balanced_part;
use super::rows::RowSource;
use super::schedule::Schedule;
use crate::panels::Panels;
use std::ops::Range;
use tenon_base::pool;

/// Products of fewer operations run on one thread: with this limit 784-256-128-10 takes 5.1
/// microseconds on two threads of a Zen 5, 8.9 on one.
const PARALLEL_OPERATIONS: usize = 1 << 18;

/// Elements of B above which a second thread is used even for few rows, for its caches and its
/// memory bandwidth.
const PARALLEL_ELEMENTS: usize = 1 << 18;

/// Operations of a chunk of the schedule, in a product that has several times as many.
const CHUNK_OPERATIONS: usize = 8 << 20;

/// Least operations of the last chunks: each chunk starts with memory that is not yet prefetched.
const MIN_CHUNK_OPERATIONS: usize = 4 << 20;

/// A product, divided into chunks that threads compute.
pub(super) struct Division {
    schedule: Schedule,
    /// Parts of each chunk of the schedule, by the other operand.
    parts: usize,
    /// Whether the schedule divides panels; else row tiles.
    by_pair: bool,
    /// Tiles of the other operand.
    others: usize,
    tile_panels: usize,
    panels: usize,
}

impl Division {
    /// Divides the product of `a`, which has `row_tiles`, and `panels` among the threads; `None` where one thread
    /// computes all of it.
    pub(super) fn new<S: Simd, A: RowSource + ?Sized>(
        a: &A,
        row_tiles: usize,
        panels: &Panels<'_>,
    ) -> Option<Self> {
        let pairs = panels.count().div_ceil(S::TILE_PANELS);
        let operations = a
            .rows()
            .saturating_mul(panels.columns())
            .saturating_mul(2 * panels.depth());
        let threads = pool::threads();
        let small = operations < PARALLEL_OPERATIONS && panels.elements().len() < PARALLEL_ELEMENTS;
        if threads == 1 || small {
            return None;
        }
        let chunks = (operations / CHUNK_OPERATIONS).clamp(threads, 4 * threads);
        // Every thread reads all of the operand that is not divided: divide the larger of A and B,
        // and the other one as well only where the larger one has too few tiles.
        let is_larger = panels.elements().len() > a.footprint();
        // Each chunk reads its rows of bytes into the first level cache, which takes long beside their products: a chunk
        // has all panels where there are enough tiles.
        let has_tiles = size_of::<A::Element>() == 1 && row_tiles >= 4 * threads;
        let by_pair = is_larger && !has_tiles;
        let (divided, others) = if by_pair {
            (pairs, row_tiles)
        } else {
            (row_tiles, pairs)
        };
        let parts = chunks.div_ceil(divided).min(others);
        let least = (divided.saturating_mul(MIN_CHUNK_OPERATIONS) / operations.max(1)).max(1);
        let schedule = if parts == 1 && divided / least >= 4 * threads {
            Schedule::guided(divided, threads, least)
        } else {
            Schedule::even(divided, chunks)
        };
        Some(Self {
            schedule,
            parts,
            by_pair,
            others,
            tile_panels: S::TILE_PANELS,
            panels: panels.count(),
        })
    }

    /// Calls `body` with each chunk, its row tiles and its panels, in parallel.
    pub(super) fn for_each(&self, body: impl Fn(usize, (Range<usize>, Range<usize>)) + Sync) {
        pool::for_each(self.count(), |chunk| {
            let (tiles, panels) = self.chunk(chunk);
            if !tiles.is_empty() && !panels.is_empty() {
                body(chunk, (tiles, panels));
            }
        });
    }

    pub(super) fn count(&self) -> usize {
        self.schedule.count() * self.parts
    }

    /// The row tiles and the panels of a chunk.
    pub(super) fn chunk(&self, chunk: usize) -> (Range<usize>, Range<usize>) {
        let (split, other) = (
            self.schedule.chunk(chunk / self.parts),
            balanced_part(self.others, self.parts, chunk % self.parts),
        );
        let (tiles, pairs) = if self.by_pair {
            (other, split)
        } else {
            (split, other)
        };
        let end = (pairs.end * self.tile_panels).min(self.panels);
        (tiles, pairs.start * self.tile_panels..end)
    }
}

/// The rows of the output, divided into tiles whose sizes differ by at most one row.
#[derive(Clone, Copy)]
pub(super) struct RowTiles {
    rows: usize,
    pub(super) count: usize,
}

impl RowTiles {
    pub(super) fn new(rows: usize, most: usize) -> Self {
        Self {
            rows,
            count: rows.div_ceil(most),
        }
    }

    /// The rows of a tile.
    pub(super) fn rows(&self, tile: usize) -> Range<usize> {
        balanced_part(self.rows, self.count, tile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn chunks_are_not_empty_and_cover_the_product() {
        for by_pair in [false, true] {
            let (divided, others) = (11, 4);
            let division = Division {
                // The share of the second thread is shorter.
                schedule: Schedule::guided(divided, 2, 1),
                parts: 2,
                by_pair,
                others,
                tile_panels: 2,
                panels: 2 * if by_pair { divided } else { others },
            };
            let covered = AtomicUsize::new(0);
            division.for_each(|_, (tiles, panels)| {
                assert!(!tiles.is_empty() && !panels.is_empty());
                covered.fetch_add(tiles.len() * panels.len(), Ordering::Relaxed);
            });
            assert_eq!(covered.into_inner(), 2 * divided * others);
        }
    }
}
