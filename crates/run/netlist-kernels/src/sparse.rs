//! `netlist.sparse_matmul`: the product with a block-sparse matrix, tile by tile, from its encoding
//! (netlist 3.3).

use super::attributes::{size_or, sizes, wrong};
use super::op::{Compute, tensor_kernel};
use super::tensor::{TileTensor, checked_shape, reserved, wrong_shape};
use std::sync::Mutex;
use tenon_base::{Error, Result, pool};
use tenon_executor::{KernelDef, Site};
use tenon_tile::DataFormat;

/// Bytes of a tile of the encoding; the strip after the last one of a tile starts in the next tile.
const ENCODING_TILE: usize = 32 * 32 * 4;

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![tensor_kernel("netlist.sparse_matmul", 3, bind).doc(
        "Adds products of the sparse tiles of input 0 and rows of input 1, as input 2 lists them.",
    )]
}

/// The parameters of the encoding.
#[derive(Debug, Clone, Copy)]
pub(super) struct Encoding {
    /// Tiles of a ublock along the inner dimension.
    pub u_kt: usize,
    /// Bits of the index of a sparse tile.
    pub tile_bits: u32,
    /// Bits of the row of a ublock.
    pub ublock_bits: u32,
    /// Slices of the result.
    pub t: usize,
}

/// One product of tiles: `out[t, row] += sparse[tile] * activation[depth]`, for all columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    t: usize,
    row: usize,
    tile: usize,
    depth: usize,
}

