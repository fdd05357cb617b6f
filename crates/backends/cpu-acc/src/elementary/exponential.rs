//! Exponential function, logarithm and power.

use super::each;
use super::polynomial::{TO_INTEGER, fma, fma32, polynomial, polynomial32};
use crate::simd::Simd;
use std::f64::consts::{LN_2, LOG2_E};

/// `e^x`, for results of f32: `x` is clamped to -150..=100.
#[inline(always)]
pub(super) fn exp<S: Simd>(s: S, x: f64) -> f64 {
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
pub(super) fn exp_m1<S: Simd>(s: S, x: f64) -> f64 {
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
pub(super) fn log_normal<S: Simd>(s: S, x: f64) -> f64 {
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
pub(super) fn log1p<S: Simd>(s: S, x: f64) -> f64 {
    let sum = 1.0 + x;
    // The second term is that of the rounding error of the sum.
    let finite = log_normal(s, sum) + (x - (sum - 1.0)) / sum;
    if x < f64::INFINITY { finite } else { x }
}

/// The natural logarithm of f32.
#[inline(always)]
pub(super) fn log<S: Simd>(s: S, x: f32) -> f32 {
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

/// Replaces `elements` by their powers.
#[inline(always)]
pub(crate) fn power<S: Simd>(s: S, elements: &mut [f32], exponents: &[f32]) {
    for (x, &exponent) in elements.iter_mut().zip(exponents) {
        *x = pow(s, *x, exponent);
    }
}

/// Replaces `elements` by their powers with one exponent.
#[inline(always)]
pub(crate) fn power_of<S: Simd>(s: S, elements: &mut [f32], exponent: f32) {
    if exponent == 2.0 {
        each!(elements, |x| x * x);
    } else if exponent == 3.0 {
        each!(elements, |x| x * x * x);
    } else if exponent == 0.5 {
        // Unlike the square root, of minus zero and minus infinity as well.
        each!(elements, |x| if x == f32::NEG_INFINITY {
            f32::INFINITY
        } else {
            (x + 0.0).sqrt()
        });
    } else if exponent == -1.0 {
        each!(elements, |x| 1.0 / x);
    } else {
        each!(elements, |x| pow(s, x, exponent));
    }
}
