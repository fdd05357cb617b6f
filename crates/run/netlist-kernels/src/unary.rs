//! Elementwise (unary) ops (netlist 3.1), executed by a backend where it has the operator.

use super::attributes::{flag, number_or, size_or, text_or_empty, wrong};
use super::backend::Elementwise;
use super::op::{Compute, tensor_kernel};
use super::tensor::{TileTensor, for_each_chunk, map, same_shape, wrong_shape, zip};
use tenon_base::{Error, ErrorKind, Result};
use tenon_executor::{KernelDef, Site};

/// The divisor in place of 0: 2^-23.
const EPSILON: f32 = f32::EPSILON;

pub(super) fn kernels() -> Vec<KernelDef> {
    let doc = "Applies the elementwise function of its name.";
    let names = [
        "netlist.exp",
        "netlist.log",
        "netlist.sqrt",
        "netlist.reciprocal",
        "netlist.sigmoid",
        "netlist.tanh",
        "netlist.sine",
        "netlist.cosine",
        "netlist.abs",
        "netlist.square",
        "netlist.gelu",
        "netlist.gelu_derivative",
        "netlist.lrelu",
        "netlist.power",
        "netlist.dropout",
    ];
    let functions = names.map(|name| {
        let function = name.trim_start_matches("netlist.");
        tensor_kernel(name, 1, move |site| bind(site, function)).doc(doc)
    });
    let relu = tensor_kernel("netlist.relu", 1, bind_relu).doc(
        "min: elements below the threshold are 0. max: elements are clamped to 0 and the \
         threshold.",
    );
    functions.into_iter().chain([relu]).collect()
}

fn bind(site: &Site<'_>, function: &'static str) -> Result<Compute> {
    let function = function_of(site, function)?;
    let part = match text_or_empty(site.attributes(), "vector")? {
        "" | "rc" => return Ok(Box::new(move |operands| function(operands[0]))),
        "r" => VectorPart::Rows,
        "c" => VectorPart::Columns,
        other => return Err(wrong("vector", "r, c or rc").found(other)),
    };
    let keeps_old = flag(site.attributes(), "keeps")?;
    Ok(Box::new(move |operands| {
        let computed = function(operands[0])?;
        match (keeps_old, operands.last()) {
            (true, Some(old)) => merged(&computed, Some(old), part),
            _ => merged(&computed, None, part),
        }
    }))
}

/// The part of a tile that the special-function unit computes (netlist 3.2, `vector`).
#[derive(Clone, Copy, PartialEq)]
enum VectorPart {
    /// Rows 0 to 3.
    Rows,
    /// Columns 0 to 15.
    Columns,
}

/// The computed part of each tile; the rest is from `old`, else 0.
fn merged(computed: &TileTensor, old: Option<&TileTensor>, part: VectorPart) -> Result<TileTensor> {
    if let Some(old) = old {
        same_shape(computed, old)?;
    }
    let [height, width] = computed.tile();
    let line = computed.shape()[2];
    let (values, old) = (computed.values(), old.map(TileTensor::values));
    TileTensor::build(computed.tiles(), computed.tile(), |to| {
        for_each_chunk(to, line, |y, to| {
            if let Some(old) = old {
                to.copy_from_slice(&old[y * line..][..line]);
            }
            let values = &values[y * line..][..line];
            match part {
                VectorPart::Rows if y % height < 4 => to.copy_from_slice(values),
                VectorPart::Rows => {}
                VectorPart::Columns => {
                    let tiles = to.chunks_mut(width).zip(values.chunks(width));
                    let count = width.min(16);
                    tiles.for_each(|(to, from)| to[..count].copy_from_slice(&from[..count]));
                }
            }
        });
        Ok(())
    })
}

type UnaryFunction = Box<dyn Fn(&TileTensor) -> Result<TileTensor> + Send + Sync>;

