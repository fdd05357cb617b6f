//! The division of an attention into units, and their scratch memory. A unit is some queries of the heads
//! that share keys and values, or of one of those heads.

use super::{Attention, VALUE_BLOCK};
use crate::ops::total_len;
use crate::panels::packed_len;
use crate::simd::disjoint::Blocks;

/// Most units computed concurrently; each has a slot of scratch memory.
const SLOTS: usize = 16;

/// Rows (queries of all heads that share keys) up to which keys and values are read in place: packing
/// them would cost more.
const FEW_ROWS: usize = 4;

/// Most queries of a unit.
const UNIT_QUERIES: usize = 512;

/// Most queries of a tile.
const TILE: usize = 84;

/// Keys of a block, unless all scores are an output; with a causal mask, where blocks of later keys are
/// omitted.
const KEY_BLOCK: usize = 512;
const CAUSAL_KEY_BLOCK: usize = 128;

/// Elements of the scores of a tile where blocks are long.
const TILE_SCORES: usize = 1 << 15;

impl Attention {
    /// Keys of the past and new ones.
    pub(super) fn total(&self) -> usize {
        self.past + self.keys
    }

    /// Heads of queries that share keys and values.
    pub(super) fn sharing(&self) -> usize {
        self.heads / self.groups
    }

    /// Heads of a unit: all that share keys, unless their queries are many.
    pub(super) fn unit_heads(&self) -> usize {
        if self.sharing().saturating_mul(self.queries) <= UNIT_QUERIES {
            self.sharing()
        } else {
            1
        }
    }

    /// Queries of each head of a unit.
    pub(super) fn unit_queries(&self) -> usize {
        if self.scores.is_some() {
            self.queries
        } else {
            self.queries.min(UNIT_QUERIES)
        }
    }

    /// Queries of all heads of a unit.
    pub(super) fn unit_rows(&self) -> usize {
        self.unit_heads() * self.unit_queries()
    }

    /// The output: units are blocks of rows of it.
    pub(super) fn blocks(&self) -> Blocks {
        let unit = self.unit_heads();
        if self.separate {
            Blocks {
                stacks: self.batch * self.heads / unit,
                rows: unit * self.queries,
                blocks: 1,
                width: self.width,
            }
        } else {
            Blocks {
                stacks: self.batch,
                rows: self.queries,
                blocks: self.heads / unit,
                width: unit * self.width,
            }
        }
    }

    /// Rows of the output of a unit.
    pub(super) fn chunk_rows(&self) -> usize {
        if self.separate {
            self.unit_rows()
        } else {
            self.unit_queries()
        }
    }

    /// Units of a stack and block of the output.
    pub(super) fn query_chunks(&self) -> usize {
        self.queries.div_ceil(self.unit_queries())
    }

    pub(super) fn units(&self) -> usize {
        self.batch * self.heads / self.unit_heads() * self.query_chunks()
    }

    pub(super) fn slots(&self) -> usize {
        self.units().min(SLOTS)
    }

    pub(super) fn reads_in_place(&self) -> bool {
        self.unit_rows() <= FEW_ROWS
    }

    /// Keys of a block.
    pub(super) fn key_block(&self) -> usize {
        if self.scores.is_some() || self.reads_in_place() {
            self.total()
        } else if self.causal {
            self.total().min(CAUSAL_KEY_BLOCK)
        } else {
            self.total().min(KEY_BLOCK)
        }
    }

    /// Queries of a tile: few enough that their scores stay in the cache.
    pub(super) fn tile(&self) -> usize {
        let fitting = (TILE_SCORES / self.key_block() / 14 * 14).clamp(14, TILE);
        fitting.min(self.unit_rows())
    }

    /// The parts of a unit's scratch memory.
    pub(super) fn sizes(&self) -> [usize; 8] {
        let (rows, block) = (self.unit_rows(), self.key_block());
        if self.reads_in_place() {
            return [
                rows.saturating_mul(self.depth),
                self.depth,
                VALUE_BLOCK.saturating_mul(self.width),
                rows.saturating_mul(block),
                0,
                rows.saturating_mul(self.width),
                block,
                2 * rows,
            ];
        }
        [
            rows.saturating_mul(self.depth),
            packed_len(self.depth, block),
            packed_len(block, self.width),
            self.tile().saturating_mul(block),
            self.tile().saturating_mul(self.width),
            rows.saturating_mul(self.width),
            block.max(self.depth).max(self.width),
            2 * rows,
        ]
    }

    /// Elements of scratch memory for a unit.
    pub(super) fn slot(&self) -> usize {
        total_len(self.sizes())
    }
}
