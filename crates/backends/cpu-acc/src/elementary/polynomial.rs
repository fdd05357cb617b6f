//! Multiply-add, polynomials and rounding to integers.

use crate::simd::Simd;

/// `a * b + c`, rounded once where the CPU has the instruction.
#[inline(always)]
pub(super) fn fma<S: Simd>(_: S, a: f64, b: f64, c: f64) -> f64 {
    if S::FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
pub(super) fn fma32<S: Simd>(_: S, a: f32, b: f32, c: f32) -> f32 {
    if S::FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// `c[0] + c[1] x + c[2] x^2 + ...`, by Horner's rule.
#[inline(always)]
pub(super) fn polynomial<S: Simd, const N: usize>(s: S, x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    for &c in coefficients[..N - 1].iter().rev() {
        sum = fma(s, sum, x, c);
    }
    sum
}

#[inline(always)]
pub(super) fn polynomial32<S: Simd, const N: usize>(s: S, x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    for &c in coefficients[..N - 1].iter().rev() {
        sum = fma32(s, sum, x, c);
    }
    sum
}

/// 1.5 * 2^52: the sum with a magnitude below 2^51 is rounded to an integer, which is in its low bits.
pub(crate) const TO_INTEGER: f64 = 6_755_399_441_055_744.0;
