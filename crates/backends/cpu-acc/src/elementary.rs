//! Elementary functions on slices of f32, as plain loops that the compiler vectorises for each level.
//!
//! Range reductions are those of Cody and Waite ("Software Manual for the Elementary Functions",
//! 1980); the polynomials are minimax fits (iterated weighted least squares on Chebyshev nodes),
//! evaluated by Horner's rule. Most functions are computed in f64, where the polynomials' error is
//! below 1e-8, so that a result is within 1 ulp; logarithm and inverse trigonometric functions are
//! computed in f32, within 2 ulp. NaN stays NaN.

use crate::simd::Simd;
use std::f32::consts::{FRAC_PI_2, PI};
use std::f64::consts::{FRAC_2_PI, LN_2, LOG2_E};

/// A function of one operand, with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Elementary {
    Sign,
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
    /// `x` above `alpha`, else 0.
    ThresholdedRelu {
        alpha: f32,
    },
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
        // A macro: the body of a closure would be compiled without the instructions of `S`.
        macro_rules! each {
            (|$x:ident| $function:expr) => {
                for element in elements.iter_mut() {
                    let $x = *element;
                    *element = $function;
                }
            };
        }
        match self {
            Elementary::Sign => each!(|x| if x == 0.0 || x.is_nan() {
                x
            } else {
                1f32.copysign(x)
            }),
            Elementary::Log => each!(|x| log(simd, x)),
            Elementary::Sin => circular(simd, elements, 0),
            Elementary::Cos => circular(simd, elements, 1),
            Elementary::Tan => tangent(simd, elements),
            Elementary::Asin => each!(|x| {
                let (folded, p) = arc(simd, x.abs());
                let magnitude = if folded { FRAC_PI_2 - 2.0 * p } else { p };
                magnitude.copysign(x)
            }),
            Elementary::Acos => each!(|x| {
                let (folded, p) = arc(simd, x.abs());
                let far = if x < 0.0 { PI - 2.0 * p } else { 2.0 * p };
                let near = FRAC_PI_2 - p.copysign(x);
                if folded { far } else { near }
            }),
            Elementary::Atan => each!(|x| atan(simd, x)),
            Elementary::Sinh => each!(|x| {
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
            Elementary::Cosh => each!(|x| {
                let e = exp(simd, f64::from(x.abs()));
                (0.5 * (e + 1.0 / e)) as f32
            }),
            Elementary::Asinh => each!(|x| {
                let a = f64::from(x.abs());
                let z = a * a;
                let y = log1p(simd, a + z / (1.0 + (z + 1.0).sqrt()));
                (if a < f64::INFINITY { y } else { a } as f32).copysign(x)
            }),
            Elementary::Acosh => each!(|x| {
                let above = f64::from(x) - 1.0;
                let y = log1p(simd, above + (above * (above + 2.0)).sqrt()) as f32;
                if x < 1.0 { f32::NAN } else { y }
            }),
            Elementary::Atanh => each!(|x| {
                let a = f64::from(x.abs());
                let y = 0.5 * log1p(simd, 2.0 * a / (1.0 - a));
                (if a > 1.0 { f64::NAN } else { y } as f32).copysign(x)
            }),
            Elementary::Softplus => each!(|x| {
                let x = f64::from(x);
                let positive = if x < 0.0 { 0.0 } else { x };
                (positive + log1p(simd, exp(simd, -x.abs()))) as f32
            }),
            Elementary::Softsign => each!(|x| x / (1.0 + x.abs())),
            Elementary::ThresholdedRelu { alpha } => each!(|x| if x > alpha { x } else { 0.0 }),
            Elementary::Shrink { limit, bias } => each!(|x| {
                let above = if x > limit { x - bias } else { 0.0 };
                if x < -limit { x + bias } else { above }
            }),
            Elementary::Celu { alpha } => {
                let (alpha, inverse) = (f64::from(alpha), 1.0 / f64::from(alpha));
                each!(|x| {
                    let x = f64::from(x);
                    let signed = alpha * exp_m1(simd, x * inverse);
                    let below = if signed > 0.0 { 0.0 } else { signed };
                    (if x < 0.0 { 0.0 } else { x } + below) as f32
                });
            }
            Elementary::Selu { alpha, gamma } => {
                let (alpha, gamma) = (f64::from(alpha), f64::from(gamma));
                each!(|x| {
                    let x = f64::from(x);
                    let below = alpha * exp_m1(simd, x);
                    (gamma * if x > 0.0 { x } else { below }) as f32
                });
            }
        }
    }
}

