//! Tensor manipulations (netlist 4.1), one function per TM.

use crate::error::failed;
use crate::tensor::{TILE, Tensor};
use tenon_base::Result;
use tenon_netlist::{Pad, TileBroadcast, Tm};

/// `input` after one TM.
///
/// # Errors
/// When a size is not divisible, or the result is too large.
pub fn apply(input: &Tensor, tm: Tm) -> Result<Tensor> {
    let all = |parts: u32| match parts {
        // A stack of 0 takes all slices.
        0 => input.t,
        _ => parts as usize,
    };
    Ok(match tm {
        Tm::BroadcastRows(n) => broadcast(input, [1, n as usize, 1])?,
        Tm::BroadcastColumns(n) => broadcast(input, [1, 1, n as usize])?,
        Tm::BroadcastSlices(n) => broadcast(input, [n as usize, 1, 1])?,
        Tm::Transpose => transpose(input)?,
        Tm::Hslice(n) => hslice(input, divisor(input.columns, n as usize)?)?,
        Tm::Vslice(n) => vslice(input, divisor(input.rows, n as usize)?)?,
        Tm::Hstack(n) => hstack(input, divisor(input.t, all(n))?)?,
        Tm::Vstack(n) => vstack(input, divisor(input.t, all(n))?)?,
        Tm::Pad(added) => pad(input, added)?,
        Tm::TileBroadcast(kind) => tile_broadcast(input, kind)?,
    })
}

fn divisor(size: usize, parts: usize) -> Result<usize> {
    if parts == 0 || !size.is_multiple_of(parts) {
        return Err(failed(format!("{size} is not divisible by {parts}")));
    }
    Ok(parts)
}

/// Repeats the tensor `times` along each dimension.
fn broadcast(input: &Tensor, times: [usize; 3]) -> Result<Tensor> {
    let (slices, height, width) = (input.t, input.height(), input.width());
    let sizes: [usize; 3] =
        std::array::from_fn(|axis| input.shape()[axis].saturating_mul(times[axis]));
    Tensor::from_rows(sizes, |z, y, line| {
        let from = input.row(z % slices, y % height);
        line.chunks_exact_mut(width)
            .for_each(|part| part.copy_from_slice(from));
    })
}

/// Swaps rows and columns, of tiles and within tiles.
fn transpose(input: &Tensor) -> Result<Tensor> {
    Tensor::from_rows([input.t, input.columns, input.rows], |z, y, line| {
        for (x, value) in line.iter_mut().enumerate() {
            *value = input.at(z, x, y);
        }
    })
}

/// Splits the columns into `n` slices.
fn hslice(input: &Tensor, n: usize) -> Result<Tensor> {
    let sizes = [input.t * n, input.rows, input.columns / n];
    Tensor::from_rows(sizes, |z, y, line| {
        line.copy_from_slice(&input.row(z / n, y)[z % n * line.len()..][..line.len()]);
    })
}

/// Splits the rows into `n` slices.
fn vslice(input: &Tensor, n: usize) -> Result<Tensor> {
    let height = input.height() / n;
    let sizes = [input.t * n, input.rows / n, input.columns];
    Tensor::from_rows(sizes, |z, y, line| {
        line.copy_from_slice(input.row(z / n, z % n * height + y));
    })
}

/// Concatenates `n` slices along columns.
fn hstack(input: &Tensor, n: usize) -> Result<Tensor> {
    let sizes = [input.t / n, input.rows, input.columns * n];
    Tensor::from_rows(sizes, |z, y, line| {
        for (part, to) in line.chunks_exact_mut(input.width()).enumerate() {
            to.copy_from_slice(input.row(z * n + part, y));
        }
    })
}

/// Concatenates `n` slices along rows.
fn vstack(input: &Tensor, n: usize) -> Result<Tensor> {
    let height = input.height();
    let sizes = [input.t / n, input.rows * n, input.columns];
    Tensor::from_rows(sizes, |z, y, line| {
        line.copy_from_slice(input.row(z * n + y / height, y % height));
    })
}

