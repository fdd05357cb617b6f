//! Circular functions and their inverses.

use super::polynomial::{TO_INTEGER, fma, fma32, polynomial, polynomial32};
use crate::simd::Simd;
use std::f32::consts::FRAC_PI_2;
use std::f64::consts::FRAC_2_PI;

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

/// Replaces `elements` by the sines of them plus `quarters` right angles.
#[inline(always)]
pub(super) fn circular<S: Simd>(s: S, elements: &mut [f32], quarters: u64) {
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

/// Replaces `elements` by their tangents.
#[inline(always)]
pub(super) fn tangent<S: Simd>(s: S, elements: &mut [f32]) {
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
pub(super) fn arc<S: Simd>(s: S, a: f32) -> (bool, f32) {
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

/// The arctangent.
#[inline(always)]
pub(super) fn atan<S: Simd>(s: S, x: f32) -> f32 {
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
