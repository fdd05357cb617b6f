//! Activation functions, which fused operators select by an attribute.

use crate::elementary::{erf, exp, exp_m1, sigmoid, tanh};
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, numeric, scratch, unsupported_value,
};
use crate::lanes::{Lanes, MAXIMUM, SUM};
use crate::loop_nest::BLOCK;
use crate::number::{Number, WidenedArithmetic};
use crate::unary::{float, float_or_integer, map, transform};
use std::f64::consts::{FRAC_2_SQRT_PI, SQRT_2};
use tenon_base::{Result, vectorized};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("Relu", |node| {
        float_or_integer(node, |x| x.nan_max(0.0), |x| x.max(0))
    }),
    ("LeakyRelu", |node| {
        let alpha = number(node, "alpha", 0.01)?;
        float!(node, |x| if x < 0.0 { alpha * x } else { x })
    }),
    ("ThresholdedRelu", |node| {
        let alpha = number(node, "alpha", 1.0)?;
        float!(node, |x| if x > alpha { x } else { 0.0 })
    }),
    ("Elu", |node| {
        let alpha = number(node, "alpha", 1.0)?;
        float!(node, |x| if x < 0.0 { alpha * exp_m1(x) } else { x })
    }),
    ("Celu", |node| {
        let alpha = number(node, "alpha", 1.0)?;
        float!(node, |x| x.nan_max(0.0)
            + (alpha * exp_m1(x / alpha)).nan_min(0.0))
    }),
    ("Selu", |node| {
        let alpha = number(node, "alpha", 1.673_263_2)?;
        let gamma = number(node, "gamma", 1.050_701)?;
        float!(node, |x| gamma
            * if x > 0.0 { x } else { alpha * exp_m1(x) })
    }),
    ("Sigmoid", |node| float!(node, |x| sigmoid(x))),
    ("HardSigmoid", |node| {
        let (alpha, beta) = (number(node, "alpha", 0.2)?, number(node, "beta", 0.5)?);
        float!(node, |x| hard_sigmoid(x, alpha, beta))
    }),
    ("HardSwish", |node| float!(node, |x| hard_swish(x))),
    ("Swish", |node| {
        let alpha = number(node, "alpha", 1.0)?;
        float!(node, |x| x * sigmoid(alpha * x))
    }),
    ("Mish", |node| float!(node, |x| x * tanh(softplus(x)))),
    ("Gelu", |node| {
        match node.attributes.string("approximate", "none")? {
            "tanh" => float!(node, |x| gelu_tanh(x)),
            _ => float!(node, |x| gelu(x)),
        }
    }),
    ("Tanh", |node| float!(node, |x| tanh(x))),
    ("Softplus", |node| float!(node, |x| softplus(x))),
    ("Softsign", |node| float!(node, |x| x / (1.0 + x.abs()))),
    ("Shrink", shrink),
    ("Clip", clip),
    ("Softmax", |node| softmax(node, false)),
    ("LogSoftmax", |node| softmax(node, true)),
    ("Hardmax", hardmax),
];

/// A float attribute.
fn number(node: &Node<'_>, name: &str, default: f32) -> Result<f64> {
    Ok(node.attributes.float(name, default)?.into())
}

#[inline(always)]
fn hard_sigmoid(x: f64, alpha: f64, beta: f64) -> f64 {
    // Not clamp: NaN stays, and bounds in this order never panic.
    (alpha * x + beta).nan_max(0.0).nan_min(1.0)
}

#[inline(always)]
fn hard_swish(x: f64) -> f64 {
    x * hard_sigmoid(x, 1.0 / 6.0, 0.5)
}

pub(crate) fn softplus(x: f64) -> f64 {
    // log(1 + exp x) without overflow.
    x.max(0.0) + exp(-x.abs()).ln_1p()
}

#[inline(always)]
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x / SQRT_2))
}

#[inline(always)]
fn gelu_tanh(x: f64) -> f64 {
    // sqrt(2 / pi) is half of sqrt(2) times 2 / sqrt(pi).
    let inner = 0.5 * SQRT_2 * FRAC_2_SQRT_PI * (x + 0.044715 * x.powi(3));
    0.5 * x * (1.0 + tanh(inner))
}

/// The function that a fused operator applies to its result.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Activation {
    None,
    Relu,
    Clip(f64, f64),
    Sigmoid,
    Tanh,
    Silu,
    HardSwish,
    HardSigmoid(f64, f64),
    LeakyRelu(f64),
    Gelu,
    GeluTanh,
}

