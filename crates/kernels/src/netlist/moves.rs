//! `netlist.move`: the way of a tensor from its maker to an op (facts 4): unpad, TMs and pad as one
//! table of tiles, made when the kernel is bound.

use super::attributes::{sizes, text_or_empty, wrong};
use super::op::{Compute, tensor_kernel};
use super::tensor::{TileTensor, for_each_chunk, wrong_shape};
use tenon_base::{Error, ErrorKind, Result};
use tenon_executor::{KernelDef, Site};

/// Most tiles of a table; a netlist that asks for more has a broadcast too many.
const MAX_TILES: usize = 1 << 24;

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        tensor_kernel("netlist.nop", 1, "Its operand.", |_| {
            Ok(Box::new(|operands| Ok(operands[0].clone())))
        }),
        tensor_kernel(
            "netlist.move",
            1,
            "Moves tiles as `steps` say, one after the other: unpad, pad, broadcast_r, \
             broadcast_c, broadcast_z, transpose, hslice, vslice, hstack, vstack.",
            bind_move,
        ),
        tensor_kernel(
            "netlist.tile_broadcast",
            1,
            "Copies row 0 (r), column 0 (c) or element 0 (rc) of each tile over the tile.",
            bind_tile_broadcast,
        ),
        tensor_kernel(
            "netlist.resize",
            1,
            "Cuts tiles to a height and width, or fills them up with zeros.",
            bind_resize,
        ),
    ]
}

fn bind_move(site: &Site<'_>) -> Result<Compute> {
    let tiles: [usize; 3] = sizes(site.attributes(), "tiles")?;
    let mut table = Table::new(tiles)?;
    for step in text_or_empty(site.attributes(), "steps")?.split(';') {
        table.apply(step.trim())?;
    }
    let runs = table.runs();
    Ok(Box::new(move |operands| {
        let [from] = operands else {
            return Err(wrong_shape("a move has one operand"));
        };
        if from.tiles() != tiles {
            let [t, rows, columns] = tiles;
            return Err(
                wrong_shape("the tensor is not of the shape that it is moved from")
                    .expected(format_args!("[{t}, {rows}, {columns}] tiles"))
                    .found(from.describe()),
            );
        }
        table.moved(from, &runs)
    }))
}

/// For each tile of the result the tile it comes from.
#[derive(Debug, Clone, PartialEq)]
struct Table {
    tiles: [usize; 3],
    /// Columns of tiles of the tensor that is moved.
    source_columns: usize,
    /// Numbers of tiles; from [`FILLS`] on downwards those of fills.
    sources: Vec<u32>,
    /// What padded tiles hold.
    fills: Vec<f32>,
    /// Whether each tile is transposed: an odd number of transposes.
    flipped: bool,
}

/// The number that stands for the first fill; the next is one less.
const FILLS: u32 = u32::MAX;

/// Tiles of one row of the result that lie side by side in the source too.
#[derive(Debug, Clone, Copy)]
struct Run {
    column: usize,
    count: usize,
    source: u32,
}

impl Table {
    fn new(tiles: [usize; 3]) -> Result<Self> {
        let count = checked(tiles)?;
        Ok(Self {
            tiles,
            source_columns: tiles[2],
            sources: (0..count as u32).collect(),
            fills: Vec::new(),
            flipped: false,
        })
    }

    /// The same with every tile looked up at another place.
    fn map(
        &mut self,
        tiles: [usize; 3],
        from: impl Fn(usize, usize, usize) -> Option<[usize; 3]>,
        fill: u32,
    ) -> Result<()> {
        let mut sources = Vec::with_capacity(checked(tiles)?);
        let [_, rows, columns] = self.tiles;
        for z in 0..tiles[0] {
            for r in 0..tiles[1] {
                for c in 0..tiles[2] {
                    sources.push(match from(z, r, c) {
                        Some([z, r, c]) => self.sources[(z * rows + r) * columns + c],
                        None => fill,
                    });
                }
            }
        }
        (self.tiles, self.sources) = (tiles, sources);
        Ok(())
    }

