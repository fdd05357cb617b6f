//! The verifier of arena strategies, independent of how they work.

use super::{Bin, Block};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::ALIGNMENT;

/// Checks that every block of at least one byte is in exactly one bin, aligned and within its size,
/// and that no two blocks of a bin with overlapping lifetimes share a byte.
pub fn check(blocks: &[Block], bins: &[Bin]) -> Result<()> {
    let mut seen = vec![false; blocks.len()];
    for (number, bin) in bins.iter().enumerate() {
        if !bin.bytes.is_multiple_of(ALIGNMENT) {
            return wrong(format!("bin {number} has {} bytes", bin.bytes));
        }
        for &(index, offset) in &bin.blocks {
            let Some(block) = blocks.get(index) else {
                return wrong(format!(
                    "bin {number} has a block {index} that does not exist"
                ));
            };
            if std::mem::replace(&mut seen[index], true) {
                return wrong(format!("block {index} is in two bins"));
            }
            let end = offset.checked_add(block.bytes);
            let inside = end.is_some_and(|end| end <= bin.bytes);
            if !offset.is_multiple_of(ALIGNMENT) || !inside || block.last < block.first {
                return wrong(format!("block {index} is misplaced in bin {number}"));
            }
        }
        no_overlap(blocks, bin)?;
    }
    match (0..blocks.len()).find(|&index| !seen[index] && blocks[index].bytes > 0) {
        Some(index) => wrong(format!("block {index} is in no bin")),
        None => Ok(()),
    }
}

/// A sweep over kernels with the live blocks sorted by offset: as these are disjoint, a new block can
/// only overlap its neighbours.
fn no_overlap(blocks: &[Block], bin: &Bin) -> Result<()> {
    let mut order: Vec<(usize, usize)> = bin.blocks.clone();
    order.retain(|&(index, _)| blocks[index].bytes > 0);
    order.sort_unstable_by_key(|&(index, offset)| (blocks[index].first, offset));
    let mut alive: BTreeMap<usize, usize> = BTreeMap::new();
    let mut ends: BinaryHeap<Reverse<(u32, usize)>> = BinaryHeap::new();
    for (index, offset) in order {
        while let Some(&Reverse((last, at))) = ends.peek()
            && last < blocks[index].first
        {
            ends.pop();
            alive.remove(&at);
        }
        let before = alive.range(..=offset).next_back();
        let after = alive.range(offset..).next();
        let overlap_before = before.filter(|(at, other)| *at + blocks[**other].bytes > offset);
        let overlap_after = after.filter(|(at, _)| **at < offset + blocks[index].bytes);
        if let Some((_, other)) = overlap_before.or(overlap_after) {
            return wrong(format!("blocks {other} and {index} overlap"));
        }
        alive.insert(offset, index);
        ends.push(Reverse((blocks[index].last, offset)));
    }
    Ok(())
}

fn wrong(text: String) -> Result<()> {
    Err(Error::new(ErrorKind::Internal, text))
}
