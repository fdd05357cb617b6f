//! Convolutions.

use super::build::{Build, Flow, List, Made, ints};
use super::case::Given;
use tenon_graph::{Attribute, ValueId};

/// Padding in Arm NN's order (top, left, bottom, right, then front and back) in ONNX's.
pub(super) fn pads(values: &[i64]) -> Result<Attribute, String> {
    match *values {
        [top, left, bottom, right] => Ok(ints([top, left, bottom, right])),
        [top, left, bottom, right, front, back] => {
            Ok(ints([front, top, left, back, bottom, right]))
        }
        _ => Err(format!("padding of {} numbers", values.len())),
    }
}

/// x, y (, z) as ONNX has them: the slowest dimension first.
pub(super) fn reversed(values: &[i64]) -> Attribute {
    ints(values.iter().rev().copied())
}

/// Convolution of input 0 with `weights` in ONNX's order, and input 2 or the parameter as bias.
fn convolution(build: &mut Build<'_>, op: &str, weights: ValueId, attributes: List<'_>) -> Made {
    let rank = build.rank(0)?;
    let x = build.numbers(0)?;
    let x = build.channels_second(x, rank)?;
    let mut inputs = vec![x, weights];
    if build.case.flag("BiasEnabled")? {
        let bias: &Given = match build.case.tensor("bias") {
            Some(bias) => bias,
            None => build.given(2)?,
        };
        inputs.push(build.bias(bias)?);
    }
    let y = build.node(op, &inputs, attributes)?;
    build.as_laid_out(y, rank).map(Flow::Numbers)
}

pub(super) fn two_dimensional(build: &mut Build<'_>) -> Made {
    let case = build.case;
    let weights = build.known(build.given(1)?)?;
    // [M, C, H, W], or [M, H, W, C].
    let weights = build.channels_second(weights, 4)?;
    let attributes = [
        ("pads", pads(&case.ints("Padding(T,L,B,R)")?)?),
        ("strides", reversed(&case.ints("Stride(X,Y)")?)),
        ("dilations", reversed(&case.ints("Dilation(X,Y)")?)),
    ];
    convolution(build, "Conv", weights, &attributes)
}

pub(super) fn three_dimensional(build: &mut Build<'_>) -> Made {
    let case = build.case;
    let weights = build.known(build.given(1)?)?;
    // [D, H, W, C, M] in either layout.
    let weights = build.transposed(weights, &[4, 3, 0, 1, 2])?;
    let attributes = [
        ("pads", pads(&case.ints("Padding(T,L,B,R,F,B)")?)?),
        ("strides", reversed(&case.ints("Stride(X,Y,Z)")?)),
        ("dilations", reversed(&case.ints("Dilation(X,Y,Z)")?)),
    ];
    convolution(build, "Conv", weights, &attributes)
}

pub(super) fn depthwise(build: &mut Build<'_>) -> Made {
    let case = build.case;
    let channel = if case.channels_last()? { 3 } else { 1 };
    let channels = build.given(0)?.shape()[channel];
    let weights = build.known(build.given(1)?)?;
    // [1, H, W, C times the multiplier] in either layout.
    let weights = build.transposed(weights, &[3, 0, 1, 2])?;
    let attributes = [
        ("pads", pads(&case.ints("Padding(T,L,B,R)")?)?),
        ("strides", reversed(&case.ints("Stride(X,Y)")?)),
        ("dilations", reversed(&case.ints("Dilation(X,Y)")?)),
        ("group", Attribute::Int(channels as i64)),
    ];
    convolution(build, "Conv", weights, &attributes)
}

pub(super) fn transposed(build: &mut Build<'_>) -> Made {
    let case = build.case;
    let weights = case.tensor("weight").ok_or("the weights are missing")?;
    let weights = build.known(weights)?;
    // [M, C, H, W], or [M, H, W, C]; ONNX's has the input's channels first here.
    let weights = build.channels_second(weights, 4)?;
    let weights = build.transposed(weights, &[1, 0, 2, 3])?;
    let attributes = [
        ("pads", pads(&case.ints("Padding(T,L,B,R)")?)?),
        ("strides", reversed(&case.ints("Stride(X,Y)")?)),
    ];
    convolution(build, "ConvTranspose", weights, &attributes)
}
