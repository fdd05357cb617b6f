//! Functions of two operands on the elements of a part, for every numeric type. The elements are
//! unsigned words of their size, so that the loops over memory exist once for each size.

use crate::simd::{Level, Simd, VectorOp};
use tenon_tensor::Element;

/// A function of two operands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum BinaryFunction {
    Add,
    Sub,
    Mul,
    /// Integers truncate; an integer divided by 0 is 0.
    Div,
    /// The remainder with the divisor's sign; 0 when an integer is divided by 0.
    Mod,
    /// The remainder with the dividend's sign; 0 when an integer is divided by 0.
    Remainder,
    Min,
    Max,
    /// `a` where it is not negative, else `a * b`.
    PRelu,
    /// `a` to the power `b`; of floats only.
    Pow,
    /// `a * sigmoid(alpha * a) * b`; of floats only.
    SwiGlu {
        alpha: f32,
    },
    And,
    Or,
    Xor,
    ShiftLeft,
    /// Arithmetic for signed integers.
    ShiftRight,
}

/// A comparison. `Less` and `LessOrEqual` are these with the operands exchanged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Comparison {
    Equal,
    Greater,
    GreaterOrEqual,
}

/// A function of the elements `a` and `b`, whose results are written to `to`. All have one length.
pub(super) type ZipFn<W, C> = fn(Level, a: &[W], b: &[W], to: &mut [C]);

/// A numeric type with the unsigned word of its size.
pub(super) trait Number: Copy + PartialOrd + 'static {
    type Word: Element + Default;
    fn of(word: Self::Word) -> Self;
    fn word(self) -> Self::Word;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn divided_by(self, other: Self) -> Self;
    fn modulo(self, other: Self) -> Self;
    fn remainder(self, other: Self) -> Self;
    fn least(self, other: Self) -> Self;
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
    ($($float:ty, $word:ty;)*) => {$(
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
            // NaN in either operand gives NaN, as in ONNX.
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
                value as $float
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn power(self, exponent: f64) -> Self {
                self.to_f64().powf(exponent) as $float
            }
        }
    )*};
}

float_types! { f32, u32; f64, u64; }

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

/// Evaluates `$body` with `$T` as the integer type `$dtype`; `$otherwise` for other types.
macro_rules! with_integer {
    ($dtype:expr, $T:ident => $body:expr, $otherwise:expr) => {
        match $dtype {
            tenon_tensor::DataType::I8 => {
                type $T = i8;
                $body
            }
            tenon_tensor::DataType::I16 => {
                type $T = i16;
                $body
            }
            tenon_tensor::DataType::I32 => {
                type $T = i32;
                $body
            }
            tenon_tensor::DataType::I64 => {
                type $T = i64;
                $body
            }
            tenon_tensor::DataType::U8 => {
                type $T = u8;
                $body
            }
            tenon_tensor::DataType::U16 => {
                type $T = u16;
                $body
            }
            tenon_tensor::DataType::U32 => {
                type $T = u32;
                $body
            }
            tenon_tensor::DataType::U64 => {
                type $T = u64;
                $body
            }
            _ => $otherwise,
        }
    };
}
pub(super) use with_integer;

#[inline(always)]
fn each<T: Number>(a: &[T::Word], b: &[T::Word], to: &mut [T::Word], function: impl Fn(T, T) -> T) {
    for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
        *to = function(T::of(a), T::of(b)).word();
    }
}

#[inline(always)]
fn test<T: Number>(a: &[T::Word], b: &[T::Word], to: &mut [u8], test: impl Fn(T, T) -> bool) {
    for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
        *to = test(T::of(a), T::of(b)).into();
    }
}

/// The functions of one type, which has no vector instructions above the baseline.
pub(super) fn arithmetic<T: Number>(function: BinaryFunction) -> Option<ZipFn<T::Word, T::Word>> {
    Some(match function {
        BinaryFunction::Add => |_, a, b, to| each(a, b, to, T::plus),
        BinaryFunction::Sub => |_, a, b, to| each(a, b, to, T::minus),
        BinaryFunction::Mul => |_, a, b, to| each(a, b, to, T::times),
        BinaryFunction::Div => |_, a, b, to| each(a, b, to, T::divided_by),
        BinaryFunction::Mod => |_, a, b, to| each(a, b, to, T::modulo),
        BinaryFunction::Remainder => |_, a, b, to| each(a, b, to, T::remainder),
        BinaryFunction::Min => |_, a, b, to| each(a, b, to, T::least),
        BinaryFunction::Max => |_, a, b, to| each(a, b, to, T::greatest),
        BinaryFunction::PRelu => |_, a, b, to| {
            let zero = T::of_f64(0.0);
            each(a, b, to, |a: T, b| if a < zero { a.times(b) } else { a });
        },
        _ => return None,
    })
}

