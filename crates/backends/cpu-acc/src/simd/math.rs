//! Elementwise functions on vectors: exp with Cody–Waite range reduction (Cody and Waite, "Software
//! Manual for the Elementary Functions", 1980), and the activations built on it. Relative errors are
//! below 3e-7 unless stated otherwise; NaN stays NaN.
//!
//! The polynomials are minimax fits (iterated weighted least squares on Chebyshev nodes) of the
//! functions in the comments above them, evaluated by Horner's rule.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::unrolled::Unrolled;
use super::{Arithmetic, Simd};

/// Vectors of which the chains of instructions of a function are interleaved.
pub(crate) const INTERLEAVED: usize = 4;

/// An elementwise function of one operand, with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum UnaryFunction {
    Abs,
    Neg,
    Sqrt,
    Reciprocal,
    Round,
    Floor,
    Ceil,
    Exp,
    Erf,
    Tanh,
    Sigmoid,
    /// `min(max(x, low), high)`.
    Clamp {
        low: f32,
        high: f32,
    },
    /// `min(max(alpha * x + beta, 0), 1)`.
    HardSigmoid {
        alpha: f32,
        beta: f32,
    },
    /// `x * hardsigmoid(x)` with alpha 1/6, beta 1/2.
    HardSwish,
    /// `x` where positive, else `alpha * x`.
    LeakyRelu {
        alpha: f32,
    },
    /// `x` above `alpha`, else 0.
    ThresholdedRelu {
        alpha: f32,
    },
    /// -1, 1, or `x` where it is 0 or NaN.
    Sign,
    /// `x` where positive, else `alpha * (exp(x) - 1)`.
    Elu {
        alpha: f32,
    },
    /// `x * sigmoid(alpha * x)`.
    Swish {
        alpha: f32,
    },
    /// `x * tanh(ln(1 + exp(x)))`.
    Mish,
    /// `x / 2 * (1 + erf(x / sqrt 2))`.
    Gelu,
    /// The approximation of Gelu by tanh.
    GeluTanh,
}

/// `c[0] + c[1] x + c[2] x^2 + ...`, by Horner's rule.
#[inline(always)]
fn polynomial<S: Arithmetic, const N: usize>(s: S, x: S::V, coefficients: [f32; N]) -> S::V {
    let mut sum = s.splat(coefficients[N - 1]);
    for &c in coefficients[..N - 1].iter().rev() {
        sum = s.fma(sum, x, s.splat(c));
    }
    sum
}

/// 1.5 * 2^23: the sum with a magnitude below 2^22 is rounded to an integer.
const TO_INTEGER: f32 = 12_582_912.0;

/// `e^x`; infinite above 88.73, subnormal below -87.3, then zero.
#[inline(always)]
pub(crate) fn exp<S: Arithmetic>(s: S, x: S::V) -> S::V {
    let x = s.min(s.splat(89.0), s.max(s.splat(-105.0), x));
    let (power, n) = exp_parts(s, x);
    s.scale2(power, n)
}

/// `e^x` for `x` up to 0 and NaN; zero below -87.7.
#[inline(always)]
pub(crate) fn exp_nonpositive<S: Arithmetic>(s: S, x: S::V) -> S::V {
    // Of -88, `n` is -127, and `2^n` the float without exponent bits, 0.
    let (power, n) = exp_parts(s, s.max(s.splat(-88.0), x));
    s.mul(power, s.power2(n))
}

/// `e^r` and `n` of `x = n ln 2 + r` with `|r| <= ln 2 / 2`.
#[inline(always)]
fn exp_parts<S: Arithmetic>(s: S, x: S::V) -> (S::V, S::V) {
    // Cody–Waite range reduction: ln 2 is the sum of two constants, and n times the first, 355/512, is exact.
    let shift = s.splat(TO_INTEGER);
    let n = s.sub(s.fma(x, s.splat(std::f32::consts::LOG2_E), shift), shift);
    let r = s.fma(n, s.splat(-355.0 / 512.0), x);
    let r = s.staged(s.fma(n, s.splat(2.121_944_4e-4), r));
    let power = polynomial(
        s,
        r,
        [
            1.0,
            1.0,
            0.499_999_93,
            0.166_665_2,
            0.041_668_405,
            0.008_368_9,
            0.001_381_42,
        ],
    );
    (s.staged(power), n)
}

/// `1 / (1 + e^-x)`
#[inline(always)]
pub(crate) fn sigmoid<S: Arithmetic>(s: S, x: S::V) -> S::V {
    let one = s.splat(1.0);
    let sum = s.add(one, exp(s, s.sub(s.splat(0.0), x)));
    s.div(one, s.staged(sum))
}

