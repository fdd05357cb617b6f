//! Numbers of every type, and what they are computed in: floating-point in f64, integers in i128,
//! so that each result is rounded or wrapped once.

use half::{bf16, f16};
use std::fmt::Display;
use tenon_tensor::Element;

/// An element that is a number.
pub(crate) trait Number: Element + PartialOrd + Default + Display {
    /// What single operations are computed in: f64 or i128.
    type Wide: Wide;
    /// What long sums of products are computed in: f64, or i64 that wraps.
    type Sum: Sum;
    /// The least number, minus infinity if there is one.
    const LOWEST: Self;
    /// The greatest number, infinity if there is one.
    const HIGHEST: Self;
    /// Exactly.
    fn wide(self) -> Self::Wide;
    /// Rounds floating-point numbers, wraps integers.
    fn narrow(wide: Self::Wide) -> Self;
    /// Exactly, but for u64 above `i64::MAX`, which wraps.
    fn term(self) -> Self::Sum;
    /// Rounds floating-point numbers, wraps integers.
    fn total(sum: Self::Sum) -> Self;
    /// Rounds.
    fn to_f64(self) -> f64;
    /// Rounds floating-point numbers; for integers towards zero, at most the greatest.
    fn from_f64(value: f64) -> Self;
}

/// Arithmetic of single operations.
pub(crate) trait Wide: Copy + PartialOrd + Send + Sync + 'static {
    const ZERO: Self;
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Towards zero for integers; 0 when an integer is divided by 0.
    fn over(self, other: Self) -> Self;
    /// The rest with the divisor's sign; 0 when an integer is divided by 0.
    fn modulo(self, other: Self) -> Self;
    /// The rest with the dividend's sign; 0 when an integer is divided by 0.
    fn rest(self, other: Self) -> Self;
    fn power(self, exponent: f64) -> Self;
    fn absolute(self) -> Self;
    fn signum(self) -> Self;
    fn real(self) -> f64;
    fn from_real(value: f64) -> Self;
    /// NaN if one is.
    fn least(self, other: Self) -> Self;
    /// NaN if one is.
    fn greatest(self, other: Self) -> Self;
    fn is_nan(self) -> bool;
}

/// Arithmetic of sums of products.
pub(crate) trait Sum: Element + Default {
    fn plus_product(self, a: Self, b: Self) -> Self;
    fn added(self, other: Self) -> Self;
    /// `factor` rounds towards zero in integers.
    fn scaled(self, factor: f64) -> Self;
}

impl Wide for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn minus(self, other: Self) -> Self {
        self - other
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
    fn over(self, other: Self) -> Self {
        self / other
    }
    fn modulo(self, other: Self) -> Self {
        let rest = self % other;
        if rest != 0.0 && (rest < 0.0) != (other < 0.0) {
            rest + other
        } else {
            rest
        }
    }
    fn rest(self, other: Self) -> Self {
        self % other
    }
    fn power(self, exponent: f64) -> Self {
        self.powf(exponent)
    }
    fn absolute(self) -> Self {
        self.abs()
    }
    fn signum(self) -> Self {
        // Zero and NaN stay what they are, unlike in std.
        if self > 0.0 {
            1.0
        } else if self < 0.0 {
            -1.0
        } else {
            self
        }
    }
    fn real(self) -> f64 {
        self
    }
    fn from_real(value: f64) -> Self {
        value
    }
    fn least(self, other: Self) -> Self {
        if self < other || self.is_nan() {
            self
        } else {
            other
        }
    }
    fn greatest(self, other: Self) -> Self {
        if self > other || self.is_nan() {
            self
        } else {
            other
        }
    }
    fn is_nan(self) -> bool {
        self.is_nan()
    }
}

