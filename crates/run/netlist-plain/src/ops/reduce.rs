//! Reduction: the maximum along a dimension.

use crate::error::failed;
use crate::tensor::Tensor;
use tenon_base::Result;
use tenon_netlist::{AttributeKey as Key, Attributes};

/// The reduced dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReduceDimension {
    /// Rows: the result is row 0.
    Rows,
    /// Columns: the result is column 0.
    Columns,
    /// Rows and columns: the result is element (0, 0).
    Both,
    /// Groups of this number of consecutive slices.
    Slices(usize),
}

impl ReduceDimension {
    /// The dimension of the attributes.
    pub fn of(attributes: &Attributes) -> Result<Self> {
        Ok(match attributes.word(Key::Dim) {
            Some("r") => ReduceDimension::Rows,
            Some("c") => ReduceDimension::Columns,
            Some("rc") => ReduceDimension::Both,
            Some("z") => ReduceDimension::Slices(attributes.integer(Key::Z).max(1) as usize),
            _ => return Err(failed("reduce requires the attribute dim")),
        })
    }
}

/// The maximum along a dimension; the rest of each tile is 0.
pub fn reduce(dimension: ReduceDimension, input: &Tensor) -> Result<Tensor> {
    let largest = |values: &[f32]| values.iter().copied().fold(f32::NEG_INFINITY, larger);
    match dimension {
        ReduceDimension::Rows => Tensor::from_rows([input.t, 1, input.columns], |z, y, line| {
            if y == 0 {
                line.fill(f32::NEG_INFINITY);
                (0..input.height()).for_each(|y| enlarge(line, input.row(z, y)));
            }
        }),
        ReduceDimension::Columns => Tensor::from_rows([input.t, input.rows, 1], |z, y, line| {
            line[0] = largest(input.row(z, y));
        }),
        ReduceDimension::Both => Tensor::from_rows([input.t, 1, 1], |z, y, line| {
            if y == 0 {
                let rows = (0..input.height()).map(|y| largest(input.row(z, y)));
                line[0] = rows.fold(f32::NEG_INFINITY, larger);
            }
        }),
        ReduceDimension::Slices(n) if input.t.is_multiple_of(n) => {
            Tensor::from_rows([input.t / n, input.rows, input.columns], |z, y, line| {
                line.fill(f32::NEG_INFINITY);
                (z * n..(z + 1) * n).for_each(|z| enlarge(line, input.row(z, y)));
            })
        }
        ReduceDimension::Slices(n) => Err(failed(format!(
            "the number of slices, {}, is not divisible by z = {n}",
            input.t
        ))),
    }
}

/// The larger value; `a` if `b` is NaN.
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

fn enlarge(line: &mut [f32], other: &[f32]) {
    for (value, other) in line.iter_mut().zip(other) {
        *value = larger(*value, *other);
    }
}