/// The hyperbolic tangent, as the ratio of two polynomials in `x^2`; 1 from 9.01 on.
#[inline(always)]
pub(crate) fn tanh<S: Arithmetic>(s: S, x: S::V) -> S::V {
    let (one, magnitude) = (s.splat(1.0), s.abs(x));
    let square = s.mul(x, x);
    // tanh(x) / x for |x| <= 9.01, to 2.1e-8.
    let over = polynomial(
        s,
        square,
        [
            1.0,
            0.133_803_6,
            0.003_494_797_5,
            2.059_605_3e-5,
            1.333_655_3e-8,
        ],
    );
    let under = polynomial(
        s,
        square,
        [
            1.0,
            0.467_136_77,
            0.025_873_976,
            0.000_328_434_1,
            7.769_159e-7,
        ],
    );
    let near = s.min(
        one,
        s.div(s.mul(magnitude, s.staged(over)), s.staged(under)),
    );
    let is_far = s.less(s.splat(9.01), magnitude);
    s.copysign(s.select(is_far, one, near), x)
}

/// The error function.
#[inline(always)]
pub(crate) fn erf<S: Arithmetic>(s: S, x: S::V) -> S::V {
    let magnitude = s.abs(x);
    // erf(x) / x as a polynomial in x^2, for |x| <= 1.
    let near = polynomial(
        s,
        s.mul(x, x),
        [
            std::f32::consts::FRAC_2_SQRT_PI,
            -0.376_126_26,
            0.112_835_854,
            -0.026_853_813,
            0.005_188_327_7,
            -0.000_801_019_35,
            0.000_078_538_6,
        ],
    );
    let near = s.mul(near, magnitude);
    // -ln(1 - erf(x)) for 0.95 <= x <= 4; beyond, erf is 1 in this precision.
    let bounded = s.min(s.splat(4.0), magnitude);
    let far = polynomial(
        s,
        bounded,
        [
            -0.000_183_442_84,
            1.129_556_8,
            0.633_262_63,
            0.108_372_465,
            -0.025_178_958,
            0.004_193_607,
            -0.000_439_105_5,
            0.000_021_496_037,
        ],
    );
    let far = s.sub(s.splat(1.0), exp(s, s.sub(s.splat(0.0), far)));
    let small = s.less(magnitude, s.splat(1.0));
    let result = s.select(small, near, far);
    s.copysign(result, x)
}

/// `integer`, which is `x` rounded, with the sign of `x`; `x` itself where it is too large to have a
/// fraction.
#[inline(always)]
fn to_integer<S: Arithmetic>(s: S, x: S::V, integer: S::V) -> S::V {
    let fractional = s.less(s.abs(x), s.splat(8_388_608.0));
    s.select(fractional, s.copysign(integer, x), x)
}

