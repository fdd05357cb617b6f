//! Numeric element types and the types of their arithmetic: f64 for floating point, i128 for integers,
//! so that each result is rounded or wrapped once.

use crate::loop_nest::BLOCK;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::fmt::Display;
use tenon_base::{round_to_odd, vectorized};
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
    fn of_f64(value: f64) -> Self;
    /// [`widen`](Self::widen) of each element; the slices are equally long.
    fn widens(from: &[Self], to: &mut [Self::Widened]) {
        vectorized!(for (to, from) in to.iter_mut().zip(from) {
            *to = from.widen();
        });
    }
    /// [`narrow`](Self::narrow) of each element; the slices are equally long.
    fn narrows(from: &[Self::Widened], to: &mut [Self]) {
        vectorized!(for (to, &from) in to.iter_mut().zip(from) {
            *to = Self::narrow(from);
        });
    }
    /// [`term`](Self::term) of each element; the slices are equally long.
    fn terms(from: &[Self], to: &mut [Self::Accumulator]) {
        vectorized!(for (to, from) in to.iter_mut().zip(from) {
            *to = from.term();
        });
    }
    /// [`to_f64`](Self::to_f64) of each element; the slices are equally long.
    fn to_reals(from: &[Self], to: &mut [f64]) {
        vectorized!(for (to, from) in to.iter_mut().zip(from) {
            *to = from.to_f64();
        });
    }
    /// [`of_f64`](Self::of_f64) of each element; the slices are equally long.
    fn from_reals(from: &[f64], to: &mut [Self]) {
        vectorized!(for (to, &from) in to.iter_mut().zip(from) {
            *to = Self::of_f64(from);
        });
    }
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
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self - other
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self * other
    }
    #[inline(always)]
    fn divided_by(self, other: Self) -> Self {
        self / other
    }
    #[inline(always)]
    fn modulo(self, other: Self) -> Self {
        let rest = self % other;
        if rest != 0.0 && (rest < 0.0) != (other < 0.0) {
            rest + other
        } else {
            rest
        }
    }
    #[inline(always)]
    fn remainder(self, other: Self) -> Self {
        self % other
    }
    #[inline(always)]
    fn power(self, exponent: f64) -> Self {
        self.powf(exponent)
    }
    #[inline(always)]
    fn absolute(self) -> Self {
        self.abs()
    }
    #[inline(always)]
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
    #[inline(always)]
    fn nan_min(self, other: Self) -> Self {
        if self < other || self.is_nan() {
            self
        } else {
            other
        }
    }
    #[inline(always)]
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
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn divided_by(self, other: Self) -> Self {
        self.checked_div(other).unwrap_or(0)
    }
    #[inline(always)]
    fn modulo(self, other: Self) -> Self {
        let rest = self.remainder(other);
        if rest != 0 && (rest < 0) != (other < 0) {
            rest + other
        } else {
            rest
        }
    }
    #[inline(always)]
    fn remainder(self, other: Self) -> Self {
        self.checked_rem(other).unwrap_or(0)
    }
    #[inline(always)]
    fn power(self, exponent: f64) -> Self {
        if exponent.fract() == 0.0 && (0.0..=u32::MAX as f64).contains(&exponent) {
            self.wrapping_pow(exponent as u32)
        } else {
            (self as f64).powf(exponent) as i128
        }
    }
    #[inline(always)]
    fn absolute(self) -> Self {
        self.wrapping_abs()
    }
    #[inline(always)]
    fn signum(self) -> Self {
        self.signum()
    }
    fn real(self) -> f64 {
        self as f64
    }
    fn from_real(value: f64) -> Self {
        value as i128
    }
    #[inline(always)]
    fn nan_min(self, other: Self) -> Self {
        self.min(other)
    }
    #[inline(always)]
    fn nan_max(self, other: Self) -> Self {
        self.max(other)
    }
    fn is_nan(self) -> bool {
        false
    }
}

impl Accumulator for f64 {
    #[inline(always)]
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
    #[inline(always)]
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

/// Rounds to a type of 16 bits; the slices are equally long.
fn to_halves<T>(from: &[f64], to: &mut [T])
where
    [T]: HalfFloatSliceExt,
{
    for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
        let mut single = [0.0; BLOCK];
        let single = &mut single[..from.len()];
        vectorized!(for (to, &from) in single.iter_mut().zip(from) {
            *to = round_to_odd(from);
        });
        to.convert_from_f32_slice(single);
    }
}

