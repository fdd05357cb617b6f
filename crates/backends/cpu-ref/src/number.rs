//! Numeric element types and the types of their arithmetic: f64 for floating point, i128 for integers,
//! so that each result is rounded or wrapped once.

use half::{bf16, f16};
use std::fmt::Display;
use tenon_tensor::Element;

/// A numeric element type.
pub(crate) trait Number: Element + PartialOrd + Default + Display {
    /// The type of single operations: f64 or i128.
    type Widened: WidenedArithmetic;
    /// The type of long sums of products: f64, or i64 that wraps.
    type Accumulator: Accumulator;
    /// The least value, negative infinity if there is one.
    const LOWEST: Self;
    /// The greatest value, infinity if there is one.
    const HIGHEST: Self;
    /// Converts exactly.
    fn widen(self) -> Self::Widened;
    /// Rounds floating point, wraps integers.
    fn narrow(wide: Self::Widened) -> Self;
    /// Converts exactly, except u64 above `i64::MAX`, which wraps.
    fn term(self) -> Self::Accumulator;
    /// Rounds floating point, wraps integers.
    fn total(sum: Self::Accumulator) -> Self;
    /// Rounds to f64.
    fn to_f64(self) -> f64;
    /// Rounds floating point; truncates and saturates integers.
    fn from_f64(value: f64) -> Self;
}

/// The arithmetic of single operations.
pub(crate) trait WidenedArithmetic: Copy + PartialOrd + Send + Sync + 'static {
    const ZERO: Self;
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Truncates integers; an integer divided by 0 is 0.
    fn divided_by(self, other: Self) -> Self;
    /// The remainder with the divisor's sign; 0 when an integer is divided by 0.
    fn modulo(self, other: Self) -> Self;
    /// The remainder with the dividend's sign; 0 when an integer is divided by 0.
    fn remainder(self, other: Self) -> Self;
    fn power(self, exponent: f64) -> Self;
    fn absolute(self) -> Self;
    fn signum(self) -> Self;
    fn real(self) -> f64;
    fn from_real(value: f64) -> Self;
    /// The minimum; NaN if either operand is NaN.
    fn nan_min(self, other: Self) -> Self;
    /// The maximum; NaN if either operand is NaN.
    fn nan_max(self, other: Self) -> Self;
    fn is_nan(self) -> bool;
}

/// The arithmetic of sums of products.
pub(crate) trait Accumulator: Element + Default {
    fn plus_product(self, a: Self, b: Self) -> Self;
    fn added(self, other: Self) -> Self;
    /// Times `factor`; truncates integers.
    fn scaled(self, factor: f64) -> Self;
}

impl WidenedArithmetic for f64 {
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
    fn divided_by(self, other: Self) -> Self {
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
    fn remainder(self, other: Self) -> Self {
        self % other
    }
    fn power(self, exponent: f64) -> Self {
        self.powf(exponent)
    }
    fn absolute(self) -> Self {
        self.abs()
    }
    fn signum(self) -> Self {
        // Zero and NaN are returned unchanged, unlike in std.
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
    fn nan_min(self, other: Self) -> Self {
        if self < other || self.is_nan() {
            self
        } else {
            other
        }
    }
    fn nan_max(self, other: Self) -> Self {
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

impl WidenedArithmetic for i128 {
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
    fn divided_by(self, other: Self) -> Self {
        self.checked_div(other).unwrap_or(0)
    }
    fn modulo(self, other: Self) -> Self {
        let rest = self.remainder(other);
        if rest != 0 && (rest < 0) != (other < 0) {
            rest + other
        } else {
            rest
        }
    }
    fn remainder(self, other: Self) -> Self {
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
    fn nan_min(self, other: Self) -> Self {
        self.min(other)
    }
    fn nan_max(self, other: Self) -> Self {
        self.max(other)
    }
    fn is_nan(self) -> bool {
        false
    }
}

impl Accumulator for f64 {
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

impl Accumulator for i64 {
    fn plus_product(self, a: Self, b: Self) -> Self {
        self.wrapping_add(a.wrapping_mul(b))
    }
    fn added(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn scaled(self, factor: f64) -> Self {
        // Integer factors are exact.
        if factor.fract() == 0.0 {
            self.wrapping_mul(factor as i64)
        } else {
            (self as f64 * factor) as i64
        }
    }
}

macro_rules! impl_float {
    ($($float:ty, $wide:expr, $narrow:expr;)*) => {$(
        impl Number for $float {
            type Widened = f64;
            type Accumulator = f64;
            const LOWEST: Self = <$float>::NEG_INFINITY;
            const HIGHEST: Self = <$float>::INFINITY;
            fn widen(self) -> f64 {
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

impl_float! {
    f32, f64::from, |wide| wide as f32;
    f64, |wide| wide, |wide| wide;
    f16, f16::to_f64, f16::from_f64;
    bf16, bf16::to_f64, bf16::from_f64;
}

macro_rules! impl_integer {
    ($($integer:ty)*) => {$(
        impl Number for $integer {
            type Widened = i128;
            type Accumulator = i64;
            const LOWEST: Self = <$integer>::MIN;
            const HIGHEST: Self = <$integer>::MAX;
            fn widen(self) -> i128 {
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

impl_integer! { i8 i16 i32 i64 u8 u16 u32 u64 }

/// An index type.
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
    fn integers_wrap_and_division_truncates() {
        assert_eq!(i8::narrow(100i8.widen().plus(100)), -56);
        assert_eq!((-7i128).divided_by(2), -3);
        assert_eq!((-7i128).modulo(2), 1);
        assert_eq!((-7i128).remainder(2), -1);
        assert_eq!(7i128.divided_by(0), 0);
        assert_eq!(u64::narrow(u64::MAX.widen().times(u64::MAX.widen())), 1);
        assert_eq!(u64::total(u64::MAX.term().plus_product(2, 3)), 5);
    }

    #[test]
    fn nan_in_either_operand_gives_nan() {
        assert!(f64::NAN.nan_min(1.0).is_nan() && 1.0.nan_min(f64::NAN).is_nan());
        assert!(f64::NAN.nan_max(1.0).is_nan() && 1.0.nan_max(f64::NAN).is_nan());
        assert_eq!(f64::modulo(-0.5, 2.0), 1.5);
    }
}
