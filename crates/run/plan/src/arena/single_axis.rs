//! Interval scheduling of blocks in shared bins.

use super::{Bin, Block, MemoryStrategy};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use tenon_base::Result;

/// Packs along the time axis alone: a bin holds one block at a time and has the size of the largest.
/// Blocks are assigned by decreasing size, then by decreasing lifetime, each to the first bin that is
/// free for its lifetime (first fit).
pub struct SingleAxisPriority;

/// The intervals in which a bin is in use, from first to last kernel, disjoint.
#[derive(Default)]
struct BusyIntervals(BTreeMap<u32, u32>);

impl BusyIntervals {
    /// Reserves the bin for the lifetime of `block`; false when it is in use.
    fn reserve(&mut self, block: &Block) -> bool {
        let before = self.0.range(..=block.last).next_back();
        if before.is_some_and(|(_, &last)| last >= block.first) {
            return false;
        }
        match self.0.entry(block.first) {
            Entry::Vacant(entry) => {
                entry.insert(block.last);
                true
            }
            Entry::Occupied(_) => false,
        }
    }
}

impl MemoryStrategy for SingleAxisPriority {
    fn name(&self) -> &'static str {
        "single-axis-priority"
    }

    fn description(&self) -> &'static str {
        "one block at a time in each bin, the largest first"
    }

    fn pack(&self, blocks: &[Block]) -> Result<Vec<Bin>> {
        let mut order: Vec<usize> = (0..blocks.len())
            .filter(|&index| blocks[index].bytes > 0)
            .collect();
        order.sort_by_key(|&index| {
            let block = &blocks[index];
            let life = block.last.saturating_sub(block.first);
            (usize::MAX - block.bytes, u32::MAX - life, index)
        });
        let mut bins: Vec<(BusyIntervals, Bin)> = Vec::new();
        for index in order {
            let block = &blocks[index];
            match bins
                .iter_mut()
                .find_map(|(busy, bin)| busy.reserve(block).then_some(bin))
            {
                Some(bin) => bin.blocks.push((index, 0)),
                None => {
                    let mut busy = BusyIntervals::default();
                    busy.reserve(block);
                    // The first block of a bin is its largest.
                    let bin = Bin {
                        bytes: block.padded()?,
                        blocks: vec![(index, 0)],
                    };
                    bins.push((busy, bin));
                }
            }
        }
        Ok(bins.into_iter().map(|(_, bin)| bin).collect())
    }
}
