//! Random valid encodings of sparse matmuls (netlist 3.3): strips of ublocks of tiles.

use super::random::Random;
use crate::attributes::AttributeKey as Key;
use crate::netlist::Op;
use tenon_tile::DataFormat;

/// Elements per encoding tile.
const TILE: usize = 32 * 32;
/// Flags of the second word of a strip: the last of its row, the last of its encoding tile.
const LAST_OF_ROW: u16 = 1 << 14;
const LAST_OF_TILE: u16 = 1 << 15;

/// Maximum number of ublocks per strip and of entries per ublock, so that a strip is much smaller
/// than an encoding tile.
const BLOCKS: usize = 8;
const ENTRIES: usize = 16;

/// The ranges of the fields of an encoding.
struct EncodingSizes {
    /// Number of slices of the output: rows of strips.
    slices: usize,
    /// Number of strips of the inner dimension.
    strips: usize,
    /// Number of rows of ublocks.
    ublocks: usize,
    /// Number of rows of tiles per ublock.
    rows: usize,
    /// Number of tiles per inner ublock.
    inner: usize,
    /// Bits of the index of a tile in the inner ublock.
    inner_bits: u32,
    /// The lowest bit of the index of a sparse tile.
    tile_bits: u32,
    /// Number of sparse tiles.
    tiles: usize,
    /// Bits of the row of a ublock.
    ublock_bits: u32,
}

/// The number of bits of `n - 1`, at least one.
fn bits(n: usize) -> u32 {
    usize::BITS - n.saturating_sub(1).max(1).leading_zeros()
}

impl EncodingSizes {
    fn of(op: &Op) -> Self {
        let integer = |key| usize::try_from(op.attributes.integer(key)).unwrap_or(0);
        let pointer = (integer(Key::SparseTilePtrBits) as u32).min(15);
        let ublock = op.attributes.integer(Key::SparseUblockIdxBits);
        let ublock_bits = if ublock > 0 {
            (ublock as u32).min(15)
        } else {
            pointer
        };
        let tile_bits = 16 - pointer;
        let inner_bits = bits(integer(Key::UKt)).min(tile_bits);
        let fits = |size: usize, bits: u32| size.clamp(1, 1 << bits);
        Self {
            slices: op.blocking.t.value as usize,
            strips: integer(Key::MK).max(1),
            ublocks: fits(op.blocking.mblock.value[0] as usize, ublock_bits),
            rows: fits(op.blocking.ublock.value[0] as usize, tile_bits - inner_bits),
            inner: fits(integer(Key::UKt), inner_bits),
            inner_bits,
            tile_bits,
            tiles: fits(integer(Key::NumSparseTiles), pointer),
            ublock_bits,
        }
    }

    /// A strip without flags, of at most `budget` words if that is five or more.
    fn strip(&self, index: usize, budget: usize, zeros: [f64; 3], random: &mut Random) -> Vec<u16> {
        let mut blocks: Vec<usize> = (0..self.ublocks)
            .filter(|_| random.unit() >= zeros[1])
            .collect();
        if blocks.is_empty() {
            blocks.push(random.below(self.ublocks));
        }
        let mut strip = vec![index as u16, (index >> 16) as u16, 0];
        let counts = (1usize << (16 - self.ublock_bits)) - 1;
        let entries = (self.rows * self.inner) as f64 * (1.0 - zeros[2]);
        for block in blocks.into_iter().take(BLOCKS) {
            let available = budget.saturating_sub(strip.len() + 1).max(1);
            if strip[2] > 0 && strip.len() + 2 > budget {
                break;
            }
            let count = (entries as usize).clamp(1, counts.clamp(1, ENTRIES).min(available));
            strip[2] += 1;
            strip.push((count << self.ublock_bits | block) as u16);
            for _ in 0..count {
                let place = random.below(self.rows) << self.inner_bits | random.below(self.inner);
                strip.push((random.below(self.tiles) << self.tile_bits | place) as u16);
            }
        }
        strip
    }

    /// An encoding of `tiles` encoding tiles of `capacity` words.
    fn encoding(
        &self,
        tiles: usize,
        capacity: usize,
        zeros: [f64; 3],
        random: &mut Random,
    ) -> Vec<u16> {
        let mut words: Vec<u16> = Vec::new();
        let mut last = 0;
        for slice in 0..self.slices {
            let mut chosen: Vec<usize> = (0..self.strips)
                .filter(|_| random.unit() >= zeros[0])
                .collect();
            if chosen.is_empty() {
                chosen.push(random.below(self.strips));
            }
            // The remaining words are shared by the remaining slices.
            let left = (tiles * capacity).saturating_sub(words.len());
            let share = left / (self.slices - slice);
            let start = words.len();
            let count = chosen.len();
            for (number, index) in chosen.into_iter().enumerate() {
                let budget = share.saturating_sub(words.len() - start);
                let mut strip = self.strip(index, budget, zeros, random);
                // The last strip of its row, unless another one of its size fits.
                let ends = number + 1 == count || budget < 2 * strip.len();
                if ends {
                    strip[1] |= LAST_OF_ROW;
                }
                let free = capacity - words.len() % capacity;
                if strip.len() > free {
                    words[last + 1] |= LAST_OF_TILE;
                    words.resize(words.len() + free, 0);
                }
                last = words.len();
                words.extend(strip);
                if ends {
                    break;
                }
            }
        }
        words
    }
}

/// Fills an entry of an encoding queue of `rows` by `columns` tiles: one stream for each row of tiles
/// and each part of the columns of cores.
pub(super) fn fill(
    values: &mut [f32],
    [rows, columns]: [usize; 2],
    op: &Op,
    format: DataFormat,
    zeros: [f64; 3],
    random: &mut Random,
) {
    let parts = (op.attributes.integer(Key::FractureFactor).max(1) as usize).min(columns);
    // Bytes of the stream per element.
    let bytes = match format {
        DataFormat::RawUInt8 => 1,
        DataFormat::RawUInt16 => 2,
        _ => 4,
    };
    let capacity = TILE * bytes / 2;
    let tiles = columns / parts;
    let sizes = EncodingSizes::of(op);
    for row in 0..rows {
        for part in 0..parts {
            let words = sizes.encoding(tiles, capacity, zeros, random);
            let stream: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            for (index, chunk) in stream.chunks(bytes).enumerate().take(tiles * TILE) {
                let (tile, inside) = (part * tiles + index / TILE, index % TILE);
                let (y, x) = (row * 32 + inside / 32, tile * 32 + inside % 32);
                let mut word = [0u8; 4];
                word[..chunk.len()].copy_from_slice(chunk);
                values[y * columns * 32 + x] = f32::from_bits(u32::from_le_bytes(word));
            }
        }
    }
}