/// `a * b + c`, rounded once where the CPU has the instruction.
#[inline(always)]
fn fma<S: Simd>(_: S, a: f64, b: f64, c: f64) -> f64 {
    if S::FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn fma32<S: Simd>(_: S, a: f32, b: f32, c: f32) -> f32 {
    if S::FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// `c[0] + c[1] x + c[2] x^2 + ...`, by Horner's rule.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(s: S, x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    for &c in coefficients[..N - 1].iter().rev() {
        sum = fma(s, sum, x, c);
    }
    sum
}

#[inline(always)]
fn polynomial32<S: Simd, const N: usize>(s: S, x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    for &c in coefficients[..N - 1].iter().rev() {
        sum = fma32(s, sum, x, c);
    }
    sum
}

/// 1.5 * 2^52: the sum with a magnitude below 2^51 is rounded to an integer, which is in its low bits.
const TO_INTEGER: f64 = 6_755_399_441_055_744.0;

/// `e^x`, for results of f32: `x` is clamped to -150..=100.
#[inline(always)]
fn exp<S: Simd>(s: S, x: f64) -> f64 {
    // Not clamp, which has no vector form that keeps NaN.
    let x = if x > 100.0 { 100.0 } else { x };
    let x = if x < -150.0 { -150.0 } else { x };
    let shifted = fma(s, x, LOG2_E, TO_INTEGER);
    let r = fma(s, shifted - TO_INTEGER, -LN_2, x);
    // e^r for |r| <= ln 2 / 2.
    let power = polynomial(
        s,
        r,
        [
            1.000_000_000_554_524,
            1.000_000_036_339_511_6,
            0.499_999_920_758_873_95,
            0.166_664_200_956_480_5,
            0.041_668_226_115_492_18,
            0.008_374_822_070_249_992,
            0.001_383_683_405_347_719_3,
        ],
    );
    let scale = (shifted.to_bits() << 52).wrapping_add(1023 << 52);
    power * f64::from_bits(scale)
}

/// `e^x - 1`
#[inline(always)]
fn exp_m1<S: Simd>(s: S, x: f64) -> f64 {
    // The series, where the difference cancels.
    let near = x * polynomial(
        s,
        x,
        [
            1.0,
            1.0 / 2.0,
            1.0 / 6.0,
            1.0 / 24.0,
            1.0 / 120.0,
            1.0 / 720.0,
            1.0 / 5040.0,
            1.0 / 40_320.0,
        ],
    );
    if x.abs() < 0.4 { near } else { exp(s, x) - 1.0 }
}

/// The natural logarithm of a positive normal value.
#[inline(always)]
fn log_normal<S: Simd>(s: S, x: f64) -> f64 {
    // x = 2^k m with m from sqrt(1/2) on, below sqrt(2).
    const ROOT: u64 = 0x3fe6_a09e_667f_3bcd;
    let shifted = x.to_bits().wrapping_add((1023 << 52) - ROOT);
    let m = f64::from_bits((shifted & ((1 << 52) - 1)).wrapping_add(ROOT));
    // The biased exponent as the low bits of 2^52 + k.
    let k =
        f64::from_bits(shifted >> 52 | 0x4330_0000_0000_0000) - (4_503_599_627_370_496.0 + 1023.0);
    let t = (m - 1.0) / (m + 1.0);
    let z = t * t;
    // (2 artanh(t) - 2 t) / t^3 for |t| <= 3 - sqrt(8).
    let tail = polynomial(
        s,
        z,
        [
            0.666_666_656_436_356_7,
            0.400_003_356_393_217_2,
            0.285_372_779_663_585_26,
            0.235_827_680_810_749_15,
        ],
    );
    fma(s, k, LN_2, fma(s, t * z, tail, t + t))
}

/// `ln(1 + x)` for `x` from 0 on.
#[inline(always)]
fn log1p<S: Simd>(s: S, x: f64) -> f64 {
    let sum = 1.0 + x;
    // The second term is that of the rounding error of the sum.
    let finite = log_normal(s, sum) + (x - (sum - 1.0)) / sum;
    if x < f64::INFINITY { finite } else { x }
}

