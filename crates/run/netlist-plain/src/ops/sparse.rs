//! Sparse matmul: an encoding places dense tiles in a block-sparse matrix (netlist 3.3).

use super::matmul::{add_bias, add_scaled};
use crate::error::failed;
use crate::tensor::{TILE, Tensor, with_capacity};
use tenon_base::Result;
use tenon_netlist::{AttributeKey as Key, DataFormat, Op};

/// Elements of a tile.
const ELEMENTS: usize = TILE * TILE;

/// The sizes of a sparse matmul.
#[derive(Debug, Clone, Copy)]
pub struct SparseSizes {
    /// Rows and columns of cores.
    pub grid: [usize; 2],
    /// Number of slices of the output.
    pub t: usize,
    /// Rows and columns of ublocks per core.
    pub mblock: [usize; 2],
    /// Rows and columns of tiles per ublock.
    pub ublock: [usize; 2],
    /// Number of tiles of an inner ublock.
    pub u_kt: usize,
    /// Number of parts of sparse tiles and encoding along the columns of cores.
    pub fracture: usize,
    /// Bits of the index of a sparse tile.
    pub pointer_bits: u32,
    /// Bits of the index of a ublock row.
    pub ublock_bits: u32,
    /// Bytes of the stream per element of the encoding.
    pub bytes: usize,
}

impl SparseSizes {
    /// The sizes of an op.
    pub fn of(op: &Op) -> Self {
        let size = |pair: [u32; 2]| pair.map(|size| size as usize);
        let integer = |key| op.attributes.integer(key).max(0) as usize;
        let pointer_bits = (integer(Key::SparseTilePtrBits) as u32).min(16);
        let ublock_bits = match op.attributes.integer(Key::SparseUblockIdxBits) {
            bits if bits > 0 => (bits as u32).min(16),
            _ => pointer_bits,
        };
        let bytes = match op.inputs.get(2).map(|input| input.df.value) {
            Some(DataFormat::RawUInt8) => 1,
            Some(DataFormat::RawUInt16) => 2,
            _ => 4,
        };
        Self {
            grid: size(op.blocking.grid_size.value),
            t: op.blocking.t.value as usize,
            mblock: size(op.blocking.mblock.value),
            ublock: size(op.blocking.ublock.value),
            u_kt: integer(Key::UKt).max(1),
            fracture: integer(Key::FractureFactor).max(1),
            pointer_bits,
            ublock_bits,
            bytes,
        }
    }
}

/// The elements of a tensor tile by tile as bit patterns.
pub(super) fn words(tensor: &Tensor) -> Result<Vec<u32>> {
    let what = format_args!("elements of {:?} tiles", tensor.shape());
    let mut words = with_capacity(what, tensor.values.len())?;
    for tile in 0..tensor.t * tensor.rows * tensor.columns {
        let (z, rest) = (
            tile / (tensor.rows * tensor.columns),
            tile % (tensor.rows * tensor.columns),
        );
        let (top, left) = (rest / tensor.columns * TILE, rest % tensor.columns * TILE);
        for y in 0..TILE {
            let row = &tensor.row(z, top + y)[left..left + TILE];
            words.extend(row.iter().map(|value| value.to_bits()));
        }
    }
    Ok(words)
}

/// The number of bits of `n - 1`, at least one.
fn bits(n: usize) -> u32 {
    (usize::BITS - (n.max(1) - 1).leading_zeros()).max(1)
}

/// The stream of an encoding, as 16-bit words.
struct Stream {
    words: Vec<u16>,
    next: usize,
    /// Words per encoding tile.
    tile: usize,
}

impl Stream {
    fn new(encoding: &Tensor, bytes: usize) -> Result<Self> {
        let elements = words(encoding)?;
        let count = elements.len() * bytes;
        let mut stream: Vec<u8> = with_capacity("bytes of the encoding", count)?;
        for word in &elements {
            stream.extend_from_slice(&word.to_le_bytes()[..bytes]);
        }
        let mut words = with_capacity("words of the encoding", count / 2)?;
        let (pairs, _) = stream.as_chunks();
        words.extend(pairs.iter().map(|&pair| u16::from_le_bytes(pair)));
        Ok(Self {
            words,
            next: 0,
            tile: ELEMENTS * bytes / 2,
        })
    }

    fn word(&mut self) -> Result<usize> {
        let word = self
            .words
            .get(self.next)
            .ok_or_else(|| failed("the encoding ends within a strip"))?;
        self.next += 1;
        Ok(usize::from(*word))
    }
}