impl Encoding {
    /// The entries of a stream of bytes; a ublock has `ublock_rows` rows of tiles.
    pub(super) fn entries(&self, bytes: &[u8], ublock_rows: usize) -> Result<Vec<Entry>> {
        let mut reader = Reader { bytes, at: 0 };
        let mut entries = Vec::new();
        let position_bits = 16 - self.tile_bits;
        let inner_bits = bits(self.u_kt);
        let mut t = 0;
        while t < self.t {
            let start = reader.at;
            let strip = u32::from(reader.next()?) | u32::from(reader.next()?) << 16;
            let (index, last_of_row, last_of_tile) =
                (strip & 0x3fff_ffff, strip >> 30 & 1 == 1, strip >> 31 == 1);
            for _ in 0..reader.next()? {
                let head = u32::from(reader.next()?);
                let ublock = head & ((1 << self.ublock_bits) - 1);
                let count = match head >> self.ublock_bits {
                    0 => 1 << (16 - self.ublock_bits),
                    count => count,
                };
                for _ in 0..count {
                    let word = u32::from(reader.next()?);
                    let position = word & ((1u32 << position_bits) - 1);
                    let inner = (position & ((1 << inner_bits) - 1)) as usize;
                    entries.push(Entry {
                        t,
                        row: ublock as usize * ublock_rows + (position >> inner_bits) as usize,
                        tile: (word >> position_bits) as usize,
                        depth: index as usize * self.u_kt + inner,
                    });
                }
            }
            if last_of_tile {
                reader.at = (start / ENCODING_TILE + 1) * ENCODING_TILE;
            }
            t += usize::from(last_of_row);
        }
        Ok(entries)
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Result<u16> {
        let short = || {
            wrong_shape("the encoding of a sparse product ends too early")
                .expected("a strip marked as the last of its row for each slice")
                .found(format_args!("{} bytes", self.bytes.len()))
        };
        let pair = self.bytes.get(self.at..self.at + 2).ok_or_else(short)?;
        self.at += 2;
        Ok(u16::from_le_bytes([pair[0], pair[1]]))
    }
}

/// The bits of indices below `n`, at least 1.
pub(super) fn bits(n: usize) -> u32 {
    (usize::BITS - n.saturating_sub(1).leading_zeros()).max(1)
}

fn bind(site: &Site<'_>) -> Result<Compute> {
    let attributes = site.attributes();
    let size = |name| size_or(attributes, name, 0);
    let tile_bits = size("sparse_tile_ptr_bits")?;
    let ublock_bits = match attributes.optional("sparse_ublock_idx_bits") {
        Some(_) if attributes.i64("sparse_ublock_idx_bits")? > 0 => size("sparse_ublock_idx_bits")?,
        _ => tile_bits,
    };
    if tile_bits > 15 || ublock_bits > 15 {
        return Err(wrong("sparse_tile_ptr_bits", "at most 15"));
    }
    let [t, rows, columns]: [usize; 3] = sizes(attributes, "tiles")?;
    let [grid_rows, grid_columns]: [usize; 2] = sizes(attributes, "grid")?;
    let [ublock_rows, _]: [usize; 2] = sizes(attributes, "ublock")?;
    let fracture = size_or(attributes, "fracture_factor", 1)?.max(1); // words: allow
    checked_shape([t, rows, columns], [32, 1])?;
    let u_kt = size("u_kt")?.max(1);
    // A position in a ublock has at most 16 bits, including those of the depth.
    if u_kt > 1 << 16 {
        return Err(wrong("u_kt", "at most 65536"));
    }
    let format = super::attributes::format(attributes, "encoding")?;
    if grid_rows == 0 || grid_columns == 0 || rows % grid_rows != 0 || columns % grid_columns != 0 {
        return Err(wrong("grid", "a divisor of the tiles"));
    }
    if grid_columns % fracture != 0 {
        return Err(wrong(
            "fracture_factor", // words: allow
            "a divisor of the columns of cores",
        ));
    }
    let cores = Cores {
        encoding: Encoding {
            u_kt,
            tile_bits: tile_bits as u32,
            ublock_bits: ublock_bits as u32,
            t,
        },
        tiles: [t, rows, columns],
        grid: [grid_rows, grid_columns],
        fracture,
        ublock_rows,
        format,
    };
    let bias = super::attributes::flag(attributes, "bias")?;
    Ok(Box::new(move |operands| match (operands, bias) {
        ([sparse, activations, encodings], false) => cores.run(sparse, activations, encodings),
        ([sparse, activations, encodings, bias], true) => {
            let product = cores.run(sparse, activations, encodings)?;
            super::epilogue::add_bias(&product, bias, false)
        }
        _ => Err(wrong_shape(
            "a sparse product requires three operands, and the bias if it has one",
        )),
    }))
}

struct Cores {
    encoding: Encoding,
    tiles: [usize; 3],
    grid: [usize; 2],
    fracture: usize,
    ublock_rows: usize,
    format: DataFormat,
}

impl Cores {
    fn run(
        &self,
        sparse: &TileTensor,
        activations: &TileTensor,
        encodings: &TileTensor,
    ) -> Result<TileTensor> {
        let tile = activations.tile();
        if sparse.tile() != [32, 32] || tile[0] != 32 {
            return Err(wrong_shape("a sparse product requires tiles of 32 by 32"));
        }
        if activations.tiles()[2] != self.tiles[2] {
            return Err(
                wrong_shape("the activations differ in width from the result")
                    .expected(self.tiles[2])
                    .found(activations.tiles()[2]),
            );
        }
        checked_shape(self.tiles, [32, tile[1]])?;
        let count = self.grid[0] * self.grid[1];
        let results: Vec<Mutex<Result<Vec<f32>>>> =
            (0..count).map(|_| Mutex::new(Ok(Vec::new()))).collect();
        pool::for_each(count, |core| {
            let position = [core / self.grid[1], core % self.grid[1]];
            let values = self.core(position, sparse, activations, encodings);
            if let Ok(mut result) = results[core].lock() {
                *result = values;
            }
        });
        let mut cores = Vec::with_capacity(count);
        for result in results {
            cores.push(
                result
                    .into_inner()
                    .unwrap_or_else(|held| held.into_inner())?,
            );
        }
        self.joined(&cores, tile)
    }

    /// The tensor of the results of all cores, in the layout of the grid.
    fn joined(&self, cores: &[Vec<f32>], tile: [usize; 2]) -> Result<TileTensor> {
        let [t, rows, columns] = self.tiles;
        let [height, width] = [rows / self.grid[0] * 32, columns / self.grid[1] * tile[1]];
        TileTensor::build(self.tiles, [32, tile[1]], |to| {
            let line = columns * tile[1];
            for (core, values) in cores.iter().enumerate() {
                let [r, c] = [core / self.grid[1], core % self.grid[1]];
                for z in 0..t {
                    for y in 0..height {
                        let at = ((z * self.grid[0] + r) * height + y) * line + c * width;
                        let from = (z * height + y) * width;
                        to[at..][..width].copy_from_slice(&values[from..][..width]);
                    }
                }
            }
            Ok(())
        })
    }

