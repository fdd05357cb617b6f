//! The buffers of a queue: header, entries, blocks (netlist 5.4).

use crate::tile::{TileLayout, alignment, element_bits, pack_scalars, unpack_scalars};
use crate::words::{Arch, DataFormat, UblockOrder};
use std::collections::TryReserveError;

/// The order of an entry's elements in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrangement {
    /// Tiles with headers, ublock by ublock.
    Tiles(TileLayout),
    /// Row-major elements of the whole tensor (`untilize_output`) or of the buffer's part of it
    /// (`layout: flat`), without headers.
    Rows,
}

/// How a tensor is divided: over a grid of cores, there into mblocks of ublocks of tiles.
/// Pairs are `[rows, columns]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorBlocking {
    /// Cores.
    pub grid: [usize; 2],
    /// Matrices of the tensor, one after the other.
    pub t: usize,
    /// Ublocks of a core.
    pub mblock: [usize; 2],
    /// Tiles of a ublock.
    pub ublock: [usize; 2],
    /// Elements of a tile.
    pub tile: [usize; 2],
    /// The order of the ublocks of an mblock.
    pub order: UblockOrder,
}

/// The layout of one queue's memory. A tensor of an entry is `[t, rows, columns]` elements,
/// row-major.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLayout {
    format: DataFormat,
    arrangement: Arrangement,
    header: usize,
    entries: usize,
    blocking: TensorBlocking,
}

impl QueueLayout {
    /// The layout of a queue of `entries` tensors on `arch`. With `rows`, elements are stored row by
    /// row without tiles; formats of blocks are always tiled.
    pub fn new(
        format: DataFormat,
        arch: Arch,
        rows: bool,
        entries: usize,
        blocking: TensorBlocking,
    ) -> Self {
        let tile = blocking.tile.map(|side| side as u32);
        let arrangement = if rows && !format.is_block() {
            Arrangement::Rows
        } else {
            Arrangement::Tiles(TileLayout::new(format, tile, arch))
        };
        Self {
            format,
            arrangement,
            header: alignment(arch),
            entries,
            blocking,
        }
    }

    /// The layout of one entry of tiles of f32.
    pub fn of_tiles(blocking: TensorBlocking) -> Self {
        Self::new(DataFormat::Float32, Arch::Grayskull, false, 1, blocking)
    }

    /// For each element of an entry of `view`, a ram on the same buffers, the entry and the element of
    /// this one at the same address; an entry of the view covers `covered` entries. `None` where the
    /// two differ in the elements of each buffer.
    ///
    /// # Errors
    /// When the system has no memory for the elements.
    pub fn elements_of_view(
        &self,
        view: &Self,
        covered: usize,
    ) -> Result<Option<Vec<(usize, usize)>>, TryReserveError> {
        let (Some(own), Some(all)) = (self.elements(), view.elements()) else {
            return Ok(None);
        };
        if own.checked_mul(covered) != Some(all) || self.buffers() != view.buffers() {
            return Ok(None);
        }
        let mut elements = Vec::new();
        elements.try_reserve_exact(all)?;
        elements.resize(all, (0, 0));
        for buffer in 0..self.buffers() {
            let order = self.order(buffer)?;
            let memory = (0..covered).flat_map(|entry| order.iter().map(move |&at| (entry, at)));
            let view_order = view.order(buffer)?;
            view_order
                .iter()
                .zip(memory)
                .for_each(|(&at, element)| elements[at] = element);
        }
        Ok(Some(elements))
    }

    /// The elements of an entry in a buffer, in the order of memory, as indices into the tensor; buffers
    /// are numbered row by row.
    fn order(&self, buffer: usize) -> Result<Vec<usize>, TryReserveError> {
        let (row, column) = (
            buffer / self.blocking.grid[1],
            buffer % self.blocking.grid[1],
        );
        let mut order = Vec::new();
        order.try_reserve_exact(self.elements().unwrap_or(0) / self.buffers().max(1))?;
        match self.arrangement {
            Arrangement::Tiles(_) => self.tiles(row, column, |indices| order.extend(indices)),
            Arrangement::Rows => order.extend(self.rows(row, column)),
        }
        Ok(order)
    }

    /// `[t, rows, columns]` of an entry, in elements; `None` when they exceed `usize`.
    pub fn shape(&self) -> Option<[usize; 3]> {
        let side = |axis: usize| {
            let core = self.blocking.mblock[axis].checked_mul(self.blocking.ublock[axis])?;
            core.checked_mul(self.blocking.tile[axis])?
                .checked_mul(self.blocking.grid[axis])
        };
        Some([self.blocking.t, side(0)?, side(1)?])
    }

    /// Elements of an entry; `None` when they exceed `usize`.
    pub fn elements(&self) -> Option<usize> {
        self.shape()?
            .iter()
            .try_fold(1usize, |all, &size| all.checked_mul(size))
    }

    /// Buffers of the grid.
    pub fn buffers(&self) -> usize {
        self.blocking.grid[0].saturating_mul(self.blocking.grid[1])
    }

