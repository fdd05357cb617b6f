//! Blocks that follow each other.

use super::{Bin, Block, MemoryStrategy};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use tenon_base::Result;

/// Packs along the axis of time alone: a bin holds one block at a time and is as large as the
/// largest. Priority has the largest block, then the one that lives longest; each goes to the first
/// bin that is free for as long as it lives.
pub struct SingleAxisPriority;

/// The times at which a bin is in use: first kernel to last, none overlapping.
#[derive(Default)]
struct Busy(BTreeMap<u32, u32>);

impl Busy {
    /// Takes the bin for the life of `block`, unless it is in use then.
    fn take(&mut self, block: &Block) -> bool {
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
        let mut bins: Vec<(Busy, Bin)> = Vec::new();
        for index in order {
            let block = &blocks[index];
            match bins
                .iter_mut()
                .find_map(|(busy, bin)| busy.take(block).then_some(bin))
            {
                Some(bin) => bin.blocks.push((index, 0)),
                None => {
                    let mut busy = Busy::default();
                    busy.take(block);
                    // The largest of the bin: those that follow are smaller.
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
