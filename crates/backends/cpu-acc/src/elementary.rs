//! Elementary functions on slices of f32, as plain loops that the compiler vectorises for each level.
//!
//! Range reductions are those of Cody and Waite ("Software Manual for the Elementary Functions",
//! 1980); the polynomials are minimax fits (iterated weighted least squares on Chebyshev nodes),
//! evaluated by Horner's rule. Most functions are computed in f64, where the polynomials' error is
//! below 1e-8, so that a result is within 1 ulp; logarithm and inverse trigonometric functions are
//! computed in f32, within 2 ulp. NaN stays NaN.

mod circular;
mod exponential;
mod polynomial;

use crate::simd::Simd;
use circular::{arc, atan, circular, tangent};
use exponential::{exp, exp_m1, log, log1p};
pub(crate) use exponential::{power, power_of};
pub(crate) use polynomial::TO_INTEGER;
use polynomial::polynomial;
use std::f32::consts::{FRAC_PI_2, PI};

/// Replaces each element `$x` by `$function`. A macro: the body of a closure would be compiled without
/// the instructions of a [`Simd`]. A function that is `x` itself for some elements is compiled to a branch around
/// the store: such are functions of vectors ([`UnaryFunction`](crate::simd::math::UnaryFunction)).
macro_rules! each {
    ($elements:ident, |$x:ident| $function:expr) => {
        for element in $elements.iter_mut() {
            let $x = *element;
            *element = $function;
        }
    };
}
use each;

/// A function of one operand, with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Elementary {
    Log,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Asinh,
    Acosh,
    Atanh,
    Softplus,
    /// `x / (1 + |x|)`.
    Softsign,
    /// `x + bias` below `-limit`, `x - bias` above `limit`, else 0.
    Shrink {
        limit: f32,
        bias: f32,
    },
    /// `max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)`.
    Celu {
        alpha: f32,
    },
    /// `gamma * x` where `x` is positive, else `gamma * alpha * (exp(x) - 1)`.
    Selu {
        alpha: f32,
        gamma: f32,
    },
}

impl Elementary {
    /// Applies the function to each element.
    #[inline(always)]
    pub(crate) fn apply<S: Simd>(self, simd: S, elements: &mut [f32]) {
        match self {
            Elementary::Log => each!(elements, |x| log(simd, x)),
            Elementary::Sin => circular(simd, elements, 0),
            Elementary::Cos => circular(simd, elements, 1),
            Elementary::Tan => tangent(simd, elements),
            Elementary::Asin => each!(elements, |x| {
                let (folded, p) = arc(simd, x.abs());
                let magnitude = if folded { FRAC_PI_2 - 2.0 * p } else { p };
                magnitude.copysign(x)
            }),
            Elementary::Acos => each!(elements, |x| {
                let (folded, p) = arc(simd, x.abs());
                let far = if x < 0.0 { PI - 2.0 * p } else { 2.0 * p };
                let near = FRAC_PI_2 - p.copysign(x);
                if folded { far } else { near }
            }),
            Elementary::Atan => each!(elements, |x| atan(simd, x)),
            Elementary::Sinh => each!(elements, |x| {
                let a = f64::from(x.abs());
                let e = exp(simd, a);
                let far = 0.5 * (e - 1.0 / e);
                let z = a * a;
                // The series, where the difference cancels.
                let near = a * polynomial(
                    simd,
                    z,
                    [1.0, 1.0 / 6.0, 1.0 / 120.0, 1.0 / 5040.0, 1.0 / 362_880.0],
                );
                (if a < 1.0 { near } else { far } as f32).copysign(x)
            }),
            Elementary::Cosh => each!(elements, |x| {
                let e = exp(simd, f64::from(x.abs()));
                (0.5 * (e + 1.0 / e)) as f32
            }),
            Elementary::Asinh => each!(elements, |x| {
                let a = f64::from(x.abs());
                let z = a * a;
                let y = log1p(simd, a + z / (1.0 + (z + 1.0).sqrt()));
                (if a < f64::INFINITY { y } else { a } as f32).copysign(x)
            }),
            Elementary::Acosh => each!(elements, |x| {
                let above = f64::from(x) - 1.0;
                let y = log1p(simd, above + (above * (above + 2.0)).sqrt()) as f32;
                if x < 1.0 { f32::NAN } else { y }
            }),
            Elementary::Atanh => each!(elements, |x| {
                let a = f64::from(x.abs());
                let y = 0.5 * log1p(simd, 2.0 * a / (1.0 - a));
                (if a > 1.0 { f64::NAN } else { y } as f32).copysign(x)
            }),
            Elementary::Softplus => each!(elements, |x| {
                let x = f64::from(x);
                let positive = if x < 0.0 { 0.0 } else { x };
                (positive + log1p(simd, exp(simd, -x.abs()))) as f32
            }),
            Elementary::Softsign => each!(elements, |x| x / (1.0 + x.abs())),
            Elementary::Shrink { limit, bias } => each!(elements, |x| {
                let above = if x > limit { x - bias } else { 0.0 };
                if x < -limit { x + bias } else { above }
            }),
            Elementary::Celu { alpha } => {
                let (alpha, inverse) = (f64::from(alpha), 1.0 / f64::from(alpha));
                each!(elements, |x| {
                    let x = f64::from(x);
                    let signed = alpha * exp_m1(simd, x * inverse);
                    let below = if signed > 0.0 { 0.0 } else { signed };
                    (if x < 0.0 { 0.0 } else { x } + below) as f32
                });
            }
            Elementary::Selu { alpha, gamma } => {
                let (alpha, gamma) = (f64::from(alpha), f64::from(gamma));
                each!(elements, |x| {
                    let x = f64::from(x);
                    let below = alpha * exp_m1(simd, x);
                    (gamma * if x > 0.0 { x } else { below }) as f32
                });
            }
        }
    }
}
