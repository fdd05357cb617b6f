//! Tensor movements (TMs) as a table of tiles: for each tile of an op's operand, the tile of the
//! producer's output that it is (netlist 4.1).

use super::tensor::{reserved, wrong_shape};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tile::{MovementList, TensorMovement};

/// Most tiles of a table; a netlist with more has an excessive broadcast.
const MAX_TILES: usize = 1 << 24;

/// The source index of the first fill; the next one is one less.
const FILLS: u32 = u32::MAX;

/// For each tile of the result, the source tile.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    tiles: [usize; 3],
    /// Slices, rows and columns of tiles of the source.
    from: [usize; 3],
    /// Indices of source tiles; from [`FILLS`] downwards, indices of fills.
    sources: Vec<u32>,
    /// The values of padding tiles.
    fills: Vec<f32>,
    /// Whether each tile is transposed: after an odd number of transposes.
    flipped: bool,
    /// Whether a source tile may repeat.
    repeats: bool,
}

impl Table {
    /// The identity: all tiles of a tensor in order.
    pub(super) fn new(tiles: [usize; 3]) -> Result<Self> {
        let count = checked(tiles)?;
        Ok(Self {
            tiles,
            from: tiles,
            sources: (0..count as u32).collect(),
            fills: Vec::new(),
            flipped: false,
            repeats: false,
        })
    }

    /// The tiles of a tensor after the movements of an attribute's text.
    pub(super) fn through(tiles: [usize; 3], steps: &str) -> Result<Self> {
        let movements: MovementList = steps.parse().map_err(|error| {
            let text = format!("attribute 'steps': {error}");
            Error::new(ErrorKind::InvalidProgram, text)
        })?;
        let mut table = Self::new(tiles)?;
        for movement in movements {
            table.apply(movement)?;
        }
        Ok(table)
    }

    /// Checks the number of tiles of a tensor.
    pub(super) fn check(tiles: [usize; 3]) -> Result<()> {
        checked(tiles).map(drop)
    }

    pub(super) fn tiles(&self) -> [usize; 3] {
        self.tiles
    }

    /// Slices, rows and columns of tiles of the source.
    pub(super) fn from(&self) -> [usize; 3] {
        self.from
    }

    /// The source indices in the order of the result.
    pub(super) fn sources(&self) -> &[u32] {
        &self.sources
    }

    pub(super) fn flipped(&self) -> bool {
        self.flipped
    }

    pub(super) fn repeats(&self) -> bool {
        self.repeats
    }

    /// The source index of a tile of the result.
    pub(super) fn at(&self, z: usize, r: usize, c: usize) -> u32 {
        let [_, rows, columns] = self.tiles;
        self.sources[(z * rows + r) * columns + c]
    }

    /// The value of a padding tile; `None` for the index of a source tile.
    pub(super) fn fill(&self, source: u32) -> Option<f32> {
        self.fills.get((FILLS - source) as usize).copied()
    }

    /// The result's slices, rows and columns at these indices.
    pub(super) fn picked(&self, [zs, rows, columns]: [&[usize]; 3]) -> Result<Self> {
        let mut picked = self.clone();
        let tiles = [zs.len(), rows.len(), columns.len()];
        picked.map(tiles, |z, r, c| Some([zs[z], rows[r], columns[c]]), 0)?;
        Ok(picked)
    }

    /// The first `count` slices of the result.
    pub(super) fn first_slices(&self, count: usize) -> Result<Self> {
        let [t, rows, columns] = self.tiles;
        if count > t {
            return Err(wrong_shape("too few slices").expected(count).found(t));
        }
        let mut first = self.clone();
        first.map([count, rows, columns], |z, r, c| Some([z, r, c]), 0)?;
        Ok(first)
    }

    /// Replaces each tile of the result by the tile at `from`, or by `fill`.
    fn map(
        &mut self,
        tiles: [usize; 3],
        from: impl Fn(usize, usize, usize) -> Option<[usize; 3]>,
        fill: u32,
    ) -> Result<()> {
        let mut sources = reserved(checked(tiles)?)?;
        for z in 0..tiles[0] {
            for r in 0..tiles[1] {
                for c in 0..tiles[2] {
                    sources.push(match from(z, r, c) {
                        Some([z, r, c]) => self.at(z, r, c),
                        None => fill,
                    });
                }
            }
        }
        (self.tiles, self.sources) = (tiles, sources);
        Ok(())
    }

