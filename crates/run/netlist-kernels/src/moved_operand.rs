//! An operand that is read through its TMs (netlist 4.1) and `tile_broadcast` (netlist 3.7): broadcast elements
//! are read in place, and the moved tensor is not stored.

use super::attributes::{sizes, text_or_empty, wrong};
use super::gather::{Run, runs, tile_offset};
use super::table::Table;
use super::tensor::{TileTensor, for_each_chunk, wrong_shape};
use tenon_base::Result;
use tenon_executor::KernelAttributes;
use tenon_tile::{TileBroadcast, Word};

/// An operand that is read after its TMs.
pub(super) struct MovedOperand {
    table: Table,
    /// The runs of each row of tiles: adjacent tiles, or one repeated tile where its first column is
    /// broadcast.
    runs: Vec<Vec<Run>>,
    broadcast: BroadcastAxes,
}

/// The part of each tile that is broadcast over the tile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BroadcastAxes {
    /// The first row.
    pub rows: bool,
    /// The first column.
    pub columns: bool,
}

/// A part of a row of elements.
enum LineSegment<'v> {
    Elements(&'v [f32]),
    /// A value and how often it repeats.
    Constant(f32, usize),
}

impl BroadcastAxes {
    /// From the value of attribute `name`: `r`, `c` or `rc`.
    pub(super) fn of(name: &str, word: &str) -> Result<Self> {
        let expected = || wrong(name, &TileBroadcast::choices()).found(word);
        let broadcast = TileBroadcast::from_word(word).ok_or_else(expected)?;
        Ok(Self {
            rows: broadcast != TileBroadcast::Column,
            columns: broadcast != TileBroadcast::Row,
        })
    }
}

impl MovedOperand {
    /// An operand moved by a table, which has no transpose.
    pub(super) fn new(table: Table, broadcast: BroadcastAxes) -> Result<Self> {
        if table.flipped() {
            return Err(wrong("steps", "no transpose"));
        }
        let runs = if broadcast.columns {
            runs_of_one_tile(&table)
        } else {
            runs(&table)
        };
        Ok(Self {
            table,
            runs,
            broadcast,
        })
    }

    /// The index of the operand that attributes describe, and the operand.
    pub(super) fn of(attributes: KernelAttributes<'_>) -> Result<Option<(usize, Self)>> {
        let index = match attributes.optional("seen") {
            None => return Ok(None),
            Some(_) => attributes.i32("seen")?,
        };
        if !matches!(index, 0 | 1) {
            return Err(wrong("seen", "0 or 1").found(index));
        }
        let steps = text_or_empty(attributes, "steps")?;
        let table = Table::through(sizes(attributes, "tiles")?, steps)?;
        let broadcast = match text_or_empty(attributes, "spread")? {
            "" => BroadcastAxes::default(),
            word => BroadcastAxes::of("spread", word)?,
        };
        Ok(Some((index as usize, Self::new(table, broadcast)?)))
    }

    /// Calls `take` with each segment of a row of elements and its offset in the row.
    fn segments<'v>(
        &self,
        from: &'v TileTensor,
        line: usize,
        mut take: impl FnMut(usize, LineSegment<'v>),
    ) {
        let tile @ [height, width] = from.tile();
        let columns = from.tiles()[2];
        let row = if self.broadcast.rows {
            0
        } else {
            line % height
        };
        for run in &self.runs[line / height] {
            let (at, count) = (run.column * width, run.count * width);
            if let Some(fill) = self.table.fill(run.source) {
                take(at, LineSegment::Constant(fill, count));
                continue;
            }
            let start = tile_offset(run.source, columns, tile) + row * columns * width;
            let segment = if self.broadcast.columns {
                LineSegment::Constant(from.values()[start], count)
            } else {
                LineSegment::Elements(&from.values()[start..][..count])
            };
            take(at, segment);
        }
    }

