//! Matmul and depthwise matmul.

use super::elementwise::{GELU_STEPS, gelu};
use super::input_of;
use super::quantise::{dequantization, requantization};
use crate::bands::in_bands;
use crate::error::failed;
use crate::tensor::{TILE, Tensor};
use std::borrow::Borrow;
use tenon_base::Result;
use tenon_netlist::{AttributeKey as Key, DataFormat, Op};

/// The epilogue of a matmul.
#[derive(Debug, Clone, Copy, Default)]
pub struct MatmulOptions {
    /// Number of consecutive slices that are summed.
    pub groups: usize,
    /// Whether input 2 is a bias.
    pub bias: bool,
    /// Whether the inputs are integers, whose bias has all rows.
    pub integers: bool,
    /// Whether the last input is a scale for requantization to Int8.
    pub requant: bool,
    /// Whether the last input is a scale for dequantization to float.
    pub dequant: bool,
    /// The zero point of the scaling.
    pub zero_point: f32,
    /// Whether the activation is gelu.
    pub gelu: bool,
}

impl MatmulOptions {
    /// The options of an op.
    pub fn of(op: &Op) -> Self {
        let attributes = &op.attributes;
        let integer = |format: DataFormat| format.is_integer();
        let groups = if attributes.is(Key::Accumulate) {
            attributes.integer(Key::Z).max(1) as usize
        } else {
            1
        };
        Self {
            groups,
            bias: attributes.is(Key::Bias),
            integers: op
                .inputs
                .first()
                .is_some_and(|input| integer(input.df.value)),
            requant: attributes.is(Key::Requant),
            dequant: attributes.is(Key::Dequant),
            zero_point: attributes.number(Key::ZeroPoint).unwrap_or(0.0) as f32,
            gelu: attributes.word(Key::SfpuOp) == Some("gelu"),
        }
    }
}

/// Multiplies inputs 0 and 1 slice by slice, sums groups of slices, and applies bias, scale and gelu.
pub fn matmul<T: Borrow<Tensor>>(options: &MatmulOptions, inputs: &[T]) -> Result<Tensor> {
    let input = |index: usize| input_of(inputs, index);
    let (a, b) = (input(0)?, input(1)?);
    if a.columns != b.rows || b.t < a.t || a.t % options.groups != 0 {
        return Err(failed(format!(
            "cannot multiply {:?} by {:?}",
            a.shape(),
            b.shape()
        )));
    }
    let mut output = Tensor::zeros(a.t / options.groups, a.rows, b.columns)?;
    let height = output.height();
    let steps = 2 * a.width() * options.groups;
    in_bands(&mut output, steps, |first, rows| {
        let slice = |row: usize| (row / height, row % height);
        // A row of tiles at a time, which is in one slice.
        for (number, lines) in rows.chunks_exact_mut(TILE * b.width()).enumerate() {
            let (t, y) = slice(first + number * TILE);
            for z in t * options.groups..(t + 1) * options.groups {
                accumulate_tile_row(lines, a, b, z, y);
            }
        }
    });
    let mut next = 2;
    if options.bias {
        add_bias(&mut output, input(next)?, options.integers)?;
        next += 1;
    }
    if options.requant || options.dequant {
        let scale = input(next)?;
        if scale.shape() != output.shape() {
            let error = failed("the scale must have the shape of the output");
            return Err(error
                .expected(format!("{:?}", output.shape()))
                .found(format!("{:?}", scale.shape())));
        }
        output = if options.requant {
            requantization(&output, scale, options.zero_point)?
        } else {
            dequantization(&output, scale, options.zero_point)?
        };
    }
    Ok(if options.gelu {
        output.map(GELU_STEPS, gelu)
    } else {
        output
    })
}

/// Columns of a register block of sums.
const BLOCK: usize = 16;

/// Adds rows `y` to `y + 32` of slice `z` of a times b. Each sum is in the order of the inner
/// dimension.
fn accumulate_tile_row(lines: &mut [f32], a: &Tensor, b: &Tensor, z: usize, y: usize) {
    let width = b.width();
    // Cache blocking: a panel of b of one tile by a few columns is reused for all rows.
    for start in (0..b.height()).step_by(TILE) {
        for left in (0..width).step_by(BLOCK) {
            let part: [&[f32; BLOCK]; TILE] =
                std::array::from_fn(|k| block(&b.row(z, start + k)[left..]));
            for (pair, two) in lines.chunks_exact_mut(2 * width).enumerate() {
                let (upper, lower) = two.split_at_mut(width);
                let rows = [0, 1].map(|next| &a.row(z, y + 2 * pair + next)[start..][..TILE]);
                let sums = [&mut upper[left..][..BLOCK], &mut lower[left..][..BLOCK]];
                accumulate_two_rows(sums, rows, &part);
            }
        }
    }
}

fn block(line: &[f32]) -> &[f32; BLOCK] {
    line.first_chunk()
        .expect("rows are whole tiles, wider than a block")
}

/// sums += rows * part, for two rows.
fn accumulate_two_rows(sums: [&mut [f32]; 2], rows: [&[f32]; 2], part: &[&[f32; BLOCK]; TILE]) {
    let [mut upper, mut lower] = [*block(sums[0]), *block(sums[1])];
    let pairs = rows[0].iter().zip(rows[1]);
    for ((&first, &second), line) in pairs.zip(part) {
        for column in 0..BLOCK {
            upper[column] += first * line[column];
            lower[column] += second * line[column];
        }
    }
    sums[0].copy_from_slice(&upper);
    sums[1].copy_from_slice(&lower);
}

/// sum += factor * line.
pub(super) fn add_scaled(sum: &mut [f32], factor: f32, line: &[f32]) {
    for (sum, value) in sum.iter_mut().zip(line) {
        *sum += factor * value;
    }
}

/// Adds a bias: row 0 of each tile to all rows for floats, elementwise for integers.
pub(super) fn add_bias(output: &mut Tensor, bias: &Tensor, integers: bool) -> Result<()> {
    if bias.shape() != output.shape() {
        return Err(failed(format!(
            "the bias has shape {:?}, the output {:?}",
            bias.shape(),
            output.shape()
        )));
    }
    for z in 0..output.t {
        for y in 0..output.height() {
            let from = if integers { y } else { y / TILE * TILE };
            add_scaled(output.row_mut(z, y), 1.0, bias.row(z, from));
        }
    }
    Ok(())
}

/// Depthwise matmul: out\[r, c\] is the sum over b of in0\[r, c + C b\] in1\[b, c\], in tiles.
pub fn depthwise(a: &Tensor, b: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if a.columns != b.rows * b.columns || b.t < a.t {
        return Err(failed(format!(
            "cannot multiply {:?} by {:?}",
            a.shape(),
            b.shape()
        )));
    }
    let mut output = Tensor::zeros(a.t, a.rows, b.columns)?;
    for z in 0..a.t {
        for y in 0..a.height() {
            for number in 0..b.rows * b.columns {
                let (block, column) = (number / b.columns, number % b.columns);
                let left = column * TILE;
                for k in 0..TILE {
                    let factor = a.at(z, y, (column + b.columns * block) * TILE + k);
                    let line = &b.row(z, block * TILE + k)[left..left + TILE];
                    add_scaled(&mut output.row_mut(z, y)[left..left + TILE], factor, line);
                }
            }
        }
    }
    if let Some(bias) = bias {
        add_bias(&mut output, bias, false)?;
    }
    Ok(output)
}
