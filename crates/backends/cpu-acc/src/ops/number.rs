//! The arithmetic of numeric element types: integers wrap, 16-bit floating-point types compute in f32.

use half::{bf16, f16};
use tenon_base::round_to_odd;
use tenon_tensor::Element;

/// A numeric type with the unsigned word of its size.
pub(super) trait Number: Element + Default + PartialOrd {
    type Word: Element + Default;
    fn of(word: Self::Word) -> Self;
    fn word(self) -> Self::Word;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Integers truncate; an integer divided by 0 is 0.
    fn divided_by(self, other: Self) -> Self;
    /// The remainder with the divisor's sign; 0 when an integer is divided by 0.
    fn modulo(self, other: Self) -> Self;
    /// The remainder with the dividend's sign; 0 when an integer is divided by 0.
    fn remainder(self, other: Self) -> Self;
    /// The minimum; NaN if either operand is NaN.
    fn least(self, other: Self) -> Self;
    /// The maximum; NaN if either operand is NaN.
    fn greatest(self, other: Self) -> Self;
    /// Rounded to the nearest value of the type; integers truncate and saturate.
    fn of_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;
    fn power(self, exponent: f64) -> Self;
}

/// An integer type.
pub(super) trait Integer: Number {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn shifted_left(self, by: Self) -> Self;
    fn shifted_right(self, by: Self) -> Self;
}

macro_rules! float_types {
    ($($float:ty, $word:ty, $of_f64:expr;)*) => {$(
        impl Number for $float {
            type Word = $word;
            #[inline(always)]
            fn of(word: $word) -> Self {
                <$float>::from_bits(word)
            }
            #[inline(always)]
            fn word(self) -> $word {
                self.to_bits()
            }
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
                let (rest, zero) = (self % other, Self::default());
                if rest != zero && (rest < zero) != (other < zero) {
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
            fn least(self, other: Self) -> Self {
                if self < other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                if self > other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn of_f64(value: f64) -> Self {
                $of_f64(value)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn power(self, exponent: f64) -> Self {
                Self::of_f64(self.to_f64().powf(exponent))
            }
        }
    )*};
}

// A sum, product or quotient of 16-bit values in f32, rounded to 16 bits, is correctly rounded.
float_types! {
    f32, u32, |value| value as f32;
    f64, u64, |value| value;
    f16, u16, |value| f16::from_f32(round_to_odd(value));
    bf16, u16, |value| bf16::from_f32(round_to_odd(value));
}

macro_rules! integer_types {
    ($($integer:ty, $word:ty;)*) => {$(
        impl Number for $integer {
            type Word = $word;
            #[inline(always)]
            fn of(word: $word) -> Self {
                word as $integer
            }
            #[inline(always)]
            fn word(self) -> $word {
                self as $word
            }
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
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn modulo(self, other: Self) -> Self {
                let rest = self.remainder(other);
                // False for unsigned integers, whose remainder has the divisor's sign.
                #[allow(unused_comparisons, reason = "unsigned integers as well")]
                if rest != 0 && (rest < 0) != (other < 0) {
                    rest.wrapping_add(other)
                } else {
                    rest
                }
            }
            #[inline(always)]
            fn remainder(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[inline(always)]
            fn least(self, other: Self) -> Self {
                self.min(other)
            }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                self.max(other)
            }
            #[inline(always)]
            fn of_f64(value: f64) -> Self {
                value as $integer
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn power(self, exponent: f64) -> Self {
                // Wraps for exponents that are non-negative integers; through f64 for others.
                if exponent.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&exponent) {
                    self.wrapping_pow(exponent as u32)
                } else {
                    (self as f64).powf(exponent) as i128 as $integer
                }
            }
        }

        impl Integer for $integer {
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            // Amounts outside of the type's width, negative ones among them, drop every bit.
            #[inline(always)]
            fn shifted_left(self, by: Self) -> Self {
                let shifted = self.wrapping_shl(by as u32);
                if (by as $word) < <$integer>::BITS as $word { shifted } else { 0 }
            }
            #[inline(always)]
            fn shifted_right(self, by: Self) -> Self {
                let most = <$integer>::BITS as $word - 1;
                self.wrapping_shr((by as $word).min(most) as u32)
                    & if <$integer>::MIN == 0 && by as $word > most { 0 } else { !0 }
            }
        }
    )*};
}

integer_types! {
    i8, u8; i16, u16; i32, u32; i64, u64;
    u8, u8; u16, u16; u32, u32; u64, u64;
}
