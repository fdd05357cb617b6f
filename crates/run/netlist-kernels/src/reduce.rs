//! `netlist.reduce`: the maximum along a dimension (netlist 3.1).

use super::attributes::{size_or, wrong};
use super::op::{Compute, tensor_kernel};
use super::tensor::{TileTensor, for_each_chunk, wrong_shape};
use tenon_base::Result;
use tenon_executor::{KernelDef, Site};

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![tensor_kernel("netlist.reduce", 1, bind).doc(
        "The maximum along rows (r), columns (c), both (rc), or groups of `z` slices (z). \
         The other elements of a tile are zeros.",
    )]
}

fn bind(site: &Site<'_>) -> Result<Compute> {
    let z = size_or(site.attributes(), "z", 1)?.max(1);
    let reduce: fn(&TileTensor, usize) -> Result<TileTensor> =
        match site.attributes().string("dim")? {
            "r" => |a, _| rows(a),
            "c" => |a, _| columns(a),
            "rc" => |a, _| columns(&rows(a)?),
            "z" => slices,
            other => return Err(wrong("dim", "r, c, rc or z").found(other)),
        };
    Ok(Box::new(move |operands| reduce(operands[0], z)))
}

fn larger(a: f32, b: f32) -> f32 {
    if a < b { b } else { a }
}

/// The maximum of each column, in row 0.
fn rows(from: &TileTensor) -> Result<TileTensor> {
    let [t, _, columns] = from.tiles();
    let [_, height, line] = from.shape();
    let values = from.values();
    TileTensor::build([t, 1, columns], from.tile(), |to| {
        let slice = from.tile()[0] * line;
        for_each_chunk(to, slice, |z, to| {
            let mut lines = values[z * height * line..][..height * line].chunks(line);
            let first = &mut to[..line];
            first.copy_from_slice(lines.next().unwrap_or_default());
            for values in lines {
                let pairs = first.iter_mut().zip(values);
                pairs.for_each(|(to, &value)| *to = larger(*to, value));
            }
        });
        Ok(())
    })
}

/// The maximum of each row, in column 0.
fn columns(from: &TileTensor) -> Result<TileTensor> {
    let [t, rows, _] = from.tiles();
    let (width, line) = (from.tile()[1], from.shape()[2]);
    let values = from.values();
    // Rows after the first of a tile that was reduced along rows stay zeros.
    TileTensor::build([t, rows, 1], from.tile(), |to| {
        for_each_chunk(to, width, |y, to| {
            let row = &values[y * line..][..line];
            to[0] = row.iter().copied().reduce(larger).unwrap_or(0.0);
        });
        Ok(())
    })
}

/// The maximum of each group of slices.
fn slices(from: &TileTensor, z: usize) -> Result<TileTensor> {
    let [t, rows, columns] = from.tiles();
    if t % z != 0 {
        return Err(wrong_shape("the slices are not divisible into groups")
            .expected(z)
            .found(t));
    }
    let slice = from.shape()[1] * from.shape()[2];
    let values = from.values();
    TileTensor::build([t / z, rows, columns], from.tile(), |to| {
        for_each_chunk(to, slice, |group, to| {
            let start = group * z * slice;
            to.copy_from_slice(&values[start..][..slice]);
            for part in 1..z {
                let values = &values[start + part * slice..][..slice];
                let pairs = to.iter_mut().zip(values);
                pairs.for_each(|(to, &value)| *to = larger(*to, value));
            }
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor() -> TileTensor {
        // [2, 1, 2] tiles of 2 by 2: NumPy's arange(16) * 5 % 7 - 3, reshaped to [2, 2, 4].
        TileTensor::build([2, 1, 2], [2, 2], |to| {
            let value = |i: usize| (i * 5 % 7) as f32 - 3.0;
            to.iter_mut().enumerate().for_each(|(i, v)| *v = value(i));
            Ok(())
        })
        .unwrap()
    }

    /// `np.max` over the axis, of [[[-3, 2, 0, -2], [3, 1, -1, -3]], [[2, 0, -2, 3], [1, -1, -3, 2]]].
    #[test]
    fn each_dimension_has_its_maximum() {
        let a = tensor();
        let down = [3.0, 2.0, 0.0, -2.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(rows(&a).unwrap().values()[..8], down);
        let across = [2.0, 0.0, 3.0, 0.0, 3.0, 0.0, 2.0, 0.0];
        assert_eq!(columns(&a).unwrap().values(), across);
        let both = columns(&rows(&a).unwrap()).unwrap();
        assert_eq!(both.values(), [3.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0]);
        let deep = [2.0, 2.0, 0.0, 3.0, 3.0, 1.0, -1.0, 2.0];
        assert_eq!(slices(&a, 2).unwrap().values(), deep);
        assert!(slices(&a, 3).is_err());
    }
}