    /// Applies one step in words.
    fn apply(&mut self, step: &str) -> Result<()> {
        let mut words = step.split_whitespace();
        let name = words.next().unwrap_or("");
        let arguments: Vec<&str> = words.collect();
        let bad = || wrong("steps", "a step and its numbers").found(format_args!("'{step}'"));
        let size = |index: usize| -> Result<usize> {
            let text = arguments.get(index).copied().ok_or_else(bad)?;
            text.parse().map_err(|_| bad())
        };
        let [t, rows, columns] = self.tiles;
        let parts = |whole: usize, n: usize| match n > 0 && whole.is_multiple_of(n) {
            true => Ok(whole / n),
            false => Err(wrong_shape(format!(
                "{whole} does not fall into {n} equal parts"
            ))),
        };
        let times = |a: usize, b: usize| a.checked_mul(b).ok_or_else(too_many);
        match name {
            "" => Ok(()),
            "broadcast_r" => {
                let all = times(rows, size(0)?)?;
                self.map([t, all, columns], |z, r, c| Some([z, r % rows, c]), 0)
            }
            "broadcast_c" => {
                let all = times(columns, size(0)?)?;
                self.map([t, rows, all], |z, r, c| Some([z, r, c % columns]), 0)
            }
            "broadcast_z" => {
                let all = times(t, size(0)?)?;
                self.map([all, rows, columns], |z, r, c| Some([z % t, r, c]), 0)
            }
            "transpose" => {
                self.flipped = !self.flipped;
                self.map([t, columns, rows], |z, r, c| Some([z, c, r]), 0)
            }
            "hslice" => {
                let n = size(0)?;
                let part = parts(columns, n)?;
                let from = |z: usize, r, c| Some([z / n, r, z % n * part + c]);
                self.map([times(t, n)?, rows, part], from, 0)
            }
            "vslice" => {
                let n = size(0)?;
                let part = parts(rows, n)?;
                let from = |z: usize, r, c| Some([z / n, z % n * part + r, c]);
                self.map([times(t, n)?, part, columns], from, 0)
            }
            "hstack" => {
                let n = stack(size(0)?, t);
                let (left, all) = (parts(t, n)?, times(columns, n)?);
                let from = |z, r, c: usize| Some([z * n + c / columns, r, c % columns]);
                self.map([left, rows, all], from, 0)
            }
            "vstack" => {
                let n = stack(size(0)?, t);
                let (left, all) = (parts(t, n)?, times(rows, n)?);
                let from = |z, r: usize, c| Some([z * n + r / rows, r % rows, c]);
                self.map([left, all, columns], from, 0)
            }
            "unpad" => {
                let (r, c) = (size(0)?, size(1)?);
                if r >= rows || c >= columns {
                    return Err(wrong_shape("nothing is left after an unpad"));
                }
                self.map([t, rows - r, columns - c], |z, r, c| Some([z, r, c]), 0)
            }
            "pad" => {
                let value = arguments.get(2).and_then(|text| text.parse().ok());
                let fill = FILLS - self.fills.len() as u32;
                self.fills.push(value.ok_or_else(bad)?);
                let all = [
                    t,
                    rows.checked_add(size(0)?).ok_or_else(too_many)?,
                    columns.checked_add(size(1)?).ok_or_else(too_many)?,
                ];
                let from = |z, r, c| (r < rows && c < columns).then_some([z, r, c]);
                self.map(all, from, fill)
            }
            _ => Err(bad()),
        }
    }

    /// For each row of tiles of the result its runs.
    fn runs(&self) -> Vec<Vec<Run>> {
        let columns = self.tiles[2];
        let rows = self.sources.chunks(columns.max(1));
        rows.map(|row| {
            let mut runs: Vec<Run> = Vec::new();
            for (column, &source) in row.iter().enumerate() {
                match runs.last_mut() {
                    Some(run) if self.continues(run, source) => run.count += 1,
                    _ => runs.push(Run {
                        column,
                        count: 1,
                        source,
                    }),
                }
            }
            runs
        })
        .collect()
    }

    fn continues(&self, run: &Run, source: u32) -> bool {
        if self.fill(run.source).is_some() {
            return run.source == source;
        }
        // Transposed tiles are moved one by one. What follows the last tile of a row is the first
        // of the next, which does not lie beside it.
        let is_next = u64::from(source) == u64::from(run.source) + run.count as u64;
        !self.flipped && is_next && !(source as usize).is_multiple_of(self.source_columns)
    }

    fn fill(&self, source: u32) -> Option<f32> {
        self.fills.get((FILLS - source) as usize).copied()
    }