/// The natural logarithm of f32.
#[inline(always)]
fn log<S: Simd>(s: S, x: f32) -> f32 {
    // Subnormal values are scaled by 2^23.
    let is_small = x < f32::MIN_POSITIVE;
    let scaled = if is_small { x * 8_388_608.0 } else { x };
    let bias = if is_small { 150.0 } else { 127.0 };
    // x = 2^k (1 + f) with 1 + f from sqrt(1/2) on, below sqrt(2).
    const ROOT: u32 = 0x3f35_04f3;
    let shifted = scaled.to_bits().wrapping_add((127 << 23) - ROOT);
    let k = (shifted >> 23) as i32 as f32 - bias;
    let f = f32::from_bits((shifted & ((1 << 23) - 1)).wrapping_add(ROOT)) - 1.0;
    // (ln(1 + f) - f + f^2 / 2) / f^3.
    let tail = polynomial32(
        s,
        f,
        [
            0.333_333_3,
            -0.250_008_23,
            0.200_012_25,
            -0.166_233_55,
            0.142_017_86,
            -0.131_602_33,
            0.127_613_92,
            -0.076_341_14,
        ],
    );
    let square = f * f;
    // ln 2 is the sum of two constants, and k times the first, 355/512, is exact.
    let rest = fma32(
        s,
        k,
        -2.121_944_4e-4,
        fma32(s, square * f, tail, -0.5 * square),
    );
    let y = fma32(s, k, 355.0 / 512.0, f + rest);
    let y = if x < f32::INFINITY { y } else { x };
    let y = if x < 0.0 { f32::NAN } else { y };
    if x == 0.0 { f32::NEG_INFINITY } else { y }
}

/// Elements of a block of the circular functions.
const BLOCK: usize = 256;

/// The largest magnitude of the range reduction by two constants.
const CIRCULAR_LIMIT: f32 = 1e6;

/// Sine and cosine of an angle less `n` right angles, and the low bits of `n`.
#[inline(always)]
fn reduced<S: Simd>(s: S, x: f32) -> (f64, f64, u64) {
    let x = f64::from(x);
    let shifted = fma(s, x, FRAC_2_PI, TO_INTEGER);
    let n = shifted - TO_INTEGER;
    // pi / 2 is the sum of two constants, and n times the first, of 33 bits, is exact.
    let r = fma(s, n, -1.570_796_326_734_125_6, x);
    let r = fma(s, n, -6.077_100_506_506_192e-11, r);
    let z = r * r;
    let sine = r * polynomial(
        s,
        z,
        [
            0.999_999_996_759_178_1,
            -0.166_666_502_143_075_16,
            0.008_332_015_924_600_64,
            -0.000_195_017_541_838_701_6,
        ],
    );
    let cosine = polynomial(
        s,
        z,
        [
            0.999_999_999_943_879_1,
            -0.499_999_995_712_042_96,
            0.041_666_613_200_668_3,
            -0.001_388_652_818_579_279_4,
            0.000_024_372_592_268_451_574,
        ],
    );
    (sine, cosine, shifted.to_bits())
}

/// The sine of `x` plus `quarters` right angles.
#[inline(always)]
fn circular<S: Simd>(s: S, elements: &mut [f32], quarters: u64) {
    for block in elements.chunks_mut(BLOCK) {
        if block.iter().any(|x| x.abs() > CIRCULAR_LIMIT) {
            for x in block {
                let angle = f64::from(*x);
                *x = if quarters == 0 {
                    angle.sin()
                } else {
                    angle.cos()
                } as f32;
            }
        } else {
            for x in block {
                let (sine, cosine, n) = reduced(s, *x);
                let n = n.wrapping_add(quarters);
                let y = if n & 1 == 0 { sine } else { cosine };
                let sign = (n & 2) << 62;
                *x = f64::from_bits(y.to_bits() ^ sign) as f32;
            }
        }
    }
}

#[inline(always)]
fn tangent<S: Simd>(s: S, elements: &mut [f32]) {
    for block in elements.chunks_mut(BLOCK) {
        if block.iter().any(|x| x.abs() > CIRCULAR_LIMIT) {
            block
                .iter_mut()
                .for_each(|x| *x = f64::from(*x).tan() as f32);
        } else {
            for x in block {
                let (sine, cosine, n) = reduced(s, *x);
                let (over, under) = if n & 1 == 0 {
                    (sine, cosine)
                } else {
                    (-cosine, sine)
                };
                *x = (over / under) as f32;
            }
        }
    }
}

