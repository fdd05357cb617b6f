//! An operand that an op sees through TMs (facts 4) and `tile_broadcast` (facts 3.7): what only comes
//! again is read where it lies, and nothing is made of it.

use super::attributes::{sizes, text_or_empty, wrong};
use super::gather::{Run, place, runs};
use super::table::Table;
use super::tensor::{TileTensor, for_each_chunk, wrong_shape};
use tenon_base::Result;
use tenon_executor::KernelAttributes;

/// How an operand is seen.
pub(super) struct Seen {
    table: Table,
    /// Of each row of tiles: tiles beside each other, or the same tile so many times where its first
    /// column stands for all.
    runs: Vec<Vec<Run>>,
    spread: Spread,
}

/// What of a tile stands for all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spread {
    /// Its first row.
    pub rows: bool,
    /// Its first column.
    pub columns: bool,
}

/// A part of a line of elements.
enum Piece<'v> {
    Elements(&'v [f32]),
    /// So many times this.
    Same(f32, usize),
}

impl Spread {
    /// In the word of an attribute of that name: `r`, `c` or `rc`.
    pub(super) fn of(name: &str, word: &str) -> Result<Self> {
        match word {
            "r" | "c" | "rc" => Ok(Self {
                rows: word.starts_with('r'),
                columns: word.ends_with('c'),
            }),
            other => Err(wrong(name, "r, c or rc").found(other)),
        }
    }
}

impl Seen {
    /// The tiles that a table tells, which must not be transposed.
    pub(super) fn new(table: Table, spread: Spread) -> Result<Self> {
        match table.flipped() {
            true => Err(wrong("steps", "no transpose")),
            false => Ok(Self {
                runs: match spread.columns {
                    true => alike(&table),
                    false => runs(&table),
                },
                table,
                spread,
            }),
        }
    }

    /// The operand that attributes tell of, and how it is seen.
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
        let spread = match text_or_empty(attributes, "spread")? {
            "" => Spread::default(),
            word => Spread::of("spread", word)?,
        };
        Ok(Some((index as usize, Self::new(table, spread)?)))
    }

    /// Hands the pieces of a line of elements on, each with its place in the line.
    fn pieces<'v>(
        &self,
        from: &'v TileTensor,
        line: usize,
        mut take: impl FnMut(usize, Piece<'v>),
    ) {
        let tile @ [height, width] = from.tile();
        let columns = from.tiles()[2];
        let row = match self.spread.rows {
            true => 0,
            false => line % height,
        };
        for run in &self.runs[line / height] {
            let (at, count) = (run.column * width, run.count * width);
            if let Some(fill) = self.table.fill(run.source) {
                take(at, Piece::Same(fill, count));
                continue;
            }
            let start = place(run.source, columns, tile) + row * columns * width;
            take(
                at,
                match self.spread.columns {
                    false => Piece::Elements(&from.values()[start..][..count]),
                    true => Piece::Same(from.values()[start], count),
                },
            );
        }
    }

    /// A tensor made element by element from one and from another as it is seen.
    pub(super) fn zip(
        &self,
        a: &TileTensor,
        b: &TileTensor,
        f: impl Fn(f32, f32) -> f32 + Sync,
    ) -> Result<TileTensor> {
        let fits = a.tiles() == self.table.tiles() && a.tile() == b.tile();
        if !fits || b.tiles() != self.table.from() {
            let [expected, from] = [self.table.tiles(), self.table.from()];
            return Err(wrong_shape("the operands differ in shape")
                .expected(format_args!(
                    "{expected:?} tiles, and {from:?} to see them in"
                ))
                .found(format_args!("{} and {}", a.describe(), b.describe())));
        }
        let (left, length) = (a.values(), a.shape()[2]);
        TileTensor::build_whole(a.tiles(), a.tile(), |to| {
            for_each_chunk(to, length, |line, to| {
                let left = &left[line * length..][..length];
                self.pieces(b, line, |at, piece| match piece {
                    Piece::Elements(right) => {
                        let pairs = left[at..].iter().zip(right);
                        let all = to[at..].iter_mut().zip(pairs);
                        all.for_each(|(to, (&a, &b))| *to = f(a, b));
                    }
                    Piece::Same(b, count) => {
                        let all = to[at..][..count].iter_mut().zip(&left[at..]);
                        all.for_each(|(to, &a)| *to = f(a, b));
                    }
                });
            });
            Ok(())
        })
    }
}

/// For each row of tiles its runs of one tile.
fn alike(table: &Table) -> Vec<Vec<Run>> {
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

    /// What is seen is what would have been made.
    #[test]
    fn what_is_seen_is_what_would_have_been_moved() {
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
            let moved = Gather::of(table.clone()).gathered(&from).unwrap();
            let other = arange(moved.tiles(), moved.tile());
            for word in ["", "r", "c", "rc"] {
                let spread = match word {
                    "" => Spread::default(),
                    word => Spread::of("spread", word).unwrap(),
                };
                let seen = Seen::new(table.clone(), spread).unwrap();
                let made = seen.zip(&other, &from, |a, b| a - 3.0 * b).unwrap();
                let [_, rows, columns] = moved.shape();
                for (at, &value) in made.values().iter().enumerate() {
                    let [z, mut y, mut x] =
                        [at / columns / rows, at / columns % rows, at % columns];
                    y -= if spread.rows { y % 4 } else { 0 };
                    x -= if spread.columns { x % 8 } else { 0 };
                    let of = moved.values()[(z * rows + y) * columns + x];
                    assert_eq!(value, at as f32 - 3.0 * of, "{steps} {word} at {at}");
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let from = arange([1, 1, 2], [4, 4]);
        let table = |steps| Table::through([1, 1, 2], steps).unwrap();
        assert!(Seen::new(table("transpose"), Spread::default()).is_err());
        assert!(Spread::of("spread", "x").is_err());
        let seen = Seen::new(table("broadcast_r 2"), Spread::default()).unwrap();
        assert!(seen.zip(&from, &from, |a, _| a).is_err());
        let other = arange([1, 2, 2], [4, 4]);
        assert!(seen.zip(&other, &other, |a, _| a).is_err());
        assert!(seen.zip(&other, &from, |a, _| a).is_ok());
    }
}
