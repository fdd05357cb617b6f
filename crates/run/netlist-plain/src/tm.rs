//! Tensor manipulations (facts 4): whole tiles move, one function a kind.

use crate::tensor::{TILE, Tensor};
use tenon_netlist::{Pad, TileBroadcast, Tm};

/// Elements of the largest tensor that is made: 4 GiB.
pub(crate) const LARGEST: usize = 1 << 30;

/// `input` after one TM.
///
/// # Errors
/// When it does not divide, or what it makes is too large.
pub fn apply(input: &Tensor, tm: Tm) -> Result<Tensor, String> {
    let all = |parts: u32| match parts {
        // A stack of 0 takes all slices.
        0 => input.t,
        _ => parts as usize,
    };
    Ok(match tm {
        Tm::BroadcastRows(n) => broadcast(input, [1, n as usize, 1])?,
        Tm::BroadcastColumns(n) => broadcast(input, [1, 1, n as usize])?,
        Tm::BroadcastSlices(n) => broadcast(input, [n as usize, 1, 1])?,
        Tm::Transpose => transpose(input),
        Tm::Hslice(n) => hslice(input, divisor(input.columns, n as usize)?),
        Tm::Vslice(n) => vslice(input, divisor(input.rows, n as usize)?),
        Tm::Hstack(n) => hstack(input, divisor(input.t, all(n))?),
        Tm::Vstack(n) => vstack(input, divisor(input.t, all(n))?),
        Tm::Pad(added) => pad(input, added)?,
        Tm::TileBroadcast(kind) => tile_broadcast(input, kind),
    })
}

fn divisor(size: usize, parts: usize) -> Result<usize, String> {
    match parts > 0 && size.is_multiple_of(parts) {
        true => Ok(parts),
        false => Err(format!("{size} does not fall into {parts} equal parts")),
    }
}

fn limited(sizes: [usize; 3]) -> Result<(), String> {
    let elements = sizes
        .iter()
        .try_fold(TILE * TILE, |all, &size| all.checked_mul(size));
    match elements.is_some_and(|elements| elements <= LARGEST) {
        true => Ok(()),
        false => Err(format!(
            "a tensor of {sizes:?} tiles is too large to be run plainly"
        )),
    }
}

/// The whole, so many times along each dimension.
fn broadcast(input: &Tensor, times: [usize; 3]) -> Result<Tensor, String> {
    let (slices, height, width) = (input.t, input.height(), input.width());
    let sizes: [usize; 3] =
        std::array::from_fn(|axis| input.shape()[axis].saturating_mul(times[axis]));
    limited(sizes)?;
    Ok(Tensor::from_rows(sizes, |z, y, line| {
        let from = input.row(z % slices, y % height);
        line.chunks_exact_mut(width)
            .for_each(|part| part.copy_from_slice(from));
    }))
}

/// Rows and columns swapped, of tiles and inside them.
fn transpose(input: &Tensor) -> Tensor {
    Tensor::from_rows([input.t, input.columns, input.rows], |z, y, line| {
        for (x, value) in line.iter_mut().enumerate() {
            *value = input.at(z, x, y);
        }
    })
}

/// Columns cut into `n` slices.
fn hslice(input: &Tensor, n: usize) -> Tensor {
    let sizes = [input.t * n, input.rows, input.columns / n];
    Tensor::from_rows(sizes, |z, y, line| {
        line.copy_from_slice(&input.row(z / n, y)[z % n * line.len()..][..line.len()]);
    })
}

/// Rows cut into `n` slices.
fn vslice(input: &Tensor, n: usize) -> Tensor {
    let height = input.height() / n;
    let sizes = [input.t * n, input.rows / n, input.columns];
    Tensor::from_rows(sizes, |z, y, line| {
        line.copy_from_slice(input.row(z / n, z % n * height + y));
    })
}

/// `n` slices beside each other.
fn hstack(input: &Tensor, n: usize) -> Tensor {
    let sizes = [input.t / n, input.rows, input.columns * n];
    Tensor::from_rows(sizes, |z, y, line| {
        for (part, to) in line.chunks_exact_mut(input.width()).enumerate() {
            to.copy_from_slice(input.row(z * n + part, y));
        }
    })
}

/// `n` slices below each other.
fn vstack(input: &Tensor, n: usize) -> Tensor {
    let height = input.height();
    let sizes = [input.t / n, input.rows * n, input.columns];
    Tensor::from_rows(sizes, |z, y, line| {
        line.copy_from_slice(input.row(z * n + y / height, y % height));
    })
}

/// Tiles added at the bottom and right.
pub fn pad(input: &Tensor, added: Pad) -> Result<Tensor, String> {
    let (rows, columns) = (
        input.rows + added.rows as usize,
        input.columns + added.columns as usize,
    );
    limited([input.t, rows, columns])?;
    Ok(Tensor::from_rows([input.t, rows, columns], |z, y, line| {
        line.fill(added.value);
        if y < input.height() {
            line[..input.width()].copy_from_slice(input.row(z, y));
        }
    }))
}

/// Tiles dropped at the bottom and right; `None` when nothing would be left.
pub fn unpad(input: &Tensor, [rows, columns]: [u32; 2]) -> Option<Tensor> {
    let rows = input
        .rows
        .checked_sub(rows as usize)
        .filter(|rows| *rows > 0)?;
    let columns = input
        .columns
        .checked_sub(columns as usize)
        .filter(|columns| *columns > 0)?;
    Some(Tensor::from_rows([input.t, rows, columns], |z, y, line| {
        line.copy_from_slice(&input.row(z, y)[..line.len()]);
    }))
}

