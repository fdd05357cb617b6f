//! Element by element: two inputs, or one on the special-function unit.

use super::{Fault, dropout};
use crate::tensor::{TILE, Tensor};
use tenon_netlist::{AttributeKey as Key, Attributes, OpKind};

/// a + b.
pub fn add(a: &Tensor, b: &Tensor) -> Tensor {
    a.clone().zip(b, |a, b| a + b)
}

/// a - b.
pub fn subtract(a: &Tensor, b: &Tensor) -> Tensor {
    a.clone().zip(b, |a, b| a - b)
}

/// a * b, and exactly 0 where one of them is +0, whatever the other.
pub fn multiply(a: &Tensor, b: &Tensor) -> Tensor {
    a.clone()
        .zip(b, |a, b| match a.to_bits() == 0 || b.to_bits() == 0 {
            true => 0.0,
            false => a * b,
        })
}

/// The larger of two.
pub fn maximum(a: &Tensor, b: &Tensor) -> Tensor {
    a.clone().zip(b, |a, b| if a > b { a } else { b })
}

/// A unary op. `vector` r computes rows 0 to 3 of each tile, c columns 0 to 15; the rest is `old`,
/// or 0.
pub fn unary(
    kind: OpKind,
    attributes: &Attributes,
    input: &Tensor,
    vector: Option<&str>,
    old: Option<&Tensor>,
    faults: &mut Vec<Fault>,
) -> Result<Tensor, String> {
    let left_out = |index: usize| match vector {
        Some("r") => index / input.width() % TILE >= 4,
        Some("c") => index % TILE >= 16,
        _ => false,
    };
    faults.extend(found(kind, input).filter(|fault| !left_out(fault.element)));
    let mut output = match kind {
        OpKind::Dropout => dropout(input, attributes.number(Key::P).unwrap_or(0.0))?,
        OpKind::Gelu | OpKind::GeluDerivative => {
            input.clone().map(GELU_STEPS, function(kind, attributes)?)
        }
        _ => input.clone().map(STEPS, function(kind, attributes)?),
    };
    if vector.is_some() {
        for (index, value) in output.values.iter_mut().enumerate() {
            if left_out(index) {
                *value = old.map_or(0.0, |old| old.values[index]);
            }
        }
    }
    Ok(output)
}

/// What a special function costs an element, in additions; a gelu in double precision.
const STEPS: usize = 32;
pub(super) const GELU_STEPS: usize = 128;

/// The elements of an input that the original gives up on.
fn found(kind: OpKind, input: &Tensor) -> impl Iterator<Item = Fault> + '_ {
    let values: &[f32] = match kind {
        OpKind::Sqrt | OpKind::Reciprocal => &input.values,
        _ => &[],
    };
    values
        .iter()
        .enumerate()
        .filter_map(move |(element, &value)| {
            fault(kind, value).map(|what| Fault {
                what,
                element,
                value,
            })
        })
}

type Function = Box<dyn Fn(f32) -> f32 + Sync>;

fn function(kind: OpKind, attributes: &Attributes) -> Result<Function, String> {
    Ok(match kind {
        OpKind::Exp => Box::new(exp),
        OpKind::Log => Box::new(log),
        OpKind::Sqrt => Box::new(f32::sqrt),
        OpKind::Reciprocal => Box::new(reciprocal),
        OpKind::Sigmoid => Box::new(sigmoid),
        OpKind::Tanh => Box::new(f32::tanh),
        OpKind::Sine => Box::new(f32::sin),
        OpKind::Cosine => Box::new(f32::cos),
        OpKind::Abs => Box::new(f32::abs),
        OpKind::Square => Box::new(|x| x * x),
        OpKind::Gelu => Box::new(gelu),
        OpKind::GeluDerivative => Box::new(gelu_derivative),
        OpKind::Lrelu => {
            let slope = attributes.number(Key::Slope).unwrap_or(0.01) as f32;
            Box::new(move |x| if x > 0.0 { x } else { slope * x })
        }
        OpKind::Power => {
            let exponent = attributes.integer(Key::Exp).clamp(0, 1 << 16);
            Box::new(move |x| (0..exponent).fold(1.0, |product, _| product * x))
        }
        _ => return Err(format!("type {kind} is not computed element by element")),
    })
}

/// What is wrong with an element, where the original gives up.
fn fault(kind: OpKind, x: f32) -> Option<&'static str> {
    match kind {
        OpKind::Sqrt if x < 0.0 || x.is_nan() => Some("square root of a negative number"),
        OpKind::Reciprocal if x.is_nan() || 1.0 / x == f32::NEG_INFINITY && x != 0.0 => {
            Some("reciprocal of no number")
        }
        _ => None,
    }
}

fn exp(x: f32) -> f32 {
    x.exp().min(f32::MAX)
}

fn log(x: f32) -> f32 {
    if x == 0.0 { f32::EPSILON.ln() } else { x.ln() }
}

fn reciprocal(x: f32) -> f32 {
    1.0 / if x == 0.0 { f32::EPSILON } else { x }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The tanh form, in double precision.
pub(super) fn gelu(x: f32) -> f32 {
    let x = f64::from(x);
    (0.5 * x * (1.0 + cubic(x).tanh())) as f32
}

/// Half of it is of the tanh form, half of the erf form, as in the original.
fn gelu_derivative(x: f32) -> f32 {
    let x = f64::from(x);
    let density = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    (0.5 * (1.0 + cubic(x).tanh()) + x * density) as f32
}

fn cubic(x: f64) -> f64 {
    (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)
}

/// Zero below the threshold; cut at the threshold and at zero where `max` says so.
pub fn relu(tensor: Tensor, threshold: f32, max: bool) -> Tensor {
    tensor.map(1, |x| match max {
        true if x >= threshold => threshold,
        true if x >= 0.0 => x,
        false if x >= threshold => x,
        _ => 0.0,
    })
}
