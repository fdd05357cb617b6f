//! Products of matrices, and channel by channel.

use super::elements::gelu;
use super::quantise::{dequantization, requantization};
use crate::tensor::{TILE, Tensor};
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
pub fn matmul(product: &Product, inputs: &[Tensor]) -> Result<Tensor, String> {
    let input = |index: usize| inputs.get(index).ok_or(format!("input {index} is missing"));
    let (a, b) = (input(0)?, input(1)?);
    if a.columns != b.rows || b.t < a.t || a.t % product.groups != 0 {
        return Err(format!(
            "cannot multiply {:?} by {:?}",
            a.shape(),
            b.shape()
        ));
    }
    let mut output = Tensor::zeros(a.t / product.groups, a.rows, b.columns);
    for z in 0..a.t {
        // A tile's height of b at a time, so that it is still near when the next row needs it.
        for start in (0..b.height()).step_by(TILE) {
            for y in 0..a.height() {
                let line = output.row_mut(z / product.groups, y);
                let factors = &a.row(z, y)[start..start + TILE];
                for (step, factors) in factors.as_chunks().0.iter().enumerate() {
                    let k = start + 4 * step;
                    add_four_scaled(line, factors, [0, 1, 2, 3].map(|next| b.row(z, k + next)));
                }
            }
        }
    }
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
        true => output.map(gelu),
        false => output,
    })
}

/// sum += factor * line.
pub(super) fn add_scaled(sum: &mut [f32], factor: f32, line: &[f32]) {
    for (sum, value) in sum.iter_mut().zip(line) {
        *sum += factor * value;
    }
}

/// The same four times, one after the other.
fn add_four_scaled(sum: &mut [f32], factors: &[f32; 4], [a, b, c, d]: [&[f32]; 4]) {
    let lines = a.iter().zip(b).zip(c).zip(d);
    for (sum, (((a, b), c), d)) in sum.iter_mut().zip(lines) {
        *sum = *sum + factors[0] * a + factors[1] * b + factors[2] * c + factors[3] * d;
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