/// Multiplies the block-sparse matrix of `tiles`, placed by `encoding`, with `activations`, core by core.
pub fn sparse_matmul(
    sparse: &SparseSizes,
    tiles: &Tensor,
    activations: &Tensor,
    encoding: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let [rows, columns] = sparse.grid;
    let (height, width) = (
        sparse.mblock[0] * sparse.ublock[0],
        sparse.mblock[1] * sparse.ublock[1],
    );
    let fracture = sparse.fracture.min(columns);
    let divides = |tensor: &Tensor| {
        tensor.rows.is_multiple_of(rows) && tensor.columns.is_multiple_of(fracture)
    };
    if !divides(tiles) || !divides(encoding) || activations.columns != width * columns {
        return Err(failed(format!(
            "shapes {:?} of tiles, {:?} of activations and {:?} of the encoding do not match {rows} by {columns} cores",
            tiles.shape(),
            activations.shape(),
            encoding.shape()
        )));
    }
    let mut output = Tensor::zeros(sparse.t, rows * height, columns * width)?;
    for core in (0..rows * columns).map(|core| [core / columns, core % columns]) {
        // Neighbouring columns of cores share a part.
        let part = core[1] / (columns / fracture);
        let tiles = tiles.core_part([core[0], part], [rows, fracture])?;
        let encoding = encoding.core_part([core[0], part], [rows, fracture])?;
        let mut stream = Stream::new(&encoding, sparse.bytes)?;
        let activations = activations.core_part([0, core[1]], [1, columns])?;
        let mut result = Tensor::zeros(sparse.t, height, width)?;
        multiply_core(sparse, &tiles, &activations, &mut stream, &mut result)?;
        output.set_core_part(&result, core);
    }
    if let Some(bias) = bias {
        add_bias(&mut output, bias, false)?;
    }
    Ok(output)
}

fn multiply_core(
    sparse: &SparseSizes,
    tiles: &Tensor,
    activations: &Tensor,
    stream: &mut Stream,
    output: &mut Tensor,
) -> Result<()> {
    let tile_bits = 16 - sparse.pointer_bits;
    let inner_bits = bits(sparse.u_kt).min(tile_bits);
    let mut t = 0;
    while t < sparse.t {
        let start = stream.next;
        let (low, high) = (stream.word()?, stream.word()?);
        let strip = low | (high & 0x3fff) << 16;
        for _ in 0..stream.word()? {
            let head = stream.word()?;
            let block = head & ((1 << sparse.ublock_bits) - 1);
            let count = match head >> sparse.ublock_bits {
                0 => 1usize << (16 - sparse.ublock_bits),
                count => count,
            };
            for _ in 0..count {
                let entry = stream.word()?;
                let (position, index) = (entry & ((1 << tile_bits) - 1), entry >> tile_bits);
                let (inner, row) = (position & ((1 << inner_bits) - 1), position >> inner_bits);
                let source = strip * sparse.u_kt + inner;
                add_tile(
                    tiles,
                    index,
                    activations,
                    source,
                    output,
                    [t, block * sparse.ublock[0] + row],
                )?;
            }
        }
        if high & 1 << 14 != 0 {
            t += 1;
        }
        if high & 1 << 15 != 0 {
            stream.next = (start / stream.tile + 1) * stream.tile;
        }
    }
    Ok(())
}

/// Adds the product of sparse tile `index` and tile row `source` of the activations, counted over
/// slices, to tile row `row` of slice `t`.
fn add_tile(
    tiles: &Tensor,
    index: usize,
    activations: &Tensor,
    source: usize,
    output: &mut Tensor,
    [t, row]: [usize; 2],
) -> Result<()> {
    let (z, from) = (source / activations.rows, source % activations.rows);
    if index >= tiles.columns * tiles.rows || z >= activations.t || row >= output.rows {
        return Err(failed(format!(
            "the encoding refers to tile {index}, row {source} of the activations and row {row} of the output, \
             which do not all exist"
        )));
    }
    let (down, across) = (index / tiles.columns, index % tiles.columns);
    for y in 0..TILE {
        for k in 0..TILE {
            let factor = tiles.at(0, down * TILE + y, across * TILE + k);
            if factor != 0.0 {
                let line = activations.row(z, from * TILE + k);
                add_scaled(output.row_mut(t, row * TILE + y), factor, line);
            }
        }
    }
    Ok(())
}
