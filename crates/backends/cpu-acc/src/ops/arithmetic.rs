//! Functions of two operands on the elements of a part, for every numeric type. The elements are
//! unsigned words of their size, so that the loops over memory exist once for each size.

use super::number::{Integer, Number};
use crate::elementary::TO_INTEGER;
use crate::simd::{Level, Simd, VectorOp};

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
        each(self.a, self.b, self.to, |a: i32, b: i32| {
            let quotient = f64::from(a) / f64::from(b);
            let nearest = (quotient + TO_INTEGER) - TO_INTEGER;
            let beyond = nearest.abs() > quotient.abs();
            let step = if beyond { 1f64.copysign(quotient) } else { 0.0 };
            // The low bits, so that -(2^31) / -1 wraps.
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
