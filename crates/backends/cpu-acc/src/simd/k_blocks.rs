//! K blocks: the sum of a matrix product over its inner dimension, in blocks short enough for the
//! cache (the KC of GotoBLAS and BLIS). The inner dimension is kernel positions by depth.

use super::rows::MAX_DEPTH;
use std::ops::Range;

/// Most kernel positions of a block.
pub(super) const MAX_POSITIONS: usize = 32;

/// Most inner elements (KC) of a block of one kernel position: two panels of this depth stay in the
/// second level cache beside the rows.
pub(super) const KC: usize = 768;
const _: () = assert!(KC <= MAX_DEPTH);

/// A block of the sum: a range of kernel positions, and a range of the depth of each.
#[derive(Clone)]
pub(super) struct KBlock {
    pub positions: Range<usize>,
    pub depth: Range<usize>,
}

impl KBlock {
    /// The first row of B in the block, where each kernel position has `depth` rows.
    pub fn first(&self, depth: usize) -> usize {
        self.positions.start * depth + self.depth.start
    }

    /// The block with these of its positions only.
    pub fn part(&self, positions: Range<usize>) -> Self {
        let first = self.positions.start;
        Self {
            positions: first + positions.start..first + positions.end,
            depth: self.depth.clone(),
        }
    }

    /// Rows of B in the block.
    pub fn len(&self) -> usize {
        self.positions.len() * self.depth.len()
    }
}

/// The inner dimension, divided into blocks.
#[derive(Clone, Copy)]
pub(super) struct KBlocks {
    positions: usize,
    depth: usize,
    /// Blocks of each position's depth, when that exceeds KC; else 0.
    depth_blocks: usize,
    /// Blocks of the positions, when their depth is at most KC; else 0.
    position_blocks: usize,
}

impl KBlocks {
    pub fn new(positions: usize, depth: usize) -> Self {
        // Without positions there is one empty block, so that sums of nothing are written.
        if depth > KC && positions > 0 {
            return Self {
                positions,
                depth,
                depth_blocks: depth.div_ceil(KC),
                position_blocks: 0,
            };
        }
        let most = (KC / depth.max(1)).clamp(1, MAX_POSITIONS);
        Self {
            positions,
            depth,
            depth_blocks: 0,
            position_blocks: positions.div_ceil(most).max(1),
        }
    }

    pub fn count(&self) -> usize {
        self.positions * self.depth_blocks + self.position_blocks
    }

    pub fn block(&self, index: usize) -> KBlock {
        if self.position_blocks > 0 {
            let positions = balanced_part(self.positions, self.position_blocks, index);
            return KBlock {
                positions,
                depth: 0..self.depth,
            };
        }
        let position = index / self.depth_blocks;
        let depth = balanced_part(self.depth, self.depth_blocks, index % self.depth_blocks);
        KBlock {
            positions: position..position + 1,
            depth,
        }
    }
}

/// Part `index` of `0..count`, divided into `parts` ranges whose sizes differ by at most one.
pub(super) fn balanced_part(count: usize, parts: usize, index: usize) -> Range<usize> {
    let start = |index: usize| count / parts * index + (count % parts).min(index);
    start(index)..start(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_the_sum_in_order() {
        for (positions, depth) in [
            (1, 1),
            (1, 768),
            (1, 769),
            (9, 64),
            (9, 2000),
            (70, 3),
            (1, 0),
            (0, 1),
            (0, 2000),
        ] {
            let blocks = KBlocks::new(positions, depth);
            assert!(blocks.count() > 0);
            let mut rows = 0;
            for index in 0..blocks.count() {
                let block = blocks.block(index);
                assert_eq!(block.first(depth), rows, "{positions} positions of {depth}");
                assert!(block.positions.len() <= MAX_POSITIONS);
                assert!(block.depth.len() <= KC || block.positions.is_empty());
                rows += block.len();
            }
            assert_eq!(rows, positions * depth);
        }
    }
}
