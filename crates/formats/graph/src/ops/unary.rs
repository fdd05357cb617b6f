//! Elementwise operators of one input: mathematics, tests, negation.

use super::rows::*;
use super::shapes::{Inferred, same, same_shape};
use crate::{DataType, Inference};

operators! { "unary"
    /// The distance from zero.
    Compute "Abs" (required("X", NUMBERS)) -> (required("Y", NUMBERS)) [] same;
    /// The number with the other sign.
    Compute "Neg" (required("X", SIGNED)) -> (required("Y", SIGNED)) [] same;
    /// -1, 0 or 1.
    Compute "Sign" (required("input", NUMBERS)) -> (required("output", NUMBERS)) [] same;
    /// One divided by the number.
    Compute "Reciprocal" (required("X", FLOATS)) -> (required("Y", FLOATS)) [] same;
    /// The square root; NaN below zero.
    Compute "Sqrt" (required("X", FLOATS)) -> (required("Y", FLOATS)) [] same;
    /// e to the power of the number.
    Compute "Exp" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The natural logarithm.
    Compute "Log" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The least whole number not below.
    Compute "Ceil" (required("X", FLOATS)) -> (required("Y", FLOATS)) [] same;
    /// The greatest whole number not above.
    Compute "Floor" (required("X", FLOATS)) -> (required("Y", FLOATS)) [] same;
    /// The nearest whole number; halves go to the even neighbour.
    Compute "Round" (required("X", FLOATS)) -> (required("Y", FLOATS)) [] same;
    /// The error function.
    Compute "Erf" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The sine of an angle in radians.
    Compute "Sin" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The cosine of an angle in radians.
    Compute "Cos" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The tangent of an angle in radians.
    Compute "Tan" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The angle whose sine it is.
    Compute "Asin" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The angle whose cosine it is.
    Compute "Acos" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The angle whose tangent it is.
    Compute "Atan" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The hyperbolic sine.
    Compute "Sinh" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The hyperbolic cosine.
    Compute "Cosh" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The inverse hyperbolic sine.
    Compute "Asinh" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The inverse hyperbolic cosine.
    Compute "Acosh" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The inverse hyperbolic tangent.
    Compute "Atanh" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The opposite truth value.
    Compute "Not" (required("X", BOOL)) -> (required("Y", BOOL)) [] same;
    /// Every bit the other way.
    Compute "BitwiseNot" (required("X", INTEGERS)) -> (required("Y", INTEGERS)) [] same;
    /// Whether the number is infinite.
    Compute "IsInf" (required("X", FLOATS)) -> (required("Y", BOOL)) [
        int("detect_negative", "whether minus infinity counts; default 1"),
        int("detect_positive", "whether plus infinity counts; default 1"),
    ] test;
    /// Whether it is not a number.
    Compute "IsNaN" (required("X", FLOATS)) -> (required("Y", BOOL)) [] test;
}

fn test(node: &Inference<'_>) -> Inferred {
    same_shape(node, DataType::Bool)
}
