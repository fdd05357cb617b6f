//! Products of matrices, and channel by channel.

use super::elements::{GELU_STEPS, gelu};
use super::input_of;
use super::quantise::{dequantization, requantization};
use crate::bands::in_bands;
use crate::tensor::{TILE, Tensor};
use std::borrow::Borrow;
use tenon_netlist::{AttributeKey as Key, DataFormat, Op};

/// What a product does besides multiplying.
#[derive(Debug, Clone, Copy, Default)]
pub struct Product {
    /// Consecutive slices that are summed.
    pub groups: usize,
    /// Whether input 2 is a bias.
    pub bias: bool,
    /// Whether the numbers are integers: their bias is added element by element.
    pub integers: bool,
    /// Scaled to Int8 by the last input.
    pub requant: bool,
    /// Scaled to float by the last input.
    pub dequant: bool,
    /// Added or subtracted when scaling.
    pub zero_point: f32,
    /// Whether gelu follows.
    pub gelu: bool,
}

impl Product {
    /// What an op asks for.
    pub fn of(op: &Op) -> Self {
        let attributes = &op.attributes;
        let integer = |format: DataFormat| format.is_integer();
        let groups = match attributes.is(Key::Accumulate) {
            true => attributes.integer(Key::Z).max(1) as usize,
            false => 1,
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

/// inputs 0 and 1 multiplied slice by slice, groups of slices summed, then bias, scale and gelu.
pub fn matmul<T: Borrow<Tensor>>(product: &Product, inputs: &[T]) -> Result<Tensor, String> {
    let input = |index: usize| input_of(inputs, index);
    let (a, b) = (input(0)?, input(1)?);
    if a.columns != b.rows || b.t < a.t || a.t % product.groups != 0 {
        return Err(format!(
            "cannot multiply {:?} by {:?}",
            a.shape(),
            b.shape()
        ));
    }
    let mut output = Tensor::zeros(a.t / product.groups, a.rows, b.columns);
    let height = output.height();
    let steps = 2 * a.width() * product.groups;
    in_bands(&mut output, steps, |first, rows| {
        let slice = |row: usize| (row / height, row % height);
        // A row of tiles at a time: they lie in one slice.
        for (number, lines) in rows.chunks_exact_mut(TILE * b.width()).enumerate() {
            let (t, y) = slice(first + number * TILE);
            for z in t * product.groups..(t + 1) * product.groups {
                add_product(lines, a, b, z, y);
            }
        }
    });
    let mut next = 2;
    if product.bias {
        add_bias(&mut output, input(next)?, product.integers)?;
        next += 1;
    }
    if product.requant || product.dequant {
        let scale = input(next)?;
        if scale.shape() != output.shape() {
            return Err(format!("a scale of shape {:?}", scale.shape()));
        }
        output = match product.requant {
            true => requantization(&output, scale, product.zero_point),
            false => dequantization(&output, scale, product.zero_point),
        };
    }
    Ok(match product.gelu {
        true => output.map(GELU_STEPS, gelu),
        false => output,
    })
}

/// Columns of a block of sums that are kept at hand while the depth goes by.
const BLOCK: usize = 16;

/// Adds rows `y` to `y + 32` of slice `z` of a times b. Each sum goes along the depth, first to
/// last.
fn add_product(lines: &mut [f32], a: &Tensor, b: &Tensor, z: usize, y: usize) {
    let width = b.width();
    // A tile's depth of b, a few columns of it at a time, stays near while all rows need it.
    for start in (0..b.height()).step_by(TILE) {
        for left in (0..width).step_by(BLOCK) {
            let part: [&[f32; BLOCK]; TILE] =
                std::array::from_fn(|k| block(&b.row(z, start + k)[left..]));
            for (pair, two) in lines.chunks_exact_mut(2 * width).enumerate() {
                let (upper, lower) = two.split_at_mut(width);
                let factors = [0, 1].map(|next| &a.row(z, y + 2 * pair + next)[start..][..TILE]);
                let sums = [&mut upper[left..][..BLOCK], &mut lower[left..][..BLOCK]];
                add_two_rows(sums, factors, &part);
            }
        }
    }
}

fn block(line: &[f32]) -> &[f32; BLOCK] {
    line.first_chunk()
        .expect("rows are whole tiles, wider than a block")
}

/// sums += factors * part, for two rows of sums and of factors.
fn add_two_rows(sums: [&mut [f32]; 2], factors: [&[f32]; 2], part: &[&[f32; BLOCK]; TILE]) {
    let [mut upper, mut lower] = [*block(sums[0]), *block(sums[1])];
    let pairs = factors[0].iter().zip(factors[1]);
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

/// Adds a bias: of floats row 0 of each of its tiles to all rows, of integers each to each.
pub(super) fn add_bias(output: &mut Tensor, bias: &Tensor, integers: bool) -> Result<(), String> {
    if bias.shape() != output.shape() {
        return Err(format!(
            "a bias of {:?} for {:?}",
            bias.shape(),
            output.shape()
        ));
    }
    for z in 0..output.t {
        for y in 0..output.height() {
            let from = if integers { y } else { y / TILE * TILE };
            add_scaled(output.row_mut(z, y), 1.0, bias.row(z, from));
        }
    }
    Ok(())
}

/// Each column of tiles by itself: out\[r, c\] is the sum over b of in0\[r, c + C b\] in1\[b, c\].
pub fn depthwise(a: &Tensor, b: &Tensor, bias: Option<&Tensor>) -> Result<Tensor, String> {
    if a.columns != b.rows * b.columns || b.t < a.t {
        return Err(format!(
            "cannot multiply {:?} by {:?}",
            a.shape(),
            b.shape()
        ));
    }
    let mut output = Tensor::zeros(a.t, a.rows, b.columns);
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
