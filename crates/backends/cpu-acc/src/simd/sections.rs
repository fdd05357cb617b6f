//! The sum of a matrix product, over taps and depth, in parts short enough for the cache.

use super::rows::MAX_DEPTH;
use std::ops::Range;

/// Taps in one part of the sum.
pub(super) const MAX_TAPS: usize = 32;

/// Depth of one part of the sum: two panels of it stay in the second level cache, beside the rows.
pub(super) const PART_DEPTH: usize = 768;
const _: () = assert!(PART_DEPTH <= MAX_DEPTH);

/// A part of the sum: some taps and of each a range of its depth.
#[derive(Clone)]
pub(super) struct Section {
    pub taps: Range<usize>,
    pub depth: Range<usize>,
}

impl Section {
    /// The first line of each panel, where taps are of `depth` lines.
    pub fn first(&self, depth: usize) -> usize {
        self.taps.start * depth + self.depth.start
    }

    /// Lines of each panel.
    pub fn lines(&self) -> usize {
        self.taps.len() * self.depth.len()
    }
}

/// The sum over taps and depth, cut in sections short enough for the cache.
pub(super) struct Sections {
    taps: usize,
    depth: usize,
    /// Pieces of each tap's depth, when that alone is long; else 0.
    depth_pieces: usize,
    /// Pieces of the taps, when their depth is short; else 0.
    tap_pieces: usize,
}

impl Sections {
    pub fn new(taps: usize, depth: usize) -> Self {
        if depth > PART_DEPTH {
            return Self {
                taps,
                depth,
                depth_pieces: depth.div_ceil(PART_DEPTH),
                tap_pieces: 0,
            };
        }
        let most = (PART_DEPTH / depth.max(1)).clamp(1, MAX_TAPS);
        Self {
            taps,
            depth,
            depth_pieces: 0,
            tap_pieces: taps.div_ceil(most).max(1),
        }
    }

    pub fn count(&self) -> usize {
        self.taps * self.depth_pieces + self.tap_pieces
    }

    pub fn section(&self, index: usize) -> Section {
        if self.tap_pieces > 0 {
            let taps = share(self.taps, self.tap_pieces, index);
            return Section {
                taps,
                depth: 0..self.depth,
            };
        }
        let tap = index / self.depth_pieces;
        let depth = share(self.depth, self.depth_pieces, index % self.depth_pieces);
        Section {
            taps: tap..tap + 1,
            depth,
        }
    }
}

/// Part `index` of `count` things cut in `parts` parts as equal as can be.
pub(super) fn share(count: usize, parts: usize, index: usize) -> Range<usize> {
    let start = |index: usize| count / parts * index + (count % parts).min(index);
    start(index)..start(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_all_of_the_sum_in_order() {
        for (taps, depth) in [
            (1, 1),
            (1, 768),
            (1, 769),
            (9, 64),
            (9, 2000),
            (70, 3),
            (1, 0),
        ] {
            let sections = Sections::new(taps, depth);
            let mut lines = 0;
            for index in 0..sections.count() {
                let section = sections.section(index);
                assert_eq!(section.first(depth), lines, "{taps} taps of {depth}");
                assert!(section.taps.len() <= MAX_TAPS && section.depth.len() <= PART_DEPTH);
                lines += section.lines();
            }
            assert_eq!(lines, taps * depth);
        }
    }
}
