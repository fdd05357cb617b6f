//! Tensors of the tiles of another tensor: a view of it, a copy, or sums of its tiles.

use super::table::Table;
use super::tensor::{TileTensor, for_each_chunk, for_each_chunk_of_terms, wrong_shape};
use tenon_base::Result;

/// The construction of a tensor from the tiles of another.
pub(super) struct Gather {
    /// The source's slices, rows and columns of tiles.
    from: [usize; 3],
    kind: GatherKind,
}

enum GatherKind {
    /// The tiles are contiguous in the source, from `first` on, which starts a row of tiles.
    View { first: usize, tiles: [usize; 3] },
    /// Each tile is copied.
    Copy { table: Table, runs: Vec<Vec<Run>> },
    /// Each tile is a sum of tiles.
    Sum(TileSums),
}

/// Tiles that are adjacent in a row of the result and of the source.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub column: usize,
    pub count: usize,
    pub source: u32,
}

/// The terms of each tile of a result.
struct TileSums {
    tiles: [usize; 3],
    /// The terms of tile `n` are those from `ends[n - 1]` to `ends[n]`.
    terms: Vec<Term>,
    ends: Vec<usize>,
}

/// A tile and its weight in a sum.
#[derive(Debug, Clone, Copy)]
struct Term {
    source: TermSource,
    weight: f32,
}

#[derive(Debug, Clone, Copy)]
enum TermSource {
    /// A tile of the source, by its index.
    Tile(u32),
    /// A tile of one value.
    Fill(f32),
}

impl Gather {
    /// The tiles of a table.
    pub(super) fn of(table: Table) -> Self {
        let from = table.from();
        let kind = match view_start(&table) {
            Some(first) => GatherKind::View {
                first,
                tiles: table.tiles(),
            },
            None => GatherKind::Copy {
                runs: runs(&table),
                table,
            },
        };
        Self { from, kind }
    }

    /// Sums of tiles of a table without transposes, each divided by `divisor`: `terms` returns the tiles
    /// of the sum at a slice, row and column.
    pub(super) fn summed(
        table: &Table,
        tiles: [usize; 3],
        divisor: f32,
        terms: impl Fn([usize; 3]) -> Vec<u32>,
    ) -> Self {
        let mut sums = TileSums {
            tiles,
            terms: Vec::new(),
            ends: Vec::with_capacity(tiles.iter().product()),
        };
        for z in 0..tiles[0] {
            for r in 0..tiles[1] {
                for c in 0..tiles[2] {
                    let mut sources = terms([z, r, c]);
                    sources.sort_unstable();
                    let equal = sources.chunk_by(|a, b| a == b);
                    sums.terms.extend(equal.map(|equal| {
                        Term {
                            source: table
                                .fill(equal[0])
                                .map_or(TermSource::Tile(equal[0]), TermSource::Fill),
                            weight: equal.len() as f32 / divisor,
                        }
                    }));
                    sums.ends.push(sums.terms.len());
                }
            }
        }
        Self {
            from: table.from(),
            kind: GatherKind::Sum(sums),
        }
    }

    /// Whether the result is a view of the source.
    pub(super) fn is_view(&self) -> bool {
        matches!(self.kind, GatherKind::View { .. })
    }

    /// The result for the source `from`.
    pub(super) fn apply(&self, from: &TileTensor) -> Result<TileTensor> {
        if from.tiles() != self.from {
            let [t, rows, columns] = self.from;
            return Err(
                wrong_shape("the operand of a tensor movement has the wrong shape")
                    .expected(format_args!("[{t}, {rows}, {columns}] tiles"))
                    .found(from.describe()),
            );
        }
        match &self.kind {
            GatherKind::View { first, tiles } => from.part(*first, *tiles),
            GatherKind::Copy { table, runs } => copied(table, runs, from),
            GatherKind::Sum(sums) => sums.apply(from),
        }
    }
}

/// The first tile, where the tiles are in the same order in the source and in the result.
fn view_start(table: &Table) -> Option<usize> {
    let columns = table.from()[2];
    let &first = table.sources().first()?;
    let consecutive = (first..)
        .zip(table.sources())
        .all(|(n, &source)| n == source);
    let in_place = !table.flipped() && table.tiles()[2] == columns && consecutive;
    let first = first as usize;
    (in_place && table.fill(table.sources()[0]).is_none() && first.is_multiple_of(columns))
        .then_some(first)
}