    /// Applies `f` to the elements of `a` and of this operand, whose tensor before its TMs is `b`.
    pub(super) fn zip(
        &self,
        a: &TileTensor,
        b: &TileTensor,
        f: impl Fn(f32, f32) -> f32 + Sync,
    ) -> Result<TileTensor> {
        let matches = a.tiles() == self.table.tiles() && a.tile() == b.tile();
        if !matches || b.tiles() != self.table.from() {
            let [expected, from] = [self.table.tiles(), self.table.from()];
            return Err(wrong_shape("the operands differ in shape")
                .expected(format_args!(
                    "{expected:?} tiles, and {from:?} before the TMs"
                ))
                .found(format_args!("{} and {}", a.describe(), b.describe())));
        }
        let (left, length) = (a.values(), a.shape()[2]);
        TileTensor::build_whole(a.tiles(), a.tile(), |to| {
            for_each_chunk(to, length, |line, to| {
                let left = &left[line * length..][..length];
                self.segments(b, line, |at, segment| match segment {
                    LineSegment::Elements(right) => {
                        let pairs = left[at..].iter().zip(right);
                        let all = to[at..].iter_mut().zip(pairs);
                        all.for_each(|(to, (&a, &b))| *to = f(a, b));
                    }
                    LineSegment::Constant(b, count) => {
                        let all = to[at..][..count].iter_mut().zip(&left[at..]);
                        all.for_each(|(to, &a)| *to = f(a, b));
                    }
                });
            });
            Ok(())
        })
    }
}

/// For each row of tiles, its runs of one repeated tile.
fn runs_of_one_tile(table: &Table) -> Vec<Vec<Run>> {
    let rows = table.sources().chunks(table.tiles()[2].max(1));
    let of_row = |row: &[u32]| {
        let mut column = 0;
        let runs = row.chunk_by(|a, b| a == b).map(|tiles| {
            let (count, source) = (tiles.len(), tiles[0]);
            column += count;
            Run {
                column: column - count,
                count,
                source,
            }
        });
        runs.collect()
    };
    rows.map(of_row).collect()
}

#[cfg(test)]
mod tests {
    use super::super::gather::Gather;
    use super::super::tensor::arange;
    use super::*;

    #[test]
    fn a_moved_operand_equals_the_stored_tensor_after_its_tms() {
        let from = arange([2, 2, 3], [4, 8]);
        for steps in [
            "",
            "broadcast_r 3",
            "broadcast_c 4",
            "broadcast_z 2",
            "hslice 3",
            "vslice 2; broadcast_c 2",
            "hstack 2; broadcast_r 2",
            "vstack 0",
            "unpad 1 1; broadcast_c 9",
            "pad 1 2 7.5",
        ] {
            let table = Table::through(from.tiles(), steps).unwrap();
            let moved = Gather::of(table.clone()).apply(&from).unwrap();
            let other = arange(moved.tiles(), moved.tile());
            for word in ["", "r", "c", "rc"] {
                let broadcast = match word {
                    "" => BroadcastAxes::default(),
                    word => BroadcastAxes::of("spread", word).unwrap(),
                };
                let moved_operand = MovedOperand::new(table.clone(), broadcast).unwrap();
                let result = moved_operand
                    .zip(&other, &from, |a, b| a - 3.0 * b)
                    .unwrap();
                let [_, rows, columns] = moved.shape();
                for (at, &value) in result.values().iter().enumerate() {
                    let [z, mut y, mut x] =
                        [at / columns / rows, at / columns % rows, at % columns];
                    y -= if broadcast.rows { y % 4 } else { 0 };
                    x -= if broadcast.columns { x % 8 } else { 0 };
                    let of = moved.values()[(z * rows + y) * columns + x];
                    assert_eq!(value, at as f32 - 3.0 * of, "{steps} {word} at {at}");
                }
            }
        }
    }

    #[test]
    fn transposes_and_wrong_shapes_are_refused() {
        let from = arange([1, 1, 2], [4, 4]);
        let table = |steps| Table::through([1, 1, 2], steps).unwrap();
        assert!(MovedOperand::new(table("transpose"), BroadcastAxes::default()).is_err());
        assert!(BroadcastAxes::of("spread", "x").is_err());
        let operand = MovedOperand::new(table("broadcast_r 2"), BroadcastAxes::default()).unwrap();
        assert!(operand.zip(&from, &from, |a, _| a).is_err());
        let other = arange([1, 2, 2], [4, 4]);
        assert!(operand.zip(&other, &other, |a, _| a).is_err());
        assert!(operand.zip(&other, &from, |a, _| a).is_ok());
    }
}