    /// Bytes of an entry in one buffer.
    pub fn entry_bytes(&self) -> Option<usize> {
        let elements = self.elements()? / self.buffers();
        match self.arrangement {
            Arrangement::Tiles(tile) => (elements / tile.elements()).checked_mul(tile.bytes()),
            Arrangement::Rows => Some(elements.checked_mul(element_bits(self.format))? / 8),
        }
    }

    /// Bytes of one buffer: its header of pointers, then its entries.
    pub fn buffer_bytes(&self) -> Option<usize> {
        self.entry_bytes()?
            .checked_mul(self.entries)?
            .checked_add(self.header)
    }

    /// The bytes of one entry in the buffer at `row` and `column` of the grid.
    ///
    /// # Panics
    /// Panics unless `tensor` has [`elements`](Self::elements) elements.
    pub fn pack(&self, tensor: &[f32], row: usize, column: usize) -> Vec<u8> {
        assert_eq!(Some(tensor.len()), self.elements(), "a whole entry");
        let mut bytes = Vec::with_capacity(self.entry_bytes().unwrap_or(0));
        match self.arrangement {
            Arrangement::Tiles(tile) => {
                let mut values = Vec::with_capacity(tile.elements());
                self.tiles(row, column, |indices| {
                    values.clear();
                    values.extend(indices.map(|index| tensor[index]));
                    tile.pack(&values, &mut bytes);
                });
            }
            Arrangement::Rows => {
                let values = self.rows(row, column).map(|index| tensor[index]);
                pack_scalars(self.format, values, &mut bytes);
            }
        }
        bytes
    }

    /// Writes the elements of one buffer into the entry's tensor; false when there are too few bytes.
    ///
    /// # Panics
    /// Panics unless `tensor` has [`elements`](Self::elements) elements.
    pub fn unpack(&self, bytes: &[u8], row: usize, column: usize, tensor: &mut [f32]) -> bool {
        assert_eq!(Some(tensor.len()), self.elements(), "a whole entry");
        match self.arrangement {
            Arrangement::Tiles(tile) => {
                let mut parts = bytes.chunks_exact(tile.bytes());
                let mut is_complete = true;
                self.tiles(row, column, |indices| {
                    match parts.next().and_then(|part| tile.unpack(part)) {
                        Some(values) => indices.zip(values).for_each(|(at, v)| tensor[at] = v),
                        None => is_complete = false,
                    }
                });
                is_complete
            }
            Arrangement::Rows => {
                let count = tensor.len() / self.buffers();
                let Some(values) = unpack_scalars(self.format, bytes, count) else {
                    return false;
                };
                self.rows(row, column)
                    .zip(values)
                    .for_each(|(at, value)| tensor[at] = value);
                true
            }
        }
    }

    /// The elements of a buffer's part, row by row, as indices into the tensor.
    fn rows(&self, row: usize, column: usize) -> impl Iterator<Item = usize> + use<> {
        let [t, rows, columns] = self.shape().unwrap_or_default();
        let (height, width) = (
            rows / self.blocking.grid[0],
            columns / self.blocking.grid[1],
        );
        (0..t).flat_map(move |z| {
            (row * height..(row + 1) * height).flat_map(move |y| {
                let start = (z * rows + y) * columns;
                start + column * width..start + (column + 1) * width
            })
        })
    }

    /// The tiles of a buffer in the order of memory (slice by slice, ublock by ublock, tile by tile), each
    /// as the indices of its elements in the tensor, row by row (netlist 5.4).
    fn tiles(&self, row: usize, column: usize, mut each: impl FnMut(TileIndices)) {
        let [t, rows, columns] = self.shape().unwrap_or_default();
        let [m, n] = self.blocking.mblock;
        let [height, width] =
            [0, 1].map(|axis| self.blocking.ublock[axis] * self.blocking.tile[axis]);
        let origin = [row * m * height, column * n * width];
        for z in 0..t {
            for ublock in 0..m * n {
                let (i, j) = match self.blocking.order {
                    UblockOrder::Row => (ublock / n, ublock % n),
                    UblockOrder::Column => (ublock % m, ublock / m),
                };
                for tile in 0..self.blocking.ublock[0] * self.blocking.ublock[1] {
                    let (r, c) = (
                        tile / self.blocking.ublock[1],
                        tile % self.blocking.ublock[1],
                    );
                    let y = origin[0] + i * height + r * self.blocking.tile[0];
                    let x = origin[1] + j * width + c * self.blocking.tile[1];
                    each(TileIndices {
                        start: (z * rows + y) * columns + x,
                        stride: columns,
                        width: self.blocking.tile[1],
                        next: 0,
                        count: self.blocking.tile[0] * self.blocking.tile[1],
                    });
                }
            }
        }
    }
}

/// The elements of one tile, row by row, as indices into the tensor.
struct TileIndices {
    start: usize,
    stride: usize,
    width: usize,
    next: usize,
    count: usize,
}