/// The runs of each row of tiles of the result.
pub(super) fn runs(table: &Table) -> Vec<Vec<Run>> {
    let columns = table.tiles()[2];
    let rows = table.sources().chunks(columns.max(1));
    rows.map(|row| {
        let mut runs: Vec<Run> = Vec::new();
        for (column, &source) in row.iter().enumerate() {
            match runs.last_mut() {
                Some(run) if continues(table, run, source) => run.count += 1,
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

fn continues(table: &Table, run: &Run, source: u32) -> bool {
    if table.fill(run.source).is_some() {
        return run.source == source;
    }
    // Transposed tiles are moved one by one. The tile after the last one of a row is in the next row,
    // and not adjacent.
    let is_next = u64::from(source) == u64::from(run.source) + run.count as u64;
    !table.flipped() && is_next && !(source as usize).is_multiple_of(table.from()[2])
}

/// The tensor after a tensor movement.
fn copied(table: &Table, runs: &[Vec<Run>], from: &TileTensor) -> Result<TileTensor> {
    let [height, width] = from.tile();
    let tile = if table.flipped() {
        [width, height]
    } else {
        [height, width]
    };
    let columns = from.tiles()[2];
    let (values, stride) = (from.values(), columns * width);
    let row = table.tiles()[2] * tile[0] * tile[1];
    TileTensor::build_whole(table.tiles(), tile, |to| {
        for_each_chunk(to, row, |index, to| {
            let line = to.len() / tile[0].max(1);
            for run in &runs[index] {
                let at = run.column * tile[1];
                if let Some(fill) = table.fill(run.source) {
                    let lines = to.chunks_mut(line);
                    lines.for_each(|to| to[at..][..run.count * tile[1]].fill(fill));
                    continue;
                }
                let start = tile_offset(run.source, columns, from.tile());
                if table.flipped() {
                    let (from, to) = (&values[start..], &mut to[at..]);
                    transpose_tile(from, stride, [height, width], to, line);
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

/// The index of the first element of a tile, in a tensor of `columns` columns of tiles.
pub(super) fn tile_offset(tile: u32, columns: usize, [height, width]: [usize; 2]) -> usize {
    let tile = tile as usize;
    (tile / columns * height * columns + tile % columns) * width
}

/// Writes the transpose of a tile of `size`, in blocks; `stride` and `line` are the row strides of source
/// and destination.
fn transpose_tile(from: &[f32], stride: usize, size: [usize; 2], to: &mut [f32], line: usize) {
    let [height, width] = size;
    // Blocks of one cache line: rows whose stride is a power of two alias in the same cache sets, so
    // that each line is used whole before it is evicted.
    const LINE: usize = 16;
    let mut block = [[0.0; LINE]; LINE];
    for top in (0..height).step_by(LINE) {
        let rows = LINE.min(height - top);
        for left in (0..width).step_by(LINE) {
            let columns = LINE.min(width - left);
            for (y, block) in block.iter_mut().take(rows).enumerate() {
                let from = &from[(top + y) * stride + left..][..columns];
                block[..columns].copy_from_slice(from);
            }
            for x in 0..columns {
                let to = &mut to[(left + x) * line + top..][..rows];
                let column = block.iter().map(|row| row[x]);
                to.iter_mut()
                    .zip(column)
                    .for_each(|(to, value)| *to = value);
            }
        }
    }
}

impl TileSums {
    fn terms(&self, tile: usize) -> &[Term] {
        let start = tile.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.terms[start..self.ends[tile]]
    }

    fn apply(&self, from: &TileTensor) -> Result<TileTensor> {
        let tile @ [height, width] = from.tile();
        let (own, columns) = (self.tiles[2], from.tiles()[2]);
        let (values, stride) = (from.values(), columns * width);
        let terms = self.terms.len() / self.ends.len().max(1);
        TileTensor::build(self.tiles, tile, |to| {
            for_each_chunk_of_terms(to, own * width, terms, |line, to| {
                let (row, y) = (line / height, line % height);
                for (column, to) in to.chunks_mut(width).enumerate() {
                    for &Term { source, weight } in self.terms(row * own + column) {
                        match source {
                            TermSource::Fill(value) => {
                                to.iter_mut().for_each(|to| *to += weight * value)
                            }
                            TermSource::Tile(index) => {
                                let start = tile_offset(index, columns, tile) + y * stride;
                                let pairs = to.iter_mut().zip(&values[start..][..width]);
                                pairs.for_each(|(to, &from)| *to += weight * from);
                            }
                        }
                    }
                }
            });
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tensor::arange;
    use super::*;

    fn moved(from: &TileTensor, steps: &[&str]) -> TileTensor {
        let table = Table::through(from.tiles(), &steps.join("; ")).unwrap();
        Gather::of(table).apply(from).unwrap()
    }

    /// The element of a row-major `[t, rows, columns]` of elements.
    fn at(tensor: &TileTensor, z: usize, y: usize, x: usize) -> f32 {
        let [_, rows, columns] = tensor.shape();
        tensor.values()[(z * rows + y) * columns + x]
    }

    /// Each TM against its definition over elements: reshape, transpose and tile of NumPy.
    #[test]
    fn each_tm_equals_its_definition() {
        let from = arange([2, 4, 6], [2, 3]);
        let (rows, columns) = (8, 18);
        type Definition = fn(usize, usize, usize) -> (usize, usize, usize);
        let steps: [(&str, [usize; 3], Definition); 9] = [
            ("broadcast_r 2", [2, 8, 6], |z, y, x| (z, y % 8, x)),
            ("broadcast_c 3", [2, 4, 18], |z, y, x| (z, y, x % 18)),
            ("broadcast_z 2", [4, 4, 6], |z, y, x| (z % 2, y, x)),
            ("transpose", [2, 6, 4], |z, y, x| (z, x, y)),
            ("hslice 3", [6, 4, 2], |z, y, x| (z / 3, y, z % 3 * 6 + x)),
            ("vslice 2", [4, 2, 6], |z, y, x| (z / 2, z % 2 * 4 + y, x)),
            ("hstack 2", [1, 4, 12], |z, y, x| {
                (2 * z + x / 18, y, x % 18)
            }),
            ("vstack 0", [1, 8, 6], |z, y, x| (2 * z + y / 8, y % 8, x)),
            ("unpad 1 2", [2, 3, 4], |z, y, x| (z, y, x)),
        ];
        for (step, tiles, definition) in steps {
            let to = moved(&from, &[step]);
            assert_eq!(to.tiles(), tiles, "{step}");
            let [t, height, width] = to.shape();
            for z in 0..t {
                for y in 0..height {
                    for x in 0..width {
                        let (fz, fy, fx) = definition(z, y, x);
                        let value = ((fz * rows + fy) * columns + fx) as f32;
                        assert_eq!(at(&to, z, y, x), value, "{step} at {z} {y} {x}");
                    }
                }
            }
        }
    }

    /// The values are NumPy's: the slices of `arange(48).reshape(3, 2, 8)` in a row.
    #[test]
    fn hstack_concatenates_slices_in_a_row() {
        let from = arange([3, 1, 2], [2, 4]);
        let to = moved(&from, &["hstack 3"]);
        assert_eq!(to.tiles(), [1, 1, 6]);
        let row = |z: usize, y: usize| (0..8).map(move |x| (16 * z + 8 * y + x) as f32);
        let expected: Vec<f32> = (0..2)
            .flat_map(|y| (0..3).flat_map(move |z| row(z, y)))
            .collect();
        assert_eq!(to.values(), expected);
    }

    #[test]
    fn pad_fills_and_tms_compose() {
        let from = arange([1, 1, 2], [1, 2]);
        let to = moved(&from, &["pad 1 1 7.5", "transpose"]);
        assert_eq!((to.tiles(), to.tile()), ([1, 3, 2], [2, 1]));
        let pad = 7.5;
        let expected = [0.0, pad, 1.0, pad, 2.0, pad, 3.0, pad, pad, pad, pad, pad];
        assert_eq!(to.values(), expected);
        let back = moved(&arange([2, 4, 6], [2, 2]), &["hslice 3", "hstack 3"]);
        assert_eq!(back.values(), arange([2, 4, 6], [2, 2]).values());
    }
}
