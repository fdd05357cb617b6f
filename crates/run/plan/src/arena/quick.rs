//! A plan in little time, for instances that are planned when a model runs.

use super::greedy_by_size::{Layout, by_size, place};
use super::{Bin, Block, MemoryStrategy, lower_bound, too_large};
use tenon_base::Result;

/// One bin: blocks are placed in the order of their first kernels, each into the smallest sufficient gap between
/// those that are alive. Only if that needs more than a sixteenth above the lower bound, the blocks are also placed
/// by decreasing size, and the smaller arena is used. There is no search.
pub struct Quick;

impl MemoryStrategy for Quick {
    fn name(&self) -> &'static str {
        "quick"
    }

    fn description(&self) -> &'static str {
        "in the order of the kernels, by size if that needs less"
    }

    fn pack(&self, blocks: &[Block]) -> Result<Vec<Bin>> {
        let sizes: Vec<usize> = blocks.iter().map(Block::padded).collect::<Result<_>>()?;
        let bound = lower_bound(blocks)?;
        let mut best = in_order(blocks, &sizes)?;
        if best.bytes - bound > bound / 16 {
            let layout = place(blocks, &sizes, &by_size(blocks, &sizes))?;
            if layout.bytes < best.bytes {
                best = layout;
            }
        }
        Ok(vec![best.into_bin(blocks)])
    }
}

/// A placed block whose lifetime has not ended.
struct Alive {
    start: usize,
    end: usize,
    last: u32,
}

fn in_order(blocks: &[Block], sizes: &[usize]) -> Result<Layout> {
    let mut order: Vec<usize> = (0..blocks.len()).filter(|&at| sizes[at] > 0).collect();
    order.sort_by_key(|&index| (blocks[index].first, usize::MAX - sizes[index], index));
    let mut layout = Layout::empty(blocks.len());
    // Sorted by offset.
    let mut alive: Vec<Alive> = Vec::new();
    for index in order {
        let (size, block) = (sizes[index], &blocks[index]);
        alive.retain(|other| other.last >= block.first);
        let mut best: Option<(usize, usize)> = None;
        let mut end = 0;
        for (position, other) in alive.iter().enumerate() {
            let gap = other.start - end;
            if gap >= size && best.is_none_or(|(smallest, _)| gap < smallest) {
                best = Some((gap, position));
            }
            end = other.end;
        }
        let position = best.map_or(alive.len(), |(_, position)| position);
        let start = position
            .checked_sub(1)
            .map_or(0, |before| alive[before].end);
        let end = start.checked_add(size).ok_or_else(too_large)?;
        layout.offsets[index] = start;
        layout.bytes = layout.bytes.max(end);
        let last = block.last;
        alive.insert(position, Alive { start, end, last });
    }
    Ok(layout)
}