impl Iterator for TileIndices {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let at = self.next;
        (at < self.count).then(|| {
            self.next += 1;
            self.start + at / self.width * self.stride + at % self.width
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn blocking(
        grid: [usize; 2],
        t: usize,
        mblock: [usize; 2],
        ublock: [usize; 2],
    ) -> TensorBlocking {
        TensorBlocking {
            grid,
            t,
            mblock,
            ublock,
            tile: [32, 32],
            order: UblockOrder::Row,
        }
    }

    fn layout(format: DataFormat, rows: bool, blocking: TensorBlocking) -> QueueLayout {
        QueueLayout::new(format, Arch::Grayskull, rows, 2, blocking)
    }

    #[test]
    fn ublocks_are_in_their_order() {
        let in_order = |order: UblockOrder| {
            let blocking = blocking([1, 1], 1, [2, 2], [1, 1]);
            let blocking = TensorBlocking { order, ..blocking };
            layout(DataFormat::Float32, false, blocking)
        };
        let first = |layout: QueueLayout| {
            let tensor: Vec<f32> = (0..4096u16).map(f32::from).collect();
            let bytes = layout.pack(&tensor, 0, 0);
            let tile = 4128;
            let at = |index: usize| {
                let start = index * tile + 16;
                f32::from_le_bytes(bytes[start..start + 4].try_into().unwrap())
            };
            [at(0), at(1), at(2), at(3)]
        };
        // The tensor is 64 by 64: tiles start at 0, 32, 64 * 32 and 64 * 32 + 32.
        assert_eq!(
            first(in_order(UblockOrder::Row)),
            [0.0, 32.0, 2048.0, 2080.0]
        );
        assert_eq!(
            first(in_order(UblockOrder::Column)),
            [0.0, 2048.0, 32.0, 2080.0]
        );
    }

    #[test]
    fn every_buffer_survives_a_round_trip() {
        let column_order = TensorBlocking {
            order: UblockOrder::Column,
            ..blocking([2, 1], 1, [1, 3], [2, 1])
        };
        let all = [
            layout(
                DataFormat::Float16B,
                false,
                blocking([1, 2], 2, [2, 1], [1, 2]),
            ),
            layout(DataFormat::Float32, false, column_order),
            layout(
                DataFormat::Float32,
                true,
                blocking([1, 2], 1, [1, 1], [1, 1]),
            ),
        ];
        for layout in all {
            let count = layout.elements().unwrap();
            let tensor: Vec<f32> = (0..count).map(|index| (index % 128) as f32).collect();
            let mut back = vec![-1.0; count];
            for row in 0..layout.blocking.grid[0] {
                for column in 0..layout.blocking.grid[1] {
                    let bytes = layout.pack(&tensor, row, column);
                    assert_eq!(Some(bytes.len()), layout.entry_bytes());
                    assert!(!layout.unpack(&bytes[1..], row, column, &mut back));
                    assert!(layout.unpack(&bytes, row, column, &mut back));
                }
            }
            assert_eq!(back, tensor, "{layout:?}");
        }
    }

    /// Two views of the same tiles: a column of ublocks in one is a row in the other.
    #[test]
    fn a_view_has_a_separate_blocking_of_the_same_memory() {
        let layout = |grid, mblock| {
            layout(
                DataFormat::Float32,
                false,
                blocking(grid, 1, mblock, [1, 1]),
            )
        };
        let tall = layout([1, 1], [4, 1]);
        let wide = layout([1, 1], [1, 4]);
        let map = |base: &QueueLayout, view, covered| base.elements_of_view(view, covered).unwrap();
        let elements = map(&tall, &wide, 1).unwrap();
        // Row 2, column 37 of the wide one is in its second tile, which is the tall one's second.
        assert_eq!(elements[2 * 128 + 37], (0, (32 + 2) * 32 + 5));
        let one = layout([1, 1], [2, 1]);
        let elements = map(&one, &wide, 2).unwrap();
        assert_eq!(elements[2 * 128 + 37], (0, (32 + 2) * 32 + 5));
        assert_eq!(elements[2 * 128 + 101], (1, (32 + 2) * 32 + 5));
        let split = layout([1, 2], [1, 2]);
        assert!(map(&one, &wide, 1).is_none());
        assert!(map(&split, &wide, 1).is_none());
    }

    #[test]
    fn untilized_data_are_row_major() {
        let blocking = blocking([1, 1], 1, [1, 1], [1, 2]);
        let layout = QueueLayout::new(DataFormat::Float16B, Arch::WormholeB0, true, 2, blocking);
        assert_eq!(layout.entry_bytes(), Some(32 * 64 * 2));
        assert_eq!(layout.buffer_bytes(), Some(2 * 32 * 64 * 2 + 32));
        let tensor: Vec<f32> = (0..32 * 64).map(|index| (index % 8) as f32).collect();
        let bytes = layout.pack(&tensor, 0, 0);
        assert_eq!(bytes[2 * 65..2 * 66], 0x3f80u16.to_le_bytes());
    }
}
