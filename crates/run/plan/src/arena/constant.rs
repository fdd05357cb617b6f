//! No sharing of memory.

use super::{Bin, Block, MemoryStrategy};
use tenon_base::Result;

/// One bin for each block: every intermediate value remains available after an execution.
pub struct Constant;

impl MemoryStrategy for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn description(&self) -> &'static str {
        "every block separate, nothing shared"
    }

    fn pack(&self, blocks: &[Block]) -> Result<Vec<Bin>> {
        let nonempty = blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| block.bytes > 0);
        let bin = |(index, block): (usize, &Block)| {
            Ok(Bin {
                bytes: block.padded()?,
                blocks: vec![(index, 0)],
            })
        };
        nonempty.map(bin).collect()
    }
}