/// Applies `function` to `len` elements at `from` and writes the results to `to`.
///
/// # Safety
/// `from` is valid for reading and `to` for writing `len` elements; they are equal or do not overlap.
#[inline(always)]
pub(super) unsafe fn map_unary<S: Simd>(
    s: S,
    function: UnaryFunction,
    from: *const f32,
    to: *mut f32,
    len: usize,
) {
    // A macro: the body of a closure would be compiled without the instructions of `S`.
    macro_rules! each {
        (|$s:ident, $x:ident| $function:expr) => {{
            let mut at = 0;
            let $s = Unrolled::<S, INTERLEAVED>(s);
            while at + INTERLEAVED * S::LANES <= len {
                // SAFETY: the caller guarantees `len` elements, of which these vectors remain from `at` on.
                let $x = unsafe { $s.load_ptr(from.add(at)) };
                let y = $function;
                // SAFETY: as many of the `len` writable elements at `to` remain from `at` on.
                unsafe { $s.store_ptr(y, to.add(at)) };
                at += INTERLEAVED * S::LANES;
            }
            let $s = s;
            while at + S::LANES <= len {
                // SAFETY: the caller guarantees `len` elements, of which `LANES` remain from `at` on.
                let $x = unsafe { $s.load_ptr(from.add(at)) };
                let y = $function;
                // SAFETY: `LANES` of the `len` writable elements at `to` remain from `at` on.
                unsafe { $s.store_ptr(y, to.add(at)) };
                at += S::LANES;
            }
            if at < len {
                let count = len - at;
                // SAFETY: `count` of the `len` elements remain from `at` on, fewer than `LANES`.
                let $x = unsafe { $s.load_part_ptr(from.add(at), count) };
                let y = $function;
                // SAFETY: `count` of the `len` writable elements at `to` remain from `at` on.
                unsafe { $s.store_part_ptr(y, to.add(at), count) };
            }
        }};
    }
    match function {
        UnaryFunction::Abs => each!(|s, x| s.abs(x)),
        UnaryFunction::Neg => each!(|s, x| s.sub(s.splat(-0.0), x)),
        UnaryFunction::Sqrt => each!(|s, x| s.sqrt(x)),
        UnaryFunction::Reciprocal => each!(|s, x| s.div(s.splat(1.0), x)),
        UnaryFunction::Round => each!(|s, x| to_integer(s, x, s.round(x))),
        UnaryFunction::Floor => each!(|s, x| {
            let (near, one) = (s.round(x), s.splat(1.0));
            to_integer(s, x, s.select(s.less(x, near), s.sub(near, one), near))
        }),
        UnaryFunction::Ceil => each!(|s, x| {
            let (near, one) = (s.round(x), s.splat(1.0));
            to_integer(s, x, s.select(s.less(near, x), s.add(near, one), near))
        }),
        UnaryFunction::Exp => each!(|s, x| exp(s, x)),
        UnaryFunction::Erf => each!(|s, x| erf(s, x)),
        UnaryFunction::Tanh => each!(|s, x| tanh(s, x)),
        UnaryFunction::Sigmoid => each!(|s, x| sigmoid(s, x)),
        UnaryFunction::Clamp { low, high } => each!(|s, x| clamp(s, low, high, x)),
        UnaryFunction::HardSigmoid { alpha, beta } => {
            each!(|s, x| clamp(s, 0.0, 1.0, s.fma(x, s.splat(alpha), s.splat(beta))))
        }
        UnaryFunction::HardSwish => each!(|s, x| {
            let gate = s.fma(x, s.splat(1.0 / 6.0), s.splat(0.5));
            s.mul(x, clamp(s, 0.0, 1.0, gate))
        }),
        UnaryFunction::LeakyRelu { alpha } => {
            each!(|s, x| s.select(s.less(x, s.splat(0.0)), s.mul(x, s.splat(alpha)), x))
        }
        UnaryFunction::ThresholdedRelu { alpha } => {
            each!(|s, x| s.select(s.less(s.splat(alpha), x), x, s.splat(0.0)))
        }
        UnaryFunction::Sign => each!(|s, x| {
            let is_signed = s.less(s.splat(0.0), s.abs(x));
            s.select(is_signed, s.copysign(s.splat(1.0), x), x)
        }),
        UnaryFunction::Elu { alpha } => each!(|s, x| {
            let below = s.mul(s.splat(alpha), s.sub(exp(s, x), s.splat(1.0)));
            s.select(s.less(x, s.splat(0.0)), below, x)
        }),
        UnaryFunction::Swish { alpha } => {
            each!(|s, x| s.mul(x, sigmoid(s, s.mul(x, s.splat(alpha)))))
        }
        UnaryFunction::Mish => each!(|s, x| {
            // tanh(ln(1 + e)) = (e^2 + 2 e) / (e^2 + 2 e + 2), which is 1 for x above 20.
            let e = exp(s, s.min(s.splat(20.0), x));
            let n = s.mul(e, s.add(e, s.splat(2.0)));
            s.mul(x, s.div(n, s.add(n, s.splat(2.0))))
        }),
        UnaryFunction::Gelu => each!(|s, x| {
            let e = erf(s, s.mul(x, s.splat(std::f32::consts::FRAC_1_SQRT_2)));
            let h = s.mul(x, s.splat(0.5));
            s.fma(h, e, h)
        }),
        UnaryFunction::GeluTanh => each!(|s, x| {
            // tanh(u) = 2 sigmoid(2 u) - 1, so that x / 2 (1 + tanh(u)) = x sigmoid(2 u).
            const SLOPE: f32 = std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::SQRT_2;
            let square = s.mul(x, x);
            let cubic = s.fma(square, s.splat(SLOPE * 0.044_715), s.splat(SLOPE));
            s.mul(x, sigmoid(s, s.mul(x, cubic)))
        }),
    }
}

/// `min(max(x, low), high)`
#[inline(always)]
pub(crate) fn clamp<S: Arithmetic>(s: S, low: f32, high: f32, x: S::V) -> S::V {
    s.min(s.splat(high), s.max(s.splat(low), x))
}

/// Writes `function` of each element of `from` to `to`.
///
/// # Panics
/// When their lengths differ.
#[inline(always)]
pub(crate) fn map_into<S: Simd>(s: S, function: UnaryFunction, from: &[f32], to: &mut [f32]) {
    assert!(from.len() == to.len());
    // SAFETY: both slices have `to.len()` elements; one is borrowed mutably, so that they do not overlap.
    unsafe { s.map_unary(function, from.as_ptr(), to.as_mut_ptr(), to.len()) }
}

/// Applies `function` to each element in place.
#[inline(always)]
pub(crate) fn map_in_place<S: Simd>(s: S, function: UnaryFunction, elements: &mut [f32]) {
    // SAFETY: both pointers are to the `len` elements of one mutable slice.
    unsafe {
        s.map_unary(
            function,
            elements.as_ptr(),
            elements.as_mut_ptr(),
            elements.len(),
        )
    }
}
