//! Layers that treat each element by itself.

use super::build::{Build, Flow, Made};
use tenon_graph::{Attribute, ValueId};
use tenon_tensor::DataType;

/// An operator of one input.
pub(super) fn unary(build: &mut Build<'_>, op: &str) -> Made {
    let x = build.numbers(0)?;
    build.node(op, &[x], &[]).map(Flow::Numbers)
}

/// An operator of two inputs.
pub(super) fn binary(build: &mut Build<'_>, op: &str) -> Made {
    let (a, b) = (build.numbers(0)?, build.numbers(1)?);
    build.node(op, &[a, b], &[]).map(Flow::Numbers)
}

pub(super) fn named_unary(build: &mut Build<'_>) -> Made {
    match build.case.text("UnaryOperation")? {
        "Rsqrt" => {
            let x = build.numbers(0)?;
            let root = build.node("Sqrt", &[x], &[])?;
            build.node("Reciprocal", &[root], &[]).map(Flow::Numbers)
        }
        "LogicalNot" => unary(build, "Not"),
        op @ ("Abs" | "Exp" | "Sqrt" | "Neg" | "Log" | "Sin" | "Ceil") => unary(build, op),
        other => Err(format!("an unknown operation: {other}")),
    }
}

pub(super) fn named_binary(build: &mut Build<'_>) -> Made {
    match build.case.text("BinaryOperation")? {
        "Power" => binary(build, "Pow"),
        "SqDiff" => {
            let (a, b) = (build.numbers(0)?, build.numbers(1)?);
            let difference = build.node("Sub", &[a, b], &[])?;
            build
                .node("Mul", &[difference, difference], &[])
                .map(Flow::Numbers)
        }
        other => Err(format!("an unknown operation: {other}")),
    }
}

pub(super) fn comparison(build: &mut Build<'_>) -> Made {
    let op = match build.case.text("Operation")? {
        "LessOrEqual" => "LessOrEqual",
        "GreaterOrEqual" => "GreaterOrEqual",
        "NotEqual" => {
            let (a, b) = (build.numbers(0)?, build.numbers(1)?);
            let equal = build.node("Equal", &[a, b], &[])?;
            return build.node("Not", &[equal], &[]).map(Flow::Stored);
        }
        op @ ("Equal" | "Greater" | "Less") => op,
        other => return Err(format!("an unknown operation: {other}")),
    };
    binary(build, op)
}

pub(super) fn logical(build: &mut Build<'_>) -> Made {
    match build.case.int("Operation")? {
        0 => binary(build, "And"),
        1 => binary(build, "Or"),
        other => Err(format!("an unknown operation: {other}")),
    }
}

pub(super) fn activation(build: &mut Build<'_>) -> Made {
    let (a, b) = (build.case.number("A")?, build.case.number("B")?);
    let x = build.numbers(0)?;
    let alpha = [("alpha", Attribute::Float(a))];
    let made = match build.case.text("Function")? {
        "Sigmoid" => build.node("Sigmoid", &[x], &[]),
        "TanH" => tanh(build, x, a, b),
        "Linear" => linear(build, x, a, b),
        "ReLu" => build.node("Relu", &[x], &[]),
        "BoundedReLu" => {
            let (low, high) = (build.number(b)?, build.number(a)?);
            build.node("Clip", &[x, low, high], &[])
        }
        "SoftReLu" => build.node("Softplus", &[x], &[]),
        "LeakyReLu" => build.node("LeakyRelu", &[x], &alpha),
        "Abs" => build.node("Abs", &[x], &[]),
        "Sqrt" => build.node("Sqrt", &[x], &[]),
        "Square" => build.node("Mul", &[x, x], &[]),
        "Elu" => build.node("Elu", &[x], &alpha),
        "HardSwish" => build.node("HardSwish", &[x], &[]),
        other => Err(format!("an unknown function: {other}")),
    };
    made.map(Flow::Numbers)
}

/// a x + b
fn linear(build: &mut Build<'_>, x: ValueId, a: f32, b: f32) -> Result<ValueId, String> {
    let (a, b) = (build.number(a)?, build.number(b)?);
    let product = build.node("Mul", &[x, a], &[])?;
    build.node("Add", &[product, b], &[])
}

/// a tanh(b x)
fn tanh(build: &mut Build<'_>, x: ValueId, a: f32, b: f32) -> Result<ValueId, String> {
    let (a, b) = (build.number(a)?, build.number(b)?);
    let inner = build.node("Mul", &[x, b], &[])?;
    let bent = build.node("Tanh", &[inner], &[])?;
    build.node("Mul", &[bent, a], &[])
}

/// The integers themselves, without their meaning: cut towards zero and held in the range of the
/// output's type. That of a cast from floating point is held; that between integers is not.
pub(super) fn cast(build: &mut Build<'_>) -> Made {
    let x = build.stored(0)?;
    let wide = build.cast(x, DataType::F32)?;
    let to = build.case.output.kind.storage();
    build.cast(wide, to).map(Flow::Stored)
}

pub(super) fn convert(build: &mut Build<'_>) -> Made {
    let x = build.stored(0)?;
    let to = build.case.output.kind.storage();
    build.cast(x, to).map(Flow::Stored)
}

pub(super) fn dequantize(build: &mut Build<'_>) -> Made {
    let numbers = build.numbers(0)?;
    match build.case.output.kind.storage() {
        DataType::F32 => Ok(Flow::Numbers(numbers)),
        to => build.cast(numbers, to).map(Flow::Numbers),
    }
}

pub(super) fn quantize(build: &mut Build<'_>) -> Made {
    build.numbers(0).map(Flow::Numbers)
}
