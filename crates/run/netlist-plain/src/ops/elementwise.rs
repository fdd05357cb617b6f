//! Elementwise ops: binary ones, and unary ones of the special-function unit.

use super::{Fault, Faults, dropout};
use crate::error::failed;
use crate::tensor::{TILE, Tensor};
use tenon_base::Result;
use tenon_netlist::{AttributeKey as Key, Attributes, OpKind};

/// a + b.
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(a.try_clone()?.zip(b, |a, b| a + b))
}

/// a - b.
pub fn subtract(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(a.try_clone()?.zip(b, |a, b| a - b))
}

/// a * b; 0 if one of them is +0, also for infinity and NaN.
pub fn multiply(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(a.try_clone()?.zip(b, |a, b| {
        if a.to_bits() == 0 || b.to_bits() == 0 {
            0.0
        } else {
            a * b
        }
    }))
}

/// max(a, b).
pub fn maximum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    Ok(a.try_clone()?.zip(b, |a, b| if a > b { a } else { b }))
}

/// A unary op. The `vector` mode r computes rows 0 to 3 of each tile, c columns 0 to 15; the other
/// elements are those of `old`, or 0.
pub fn unary(
    kind: OpKind,
    attributes: &Attributes,
    input: &Tensor,
    vector: Option<&str>,
    old: Option<&Tensor>,
    faults: &mut Faults,
) -> Result<Tensor> {
    let is_excluded = |index: usize| match vector {
        Some("r") => index / input.width() % TILE >= 4,
        Some("c") => index % TILE >= 16,
        _ => false,
    };
    find_faults(kind, input)
        .filter(|fault| !is_excluded(fault.element))
        .for_each(|fault| faults.record(fault));
    let mut output = match kind {
        OpKind::Dropout => dropout(input, attributes.number(Key::P).unwrap_or(0.0))?,
        OpKind::Gelu | OpKind::GeluDerivative => input
            .try_clone()?
            .map(GELU_STEPS, function(kind, attributes)?),
        _ => input.try_clone()?.map(STEPS, function(kind, attributes)?),
    };
    if vector.is_some() {
        for (index, value) in output.values.iter_mut().enumerate() {
            if is_excluded(index) {
                *value = old.map_or(0.0, |old| old.values[index]);
            }
        }
    }
    Ok(output)
}

/// Cost per element of a special function, and of gelu in double precision, in additions.
const STEPS: usize = 32;
pub(super) const GELU_STEPS: usize = 128;

/// The elements of an input that the original reports as faults.
fn find_faults(kind: OpKind, input: &Tensor) -> impl Iterator<Item = Fault> + '_ {
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

fn function(kind: OpKind, attributes: &Attributes) -> Result<Function> {
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
        _ => return Err(failed(format!("{kind} is not an elementwise op"))),
    })
}

/// The fault of an element, in cases in which the original aborts.
fn fault(kind: OpKind, x: f32) -> Option<&'static str> {
    match kind {
        OpKind::Sqrt if x < 0.0 || x.is_nan() => Some("square root of a negative number"),
        OpKind::Reciprocal if x.is_nan() || 1.0 / x == f32::NEG_INFINITY && x != 0.0 => {
            Some("reciprocal of NaN or of a negative subnormal number")
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

/// The tanh approximation of gelu, in double precision.
pub(super) fn gelu(x: f32) -> f32 {
    let x = f64::from(x);
    (0.5 * x * (1.0 + cubic(x).tanh())) as f32
}

/// As in the original, a mix of the derivatives of the tanh and the erf form.
fn gelu_derivative(x: f32) -> f32 {
    let x = f64::from(x);
    let density = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    (0.5 * (1.0 + cubic(x).tanh()) + x * density) as f32
}

fn cubic(x: f64) -> f64 {
    (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)
}

/// ReLU. In mode min, values below the threshold become 0; in mode max, values are clamped to the
/// range from 0 to the threshold.
pub fn relu(tensor: Tensor, threshold: f32, max: bool) -> Tensor {
    let least = if max { 0.0 } else { threshold };
    tensor.map(1, |x| {
        if max && x >= threshold {
            threshold
        } else if x >= least {
            x
        } else {
            0.0
        }
    })
}
