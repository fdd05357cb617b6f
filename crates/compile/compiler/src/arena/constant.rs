//! Every block for itself.

use super::{Bin, Block, MemoryStrategy};
use tenon_base::Result;

/// Gives every block a bin of its own: nothing is shared, so that every intermediate value is still
/// there when an execution ends.
pub struct Constant;

impl MemoryStrategy for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn description(&self) -> &'static str {
        "every block for itself, nothing shared"
    }

    fn pack(&self, blocks: &[Block]) -> Result<Vec<Bin>> {
        let there = blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| block.bytes > 0);
        let bin = |(index, block): (usize, &Block)| {
            Ok(Bin {
                bytes: block.padded()?,
                blocks: vec![(index, 0)],
            })
        };
        there.map(bin).collect()
    }
}
