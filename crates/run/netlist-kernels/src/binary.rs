//! Elementwise (binary) ops on two tensors (netlist 3.1).

use super::attributes::number_or;
use super::moved_operand::MovedOperand;
use super::op::{Compute, tensor_kernel};
use super::tensor::{TileTensor, added_to, map, wrong_shape, zip};
use tenon_base::Result;
use tenon_executor::{KernelDef, Site};

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        plain("netlist.add", |a, b| a + b).doc("a + b."),
        plain("netlist.subtract", |a, b| a - b).doc("a - b."),
        plain("netlist.multiply", product)
            .doc("a * b; 0 where either is 0, even if the other is infinite."),
        plain("netlist.maximum", |a, b| if a < b { b } else { a }).doc("The larger."),
        tensor_kernel("netlist.accumulate", 2, |_| Ok(Box::new(accumulated)))
            .doc("A sum of netlist.sum plus the new gradient."),
        tensor_kernel("netlist.quantization", 2, bind_to_int8)
            .doc("a * b + zero_point, rounded to Int8."),
        tensor_kernel("netlist.requantization", 2, bind_to_int8)
            .doc("a * b + zero_point, rounded to Int8."),
        tensor_kernel("netlist.dequantization", 2, bind_to_float).doc("(a - zero_point) * b."),
    ]
}

fn accumulated(operands: &[&TileTensor]) -> Result<TileTensor> {
    let (sum, new) = two(operands)?;
    added_to(sum.non_empty(), new.clone())
}

/// A kernel of two operands; each function is compiled into a vectorised loop.
fn plain(
    name: &'static str,
    combine: impl Fn(f32, f32) -> f32 + Copy + Send + Sync + 'static,
) -> KernelDef {
    tensor_kernel(name, 2, move |site| bind(site, combine))
}

/// One of the operands may be read through its TMs.
fn bind(
    site: &Site<'_>,
    combine: impl Fn(f32, f32) -> f32 + Copy + Send + Sync + 'static,
) -> Result<Compute> {
    let moved = MovedOperand::of(site.attributes())?;
    Ok(Box::new(move |operands| {
        let (a, b) = two(operands)?;
        match &moved {
            None => zip(a, b, combine),
            Some((0, moved)) => moved.zip(b, a, |b, a| combine(a, b)),
            Some((_, moved)) => moved.zip(a, b, combine),
        }
    }))
}

/// Exactly 0 if either operand is 0 (netlist 3.1).
fn product(a: f32, b: f32) -> f32 {
    if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
}

fn bind_to_int8(site: &Site<'_>) -> Result<Compute> {
    let zero_point = number_or(site.attributes(), "zero_point", 0.0)?;
    bind(site, move |a, scale| int8(a * scale + zero_point))
}

fn bind_to_float(site: &Site<'_>) -> Result<Compute> {
    let zero_point = number_or(site.attributes(), "zero_point", 0.0)?;
    bind(site, move |a, scale| (a - zero_point) * scale)
}

/// Rounds halves away from zero, then clamps (netlist 5.1).
pub(super) fn int8(value: f32) -> f32 {
    value.round().clamp(-127.0, 127.0)
}

/// All elements, rounded to Int8.
pub(super) fn to_int8(a: &TileTensor) -> Result<TileTensor> {
    map(a, int8)
}

fn two<'a>(operands: &[&'a TileTensor]) -> Result<(&'a TileTensor, &'a TileTensor)> {
    match operands {
        [a, b] => Ok((a, b)),
        _ => Err(wrong_shape("an elementwise op requires two operands").found(operands.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_times_infinity_is_zero() {
        assert_eq!(product(0.0, f32::INFINITY), 0.0);
        assert_eq!(product(f32::NAN, 0.0), 0.0);
        assert_eq!(product(-2.0, 3.0), -6.0);
    }

    #[test]
    fn int8_rounds_halves_away_from_zero() {
        let values = [0.5, -0.5, 1.49, 126.5, 200.0, -200.0];
        assert_eq!(values.map(int8), [1.0, -1.0, 1.0, 127.0, 127.0, -127.0]);
    }
}
