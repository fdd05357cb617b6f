//! Tiles in memory: header, shared exponents, faces, padding (netlist 5.3).

use crate::block::{BLOCK, decode_block, encode_block};
use crate::scalar::{decode_scalar, encode_scalar};
use crate::words::{Arch, DataFormat};

/// Bytes of the header: the tile's size in units of 16 bytes, then zeros.
const HEADER: usize = 16;
/// Rows and columns of a face.
const FACE: usize = 16;

/// The memory layout of a tile of one format and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileLayout {
    format: DataFormat,
    rows: usize,
    columns: usize,
    alignment: usize,
}

impl TileLayout {
    /// Tiles of `format`, `[rows, columns]` elements, as `arch` aligns them.
    pub fn new(format: DataFormat, [rows, columns]: [u32; 2], arch: Arch) -> Self {
        Self {
            format,
            rows: rows as usize,
            columns: columns as usize,
            alignment: alignment(arch),
        }
    }

    /// Elements of a tile.
    pub fn elements(&self) -> usize {
        self.rows * self.columns
    }

    /// Bits of one element, without the shared exponent.
    fn element_bits(&self) -> usize {
        element_bits(self.format)
    }

    /// Bytes of the shared exponents.
    fn exponent_bytes(&self) -> usize {
        if !self.format.is_block() {
            return 0;
        }
        if self.rows < FACE {
            return 16;
        }
        16 * self.rows.div_ceil(FACE) * self.columns.div_ceil(FACE)
    }

    /// Bytes of a tile with header and padding.
    pub fn bytes(&self) -> usize {
        let data = self.elements() * self.element_bits() / 8;
        (HEADER + self.exponent_bytes() + data).next_multiple_of(self.alignment)
    }

    /// The elements in the order of memory, as indices into the row-major tile: face by face, in raw
    /// formats row by row.
    fn order(&self) -> impl Iterator<Item = usize> + '_ {
        let (height, width) = if self.format.is_raw() {
            (self.rows, self.columns)
        } else {
            (self.rows.min(FACE), self.columns.min(FACE))
        };
        let faces = (0..self.rows).step_by(height).flat_map(move |row| {
            (0..self.columns)
                .step_by(width)
                .map(move |column| (row, column))
        });
        faces.flat_map(move |(row, column)| {
            let rows = row..(row + height).min(self.rows);
            rows.flat_map(move |row| {
                (column..column + width).map(move |column| row * self.columns + column)
            })
        })
    }

    /// Appends the bytes of a row-major tile.
    ///
    /// # Panics
    /// Panics unless `tile` has [`elements`](Self::elements) elements.
    pub fn pack(&self, tile: &[f32], out: &mut Vec<u8>) {
        assert_eq!(tile.len(), self.elements(), "a whole tile");
        let start = out.len();
        let units = (self.bytes() / 16) as u32;
        out.extend(units.to_le_bytes());
        out.resize(start + HEADER, 0);
        let ordered: Vec<f32> = self.order().map(|index| tile[index]).collect();
        if self.format.is_block() {
            self.pack_blocks(&ordered, out);
        } else {
            pack_scalars(self.format, ordered.into_iter(), out);
        }
        out.resize(start + self.bytes(), 0);
    }

    fn pack_blocks(&self, ordered: &[f32], out: &mut Vec<u8>) {
        let exponents = out.len();
        out.resize(exponents + self.exponent_bytes(), 0);
        let bits = self.element_bits();
        let (blocks, _) = ordered.as_chunks::<BLOCK>();
        for (index, block) in blocks.iter().enumerate() {
            let Some((shared, codes)) = encode_block(self.format, block) else {
                return;
            };
            out[exponents + index] = shared;
            for pack in codes.chunks(8 / bits) {
                let byte = pack.iter().rev().fold(0u8, |byte, code| {
                    // A shift by eight occurs only while the byte is 0.
                    byte.checked_shl(bits as u32).unwrap_or(0) | code
                });
                out.push(byte);
            }
        }
    }

    /// The row-major tile from its bytes; `None` when there are too few.
    pub fn unpack(&self, bytes: &[u8]) -> Option<Vec<f32>> {
        let body = bytes.get(HEADER..self.bytes())?;
        let (exponents, data) = body.split_at(self.exponent_bytes());
        let ordered = if self.format.is_block() {
            self.unpack_blocks(exponents, data)?
        } else {
            unpack_scalars(self.format, data, self.elements())?
        };
        let mut tile = vec![0.0; self.elements()];
        for (index, value) in self.order().zip(ordered) {
            tile[index] = value;
        }
        Some(tile)
    }

    fn unpack_blocks(&self, exponents: &[u8], data: &[u8]) -> Option<Vec<f32>> {
        let bits = self.element_bits();
        let mask = ((1u32 << bits) - 1) as u8;
        let mut values = Vec::with_capacity(self.elements());
        for (index, bytes) in data.chunks_exact(BLOCK * bits / 8).enumerate() {
            if values.len() == self.elements() {
                break;
            }
            let code = |at: usize| {
                let bit = at * bits;
                bytes[bit / 8] >> (bit % 8) & mask
            };
            let codes: [u8; BLOCK] = std::array::from_fn(code);
            values.extend(decode_block(self.format, *exponents.get(index)?, &codes)?);
        }
        Some(values)
    }
}

