//! Elementwise operators of one input: mathematics, tests, negation.

use super::rows::*;
use super::shapes::{Inferred, same, same_shape};
use crate::{DataType, Inference};

operators! { "unary"
    /// The absolute value.
    Compute "Abs" (required("X", NUMERIC)) -> (required("Y", NUMERIC)) [] same;
    /// The negative of the element.
    Compute "Neg" (required("X", SIGNED)) -> (required("Y", SIGNED)) [] same;
    /// The sign: -1, 0 or 1.
    Compute "Sign" (required("input", NUMERIC)) -> (required("output", NUMERIC)) [] same;
    /// The reciprocal.
    Compute "Reciprocal" (required("X", FLOATS)) -> (required("Y", FLOATS)) [] same;
    /// The square root; NaN below zero.
    Compute "Sqrt" (required("X", FLOATS)) -> (required("Y", FLOATS)) [] same;
    /// The exponential function.
    Compute "Exp" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The natural logarithm.
    Compute "Log" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// Rounded up to an integer.
    Compute "Ceil" (required("X", FLOATS)) -> (required("Y", FLOATS)) [] same;
    /// Rounded down to an integer.
    Compute "Floor" (required("X", FLOATS)) -> (required("Y", FLOATS)) [] same;
    /// Rounded to the nearest integer, ties to even.
    Compute "Round" (required("X", FLOATS)) -> (required("Y", FLOATS)) [] same;
    /// The error function.
    Compute "Erf" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The sine of an angle in radians.
    Compute "Sin" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The cosine of an angle in radians.
    Compute "Cos" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The tangent of an angle in radians.
    Compute "Tan" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The inverse sine.
    Compute "Asin" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The inverse cosine.
    Compute "Acos" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// The inverse tangent.
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
    /// The logical negation.
    Compute "Not" (required("X", BOOL)) -> (required("Y", BOOL)) [] same;
    /// The bitwise complement.
    Compute "BitwiseNot" (required("X", INTEGERS)) -> (required("Y", INTEGERS)) [] same;
    /// Whether the element is infinite.
    Compute "IsInf" (required("X", FLOATS)) -> (required("Y", BOOL)) [
        int("detect_negative", "whether minus infinity counts; default 1"),
        int("detect_positive", "whether plus infinity counts; default 1"),
    ] test;
    /// Whether the element is NaN.
    Compute "IsNaN" (required("X", FLOATS)) -> (required("Y", BOOL)) [] test;
}

fn test(node: &Inference<'_>) -> Inferred {
    same_shape(node, DataType::Bool)
}
