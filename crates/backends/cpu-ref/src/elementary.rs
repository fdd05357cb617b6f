//! Elementary functions in f64 without branches, so that loops over them are vectorized. The relative error is below
//! 1e-15, for results above the subnormal ones.

use std::f64::consts::{FRAC_2_SQRT_PI, FRAC_PI_2, LN_2, LOG2_E, PI};

/// The upper half of log 2, of which small integer multiples are exact, and the rest.
const LN_2_HIGH: f64 = f64::from_bits(LN_2.to_bits() & !0xffff_ffff);
const LN_2_LOW: f64 = 2.319_046_813_846_299_6e-17 + (LN_2 - LN_2_HIGH);

/// Adding it to a small number rounds that to an integer, which is then in the low bits.
const ROUNDING: f64 = 6_755_399_441_055_744.0;

/// Arguments beyond which the exponential is 0 or infinity.
const UNDERFLOW: f64 = -746.0;
const OVERFLOW: f64 = 710.0;

/// The coefficients 1 / n! of the Taylor series of the exponential, from n = 1 on.
const INVERSE_FACTORIALS: [f64; 13] = {
    let mut all = [1.0; 13];
    let mut n = 1;
    while n < 13 {
        all[n] = all[n - 1] / (n + 1) as f64;
        n += 1;
    }
    all
};

/// exp(x) = 2^n (1 + p), with p the exponential less one of what is left of x: n and p. For |x| up to 1000.
#[inline(always)]
fn split_exp(x: f64) -> (i64, f64) {
    let shifted = x * LOG2_E + ROUNDING;
    let n = shifted - ROUNDING;
    let rest = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let exponent = (shifted.to_bits() as i64).wrapping_sub(ROUNDING.to_bits() as i64);
    (exponent, rest * polynomial(&INVERSE_FACTORIALS, rest))
}

/// 2^n for n from -1022 to 1023.
#[inline(always)]
fn power_of_two(n: i64) -> f64 {
    f64::from_bits((n.wrapping_add(1023) << 52) as u64)
}

/// The exponential.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    // Not clamp or min: NaN stays.
    let x = if x < UNDERFLOW { UNDERFLOW } else { x };
    let x = if x > OVERFLOW { OVERFLOW } else { x };
    let (n, p) = split_exp(x);
    // In two factors, since 2^n alone may be out of range.
    let half = n >> 1;
    (1.0 + p) * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// The exponential of |x| up to 700.
#[inline(always)]
fn exp_bounded(x: f64) -> f64 {
    let (n, p) = split_exp(x);
    (1.0 + p) * power_of_two(n)
}

/// The exponential less one, exact near zero.
#[inline(always)]
pub(crate) fn exp_m1(x: f64) -> f64 {
    // -1 to half a unit in the last place from -40 down.
    let x = if x < -40.0 { -40.0 } else { x };
    let x = if x > OVERFLOW { OVERFLOW } else { x };
    let (n, p) = split_exp(x);
    let half = n >> 1;
    let (first, second) = (power_of_two(half), power_of_two(n.wrapping_sub(half)));
    p * first * second + (first * second - 1.0)
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh(x: f64) -> f64 {
    // Nearer to 1 than half a unit in the last place from 20 on.
    let magnitude = x.abs();
    let magnitude = if magnitude > 20.0 { 20.0 } else { magnitude };
    let (n, p) = split_exp(2.0 * magnitude);
    let power = power_of_two(n);
    let e = p * power + (power - 1.0);
    (e / (e + 2.0)).copysign(x)
}

/// 1 / (1 + exp(-x)).
#[inline(always)]
pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

/// The coefficients of the Taylor series of the error function.
const ERF_SERIES: [f64; 18] = {
    let mut all = [FRAC_2_SQRT_PI; 18];
    let mut power = FRAC_2_SQRT_PI;
    let mut n = 1;
    while n < 18 {
        power = -power / n as f64;
        all[n] = power / (2 * n + 1) as f64;
        n += 1;
    }
    all
};

/// exp(x^2) erfc(x) for x from 1 to 6.25 as a polynomial in s from -1 to 1, where 1 / (1 + x / 3) =
/// ((b + a) + (b - a) s) / 2 with a = 12 / 37 and b = 3 / 4: the Chebyshev interpolation of degree 16.
const SCALED_ERFC: [f64; 17] = [
    0.20466885821664907,
    0.1555212371851744,
    0.05101734249765913,
    0.013328752614432981,
    0.002661896032081527,
    0.00036618540710301074,
    2.2651905231316718e-05,
    -2.705954229352019e-06,
    -6.58315353982957e-07,
    2.5241648056090005e-09,
    1.3957537129012097e-08,
    4.1819672204752144e-10,
    -3.310849421828564e-10,
    -1.0651522871685246e-11,
    9.060894088536997e-12,
    7.525967562876126e-14,
    -2.394352580785136e-13,
];

/// A polynomial, coefficients in ascending order: those of even and of odd powers by Horner's rule, which are two
/// independent chains.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let square = x * x;
    let [mut even, mut odd] = [0.0; 2];
    if !N.is_multiple_of(2) {
        even = coefficients[N - 1];
    }
    for &[a, b] in coefficients.as_chunks().0.iter().rev() {
        even = even * square + a;
        odd = odd * square + b;
    }
    even + odd * x
}