/// The alignment of tiles and queues in a device's memory, in bytes.
pub(crate) fn alignment(arch: Arch) -> usize {
    match arch {
        Arch::Blackhole => 64,
        _ => 32,
    }
}

/// Bits of one element of a format, without the shared exponent.
pub(crate) fn element_bits(format: DataFormat) -> usize {
    use DataFormat::*;
    match format {
        Float32 | Int32 | RawUInt32 => 32,
        Float16 | Float16B | UInt16 | RawUInt16 => 16,
        Bfp8 | Bfp8B | Lf8 | Fp8E4m3 | Int8 | UInt8 | RawUInt8 => 8,
        Bfp4 | Bfp4B => 4,
        Bfp2 | Bfp2B => 2,
    }
}

/// Appends the codes of elements, little-endian.
pub(crate) fn pack_scalars(
    format: DataFormat,
    values: impl Iterator<Item = f32>,
    out: &mut Vec<u8>,
) {
    let bytes = element_bits(format) / 8;
    for value in values {
        let code = encode_scalar(format, value).unwrap_or_default();
        out.extend(&code.to_le_bytes()[..bytes]);
    }
}

/// The elements of `count` codes; `None` when there are too few bytes.
pub(crate) fn unpack_scalars(format: DataFormat, data: &[u8], count: usize) -> Option<Vec<f32>> {
    let bytes = element_bits(format) / 8;
    let codes = data.get(..count * bytes)?.chunks_exact(bytes);
    let element = |code: &[u8]| {
        let mut word = [0; 4];
        word[..code.len()].copy_from_slice(code);
        decode_scalar(format, u32::from_le_bytes(word))
    };
    codes.map(element).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataFormat::*;

    #[test]
    fn sizes_are_the_published_ones() {
        let sizes = [
            (Float32, 4128, 4160),
            (Int32, 4128, 4160),
            (RawUInt32, 4128, 4160),
            (Float16, 2080, 2112),
            (Float16B, 2080, 2112),
            (UInt16, 2080, 2112),
            (Bfp8, 1120, 1152),
            (Bfp8B, 1120, 1152),
            (Bfp4B, 608, 640),
            (Bfp2, 352, 384),
            (Lf8, 1056, 1088),
            (Int8, 1056, 1088),
            (RawUInt8, 1056, 1088),
        ];
        for (format, wormhole, blackhole) in sizes {
            let bytes = |arch| TileLayout::new(format, [32, 32], arch).bytes();
            assert_eq!(bytes(Arch::WormholeB0), wormhole, "{format}");
            assert_eq!(bytes(Arch::Blackhole), blackhole, "{format}");
        }
    }

    #[test]
    fn faces_are_contiguous() {
        let layout = TileLayout::new(Float32, [32, 32], Arch::Grayskull);
        let tile: Vec<f32> = (0..1024u16).map(f32::from).collect();
        let mut bytes = Vec::new();
        layout.pack(&tile, &mut bytes);
        assert_eq!(bytes[..4], (4128u32 / 16).to_le_bytes());
        let at = |index: usize| {
            let start = HEADER + 4 * index;
            f32::from_le_bytes(bytes[start..start + 4].try_into().unwrap())
        };
        // Row 1 of face 0, the start of faces 1, 2 and 3.
        assert_eq!(
            [at(16), at(256), at(512), at(768)],
            [32.0, 16.0, 512.0, 528.0]
        );
        assert_eq!(layout.unpack(&bytes), Some(tile));
        assert_eq!(layout.unpack(&bytes[..4127]), None);
    }

    #[test]
    fn every_format_and_size_survives_a_round_trip() {
        for &format in DataFormat::ALL {
            for tile in [
                [32, 32],
                [16, 32],
                [32, 16],
                [8, 32],
                [4, 32],
                [2, 32],
                [1, 32],
            ] {
                let layout = TileLayout::new(format, tile, Arch::WormholeB0);
                // Powers of two are exact in every format, also within one block.
                let value = |index: usize| if index.is_multiple_of(3) { 0.0 } else { 1.0 };
                let raw = |index: usize| f32::from_bits(index as u32 & 0xff);
                let values: Vec<f32> = if format.is_raw() {
                    (0..layout.elements()).map(raw).collect()
                } else {
                    (0..layout.elements()).map(value).collect()
                };
                let mut bytes = Vec::new();
                layout.pack(&values, &mut bytes);
                assert_eq!(bytes.len(), layout.bytes());
                let back = layout.unpack(&bytes).unwrap();
                let same = back
                    .iter()
                    .zip(&values)
                    .all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{format} {tile:?}");
            }
        }
    }
}
