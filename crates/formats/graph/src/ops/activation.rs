//! Activations: elementwise functions, and softmax functions along one axis.

use super::rows::*;
use super::shapes::{
    Inferred, axis_attribute, choice, expect_scalar, invalid, one, same, same_dtype,
};
use crate::Inference;

const X: crate::operator::OperandDef = required("X", FLOATS);
const Y: crate::operator::OperandDef = required("Y", FLOATS);
const AXIS: crate::operator::AttributeDef =
    int("axis", "the dimension of the function; default -1");

operators! { "activation"
    /// X where it is positive, else 0.
    Compute "Relu" (required("X", SIGNED)) -> (required("Y", SIGNED)) [] same;
    /// X where it is not negative, else alpha X.
    Compute "LeakyRelu" (X) -> (Y) [float("alpha", "slope below zero; default 0.01")] same;
    /// X where it is above alpha, else 0.
    Compute "ThresholdedRelu" (X) -> (Y) [float("alpha", "threshold; default 1")] same;
    /// X where it is positive, else alpha (exp X - 1).
    Compute "Elu" (X) -> (Y) [float("alpha", "factor below zero; default 1")] same;
    /// max(0, X) + min(0, alpha (exp(X / alpha) - 1)).
    Compute "Celu" (X) -> (Y) [float("alpha", "scale below zero; default 1")] celu;
    /// gamma X where X is positive, else gamma alpha (exp X - 1).
    Compute "Selu" (X) -> (Y) [
        float("alpha", "factor below zero; default 1.67326319217681884765625"),
        float("gamma", "factor everywhere; default 1.05070102214813232421875"),
    ] same;
    /// 1 / (1 + exp -X).
    Compute "Sigmoid" (X) -> (Y) [] same;
    /// alpha X + beta, clipped to [0, 1].
    Compute "HardSigmoid" (X) -> (Y) [
        float("alpha", "slope; default 0.2"),
        float("beta", "value at zero; default 0.5"),
    ] same;
    /// X times (X / 6 + 0.5 clipped to [0, 1]).
    Compute "HardSwish" (X) -> (Y) [] same;
    /// X times sigmoid(alpha X).
    Compute "Swish" (X) -> (Y) [float("alpha", "factor inside; default 1")] same;
    /// X tanh(softplus X).
    Compute "Mish" (X) -> (Y) [] same;
    /// X times the cumulative distribution function of the normal distribution.
    Compute "Gelu" (X) -> (Y) [
        string("approximate", "none: by the error function; tanh: by tanh; default none"),
    ] gelu;
    /// The hyperbolic tangent.
    Compute "Tanh" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// log(1 + exp X).
    Compute "Softplus" (X) -> (Y) [] same;
    /// X / (1 + |X|).
    Compute "Softsign" (required("input", FLOATS)) -> (required("output", FLOATS)) [] same;
    /// X + bias below -lambd, X - bias above lambd, else 0.
    Compute "Shrink" (required("input", NUMERIC)) -> (required("output", NUMERIC)) [
        float("lambd", "half width of the interval that becomes 0; default 0.5"),
        float("bias", "the reduction of the magnitude outside; default 0"),
    ] same;
    /// The input clipped to [min, max].
    Compute "Clip"
        (required("input", NUMERIC), optional("min", NUMERIC), optional("max", NUMERIC))
        -> (required("output", NUMERIC)) [] clip;
    /// exp X divided by the sum of exp X along the axis.
    Compute "Softmax" (required("input", FLOATS)) -> (required("output", FLOATS)) [AXIS] along;
    /// The logarithm of Softmax.
    Compute "LogSoftmax" (required("input", FLOATS)) -> (required("output", FLOATS)) [AXIS] along;
    /// 1 at the first maximum along the axis, else 0.
    Compute "Hardmax" (required("input", FLOATS)) -> (required("output", FLOATS)) [AXIS] along;
}

fn celu(node: &Inference<'_>) -> Inferred {
    let alpha = node.attributes.float("alpha", 1.0)?;
    if alpha == 0.0 {
        return Err(invalid("attribute 'alpha' divides")
            .expected("not 0")
            .found(alpha));
    }
    same(node)
}

fn gelu(node: &Inference<'_>) -> Inferred {
    choice(node, "approximate", "none", &["none", "tanh"])?;
    same(node)
}

fn clip(node: &Inference<'_>) -> Inferred {
    let dtype = same_dtype(node, &["input", "min", "max"])?;
    expect_scalar(node, 1, "min")?;
    expect_scalar(node, 2, "max")?;
    one(dtype, node.input(0)?.shape().clone())
}

fn along(node: &Inference<'_>) -> Inferred {
    axis_attribute(node, -1, node.input(0)?.shape().len())?;
    same(node)
}