    /// The tensor after the move.
    fn moved(&self, from: &TileTensor, runs: &[Vec<Run>]) -> Result<TileTensor> {
        let [height, width] = from.tile();
        let tile = match self.flipped {
            true => [width, height],
            false => [height, width],
        };
        let columns = from.tiles()[2];
        let (values, stride) = (from.values(), columns * width);
        let row = self.tiles[2] * tile[0] * tile[1];
        TileTensor::build_whole(self.tiles, tile, |to| {
            for_each_chunk(to, row, |index, to| {
                let line = to.len() / tile[0].max(1);
                for run in &runs[index] {
                    let at = run.column * tile[1];
                    if let Some(fill) = self.fill(run.source) {
                        let lines = to.chunks_mut(line);
                        lines.for_each(|to| to[at..][..run.count * tile[1]].fill(fill));
                        continue;
                    }
                    let source = run.source as usize;
                    let start = source / columns * height * stride + source % columns * width;
                    if self.flipped {
                        transposed(
                            &values[start..],
                            stride,
                            [height, width],
                            &mut to[at..],
                            line,
                        );
                        continue;
                    }
                    for (y, to) in to.chunks_mut(line).enumerate() {
                        let from = &values[start + y * stride..][..run.count * width];
                        to[at..][..run.count * width].copy_from_slice(from);
                    }
                }
            });
            Ok(())
        })
    }
}

/// Writes a tile of `size` transposed; `stride` and `line` are the lengths of the rows they lie in.
fn transposed(from: &[f32], stride: usize, size: [usize; 2], to: &mut [f32], line: usize) {
    let [height, width] = size;
    for x in 0..width {
        for y in 0..height {
            to[x * line + y] = from[y * stride + x];
        }
    }
}

/// A stack of 0 takes all slices (facts 4).
fn stack(n: usize, slices: usize) -> usize {
    if n == 0 { slices } else { n }
}

fn checked(tiles: [usize; 3]) -> Result<usize> {
    let count = tiles.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    count
        .filter(|&count| count <= MAX_TILES)
        .ok_or_else(too_many)
}

fn too_many() -> Error {
    Error::new(ErrorKind::OutOfMemory, "TMs make too many tiles")
        .expected(format_args!("at most {MAX_TILES}"))
}

fn bind_tile_broadcast(site: &Site<'_>) -> Result<Compute> {
    let (rows, columns) = match site.attributes().string("dim")? {
        "r" => (true, false),
        "c" => (false, true),
        "rc" => (true, true),
        other => return Err(wrong("dim", "r, c or rc").found(other)),
    };
    Ok(Box::new(move |operands| {
        let from = operands[0];
        let [height, width] = from.tile();
        let line = from.shape()[2];
        let values = from.values();
        TileTensor::build(from.tiles(), from.tile(), |to| {
            for_each_chunk(to, line, |y, to| {
                let source = if rows { y - y % height } else { y };
                let source = &values[source * line..][..line];
                if columns {
                    let tiles = to.chunks_mut(width).zip(source.chunks(width));
                    tiles.for_each(|(to, from)| to.fill(from[0]));
                } else {
                    to.copy_from_slice(source);
                }
            });
            Ok(())
        })
    }))
}

fn bind_resize(site: &Site<'_>) -> Result<Compute> {
    let [height, width]: [usize; 2] = sizes(site.attributes(), "tile")?;
    if height == 0 || width == 0 || height > 32 || width > 32 {
        return Err(wrong("tile", "1 to 32 rows and columns"));
    }
    Ok(Box::new(move |operands| {
        resized(operands[0], [height, width])
    }))
}

/// The same tiles, cut or filled up with zeros (facts 3.8, tiny tiles).
pub(super) fn resized(from: &TileTensor, tile: [usize; 2]) -> Result<TileTensor> {
    let [height, width] = from.tile();
    let (values, line) = (from.values(), from.shape()[2]);
    let common = [height.min(tile[0]), width.min(tile[1])];
    TileTensor::build(from.tiles(), tile, |to| {
        let length = from.tiles()[2] * tile[1];
        for_each_chunk(to, length, |y, to| {
            let (row, within) = (y / tile[0], y % tile[0]);
            if within >= common[0] {
                return;
            }
            let source = &values[(row * height + within) * line..][..line];
            let tiles = to.chunks_mut(tile[1]).zip(source.chunks(width));
            tiles.for_each(|(to, from)| to[..common[1]].copy_from_slice(&from[..common[1]]));
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests;
