//! Elementwise layers.

use super::build::{GraphBuilder, LayerResult, LayerValue};
use tenon_graph::{Attribute, ValueId};
use tenon_tensor::DataType;

/// An operator of one input.
pub(super) fn unary(build: &mut GraphBuilder<'_>, op: &str) -> LayerResult {
    let x = build.real_input(0)?;
    build.node(op, &[x], &[]).map(LayerValue::Real)
}

/// An operator of two inputs.
pub(super) fn binary(build: &mut GraphBuilder<'_>, op: &str) -> LayerResult {
    let (a, b) = (build.real_input(0)?, build.real_input(1)?);
    build.node(op, &[a, b], &[]).map(LayerValue::Real)
}

pub(super) fn named_unary(build: &mut GraphBuilder<'_>) -> LayerResult {
    match build.case.text("UnaryOperation")? {
        "Rsqrt" => {
            let x = build.real_input(0)?;
            let root = build.node("Sqrt", &[x], &[])?;
            build.node("Reciprocal", &[root], &[]).map(LayerValue::Real)
        }
        "LogicalNot" => unary(build, "Not"),
        op @ ("Abs" | "Exp" | "Sqrt" | "Neg" | "Log" | "Sin" | "Ceil") => unary(build, op),
        other => Err(format!("unknown operation: {other}")),
    }
}

pub(super) fn named_binary(build: &mut GraphBuilder<'_>) -> LayerResult {
    match build.case.text("BinaryOperation")? {
        "Power" => binary(build, "Pow"),
        "SqDiff" => {
            let (a, b) = (build.real_input(0)?, build.real_input(1)?);
            let difference = build.node("Sub", &[a, b], &[])?;
            build
                .node("Mul", &[difference, difference], &[])
                .map(LayerValue::Real)
        }
        other => Err(format!("unknown operation: {other}")),
    }
}

pub(super) fn comparison(build: &mut GraphBuilder<'_>) -> LayerResult {
    let op = match build.case.text("Operation")? {
        "LessOrEqual" => "LessOrEqual",
        "GreaterOrEqual" => "GreaterOrEqual",
        "NotEqual" => {
            let (a, b) = (build.real_input(0)?, build.real_input(1)?);
            let equal = build.node("Equal", &[a, b], &[])?;
            return build.node("Not", &[equal], &[]).map(LayerValue::Stored);
        }
        op @ ("Equal" | "Greater" | "Less") => op,
        other => return Err(format!("unknown operation: {other}")),
    };
    binary(build, op)
}

pub(super) fn logical(build: &mut GraphBuilder<'_>) -> LayerResult {
    match build.case.int("Operation")? {
        0 => binary(build, "And"),
        1 => binary(build, "Or"),
        other => Err(format!("unknown operation: {other}")),
    }
}

pub(super) fn activation(build: &mut GraphBuilder<'_>) -> LayerResult {
    let (a, b) = (build.case.float("A")?, build.case.float("B")?);
    let x = build.real_input(0)?;
    let alpha = [("alpha", Attribute::Float(a))];
    let output = match build.case.text("Function")? {
        "Sigmoid" => build.node("Sigmoid", &[x], &[]),
        "TanH" => tanh(build, x, a, b),
        "Linear" => linear(build, x, a, b),
        "ReLu" => build.node("Relu", &[x], &[]),
        "BoundedReLu" => {
            let (low, high) = (build.scalar(b)?, build.scalar(a)?);
            build.node("Clip", &[x, low, high], &[])
        }
        "SoftReLu" => build.node("Softplus", &[x], &[]),
        "LeakyReLu" => build.node("LeakyRelu", &[x], &alpha),
        "Abs" => build.node("Abs", &[x], &[]),
        "Sqrt" => build.node("Sqrt", &[x], &[]),
        "Square" => build.node("Mul", &[x, x], &[]),
        "Elu" => build.node("Elu", &[x], &alpha),
        "HardSwish" => build.node("HardSwish", &[x], &[]),
        other => Err(format!("unknown function: {other}")),
    };
    output.map(LayerValue::Real)
}

/// a x + b
fn linear(build: &mut GraphBuilder<'_>, x: ValueId, a: f32, b: f32) -> Result<ValueId, String> {
    let (a, b) = (build.scalar(a)?, build.scalar(b)?);
    let product = build.node("Mul", &[x, a], &[])?;
    build.node("Add", &[product, b], &[])
}

/// a tanh(b x)
fn tanh(build: &mut GraphBuilder<'_>, x: ValueId, a: f32, b: f32) -> Result<ValueId, String> {
    let (a, b) = (build.scalar(a)?, build.scalar(b)?);
    let inner = build.node("Mul", &[x, b], &[])?;
    let tanh = build.node("Tanh", &[inner], &[])?;
    build.node("Mul", &[tanh, a], &[])
}

/// Casts the stored elements, without dequantising: truncated and saturated to the output's type. Only a
/// cast from floating point saturates, so the elements are cast to f32 first.
pub(super) fn cast(build: &mut GraphBuilder<'_>) -> LayerResult {
    let x = build.stored_input(0)?;
    let wide = build.cast(x, DataType::F32)?;
    let to = build.case.output.kind.storage();
    build.cast(wide, to).map(LayerValue::Stored)
}

pub(super) fn convert(build: &mut GraphBuilder<'_>) -> LayerResult {
    let x = build.stored_input(0)?;
    let to = build.case.output.kind.storage();
    build.cast(x, to).map(LayerValue::Stored)
}

pub(super) fn dequantize(build: &mut GraphBuilder<'_>) -> LayerResult {
    let values = build.real_input(0)?;
    match build.case.output.kind.storage() {
        DataType::F32 => Ok(LayerValue::Real(values)),
        to => build.cast(values, to).map(LayerValue::Real),
    }
}

pub(super) fn quantize(build: &mut GraphBuilder<'_>) -> LayerResult {
    build.real_input(0).map(LayerValue::Real)
}