    /// The result of one core, `[t, rows, columns]` elements.
    fn core(
        &self,
        [r, c]: [usize; 2],
        sparse: &TileTensor,
        activations: &TileTensor,
        encodings: &TileTensor,
    ) -> Result<Vec<f32>> {
        let part = c / (self.grid[1] / self.fracture);
        let share = |tensor: &TileTensor| TensorParts::new(tensor, [self.grid[0], self.fracture]);
        let (sparse_share, encoding_share) = (share(sparse)?, share(encodings)?);
        let bytes = encoding_share.bytes([r, part], encodings, self.format);
        let entries = self.encoding.entries(&bytes, self.ublock_rows)?;
        let [_, rows, columns] = self.tiles;
        let (rows, columns) = (rows / self.grid[0], columns / self.grid[1]);
        let [slices, act_rows, _] = activations.tiles();
        let (line, width) = (activations.shape()[2], columns * activations.tile()[1]);
        let count = self.tiles[0] * rows * 32 * width;
        let mut out = reserved(count)?;
        out.resize(count, 0.0);
        for entry in entries {
            let problem = |what: &str, found: usize, limit: usize| -> Error {
                wrong_shape(format!(
                    "the encoding of a sparse product has {what} {found}, out of bounds"
                ))
                .expected(format_args!("less than {limit}"))
            };
            if entry.row >= rows {
                return Err(problem("row", entry.row, rows));
            }
            if entry.tile >= sparse_share.count() {
                return Err(problem("sparse tile", entry.tile, sparse_share.count()));
            }
            if entry.depth >= slices * act_rows {
                return Err(problem(
                    "row of activations",
                    entry.depth,
                    slices * act_rows,
                ));
            }
            // Rows of activations are counted over all slices.
            let from = &activations.values()[entry.depth * 32 * line + c * width..];
            for y in 0..32 {
                let weights = sparse_share.row([r, part], sparse, entry.tile, y);
                let at = ((entry.t * rows + entry.row) * 32 + y) * width;
                let to = &mut out[at..][..width];
                for (x, &weight) in weights.iter().enumerate().filter(|(_, w)| **w != 0.0) {
                    let from = &from[x * line..][..width];
                    let pairs = to.iter_mut().zip(from);
                    pairs.for_each(|(to, from)| *to += weight * from);
                }
            }
        }
        Ok(out)
    }
}

/// The parts of a tensor whose rows and columns of tiles are divided among cores.
struct TensorParts {
    tiles: [usize; 3],
    rows: usize,
    columns: usize,
}

impl TensorParts {
    fn new(tensor: &TileTensor, parts: [usize; 2]) -> Result<Self> {
        let [_, rows, columns] = tensor.tiles();
        if rows % parts[0] != 0 || columns % parts[1] != 0 {
            return Err(
                wrong_shape("a sparse operand is not divisible among the cores")
                    .expected(format_args!("a multiple of {parts:?} tiles"))
                    .found(tensor.describe()),
            );
        }
        Ok(Self {
            tiles: tensor.tiles(),
            rows: rows / parts[0],
            columns: columns / parts[1],
        })
    }

    fn count(&self) -> usize {
        self.tiles[0] * self.rows * self.columns
    }

    /// The index of the first element of row `y` of the part's tile `index`.
    fn start(&self, [r, c]: [usize; 2], tile: [usize; 2], index: usize, y: usize) -> usize {
        let (z, within) = (
            index / (self.rows * self.columns),
            index % (self.rows * self.columns),
        );
        let row = r * self.rows + within / self.columns;
        let column = c * self.columns + within % self.columns;
        ((z * self.tiles[1] + row) * tile[0] + y) * self.tiles[2] * tile[1] + column * tile[1]
    }

    fn row<'a>(
        &self,
        part: [usize; 2],
        tensor: &'a TileTensor,
        index: usize,
        y: usize,
    ) -> &'a [f32] {
        let tile = tensor.tile();
        &tensor.values()[self.start(part, tile, index, y)..][..tile[1]]
    }

    /// The raw data of the part, tile by tile (netlist 3.3).
    fn bytes(&self, part: [usize; 2], tensor: &TileTensor, format: DataFormat) -> Vec<u8> {
        let width = match format {
            DataFormat::RawUInt8 => 1,
            DataFormat::RawUInt16 => 2,
            _ => 4,
        };
        let mut bytes = Vec::new();
        for index in 0..self.count() {
            for y in 0..tensor.tile()[0] {
                for value in self.row(part, tensor, index, y) {
                    bytes.extend(&value.to_bits().to_le_bytes()[..width]);
                }
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests;
