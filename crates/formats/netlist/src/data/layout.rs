//! The buffers of a queue: header, entries, blocks (facts 5.4).

use super::tile::{TileLayout, alignment, element_bits, pack_scalars, unpack_scalars};
use crate::netlist::Queue;
use crate::words::{Arch, DataFormat, Layout, UblockOrder};

/// How the elements of an entry lie in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrangement {
    /// Tiles with headers, ublock by ublock.
    Tiles(TileLayout),
    /// Row-major elements of the whole tensor (`untilize_output`) or of the buffer's part of it
    /// (`layout: flat`), without headers.
    Rows,
}

/// The layout of one queue's memory. A tensor of an entry is `[t, rows, columns]` elements,
/// row-major.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLayout {
    format: DataFormat,
    arrangement: Arrangement,
    header: usize,
    entries: usize,
    grid: [usize; 2],
    t: usize,
    mblock: [usize; 2],
    ublock: [usize; 2],
    tile: [usize; 2],
    column_order: bool,
}

impl QueueLayout {
    /// The layout of `queue` on `arch`; `untilized` when the op that fills it says so.
    pub fn new(queue: &Queue, arch: Arch, untilized: bool) -> Self {
        let blocking = &queue.blocking;
        let flat = queue
            .layout
            .is_some_and(|layout| layout.value == Layout::Flat);
        let format = queue.df.value;
        let sizes = |pair: [u32; 2]| pair.map(|size| size as usize);
        let arrangement = match (flat || untilized) && !format.is_block() {
            true => Arrangement::Rows,
            false => Arrangement::Tiles(TileLayout::new(format, blocking.tile(), arch)),
        };
        Self {
            format,
            arrangement,
            header: alignment(arch),
            entries: queue.entries.value as usize,
            grid: sizes(blocking.grid_size.value),
            t: blocking.t.value as usize,
            mblock: sizes(blocking.mblock.value),
            ublock: sizes(blocking.ublock.value),
            tile: sizes(blocking.tile()),
            column_order: blocking.order() == UblockOrder::Column,
        }
    }

    /// The layout of tiles in this blocking, of f32 and one entry.
    pub fn of_tiles(
        [grid, mblock, ublock, tile]: [[usize; 2]; 4],
        t: usize,
        order: UblockOrder,
    ) -> Self {
        let sides = tile.map(|side| side as u32);
        let format = DataFormat::Float32;
        Self {
            format,
            arrangement: Arrangement::Tiles(TileLayout::new(format, sides, Arch::Grayskull)),
            header: alignment(Arch::Grayskull),
            entries: 1,
            grid,
            t,
            mblock,
            ublock,
            tile,
            column_order: order == UblockOrder::Column,
        }
    }

    /// For each element of an entry of `view`, a ram on the same buffers, the entry and the element
    /// of this one that lie in the same place of memory; the view covers so many entries. `None`
    /// where the two do not hold as many elements in each buffer.
    pub fn seen_through(&self, view: &Self, covered: usize) -> Option<Vec<(usize, usize)>> {
        let (own, all) = (self.elements()?, view.elements()?);
        if own.checked_mul(covered) != Some(all) || self.buffers() != view.buffers() {
            return None;
        }
        let mut places = vec![(0, 0); all];
        for buffer in 0..self.buffers() {
            let order = self.order(buffer);
            let memory = (0..covered).flat_map(|entry| order.iter().map(move |&at| (entry, at)));
            let seen = view.order(buffer);
            seen.iter()
                .zip(memory)
                .for_each(|(&at, place)| places[at] = place);
        }
        Some(places)
    }

    /// The elements of an entry that a buffer holds, in the order in which they lie there, as
    /// indices into the tensor; buffers are numbered row by row.
    fn order(&self, buffer: usize) -> Vec<usize> {
        let (row, column) = (buffer / self.grid[1], buffer % self.grid[1]);
        let mut order = Vec::new();
        match self.arrangement {
            Arrangement::Tiles(_) => self.tiles(row, column, |indices| order.extend(indices)),
            Arrangement::Rows => order.extend(self.rows(row, column)),
        }
        order
    }

    /// `[t, rows, columns]` of an entry, in elements; `None` when they do not fit memory.
    pub fn shape(&self) -> Option<[usize; 3]> {
        let side = |axis: usize| {
            let core = self.mblock[axis].checked_mul(self.ublock[axis])?;
            core.checked_mul(self.tile[axis])?
                .checked_mul(self.grid[axis])
        };
        Some([self.t, side(0)?, side(1)?])
    }

    /// Elements of an entry; `None` when they do not fit memory.
    pub fn elements(&self) -> Option<usize> {
        self.shape()?
            .iter()
            .try_fold(1usize, |all, &size| all.checked_mul(size))
    }

