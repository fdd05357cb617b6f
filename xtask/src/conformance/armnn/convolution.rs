//! Convolutions.

use super::build::{AttributeList, GraphBuilder, LayerResult, LayerValue, ints};
use super::case::CaseTensor;
use tenon_graph::{Attribute, ValueId};

/// Converts padding from Arm NN's order (top, left, bottom, right, then front and back) to ONNX's.
pub(super) fn pads(values: &[i64]) -> Result<Attribute, String> {
    match *values {
        [top, left, bottom, right] => Ok(ints([top, left, bottom, right])),
        [top, left, bottom, right, front, back] => {
            Ok(ints([front, top, left, back, bottom, right]))
        }
        _ => Err(format!(
            "padding of {} values: expected 4 or 6",
            values.len()
        )),
    }
}

/// Converts x, y (, z) to ONNX's order: the slowest dimension first.
pub(super) fn reversed(values: &[i64]) -> Attribute {
    ints(values.iter().rev().copied())
}

/// Convolution of input 0 with `weights` in ONNX's order, and input 2 or the parameter as bias.
fn convolution(
    build: &mut GraphBuilder<'_>,
    op: &str,
    weights: ValueId,
    attributes: AttributeList<'_>,
) -> LayerResult {
    let rank = build.rank(0)?;
    let x = build.real_input(0)?;
    let x = build.with_channels_first(x, rank)?;
    let mut inputs = vec![x, weights];
    if build.case.flag("BiasEnabled")? {
        let bias: &CaseTensor = match build.case.tensor("bias") {
            Some(bias) => bias,
            None => build.input(2)?,
        };
        inputs.push(build.bias_constant(bias)?);
    }
    let y = build.node(op, &inputs, attributes)?;
    build.in_case_layout(y, rank).map(LayerValue::Real)
}

pub(super) fn two_dimensional(build: &mut GraphBuilder<'_>) -> LayerResult {
    let case = build.case;
    let weights = build.real_constant(build.input(1)?)?;
    // [M, C, H, W], or [M, H, W, C].
    let weights = build.with_channels_first(weights, 4)?;
    let attributes = [
        ("pads", pads(&case.ints("Padding(T,L,B,R)")?)?),
        ("strides", reversed(&case.ints("Stride(X,Y)")?)),
        ("dilations", reversed(&case.ints("Dilation(X,Y)")?)),
    ];
    convolution(build, "Conv", weights, &attributes)
}

pub(super) fn three_dimensional(build: &mut GraphBuilder<'_>) -> LayerResult {
    let case = build.case;
    let weights = build.real_constant(build.input(1)?)?;
    // [D, H, W, C, M] in either layout.
    let weights = build.transpose(weights, &[4, 3, 0, 1, 2])?;
    let attributes = [
        ("pads", pads(&case.ints("Padding(T,L,B,R,F,B)")?)?),
        ("strides", reversed(&case.ints("Stride(X,Y,Z)")?)),
        ("dilations", reversed(&case.ints("Dilation(X,Y,Z)")?)),
    ];
    convolution(build, "Conv", weights, &attributes)
}

pub(super) fn depthwise(build: &mut GraphBuilder<'_>) -> LayerResult {
    let case = build.case;
    let channel = if case.channels_last()? { 3 } else { 1 };
    let channels = build.input(0)?.shape()[channel];
    let weights = build.real_constant(build.input(1)?)?;
    // [1, H, W, C times the multiplier] in either layout.
    let weights = build.transpose(weights, &[3, 0, 1, 2])?;
    let attributes = [
        ("pads", pads(&case.ints("Padding(T,L,B,R)")?)?),
        ("strides", reversed(&case.ints("Stride(X,Y)")?)),
        ("dilations", reversed(&case.ints("Dilation(X,Y)")?)),
        ("group", Attribute::Int(channels as i64)),
    ];
    convolution(build, "Conv", weights, &attributes)
}

pub(super) fn transposed(build: &mut GraphBuilder<'_>) -> LayerResult {
    let case = build.case;
    let weights = case.tensor("weight").ok_or("the weights are missing")?;
    let weights = build.real_constant(weights)?;
    // [M, C, H, W], or [M, H, W, C]; here ONNX has the input's channels first.
    let weights = build.with_channels_first(weights, 4)?;
    let weights = build.transpose(weights, &[1, 0, 2, 3])?;
    let attributes = [
        ("pads", pads(&case.ints("Padding(T,L,B,R)")?)?),
        ("strides", reversed(&case.ints("Stride(X,Y)")?)),
    ];
    convolution(build, "ConvTranspose", weights, &attributes)
}