impl Activation {
    /// The activation of the attributes `activation`, `alpha` and `beta`.
    pub(crate) fn of(node: &Node<'_>) -> Result<Self, BuildError> {
        let (alpha, beta) = (number(node, "alpha", 0.0)?, number(node, "beta", 0.0)?);
        Ok(match node.attributes.string("activation", "none")? {
            "none" => Activation::None,
            "relu" => Activation::Relu,
            "clip" => Activation::Clip(alpha, beta),
            "sigmoid" => Activation::Sigmoid,
            "tanh" => Activation::Tanh,
            "silu" => Activation::Silu,
            "hardswish" => Activation::HardSwish,
            "hardsigmoid" => Activation::HardSigmoid(alpha, beta),
            "leakyrelu" => Activation::LeakyRelu(alpha),
            "gelu" => Activation::Gelu,
            "gelu_tanh" => Activation::GeluTanh,
            unknown => return Err(unsupported_value("activation", unknown)),
        })
    }

    pub(crate) fn apply(self, x: f64) -> f64 {
        match self {
            Activation::None => x,
            Activation::Relu => x.nan_max(0.0),
            Activation::Clip(min, max) => x.nan_max(min).nan_min(max),
            Activation::Sigmoid => sigmoid(x),
            Activation::Tanh => tanh(x),
            Activation::Silu => x * sigmoid(x),
            Activation::HardSwish => hard_swish(x),
            Activation::HardSigmoid(alpha, beta) => hard_sigmoid(x, alpha, beta),
            Activation::LeakyRelu(alpha) => {
                if x < 0.0 {
                    alpha * x
                } else {
                    x
                }
            }
            Activation::Gelu => gelu(x),
            Activation::GeluTanh => gelu_tanh(x),
        }
    }
}

fn shrink(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (lambd, bias) = (number(node, "lambd", 0.5)?, number(node, "bias", 0.0)?);
    let apply = move |x: f64| {
        if x < -lambd {
            x + bias
        } else if x > lambd {
            x - bias
        } else {
            0.0
        }
    };
    numeric!(node.dtype(0)?, 0, T => Ok(map(move |x: T| T::of_f64(apply(x.to_f64())))))
}

/// The bounds are read when executing: they need not be constants.
fn clip(node: &Node<'_>) -> Result<Kernel, BuildError> {
    numeric!(node.dtype(0)?, 0, T => Ok(Kernel::new(|operands| {
        let (inputs, mut outputs) = operands.split();
        let bound = |index, none: T| -> Result<T> {
            Ok(inputs.optional::<T>(index)?.and_then(|value| value.first().copied()).unwrap_or(none))
        };
        let (min, max) = (bound(1, T::LOWEST)?, bound(2, T::HIGHEST)?);
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        transform(from, to, |from| {
            // Where min is above max the result is max, as in NumPy; NaN stays NaN.
            let raised = if from < min { min } else { from };
            if raised > max { max } else { raised }
        });
        Ok(())
    })))
}

/// The lanes along the attribute `axis` of input 0.
fn lanes(node: &Node<'_>) -> Result<Lanes> {
    let shape = node.shape(0)?;
    let along = node.axis("axis", -1, shape.len())?;
    Ok(Lanes::new(shape, |axis| axis == along))
}

fn softmax(node: &Node<'_>, logarithm: bool) -> Result<Kernel, BuildError> {
    let lanes = lanes(node)?;
    let size = lanes.scratch(node.input(0)?.elements());
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let scratch = scratch(&mut outputs, size)?;
        lanes.map(from, to, scratch, if logarithm { log_softmax } else { exp_softmax });
        Ok(())
    })
    .with_scratch(size))
}

fn exp_softmax(values: &mut [f64]) {
    let max = MAXIMUM.of(values);
    vectorized!(for x in values.iter_mut() {
        *x = exp(*x - max);
    });
    let sum = SUM.of(values);
    vectorized!(for x in values.iter_mut() {
        *x /= sum;
    });
}

fn log_softmax(values: &mut [f64]) {
    let max = MAXIMUM.of(values);
    let mut sum = 0.0;
    for values in values.chunks(BLOCK) {
        let mut block = [0.0; BLOCK];
        let block = &mut block[..values.len()];
        vectorized!(for (to, &x) in block.iter_mut().zip(values) {
            *to = exp(x - max);
        });
        sum += SUM.of(block);
    }
    let logarithm = sum.ln();
    vectorized!(for x in values.iter_mut() {
        *x = *x - max - logarithm;
    });
}

fn hardmax(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let lanes = lanes(node)?;
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        to.fill(T::default());
        lanes.starts.for_each(|[_, start]| {
            let mut best = start;
            lanes.lane.for_each(|[at]| {
                if from[start + at] > from[best] {
                    best = start + at;
                }
            });
            to[best] = T::of_f64(1.0);
        });
        Ok(())
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_magnitudes_do_not_overflow() {
        assert_eq!(softplus(1000.0), 1000.0);
        assert_eq!(softplus(-1000.0), 0.0);
        assert_eq!(sigmoid(-1000.0), 0.0);
        assert!((gelu_tanh(1.0) - 0.841_192).abs() < 1e-6);
        assert!((gelu(1.0) - 0.841_345).abs() < 1e-6);
        assert!(hard_sigmoid(f64::NAN, 1.0, 0.0).is_nan());
    }
}