impl Wide for i128 {
    const ZERO: Self = 0;
    const ONE: Self = 1;
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    fn over(self, other: Self) -> Self {
        self.checked_div(other).unwrap_or(0)
    }
    fn modulo(self, other: Self) -> Self {
        let rest = self.rest(other);
        if rest != 0 && (rest < 0) != (other < 0) {
            rest + other
        } else {
            rest
        }
    }
    fn rest(self, other: Self) -> Self {
        self.checked_rem(other).unwrap_or(0)
    }
    fn power(self, exponent: f64) -> Self {
        if exponent.fract() == 0.0 && (0.0..=u32::MAX as f64).contains(&exponent) {
            self.wrapping_pow(exponent as u32)
        } else {
            (self as f64).powf(exponent) as i128
        }
    }
    fn absolute(self) -> Self {
        self.wrapping_abs()
    }
    fn signum(self) -> Self {
        self.signum()
    }
    fn real(self) -> f64 {
        self as f64
    }
    fn from_real(value: f64) -> Self {
        value as i128
    }
    fn least(self, other: Self) -> Self {
        self.min(other)
    }
    fn greatest(self, other: Self) -> Self {
        self.max(other)
    }
    fn is_nan(self) -> bool {
        false
    }
}

impl Sum for f64 {
    fn plus_product(self, a: Self, b: Self) -> Self {
        self + a * b
    }
    fn added(self, other: Self) -> Self {
        self + other
    }
    fn scaled(self, factor: f64) -> Self {
        self * factor
    }
}

impl Sum for i64 {
    fn plus_product(self, a: Self, b: Self) -> Self {
        self.wrapping_add(a.wrapping_mul(b))
    }
    fn added(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn scaled(self, factor: f64) -> Self {
        // Whole factors stay exact.
        if factor.fract() == 0.0 {
            self.wrapping_mul(factor as i64)
        } else {
            (self as f64 * factor) as i64
        }
    }
}

macro_rules! float_numbers {
    ($($float:ty, $wide:expr, $narrow:expr;)*) => {$(
        impl Number for $float {
            type Wide = f64;
            type Sum = f64;
            const LOWEST: Self = <$float>::NEG_INFINITY;
            const HIGHEST: Self = <$float>::INFINITY;
            fn wide(self) -> f64 {
                $wide(self)
            }
            fn narrow(wide: f64) -> Self {
                $narrow(wide)
            }
            fn term(self) -> f64 {
                $wide(self)
            }
            fn total(sum: f64) -> Self {
                $narrow(sum)
            }
            fn to_f64(self) -> f64 {
                $wide(self)
            }
            fn from_f64(value: f64) -> Self {
                $narrow(value)
            }
        }
    )*};
}

float_numbers! {
    f32, f64::from, |wide| wide as f32;
    f64, |wide| wide, |wide| wide;
    f16, f16::to_f64, f16::from_f64;
    bf16, bf16::to_f64, bf16::from_f64;
}

macro_rules! integer_numbers {
    ($($integer:ty)*) => {$(
        impl Number for $integer {
            type Wide = i128;
            type Sum = i64;
            const LOWEST: Self = <$integer>::MIN;
            const HIGHEST: Self = <$integer>::MAX;
            fn wide(self) -> i128 {
                self.into()
            }
            fn narrow(wide: i128) -> Self {
                wide as $integer
            }
            fn term(self) -> i64 {
                self as i64
            }
            fn total(sum: i64) -> Self {
                sum as $integer
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn from_f64(value: f64) -> Self {
                value as $integer
            }
        }
    )*};
}

integer_numbers! { i8 i16 i32 i64 u8 u16 u32 u64 }

/// A position read from data.
pub(crate) trait Index: Number {
    fn to_i64(self) -> i64;
}

impl Index for i64 {
    fn to_i64(self) -> i64 {
        self
    }
}

impl Index for i32 {
    fn to_i64(self) -> i64 {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_divide_towards_zero() {
        assert_eq!(i8::narrow(100i8.wide().plus(100)), -56);
        assert_eq!((-7i128).over(2), -3);
        assert_eq!((-7i128).modulo(2), 1);
        assert_eq!((-7i128).rest(2), -1);
        assert_eq!(7i128.over(0), 0);
        assert_eq!(u64::narrow(u64::MAX.wide().times(u64::MAX.wide())), 1);
        assert_eq!(u64::total(u64::MAX.term().plus_product(2, 3)), 5);
    }

    #[test]
    fn nan_wins() {
        assert!(f64::NAN.least(1.0).is_nan() && 1.0.least(f64::NAN).is_nan());
        assert!(f64::NAN.greatest(1.0).is_nan() && 1.0.greatest(f64::NAN).is_nan());
        assert_eq!(f64::modulo(-0.5, 2.0), 1.5);
    }
}