/// Adds padding tiles at the bottom and right.
pub fn pad(input: &Tensor, added: Pad) -> Result<Tensor> {
    let (rows, columns) = (
        input.rows + added.rows as usize,
        input.columns + added.columns as usize,
    );
    Tensor::from_rows([input.t, rows, columns], |z, y, line| {
        line.fill(added.value);
        if y < input.height() {
            line[..input.width()].copy_from_slice(input.row(z, y));
        }
    })
}

/// Removes tiles at the bottom and right.
///
/// # Errors
/// When no tile remains.
pub fn unpad(input: &Tensor, removed: [u32; 2]) -> Result<Tensor> {
    let [rows, columns] = removed.map(|size| size as usize);
    if rows >= input.rows || columns >= input.columns {
        return Err(failed("the unpad removes all tiles"));
    }
    let shape = [input.t, input.rows - rows, input.columns - columns];
    Tensor::from_rows(shape, |z, y, line| {
        line.copy_from_slice(&input.row(z, y)[..line.len()]);
    })
}

/// Broadcasts the first row, column or element of each tile.
fn tile_broadcast(input: &Tensor, kind: TileBroadcast) -> Result<Tensor> {
    Tensor::from_rows(input.shape(), |z, y, line| {
        let top = y / TILE * TILE;
        match kind {
            TileBroadcast::Row => line.copy_from_slice(input.row(z, top)),
            TileBroadcast::Column => spread(line, input.row(z, y)),
            TileBroadcast::Both => spread(line, input.row(z, top)),
        }
    })
}

/// Broadcasts the first element of each row of a tile.
fn spread(line: &mut [f32], from: &[f32]) {
    let tiles = line.chunks_exact_mut(TILE).zip(from.chunks_exact(TILE));
    tiles.for_each(|(to, from)| to.fill(from[0]));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tensor whose elements are the index of their tile.
    fn tile_indices(t: usize, rows: usize, columns: usize) -> Tensor {
        let index = |z: usize, y: usize, x: usize| (z * rows + y / TILE) * columns + x / TILE;
        Tensor::from_fn(t, rows, columns, |z, y, x| index(z, y, x) as f32).unwrap()
    }

    /// The first element of each tile.
    fn tiles(tensor: &Tensor) -> Vec<f32> {
        let mut tiles = Vec::new();
        for z in 0..tensor.t {
            for r in 0..tensor.rows {
                tiles.extend((0..tensor.columns).map(|c| tensor.at(z, r * TILE, c * TILE)));
            }
        }
        tiles
    }

    fn after(input: &Tensor, tm: Tm) -> (Vec<usize>, Vec<f32>) {
        let output = apply(input, tm).unwrap();
        (output.shape().to_vec(), tiles(&output))
    }

    /// The expected values were computed by hand from the formulas of netlist 4.1.
    #[test]
    fn tms_move_tiles_as_defined() {
        let input = tile_indices(1, 2, 2);
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
        let slices = tile_indices(2, 1, 2);
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
    fn a_transpose_swaps_elements_within_tiles() {
        let input = Tensor::from_fn(1, 1, 2, |_, y, x| (y * 100 + x) as f32).unwrap();
        let output = apply(&input, Tm::Transpose).unwrap();
        assert_eq!(output.at(0, 40, 3), 340.0);
        assert_eq!(apply(&output, Tm::Transpose).unwrap(), input);
    }

    #[test]
    fn a_tile_broadcast_stays_in_its_tile() {
        let input = Tensor::from_fn(1, 2, 2, |_, y, x| (y * 100 + x) as f32).unwrap();
        let row = apply(&input, Tm::TileBroadcast(TileBroadcast::Row)).unwrap();
        assert_eq!((row.at(0, 5, 7), row.at(0, 40, 33)), (7.0, 3233.0));
        let column = apply(&input, Tm::TileBroadcast(TileBroadcast::Column)).unwrap();
        assert_eq!((column.at(0, 5, 7), column.at(0, 40, 33)), (500.0, 4032.0));
        let both = apply(&input, Tm::TileBroadcast(TileBroadcast::Both)).unwrap();
        assert_eq!((both.at(0, 5, 7), both.at(0, 40, 33)), (0.0, 3232.0));
    }

    #[test]
    fn an_unpad_undoes_a_pad() {
        let input = tile_indices(2, 2, 3);
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
        assert!(unpad(&input, [2, 0]).is_err());
    }
}