    /// Applies one movement.
    pub(super) fn apply(&mut self, movement: TensorMovement) -> Result<()> {
        use TensorMovement::*;
        let [t, rows, columns] = self.tiles;
        let parts = |whole: usize, n: usize| {
            if n > 0 && whole.is_multiple_of(n) {
                Ok(whole / n)
            } else {
                let text = format!("{whole} is not divisible by {n}");
                Err(wrong_shape(text))
            }
        };
        let times = |a: usize, b: usize| a.checked_mul(b).ok_or_else(too_many);
        match movement {
            BroadcastRows(n) => {
                let all = times(rows, n as usize)?;
                self.repeats |= all > rows;
                self.map([t, all, columns], |z, r, c| Some([z, r % rows, c]), 0)
            }
            BroadcastColumns(n) => {
                let all = times(columns, n as usize)?;
                self.repeats |= all > columns;
                self.map([t, rows, all], |z, r, c| Some([z, r, c % columns]), 0)
            }
            BroadcastSlices(n) => {
                let all = times(t, n as usize)?;
                self.repeats |= all > t;
                self.map([all, rows, columns], |z, r, c| Some([z % t, r, c]), 0)
            }
            Transpose => {
                self.flipped = !self.flipped;
                self.map([t, columns, rows], |z, r, c| Some([z, c, r]), 0)
            }
            Hslice(n) => {
                let n = n as usize;
                let part = parts(columns, n)?;
                let from = |z: usize, r, c| Some([z / n, r, z % n * part + c]);
                self.map([times(t, n)?, rows, part], from, 0)
            }
            Vslice(n) => {
                let n = n as usize;
                let part = parts(rows, n)?;
                let from = |z: usize, r, c| Some([z / n, z % n * part + r, c]);
                self.map([times(t, n)?, part, columns], from, 0)
            }
            Hstack(n) => {
                let n = stack(n, t);
                let (left, all) = (parts(t, n)?, times(columns, n)?);
                let from = |z, r, c: usize| Some([z * n + c / columns, r, c % columns]);
                self.map([left, rows, all], from, 0)
            }
            Vstack(n) => {
                let n = stack(n, t);
                let (left, all) = (parts(t, n)?, times(rows, n)?);
                let from = |z, r: usize, c| Some([z * n + r / rows, r % rows, c]);
                self.map([left, all, columns], from, 0)
            }
            Unpad {
                rows: r,
                columns: c,
            } => {
                let (r, c) = (r as usize, c as usize);
                if r >= rows || c >= columns {
                    return Err(wrong_shape("an unpad removes every tile"));
                }
                self.map([t, rows - r, columns - c], |z, r, c| Some([z, r, c]), 0)
            }
            Pad {
                rows: r,
                columns: c,
                value,
            } => {
                let fill = FILLS - self.fills.len() as u32;
                self.fills.push(value);
                self.repeats = true;
                let all = [
                    t,
                    rows.checked_add(r as usize).ok_or_else(too_many)?,
                    columns.checked_add(c as usize).ok_or_else(too_many)?,
                ];
                let from = |z, r, c| (r < rows && c < columns).then_some([z, r, c]);
                self.map(all, from, fill)
            }
        }
    }
}

/// A stack of 0 takes all slices (netlist 4.1).
fn stack(n: u32, slices: usize) -> usize {
    if n == 0 { slices } else { n as usize }
}

fn checked(tiles: [usize; 3]) -> Result<usize> {
    // An extent of 0 makes the product 0, and loops over the other extents unbounded.
    if tiles.contains(&0) {
        let error = Error::new(ErrorKind::InvalidProgram, "the TMs result in no tiles");
        return Err(error
            .expected("sizes from 1 on")
            .found(format_args!("{tiles:?}")));
    }
    let count = tiles.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    count
        .filter(|&count| count <= MAX_TILES)
        .ok_or_else(too_many)
}

fn too_many() -> Error {
    Error::new(ErrorKind::OutOfMemory, "the TMs result in too many tiles")
        .expected(format_args!("at most {MAX_TILES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn movements_that_do_not_fit_the_tensor_are_errors() {
        for steps in [
            "hslice 4",
            "hslice 0",
            "rotate",
            "broadcast_r",
            "unpad 4 0",
            "broadcast_r 4294967295",
        ] {
            assert!(Table::through([1, 4, 6], steps).is_err(), "{steps}");
        }
    }
}
