//! Packed copies of rows of A that alias in the first level cache: rows at a multiple of 4 KiB from
//! each other map to the same cache sets, so that the rows of a tile evict each other (conflict
//! misses). Packing of A as in GotoBLAS (Goto and van de Geijn, "Anatomy of High-Performance Matrix
//! Multiplication", 2008), only where it is worth its cost.

use super::k_blocks::KC;
use super::tile::{MAX_ROWS, RowPointers};
use std::cell::Cell;
use std::ops::Range;

/// Addresses that differ by a multiple of this map to the same set of the first level cache: 64 sets
/// of lines of 64 bytes.
const L1_SET_STRIDE: usize = 4 << 10;

/// Rows that one set of the first level cache holds in any case: its least associativity.
const L1_WAYS: usize = 8;

/// Elements from a copy to the next: a cache line more than the longest row, so that no two copies
/// start in the same set.
const STRIDE: usize = KC + 16;

thread_local! {
    static BUFFER: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Whether rows that start at these addresses alias in more lines than a cache set has ways.
pub(super) fn rows_alias<T>(rows: &[*const T]) -> bool {
    match *rows {
        [first, second, ..] if rows.len() > L1_WAYS => (second as usize)
            .abs_diff(first as usize)
            .is_multiple_of(L1_SET_STRIDE),
        _ => false,
    }
}

/// The packed rows of some tiles, in a buffer that the thread keeps for the next product.
pub(super) struct PackedRows {
    elements: Vec<f32>,
    /// The tiles of which all rows are padding.
    padding: [bool; Self::TILES],
}

impl PackedRows {
    /// Tiles that the buffer holds: as many as stay in the second level cache beside the panels.
    pub const TILES: usize = 10;

    /// The longest row.
    pub const DEPTH: usize = KC;

    /// Takes the buffer of this thread, which it returns to when dropped.
    pub fn of_thread() -> Self {
        let mut buffer = BUFFER.take();
        buffer.resize(Self::TILES * MAX_ROWS * STRIDE, 0.0);
        Self {
            elements: buffer,
            padding: [false; Self::TILES],
        }
    }

    /// Sets whether all rows of a tile are padding.
    pub fn set_padding(&mut self, tile: usize, is_padding: bool) {
        self.padding[tile] = is_padding;
    }

    /// The destinations of a tile's rows.
    pub fn rows(&mut self, tile: usize) -> impl Iterator<Item = &mut [f32]> {
        let first = tile * MAX_ROWS * STRIDE;
        self.elements[first..][..MAX_ROWS * STRIDE].chunks_exact_mut(STRIDE)
    }

    /// Writes pointers to the packed rows of a tile, and returns the kernel positions of its block that are not padding.
    #[inline(always)]
    pub fn point(&self, tile: usize, pointers: &mut RowPointers) -> Range<usize> {
        let first = self.elements[tile * MAX_ROWS * STRIDE..].as_ptr();
        for (row, pointer) in pointers.iter_mut().enumerate() {
            *pointer = first.wrapping_add(row * STRIDE);
        }
        0..usize::from(!self.padding[tile])
    }
}

impl Drop for PackedRows {
    fn drop(&mut self) {
        BUFFER.set(std::mem::take(&mut self.elements));
    }
}