/// Inside each tile the first row, column or element everywhere.
fn tile_broadcast(input: &Tensor, kind: TileBroadcast) -> Tensor {
    Tensor::from_rows(input.shape(), |z, y, line| {
        let top = y / TILE * TILE;
        match kind {
            TileBroadcast::Row => line.copy_from_slice(input.row(z, top)),
            TileBroadcast::Column => spread(line, input.row(z, y)),
            TileBroadcast::Both => spread(line, input.row(z, top)),
        }
    })
}

/// The first element of each tile's row over all of it.
fn spread(line: &mut [f32], from: &[f32]) {
    let tiles = line.chunks_exact_mut(TILE).zip(from.chunks_exact(TILE));
    tiles.for_each(|(to, from)| to.fill(from[0]));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tensor whose tiles are numbered; the number of a tile is all its elements.
    fn numbered(t: usize, rows: usize, columns: usize) -> Tensor {
        Tensor::from_fn(t, rows, columns, |z, y, x| {
            ((z * rows + y / TILE) * columns + x / TILE) as f32
        })
    }

    fn numbers(tensor: &Tensor) -> Vec<f32> {
        let mut numbers = Vec::new();
        for z in 0..tensor.t {
            for r in 0..tensor.rows {
                numbers.extend((0..tensor.columns).map(|c| tensor.at(z, r * TILE, c * TILE)));
            }
        }
        numbers
    }

    fn after(input: &Tensor, tm: Tm) -> (Vec<usize>, Vec<f32>) {
        let output = apply(input, tm).unwrap();
        (output.shape().to_vec(), numbers(&output))
    }

    /// The expected numbers are those of the formulas of facts 4, worked out by hand.
    #[test]
    fn tiles_go_where_the_formulas_say() {
        let input = numbered(1, 2, 2);
        assert_eq!(
            after(&input, Tm::BroadcastRows(2)),
            (vec![1, 4, 2], vec![0., 1., 2., 3., 0., 1., 2., 3.])
        );
        assert_eq!(
            after(&input, Tm::BroadcastColumns(2)),
            (vec![1, 2, 4], vec![0., 1., 0., 1., 2., 3., 2., 3.])
        );
        assert_eq!(
            after(&input, Tm::Transpose),
            (vec![1, 2, 2], vec![0., 2., 1., 3.])
        );
        assert_eq!(
            after(&input, Tm::Hslice(2)),
            (vec![2, 2, 1], vec![0., 2., 1., 3.])
        );
        assert_eq!(
            after(&input, Tm::Vslice(2)),
            (vec![2, 1, 2], vec![0., 1., 2., 3.])
        );
        let slices = numbered(2, 1, 2);
        assert_eq!(
            after(&slices, Tm::Hstack(2)),
            (vec![1, 1, 4], vec![0., 1., 2., 3.])
        );
        assert_eq!(
            after(&slices, Tm::Vstack(0)),
            (vec![1, 2, 2], vec![0., 1., 2., 3.])
        );
        assert_eq!(
            after(&slices, Tm::BroadcastSlices(2)),
            (vec![4, 1, 2], vec![0., 1., 2., 3., 0., 1., 2., 3.])
        );
        let added = Pad {
            rows: 1,
            columns: 0,
            value: 9.0,
        };
        assert_eq!(
            after(&input, Tm::Pad(added)),
            (vec![1, 3, 2], vec![0., 1., 2., 3., 9., 9.])
        );
        assert!(apply(&input, Tm::Hslice(3)).is_err());
        assert!(apply(&input, Tm::BroadcastRows(u32::MAX)).is_err());
    }

    #[test]
    fn a_transpose_turns_tiles_too() {
        let input = Tensor::from_fn(1, 1, 2, |_, y, x| (y * 100 + x) as f32);
        let output = apply(&input, Tm::Transpose).unwrap();
        assert_eq!(output.at(0, 40, 3), 340.0);
        assert_eq!(apply(&output, Tm::Transpose).unwrap(), input);
    }

    #[test]
    fn a_tile_broadcast_stays_in_its_tile() {
        let input = Tensor::from_fn(1, 2, 2, |_, y, x| (y * 100 + x) as f32);
        let row = apply(&input, Tm::TileBroadcast(TileBroadcast::Row)).unwrap();
        assert_eq!((row.at(0, 5, 7), row.at(0, 40, 33)), (7.0, 3233.0));
        let column = apply(&input, Tm::TileBroadcast(TileBroadcast::Column)).unwrap();
        assert_eq!((column.at(0, 5, 7), column.at(0, 40, 33)), (500.0, 4032.0));
        let both = apply(&input, Tm::TileBroadcast(TileBroadcast::Both)).unwrap();
        assert_eq!((both.at(0, 5, 7), both.at(0, 40, 33)), (0.0, 3232.0));
    }

    #[test]
    fn an_unpad_undoes_a_pad() {
        let input = numbered(2, 2, 3);
        let padded = pad(
            &input,
            Pad {
                rows: 1,
                columns: 2,
                value: 0.5,
            },
        )
        .unwrap();
        assert_eq!(unpad(&padded, [1, 2]).unwrap(), input);
        assert!(unpad(&input, [2, 0]).is_none());
    }
}