/// The error function.
#[inline(always)]
pub(crate) fn erf(x: f64) -> f64 {
    let (a, b) = (12.0 / 37.0, 0.75);
    let magnitude = x.abs();
    // 1 to half a unit in the last place from 6 on.
    let bounded = if magnitude > 6.25 { 6.25 } else { magnitude };
    let square = bounded * bounded;
    let near = bounded * polynomial(&ERF_SERIES, square);
    let s = (2.0 / (1.0 + bounded / 3.0) - (a + b)) / (b - a);
    let far = 1.0 - exp_bounded(-square) * polynomial(&SCALED_ERFC, s);
    (if bounded < 1.0 { near } else { far }).copysign(x)
}

/// The coefficients of the Taylor series of the arcsine.
const ASIN_SERIES: [f64; 25] = {
    let mut all = [1.0; 25];
    let mut ratio = 1.0;
    let mut n = 1;
    while n < 25 {
        ratio = ratio * (2 * n - 1) as f64 / (2 * n) as f64;
        all[n] = ratio / (2 * n + 1) as f64;
        n += 1;
    }
    all
};

/// The arcsine of |x|, or, where |x| is above 1/2, that of sqrt((1 - |x|) / 2), which is half of the arccosine; and
/// whether it is the latter.
#[inline(always)]
fn split_asin(x: f64) -> (f64, bool) {
    let magnitude = x.abs();
    // Up to 1/2 the square is the smaller one, from there on the other.
    let (near, far) = (x * x, 0.5 - 0.5 * magnitude);
    let square = if near < far { near } else { far };
    let sum = polynomial(&ASIN_SERIES, square);
    let is_far = magnitude > 0.5;
    (sum * if is_far { far.sqrt() } else { magnitude }, is_far)
}

/// The arcsine; NaN beyond 1.
#[inline(always)]
pub(crate) fn asin(x: f64) -> f64 {
    let (part, is_far) = split_asin(x);
    (if is_far { FRAC_PI_2 - 2.0 * part } else { part }).copysign(x)
}

/// The arccosine; NaN beyond 1.
#[inline(always)]
pub(crate) fn acos(x: f64) -> f64 {
    let (part, is_far) = split_asin(x);
    let far = if x < 0.0 { PI - 2.0 * part } else { 2.0 * part };
    let near = FRAC_PI_2 - part.copysign(x);
    if is_far { far } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_equal_those_of_the_standard_library() {
        let near = |found: f64, expected: f64, x: f64| {
            let error = (found - expected).abs();
            assert!(
                error <= 1e-15 * expected.abs(),
                "{x}: {found}, expected {expected}"
            );
        };
        for nth in 0..200_000 {
            let x = (nth - 100_000) as f64 * 0.007_001;
            near(exp(x), x.exp(), x);
            near(exp_m1(x), x.exp_m1(), x);
            near(tanh(x / 20.0), (x / 20.0).tanh(), x);
            near(tanh(x * 1e-9), (x * 1e-9).tanh(), x);
            near(erf(x / 100.0), libm::erf(x / 100.0), x);
            near(erf(x * 1e-9), libm::erf(x * 1e-9), x);
            let within = x / 700.1;
            near(asin(within), within.asin(), x);
            near(acos(within), within.acos(), x);
        }
    }

    #[test]
    fn ends_of_the_range() {
        for x in [-1e300, f64::NEG_INFINITY] {
            assert_eq!(
                (exp(x), exp_m1(x), tanh(x), sigmoid(x)),
                (0.0, -1.0, -1.0, 0.0)
            );
        }
        for x in [1e300, f64::INFINITY] {
            assert_eq!(
                (exp(x), exp_m1(x), tanh(x), sigmoid(x)),
                (x.max(f64::INFINITY), f64::INFINITY, 1.0, 1.0)
            );
        }
        assert!(
            [exp, exp_m1, tanh, sigmoid]
                .iter()
                .all(|f| f(f64::NAN).is_nan())
        );
        assert_eq!(
            (exp(0.0), exp_m1(0.0), tanh(-0.0).to_bits()),
            (1.0, 0.0, (-0f64).to_bits())
        );
        assert_eq!(
            [erf(f64::INFINITY), erf(-1e300), asin(1.0), acos(1.0)],
            [1.0, -1.0, FRAC_PI_2, 0.0]
        );
        assert!(
            [erf(f64::NAN), asin(1.1), acos(-1.1), acos(f64::NAN)]
                .iter()
                .all(|x| x.is_nan())
        );
        // Subnormal results.
        for x in [-709.0, -720.0, -740.0] {
            assert!((exp(x) - f64::exp(x)).abs() <= 1e-322, "{x}");
        }
    }
}