/// The elementwise function `name`, on all elements.
fn function_of(site: &Site<'_>, name: &'static str) -> Result<UnaryFunction> {
    let attributes = site.attributes();
    let backend = |operator: &str| Elementwise::new(site, operator);
    Ok(match name {
        "exp" => {
            let exp = backend("Exp")?;
            Box::new(move |a| finite(exp.run(a)?))
        }
        "sigmoid" => {
            let sigmoid = backend("Sigmoid")?;
            Box::new(move |a| sigmoid.run(a))
        }
        "tanh" => {
            let tanh = backend("Tanh")?;
            Box::new(move |a| tanh.run(a))
        }
        "gelu" => {
            let gelu = Elementwise::gelu(site)?;
            Box::new(move |a| gelu.run(a))
        }
        "gelu_derivative" => {
            let (exp, tanh) = (backend("Exp")?, backend("Tanh")?);
            Box::new(move |a| gelu_derivative(a, &exp, &tanh))
        }
        "log" => Box::new(|a| map(a, |x| if x == 0.0 { EPSILON.ln() } else { x.ln() })),
        "sqrt" => Box::new(|a| map(a, f32::sqrt)),
        "reciprocal" => Box::new(|a| map(a, reciprocal)),
        "sine" => Box::new(|a| map(a, f32::sin)),
        "cosine" => Box::new(|a| map(a, f32::cos)),
        "abs" => Box::new(|a| map(a, f32::abs)),
        "square" => Box::new(|a| map(a, |x| x * x)),
        "lrelu" => {
            let slope = number_or(attributes, "slope", 0.01)?;
            Box::new(move |a| map(a, |x| if x > 0.0 { x } else { slope * x }))
        }
        "power" => {
            let exponent = u32::try_from(size_or(attributes, "exp", 0)?)
                .ok()
                .filter(|&exponent| exponent <= 1024);
            let exponent = exponent.ok_or_else(|| wrong("exp", "at most 1024"))?;
            Box::new(move |a| map(a, |x| (0..exponent).fold(1.0, |all, _| all * x)))
        }
        "dropout" => {
            let p = f64::from(number_or(attributes, "p", 0.0)?);
            Box::new(move |a| dropout(a, p))
        }
        _ => {
            let text = format!("no elementwise function '{name}'");
            return Err(Error::new(ErrorKind::Internal, text));
        }
    })
}

/// Replaces infinity by the largest finite value.
fn finite(a: TileTensor) -> Result<TileTensor> {
    if a.values().contains(&f32::INFINITY) {
        map(&a, |y| y.min(f32::MAX))
    } else {
        Ok(a)
    }
}

/// The reciprocal; that of 0 is the reciprocal of the machine epsilon (netlist 3.1).
fn reciprocal(x: f32) -> f32 {
    1.0 / if x == 0.0 { EPSILON } else { x }
}

/// A term of the derivative of gelu's tanh form and a term of the exact one's, as in the original:
/// `(1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 + x exp(-x^2 / 2) / sqrt(2 pi)` (netlist 3.1).
fn gelu_derivative(a: &TileTensor, exp: &Elementwise, tanh: &Elementwise) -> Result<TileTensor> {
    const ROOT: f32 = 0.797_884_6;
    const DENSITY: f32 = 0.398_942_3;
    let tanh = tanh.run(&map(a, |x| ROOT * (x + 0.044715 * x * x * x))?)?;
    let exp = exp.run(&map(a, |x| -0.5 * x * x)?)?;
    let part = zip(a, &exp, |x, exp| x * DENSITY * exp)?;
    zip(&tanh, &part, |tanh, part| 0.5 + 0.5 * tanh + part)
}

/// Sets elements to 0 with probability `p` and scales the others; every tile has the same mask
/// (netlist 3.1).
fn dropout(a: &TileTensor, p: f64) -> Result<TileTensor> {
    if !(0.0..=1.0).contains(&p) {
        return Err(wrong_shape("the probability of a dropout is not in 0 to 1").found(p));
    }
    let scale = if p == 1.0 {
        1.0
    } else {
        1.0 / (1.0 - p as f32)
    };
    let [height, width] = a.tile();
    let mut random = super::mersenne::Mersenne::new(super::mersenne::DEFAULT_SEED);
    let mask: Vec<bool> = (0..height * width).map(|_| random.unit() < p).collect();
    let (values, line) = (a.values(), a.shape()[2]);
    TileTensor::build(a.tiles(), a.tile(), |to| {
        for_each_chunk(to, line, |y, to| {
            let values = &values[y * line..][..line];
            for (x, (to, &value)) in to.iter_mut().zip(values).enumerate() {
                let zero = mask[y % height * width + x % width];
                *to = if zero { 0.0 } else { value * scale };
            }
        });
        Ok(())
    })
}

fn bind_relu(site: &Site<'_>) -> Result<Compute> {
    let threshold = number_or(site.attributes(), "threshold", 0.0)?;
    let max = match site.attributes().string("mode")? {
        "min" => false,
        "max" => true,
        other => return Err(wrong("mode", "min or max").found(other)),
    };
    Ok(Box::new(move |operands| {
        map(operands[0], |x| {
            if x >= threshold {
                if max { threshold } else { x }
            } else if max && x >= 0.0 {
                x
            } else {
                0.0
            }
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_has_a_large_reciprocal() {
        assert_eq!(reciprocal(0.0), 8_388_608.0);
        assert_eq!(reciprocal(-0.0), 8_388_608.0);
        assert_eq!(reciprocal(4.0), 0.25);
    }
}
