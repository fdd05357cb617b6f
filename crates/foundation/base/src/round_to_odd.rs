//! Rounding to f32 on the way to a smaller type.

/// `value` as f32, rounded to odd: truncated, with the last bit set where that is not exact. Rounding the result to a
/// type of at most 22 bits of mantissa gives what rounding `value` itself gives; rounded to the nearest f32 first, it could
/// become a tie that it is not (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
/// rounding to odd", 2008). `half::f16::from_f64` ignores the last 32 bits of `value` instead.
///
/// ```
/// let above_the_tie = 1.0 + f64::powi(2.0, -9) + f64::powi(2.0, -40);
/// assert_eq!(above_the_tie as f32, 1.0 + f32::powi(2.0, -9));
/// assert!(tenon_base::round_to_odd(above_the_tie) > 1.0 + f32::powi(2.0, -9));
/// ```
#[inline(always)]
pub fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    let away = u32::from(back.abs() > value.abs());
    f32::from_bits((nearest.to_bits() - away) | u32::from(back != value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_values_stay_and_others_are_odd() {
        for exact in [
            0.0,
            -0.0,
            1.0,
            -2.5,
            f64::INFINITY,
            f64::from(f32::MIN_POSITIVE) / 4.0,
        ] {
            assert_eq!(f64::from(round_to_odd(exact)).to_bits(), exact.to_bits());
        }
        for inexact in [0.1, -0.1, 1.0 + 1e-12, 1.0 - 1e-12, 1e30] {
            let rounded = round_to_odd(inexact);
            assert_eq!(rounded.to_bits() & 1, 1, "{inexact}");
            assert!((inexact - f64::from(rounded)).abs() < 2e-7 * inexact.abs());
        }
        // Beyond the range: the greatest finite value and the least value above zero.
        assert_eq!(round_to_odd(1e300), f32::MAX);
        assert_eq!(round_to_odd(-1e-300).to_bits(), 0x8000_0001);
        assert!(round_to_odd(f64::NAN).is_nan() && round_to_odd(-f64::NAN).is_nan());
    }
}
