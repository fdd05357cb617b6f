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
    let largest = |values: &[f32]| values.iter().copied().fold(f32::NEG_INFINITY, larger);
    Ok(match along {
        Along::Rows => Tensor::from_rows([input.t, 1, input.columns], |z, y, line| {
            if y == 0 {
                line.fill(f32::NEG_INFINITY);
                (0..input.height()).for_each(|y| enlarge(line, input.row(z, y)));
            }
        }),
        Along::Columns => Tensor::from_rows([input.t, input.rows, 1], |z, y, line| {
            line[0] = largest(input.row(z, y));
        }),
        Along::Both => Tensor::from_rows([input.t, 1, 1], |z, y, line| {
            if y == 0 {
                let rows = (0..input.height()).map(|y| largest(input.row(z, y)));
                line[0] = rows.fold(f32::NEG_INFINITY, larger);
            }
        }),
        Along::Slices(n) if input.t.is_multiple_of(n) => {
            Tensor::from_rows([input.t / n, input.rows, input.columns], |z, y, line| {
                line.fill(f32::NEG_INFINITY);
                (z * n..(z + 1) * n).for_each(|z| enlarge(line, input.row(z, y)));
            })
        }
        Along::Slices(n) => return Err(format!("{} slices in groups of {n}", input.t)),
    })
}

/// The larger of two; what is no number is no larger.
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

fn enlarge(line: &mut [f32], other: &[f32]) {
    for (value, other) in line.iter_mut().zip(other) {
        *value = larger(*value, *other);
    }
}