/// [`arithmetic`] of integers, with functions of their bits.
pub(super) fn integer<T: Integer>(function: BinaryFunction) -> Option<ZipFn<T::Word, T::Word>> {
    Some(match function {
        BinaryFunction::And => |_, a, b, to| each(a, b, to, T::and),
        BinaryFunction::Or => |_, a, b, to| each(a, b, to, T::or),
        BinaryFunction::Xor => |_, a, b, to| each(a, b, to, T::xor),
        BinaryFunction::ShiftLeft => |_, a, b, to| each(a, b, to, T::shifted_left),
        BinaryFunction::ShiftRight => |_, a, b, to| each(a, b, to, T::shifted_right),
        other => return arithmetic::<T>(other),
    })
}

/// The quotients of i32, by division in f64, which has a vector instruction: quotients that are not
/// integers differ from them by more than its rounding error.
pub(super) fn divide_i32(level: Level, a: &[u32], b: &[u32], to: &mut [u32]) {
    level.run(DivideI32 { a, b, to });
}

struct DivideI32<'a> {
    a: &'a [u32],
    b: &'a [u32],
    to: &'a mut [u32],
}

impl VectorOp for DivideI32<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _simd: S) {
        // 1.5 * 2^52: the sum with a magnitude below 2^51 is rounded to an integer, which is in its low
        // bits, so that -(2^31) / -1 wraps.
        const TO_INTEGER: f64 = 6_755_399_441_055_744.0;
        each(self.a, self.b, self.to, |a: i32, b: i32| {
            let quotient = f64::from(a) / f64::from(b);
            let nearest = (quotient + TO_INTEGER) - TO_INTEGER;
            let beyond = nearest.abs() > quotient.abs();
            let step = if beyond { 1f64.copysign(quotient) } else { 0.0 };
            let truncated = (nearest - step + TO_INTEGER).to_bits() as i32;
            if b == 0 { 0 } else { truncated }
        });
    }
}

/// The comparisons of one type, without vector instructions above the baseline.
pub(super) fn comparison<T: Number>(comparison: Comparison) -> ZipFn<T::Word, u8> {
    match comparison {
        Comparison::Equal => |_, a, b, to| test(a, b, to, |a: T, b: T| a == b),
        Comparison::Greater => |_, a, b, to| test(a, b, to, |a: T, b: T| a > b),
        Comparison::GreaterOrEqual => |_, a, b, to| test(a, b, to, |a: T, b: T| a >= b),
    }
}

/// [`comparison`] with the vector instructions of the level, for the types of which models compare many.
pub(super) fn vector_comparison<T: Number>(comparison: Comparison) -> ZipFn<T::Word, u8> {
    match comparison {
        Comparison::Equal => |level, a, b, to| level.run(Test::<T, 0> { a, b, to }),
        Comparison::Greater => |level, a, b, to| level.run(Test::<T, 1> { a, b, to }),
        Comparison::GreaterOrEqual => |level, a, b, to| level.run(Test::<T, 2> { a, b, to }),
    }
}

/// A comparison, by its number in [`vector_comparison`].
struct Test<'a, T: Number, const C: u8> {
    a: &'a [T::Word],
    b: &'a [T::Word],
    to: &'a mut [u8],
}

impl<T: Number, const C: u8> VectorOp for Test<'_, T, C> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _simd: S) {
        match C {
            0 => test(self.a, self.b, self.to, |a: T, b: T| a == b),
            1 => test(self.a, self.b, self.to, |a: T, b: T| a > b),
            _ => test(self.a, self.b, self.to, |a: T, b: T| a >= b),
        }
    }
}

/// The functions of bool, whose elements are true where they are not zero.
pub(super) fn logic(function: BinaryFunction) -> Option<ZipFn<u8, u8>> {
    #[inline(always)]
    fn each(a: &[u8], b: &[u8], to: &mut [u8], function: impl Fn(bool, bool) -> bool) {
        for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
            *to = function(a != 0, b != 0).into();
        }
    }
    Some(match function {
        BinaryFunction::And => |_, a, b, to| each(a, b, to, |a, b| a & b),
        BinaryFunction::Or => |_, a, b, to| each(a, b, to, |a, b| a | b),
        BinaryFunction::Xor => |_, a, b, to| each(a, b, to, |a, b| a ^ b),
        _ => return None,
    })
}

/// The comparisons of bool.
pub(super) fn truth(comparison: Comparison) -> ZipFn<u8, u8> {
    #[inline(always)]
    fn each(a: &[u8], b: &[u8], to: &mut [u8], function: impl Fn(u8, u8) -> bool) {
        for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
            *to = function((a != 0).into(), (b != 0).into()).into();
        }
    }
    match comparison {
        Comparison::Equal => |_, a, b, to| each(a, b, to, |a, b| a == b),
        Comparison::Greater => |_, a, b, to| each(a, b, to, |a, b| a > b),
        Comparison::GreaterOrEqual => |_, a, b, to| each(a, b, to, |a, b| a >= b),
    }
}
