//! Copies of rows of A that would push each other out of the first level cache: where a row begins
//! a multiple of 4 KiB after the last, all of a tile's rows share the places of one line.

use super::sections::PART_DEPTH;
use super::tile::{MAX_ROWS, RowPointers};
use std::cell::Cell;

/// Bytes after which the places of the first level cache come again.
const PLACES_BYTES: usize = 4 << 10;

/// Rows that find places in any case: that cache has at least as many ways.
const WAYS: usize = 8;

/// Numbers from a copy to the next: a line more than the longest, so that no two begin alike.
const STRIDE: usize = PART_DEPTH + 16;

thread_local! {
    static SPARE: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Whether rows that begin there have too few places.
pub(super) fn places_come_again(rows: &[*const f32]) -> bool {
    match *rows {
        [first, second, ..] if rows.len() > WAYS => (second as usize)
            .abs_diff(first as usize)
            .is_multiple_of(PLACES_BYTES),
        _ => false,
    }
}

/// Room for the rows of some tiles, a thread's own while it lives.
pub(super) struct Copies(Vec<f32>);

impl Copies {
    /// Tiles that there is room for: so many stay in the second level cache beside the panels.
    pub const TILES: usize = 10;

    /// The longest row.
    pub const DEPTH: usize = PART_DEPTH;

    /// The room of this thread.
    pub fn lend() -> Self {
        let mut numbers = SPARE.take();
        numbers.resize(Self::TILES * MAX_ROWS * STRIDE, 0.0);
        Self(numbers)
    }

    /// Where the rows of a tile are copied to.
    pub fn rows(&mut self, tile: usize) -> impl Iterator<Item = &mut [f32]> {
        let first = tile * MAX_ROWS * STRIDE;
        self.0[first..][..MAX_ROWS * STRIDE].chunks_exact_mut(STRIDE)
    }

    /// Points at the copied rows of a tile.
    #[inline(always)]
    pub fn point(&self, tile: usize, pointers: &mut RowPointers) {
        let first = self.0[tile * MAX_ROWS * STRIDE..].as_ptr();
        for (row, pointer) in pointers.iter_mut().enumerate() {
            *pointer = first.wrapping_add(row * STRIDE);
        }
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        SPARE.set(std::mem::take(&mut self.0));
    }
}