    /// Buffers of the grid.
    pub fn buffers(&self) -> usize {
        self.grid[0].saturating_mul(self.grid[1])
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
    /// Panics if `tensor` has not [`elements`](Self::elements) elements.
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

    /// Writes what one buffer holds of an entry into its tensor; false when there are too few
    /// bytes.
    ///
    /// # Panics
    /// Panics if `tensor` has not [`elements`](Self::elements) elements.
    pub fn unpack(&self, bytes: &[u8], row: usize, column: usize, tensor: &mut [f32]) -> bool {
        assert_eq!(Some(tensor.len()), self.elements(), "a whole entry");
        match self.arrangement {
            Arrangement::Tiles(tile) => {
                let mut parts = bytes.chunks_exact(tile.bytes());
                let mut whole = true;
                self.tiles(row, column, |indices| {
                    match parts.next().and_then(|part| tile.unpack(part)) {
                        Some(values) => indices.zip(values).for_each(|(at, v)| tensor[at] = v),
                        None => whole = false,
                    }
                });
                whole
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
        let (height, width) = (rows / self.grid[0], columns / self.grid[1]);
        (0..t).flat_map(move |z| {
            (row * height..(row + 1) * height).flat_map(move |y| {
                let start = (z * rows + y) * columns;
                start + column * width..start + (column + 1) * width
            })
        })
    }

    /// The tiles of a buffer in the order in which they lie, each as its elements' indices into
    /// the tensor, row by row: slice by slice, ublock by ublock, tile by tile (facts 5.4).
    fn tiles(&self, row: usize, column: usize, mut each: impl FnMut(TileIndices)) {
        let [t, rows, columns] = self.shape().unwrap_or_default();
        let [m, n] = self.mblock;
        let [height, width] = [0, 1].map(|axis| self.ublock[axis] * self.tile[axis]);
        let origin = [row * m * height, column * n * width];
        for z in 0..t {
            for ublock in 0..m * n {
                let (i, j) = match self.column_order {
                    false => (ublock / n, ublock % n),
                    true => (ublock % m, ublock / m),
                };
                for tile in 0..self.ublock[0] * self.ublock[1] {
                    let (r, c) = (tile / self.ublock[1], tile % self.ublock[1]);
                    let y = origin[0] + i * height + r * self.tile[0];
                    let x = origin[1] + j * width + c * self.tile[1];
                    each(TileIndices {
                        start: (z * rows + y) * columns + x,
                        stride: columns,
                        width: self.tile[1],
                        next: 0,
                        count: self.tile[0] * self.tile[1],
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
    use crate::{Source, read};

    fn queue(fields: &str) -> Queue {
        let text = format!(
            "devices: {{arch: grayskull}}\nqueues:\n  q: {{type: queue, input: HOST, entries: 2, \
             target_device: 0, loc: dram, dram: [[0, 0x100], [0, 0x200]], {fields}}}\n"
        );
        read(&Source::new("q.yaml", text)).netlist.queues.remove(0)
    }

    #[test]
    fn ublocks_follow_their_order() {
        let shape = "grid_size: [1, 1], t: 1, mblock: [2, 2], ublock: [1, 1], df: Float32";
        let layout = |order: &str| {
            let queue = queue(&format!("{shape}, ublock_order: {order}"));
            QueueLayout::new(&queue, Arch::Grayskull, false)
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
        assert_eq!(first(layout("r")), [0.0, 32.0, 2048.0, 2080.0]);
        assert_eq!(first(layout("c")), [0.0, 2048.0, 32.0, 2080.0]);
    }

    #[test]
    fn every_buffer_comes_back() {
        let all = [
            "grid_size: [1, 2], t: 2, mblock: [2, 1], ublock: [1, 2], df: Float16_b",
            "grid_size: [2, 1], t: 1, mblock: [1, 3], ublock: [2, 1], df: Float32, ublock_order: c",
            "grid_size: [1, 2], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float32, layout: flat",
        ];
        for fields in all {
            let layout = QueueLayout::new(&queue(fields), Arch::Grayskull, false);
            let count = layout.elements().unwrap();
            let tensor: Vec<f32> = (0..count).map(|index| (index % 128) as f32).collect();
            let mut back = vec![-1.0; count];
            for row in 0..layout.grid[0] {
                for column in 0..layout.grid[1] {
                    let bytes = layout.pack(&tensor, row, column);
                    assert_eq!(Some(bytes.len()), layout.entry_bytes());
                    assert!(!layout.unpack(&bytes[1..], row, column, &mut back));
                    assert!(layout.unpack(&bytes, row, column, &mut back));
                }
            }
            assert_eq!(back, tensor, "{fields}");
        }
    }

    /// Two views of 2 by 2 tiles: what is a column of two ublocks in the one is a row in the other.
    #[test]
    fn a_view_sees_memory_in_its_own_blocking() {
        let layout = |fields: &str| {
            let fields = format!("{fields}, df: Float32");
            QueueLayout::new(&queue(&fields), Arch::Grayskull, false)
        };
        let tall = layout("grid_size: [1, 1], t: 1, mblock: [4, 1], ublock: [1, 1]");
        let wide = layout("grid_size: [1, 1], t: 1, mblock: [1, 4], ublock: [1, 1]");
        let places = tall.seen_through(&wide, 1).unwrap();
        // Row 2, column 37 of the wide one is in its second tile, which is the tall one's second.
        assert_eq!(places[2 * 128 + 37], (0, (32 + 2) * 32 + 5));
        let one = layout("grid_size: [1, 1], t: 1, mblock: [2, 1], ublock: [1, 1]");
        let places = one.seen_through(&wide, 2).unwrap();
        assert_eq!(places[2 * 128 + 37], (0, (32 + 2) * 32 + 5));
        assert_eq!(places[2 * 128 + 101], (1, (32 + 2) * 32 + 5));
        let split = layout("grid_size: [1, 2], t: 1, mblock: [1, 2], ublock: [1, 1]");
        assert!(one.seen_through(&wide, 1).is_none());
        assert!(split.seen_through(&wide, 1).is_none());
    }

    #[test]
    fn untilized_data_are_plain_rows() {
        let queue = queue("grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 2], df: Float16_b");
        let layout = QueueLayout::new(&queue, Arch::WormholeB0, true);
        assert_eq!(layout.entry_bytes(), Some(32 * 64 * 2));
        assert_eq!(layout.buffer_bytes(), Some(2 * 32 * 64 * 2 + 32));
        let tensor: Vec<f32> = (0..32 * 64).map(|index| (index % 8) as f32).collect();
        let bytes = layout.pack(&tensor, 0, 0);
        assert_eq!(bytes[2 * 65..2 * 66], 0x3f80u16.to_le_bytes());
    }
}