macro_rules! impl_float {
    ($($float:ty, $wide:expr, $narrow:expr $(, $to_reals:path, $from_reals:path)?;)*) => {$(
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
            fn of_f64(value: f64) -> Self {
                $narrow(value)
            }
            $(fn widens(from: &[Self], to: &mut [f64]) {
                $to_reals(from, to);
            }
            fn narrows(from: &[f64], to: &mut [Self]) {
                $from_reals(from, to);
            }
            fn terms(from: &[Self], to: &mut [f64]) {
                $to_reals(from, to);
            }
            fn to_reals(from: &[Self], to: &mut [f64]) {
                $to_reals(from, to);
            }
            fn from_reals(from: &[f64], to: &mut [Self]) {
                $from_reals(from, to);
            })?
        }
    )*};
}

impl_float! {
    f32, f64::from, |wide| wide as f32;
    f64, |wide| wide, |wide| wide;
    f16, f16::to_f64, |wide| f16::from_f32(round_to_odd(wide)), HalfFloatSliceExt::convert_to_f64_slice, to_halves;
    bf16, bf16::to_f64, |wide| bf16::from_f32(round_to_odd(wide)), HalfFloatSliceExt::convert_to_f64_slice, to_halves;
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
            fn of_f64(value: f64) -> Self {
                value as $integer
            }
        }
    )*};
}

impl_integer! { i8 i16 i32 i64 u8 u16 u32 u64 }

macro_rules! read_strided {
    ($(#[$doc:meta])* $name:ident -> $to:ty, $slices:ident, $one:ident) => {
        $(#[$doc])*
        pub(crate) fn $name<T: Number>(from: &[T], start: usize, stride: isize, to: &mut [$to]) {
            match stride {
                1 => T::$slices(&from[start..start + to.len()], to),
                0 => to.fill(from[start].$one()),
                _ => {
                    let mut at = start;
                    for to in to {
                        *to = from[at].$one();
                        at = at.wrapping_add_signed(stride);
                    }
                }
            }
        }
    };
}

read_strided! {
    /// Reads the elements at `start`, `start + stride`... as the type of single operations.
    read_widened -> T::Widened, widens, widen
}
read_strided! {
    /// Reads the elements at `start`, `start + stride`... as the type of sums of products.
    read_terms -> T::Accumulator, terms, term
}
read_strided! {
    /// Reads the elements at `start`, `start + stride`... as f64.
    read_reals -> f64, to_reals, to_f64
}

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
    fn halves_are_the_nearest_values() {
        // A hair beside the middle of two values, and beyond the range.
        let hair = f64::powi(2.0, -40);
        let mut reals: Vec<f64> = vec![0.0, -0.0, 65519.99, 1e-8, 3.1, -7.7e-6];
        for exponent in -30..15 {
            for mantissa in [
                1.0,
                1.0 + 1.0 / 2048.0,
                1.0 + 1.0 / 256.0,
                1.0 + 3.0 / 2048.0,
            ] {
                let middle = f64::powi(2.0, exponent) * mantissa;
                reals.extend([middle, middle * (1.0 + hair), -middle * (1.0 - hair)]);
            }
        }
        fn check<T: Number>(reals: &[f64], of: fn(u16) -> T, bits: fn(T) -> u16) {
            let mut found = vec![of(0); reals.len()];
            T::from_reals(reals, &mut found);
            for (&real, &found) in reals.iter().zip(&found) {
                assert_eq!(bits(found), bits(T::of_f64(real)), "{real}");
                let distance = |value: T| (value.to_f64() - real).abs();
                for neighbour in [bits(found).wrapping_add(1), bits(found).wrapping_sub(1)] {
                    let other = distance(of(neighbour));
                    let is_even = bits(found) & 1 == 0;
                    let nearer = distance(found) < other || (distance(found) == other && is_even);
                    assert!(nearer || other.is_nan(), "{real}: {found}");
                }
            }
        }
        check(&reals, f16::from_bits, f16::to_bits);
        check(&reals, bf16::from_bits, bf16::to_bits);
        let mut large = [f16::ZERO; 3];
        f16::from_reals(&[65520.0, -1e300, f64::INFINITY], &mut large);
        assert_eq!(
            large.map(f16::to_f32),
            [f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY]
        );
        let mut nan = [f16::ZERO; 2];
        f16::from_reals(&[f64::NAN, -f64::NAN], &mut nan);
        assert!(nan.iter().all(|nan| nan.is_nan()));
    }

    #[test]
    fn nan_in_either_operand_gives_nan() {
        assert!(f64::NAN.nan_min(1.0).is_nan() && 1.0.nan_min(f64::NAN).is_nan());
        assert!(f64::NAN.nan_max(1.0).is_nan() && 1.0.nan_max(f64::NAN).is_nan());
        assert_eq!(f64::modulo(-0.5, 2.0), 1.5);
    }
}
