//! Greedy by size for offset calculation (Pisarchyk and Lee, Efficient memory management for deep
//! neural net inference, 2020), with several orders and a local search.

use super::{Bin, Block, MemoryStrategy, SingleAxisPriority, lower_bound, too_large};
use tenon_base::Result;

/// One bin, packed along both axes. Blocks are placed in order, each into the smallest sufficient gap
/// between the blocks with overlapping lifetimes (best fit). Several orders are tried, by size first;
/// a local search then moves the topmost blocks forward in the best order. It stops at the lower
/// bound, and never needs more memory than the other strategies.
pub struct GreedyBySize;

/// The maximum number of pairs of blocks that the search compares: about a fifth of a second.
const PAIRS: usize = 40_000_000;

/// The maximum number of orders that the search tries.
const TRIES: usize = 400;

/// Offsets of blocks, and the size of the arena.
#[derive(Clone)]
pub(super) struct Layout {
    pub offsets: Vec<usize>,
    pub bytes: usize,
}

impl Layout {
    /// No block has a place yet.
    pub fn empty(blocks: usize) -> Self {
        Self {
            offsets: vec![0; blocks],
            bytes: 0,
        }
    }

    /// One bin with all blocks that have bytes.
    pub fn into_bin(self, blocks: &[Block]) -> Bin {
        let placed = (0..blocks.len()).filter(|&index| blocks[index].bytes > 0);
        Bin {
            bytes: self.bytes,
            blocks: placed.map(|index| (index, self.offsets[index])).collect(),
        }
    }
}

impl MemoryStrategy for GreedyBySize {
    fn name(&self) -> &'static str {
        "packed"
    }

    fn description(&self) -> &'static str {
        "along both axes, each block in the smallest gap, several orders"
    }

    fn pack(&self, blocks: &[Block]) -> Result<Vec<Bin>> {
        let sizes: Vec<usize> = blocks.iter().map(Block::padded).collect::<Result<_>>()?;
        let bound = lower_bound(blocks)?;
        let mut best = along_time(blocks)?;
        let mut best_order = Vec::new();
        for order in orders(blocks, &sizes) {
            let layout = place(blocks, &sizes, &order)?;
            if layout.bytes < best.bytes || best_order.is_empty() {
                best_order = order;
            }
            if layout.bytes < best.bytes {
                best = layout;
            }
            if best.bytes <= bound {
                break;
            }
        }
        if best.bytes > bound {
            best = search(blocks, &sizes, best, best_order, bound)?;
        }
        Ok(vec![best.into_bin(blocks)])
    }
}

/// The layout of [`SingleAxisPriority`], its bins concatenated.
fn along_time(blocks: &[Block]) -> Result<Layout> {
    let mut layout = Layout::empty(blocks.len());
    for bin in SingleAxisPriority.pack(blocks)? {
        for (block, _) in bin.blocks {
            layout.offsets[block] = layout.bytes;
        }
        layout.bytes = layout.bytes.checked_add(bin.bytes).ok_or_else(too_large)?;
    }
    Ok(layout)
}

/// The blocks that have bytes, by increasing key.
fn sorted(sizes: &[usize], key: impl Fn(usize) -> (u128, u32)) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sizes.len()).filter(|&index| sizes[index] > 0).collect();
    order.sort_by_key(|&index| (key(index), index));
    order
}

/// The order by decreasing size, then by first kernel.
pub(super) fn by_size(blocks: &[Block], sizes: &[usize]) -> Vec<usize> {
    let key = |index: usize| (u128::MAX - sizes[index] as u128, blocks[index].first);
    sorted(sizes, key)
}

/// The orders of placement: by decreasing size, by first kernel, by decreasing area, by decreasing
/// lifetime.
fn orders(blocks: &[Block], sizes: &[usize]) -> Vec<Vec<usize>> {
    let life = |index: usize| (blocks[index].last - blocks[index].first) as usize + 1;
    let area = |index: usize| sizes[index] as u128 * life(index) as u128;
    let down = |value: u128| u128::MAX - value;
    vec![
        by_size(blocks, sizes),
        sorted(sizes, |index| {
            let first = u128::from(blocks[index].first);
            (
                first,
                u32::MAX - u32::try_from(sizes[index]).unwrap_or(u32::MAX),
            )
        }),
        sorted(sizes, |index| (down(area(index)), blocks[index].first)),
        sorted(sizes, |index| {
            (down(life(index) as u128), blocks[index].first)
        }),
    ]
}

/// Places blocks in this order, each into the smallest sufficient gap between the placed blocks with
/// overlapping lifetimes.
pub(super) fn place(blocks: &[Block], sizes: &[usize], order: &[usize]) -> Result<Layout> {
    let mut layout = Layout::empty(blocks.len());
    // Sorted by offset, so that one pass finds all gaps.
    let mut placed: Vec<usize> = Vec::with_capacity(order.len());
    for &index in order {
        let mut best: Option<(usize, usize)> = None;
        let mut end = 0usize;
        for &other in &placed {
            if !blocks[other].overlaps(&blocks[index]) {
                continue;
            }
            let start = layout.offsets[other];
            let gap = start.saturating_sub(end);
            if gap >= sizes[index] && best.is_none_or(|(smallest, _)| gap < smallest) {
                best = Some((gap, end));
            }
            end = end.max(start + sizes[other]);
        }
        let offset = best.map_or(end, |(_, offset)| offset);
        layout.offsets[index] = offset;
        let end = offset.checked_add(sizes[index]).ok_or_else(too_large)?;
        layout.bytes = layout.bytes.max(end);
        let position = placed.partition_point(|&other| layout.offsets[other] <= offset);
        placed.insert(position, index);
    }
    Ok(layout)
}

/// A local search: moves blocks at the top of the arena forward in the order, to positions from a
/// xorshift generator with a fixed seed (Marsaglia 2003).
fn search(
    blocks: &[Block],
    sizes: &[usize],
    mut best: Layout,
    mut order: Vec<usize>,
    bound: usize,
) -> Result<Layout> {
    let pairs = (order.len() * order.len() / 2).max(1);
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    let mut current = place(blocks, sizes, &order)?;
    for _ in 0..TRIES.min(PAIRS / pairs) {
        if best.bytes <= bound {
            break;
        }
        let at_top = |&&index: &&usize| current.offsets[index] + sizes[index] == current.bytes;
        let Some(high) = order.iter().rposition(|index| at_top(&index)) else {
            break;
        };
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut next = order.clone();
        let moved = next.remove(high);
        next.insert((random % (high as u64 + 1)) as usize, moved);
        let layout = place(blocks, sizes, &next)?;
        if layout.bytes <= current.bytes {
            (order, current) = (next, layout);
        }
        if current.bytes < best.bytes {
            best = current.clone();
        }
    }
    Ok(best)
}