/// Whether `a`, not negative, is above 1/2, and its arcsine p, or p of arcsine = pi / 2 - 2 p.
#[inline(always)]
fn arc<S: Simd>(s: S, a: f32) -> (bool, f32) {
    let folded = a > 0.5;
    let z = if folded { 0.5 * (1.0 - a) } else { a * a };
    let root = z.sqrt();
    let t = if folded { root } else { a };
    // (arcsin(t) - t) / t^3 as a polynomial in t^2, for t <= 1/2.
    let tail = polynomial32(
        s,
        z,
        [
            0.166_666_6,
            0.075_005_11,
            0.044_515_72,
            0.031_817_608,
            0.014_402_615,
            0.037_565_187,
        ],
    );
    (folded, fma32(s, t * z, tail, t))
}

#[inline(always)]
fn atan<S: Simd>(s: S, x: f32) -> f32 {
    let a = x.abs();
    let inverted = a > 1.0;
    let t = if inverted { 1.0 / a } else { a };
    let z = t * t;
    // (arctan(t) - t) / t^3 as a polynomial in t^2, for t <= 1.
    let tail = polynomial32(
        s,
        z,
        [
            -0.333_333,
            0.199_985_49,
            -0.142_642_41,
            0.109_521_81,
            -0.084_034_37,
            0.057_957_36,
            -0.031_177_614,
            0.010_914_481,
            -0.001_793_593_9,
        ],
    );
    let y = fma32(s, t * z, tail, t);
    (if inverted { FRAC_PI_2 - y } else { y }).copysign(x)
}

/// `base^exponent`, with the special values of IEEE 754 (9.2.1) and C99 (annex F).
#[inline(always)]
fn pow<S: Simd>(s: S, base: f32, exponent: f32) -> f32 {
    let (a, b) = (f64::from(base.abs()), f64::from(exponent));
    let logarithm = log_normal(s, a);
    let logarithm = if a == 0.0 {
        f64::NEG_INFINITY
    } else {
        logarithm
    };
    let logarithm = if a < f64::INFINITY { logarithm } else { a };
    let magnitude = exp(s, b * logarithm);
    // Exponents from 2^24 on are even; below, the sum with 2^52 has the integer in its low bits.
    const SHIFT: f64 = 4_503_599_627_370_496.0;
    let shifted = b.abs() + SHIFT;
    let is_large = b.abs() >= 16_777_216.0;
    let is_integer = is_large | (shifted - SHIFT == b.abs());
    let is_odd = !is_large & is_integer & (shifted.to_bits() & 1 == 1);
    let is_negative = base.is_sign_negative();
    let y = if is_negative & is_odd {
        -magnitude
    } else {
        magnitude
    };
    let has_no_power = (base < 0.0) & !is_integer & (a < f64::INFINITY);
    let y = if has_no_power { f64::NAN } else { y };
    let is_one = (b == 0.0) | (base == 1.0) | ((a == 1.0) & (b.abs() == f64::INFINITY));
    (if is_one { 1.0 } else { y }) as f32
}

/// The powers of `elements`, in their place.
#[inline(always)]
pub(crate) fn power<S: Simd>(s: S, elements: &mut [f32], exponents: &[f32]) {
    for (x, &exponent) in elements.iter_mut().zip(exponents) {
        *x = pow(s, *x, exponent);
    }
}

/// The powers of `elements` with one exponent, in their place.
#[inline(always)]
pub(crate) fn power_of<S: Simd>(s: S, elements: &mut [f32], exponent: f32) {
    // A macro: the body of a closure would be compiled without the instructions of `S`.
    macro_rules! each {
        (|$x:ident| $function:expr) => {
            for element in elements.iter_mut() {
                let $x = *element;
                *element = $function;
            }
        };
    }
    if exponent == 2.0 {
        each!(|x| x * x);
    } else if exponent == 3.0 {
        each!(|x| x * x * x);
    } else if exponent == 0.5 {
        // Unlike the square root, of minus zero and minus infinity as well.
        each!(|x| if x == f32::NEG_INFINITY {
            f32::INFINITY
        } else {
            (x + 0.0).sqrt()
        });
    } else if exponent == -1.0 {
        each!(|x| 1.0 / x);
    } else {
        each!(|x| pow(s, x, exponent));
    }
}
