//! The maximum along a dimension.

use crate::tensor::Tensor;
use tenon_netlist::{AttributeKey as Key, Attributes};

/// The dimension that goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Along {
    /// Down the rows: the answer lies in row 0.
    Rows,
    /// Along the columns: the answer lies in column 0.
    Columns,
    /// Both: the answer is element 0, 0.
    Both,
    /// So many consecutive slices.
    Slices(usize),
}

impl Along {
    /// What the attributes say.
    pub fn of(attributes: &Attributes) -> Result<Self, String> {
        Ok(match attributes.word(Key::Dim) {
            Some("r") => Along::Rows,
            Some("c") => Along::Columns,
            Some("rc") => Along::Both,
            Some("z") => Along::Slices(attributes.integer(Key::Z).max(1) as usize),
            _ => return Err("a reduce without dim".to_owned()),
        })
    }
}

/// The maximum along a dimension; the rest of each tile is 0.
pub fn reduce(along: Along, input: &Tensor) -> Result<Tensor, String> {
    let (height, width) = (input.height(), input.width());
    let largest = |values: &mut dyn Iterator<Item = f32>| {
        values.fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a })
    };
    Ok(match along {
        Along::Rows => Tensor::from_fn(input.t, 1, input.columns, |z, y, x| match y {
            0 => largest(&mut (0..height).map(|y| input.at(z, y, x))),
            _ => 0.0,
        }),
        Along::Columns => Tensor::from_fn(input.t, input.rows, 1, |z, y, x| match x {
            0 => largest(&mut input.row(z, y).iter().copied()),
            _ => 0.0,
        }),
        Along::Both => Tensor::from_fn(input.t, 1, 1, |z, y, x| match (y, x) {
            (0, 0) => largest(&mut (0..height * width).map(|i| input.at(z, i / width, i % width))),
            _ => 0.0,
        }),
        Along::Slices(n) if input.t.is_multiple_of(n) => {
            Tensor::from_fn(input.t / n, input.rows, input.columns, |z, y, x| {
                largest(&mut (z * n..(z + 1) * n).map(|z| input.at(z, y, x)))
            })
        }
        Along::Slices(n) => return Err(format!("{} slices in groups of {n}", input.t)),
    })
}
