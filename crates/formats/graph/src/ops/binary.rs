//! Elementwise operators of several inputs, which are broadcast as in NumPy: arithmetic, comparison,
//! logic, bits.

use super::rows::*;
use super::shapes::{
    Inferred, broadcast, broadcasts_to, choice, expect_shape, one, same, same_dtype,
};
use crate::{DataType, Inference};

const A: crate::operator::OperandDef = required("A", NUMERIC);
const B: crate::operator::OperandDef = required("B", NUMERIC);
const C: crate::operator::OperandDef = required("C", NUMERIC);
const TRUTH: crate::operator::OperandDef = required("C", BOOL);

operators! { "binary"
    /// A + B; integers wrap.
    Compute "Add" (A, B) -> (C) [] arithmetic;
    /// A - B; integers wrap.
    Compute "Sub" (A, B) -> (C) [] arithmetic;
    /// A times B; integers wrap.
    Compute "Mul" (A, B) -> (C) [] arithmetic;
    /// A divided by B; integers round towards zero.
    Compute "Div" (A, B) -> (C) [] arithmetic;
    /// The remainder of A divided by B.
    Compute "Mod" (A, B) -> (C) [
        int("fmod", "0: the remainder has the divisor's sign; 1: the dividend's; default 0"),
    ] arithmetic;
    /// X to the power of Y; of X's type.
    Compute "Pow" (required("X", NUMERIC), required("Y", NUMERIC)) -> (required("Z", NUMERIC)) [] power;
    /// The minimum of all inputs.
    Compute "Min" (variadic("data", NUMERIC)) -> (required("min", NUMERIC)) [] all;
    /// The maximum of all inputs.
    Compute "Max" (variadic("data", NUMERIC)) -> (required("max", NUMERIC)) [] all;
    /// The sum of all inputs.
    Compute "Sum" (variadic("data", FLOATS)) -> (required("sum", FLOATS)) [] all;
    /// The mean of all inputs.
    Compute "Mean" (variadic("data", FLOATS)) -> (required("mean", FLOATS)) [] all;
    /// Whether A and B are equal.
    Compute "Equal" (required("A", PLAIN), required("B", PLAIN)) -> (TRUTH) [] comparison;
    /// Whether A is greater than B.
    Compute "Greater" (A, B) -> (TRUTH) [] comparison;
    /// Whether A is greater than B or equal to it.
    Compute "GreaterOrEqual" (A, B) -> (TRUTH) [] comparison;
    /// Whether A is less than B.
    Compute "Less" (A, B) -> (TRUTH) [] comparison;
    /// Whether A is less than B or equal to it.
    Compute "LessOrEqual" (A, B) -> (TRUTH) [] comparison;
    /// Whether both are true.
    Compute "And" (required("A", BOOL), required("B", BOOL)) -> (TRUTH) [] comparison;
    /// Whether one of them is true.
    Compute "Or" (required("A", BOOL), required("B", BOOL)) -> (TRUTH) [] comparison;
    /// Whether exactly one of them is true.
    Compute "Xor" (required("A", BOOL), required("B", BOOL)) -> (TRUTH) [] comparison;
    /// Bitwise and.
    Compute "BitwiseAnd" (required("A", INTEGERS), required("B", INTEGERS))
        -> (required("C", INTEGERS)) [] arithmetic;
    /// Bitwise or.
    Compute "BitwiseOr" (required("A", INTEGERS), required("B", INTEGERS))
        -> (required("C", INTEGERS)) [] arithmetic;
    /// Bitwise exclusive or.
    Compute "BitwiseXor" (required("A", INTEGERS), required("B", INTEGERS))
        -> (required("C", INTEGERS)) [] arithmetic;
    /// The bits of X shifted by Y positions; bits shifted out are dropped.
    Compute "BitShift" (required("X", INTEGERS), required("Y", INTEGERS))
        -> (required("Z", INTEGERS)) [must(string("direction", "LEFT or RIGHT"))] shift;
    /// Swish(A) times B: A sigmoid(alpha A) B, of two tensors of one shape.
    Compute "SwiGLU" (required("A", FLOATS), required("B", FLOATS)) -> (required("Y", FLOATS))
        [float("alpha", "factor inside the sigmoid; default 1")] gated;
    /// X where it is not negative, else slope times X. The slope broadcasts to X.
    Compute "PRelu" (required("X", SIGNED), required("slope", SIGNED))
        -> (required("Y", SIGNED)) [] prelu;
}

fn arithmetic(node: &Inference<'_>) -> Inferred {
    one(
        same_dtype(node, &["A", "B"])?,
        broadcast(node, &["A", "B"])?,
    )
}

fn comparison(node: &Inference<'_>) -> Inferred {
    same_dtype(node, &["A", "B"])?;
    one(DataType::Bool, broadcast(node, &["A", "B"])?)
}

fn power(node: &Inference<'_>) -> Inferred {
    one(node.input(0)?.dtype(), broadcast(node, &["X", "Y"])?)
}

fn shift(node: &Inference<'_>) -> Inferred {
    choice(node, "direction", "", &["LEFT", "RIGHT"])?;
    arithmetic(node)
}

fn gated(node: &Inference<'_>) -> Inferred {
    same_dtype(node, &["A", "B"])?;
    expect_shape(node.input(1)?, "B", node.input(0)?.shape())?;
    same(node)
}

fn all(node: &Inference<'_>) -> Inferred {
    let names = vec!["data"; node.inputs.len()];
    one(same_dtype(node, &names)?, broadcast(node, &names)?)
}

fn prelu(node: &Inference<'_>) -> Inferred {
    let dtype = same_dtype(node, &["X", "slope"])?;
    let shape = node.input(0)?.shape();
    broadcasts_to(node.input(1)?, "slope", shape)?;
    one(dtype, shape.clone())
}
