//! Blocks of rows of f32, f16 or bf16, which stay in the first-level cache.

use std::ops::Range;

/// Elements of a block.
pub(super) const BLOCK: usize = 4096;

/// The blocks of a row.
#[inline(always)]
pub(super) fn blocks(row: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = row.end;
    row.step_by(BLOCK).map(move |at| at..(at + BLOCK).min(end))
}

/// Memory of a thread for a block of the input and one of the output, in f32.
pub(super) struct Buffers {
    pub(super) from: [f32; BLOCK],
    pub(super) to: [f32; BLOCK],
}

impl Buffers {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            from: [0.0; BLOCK],
            to: [0.0; BLOCK],
        }
    }
}
