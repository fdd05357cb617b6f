//! Pooling and resizing.

use super::build::{AttributeList, GraphBuilder, LayerResult, LayerValue, ints, text};
use super::convolution::{pads, reversed};
use tenon_graph::{Attribute, ValueId};

pub(super) fn two_dimensional(build: &mut GraphBuilder<'_>) -> LayerResult {
    pool(build, ["Padding(T,L,B,R)", "(Width,Height)", "Stride(X,Y)"])
}

pub(super) fn three_dimensional(build: &mut GraphBuilder<'_>) -> LayerResult {
    pool(
        build,
        [
            "Padding(T,L,B,R,F,B)",
            "(Width,Height,Depth)",
            "Stride(X,Y,Z)",
        ],
    )
}

fn pool(build: &mut GraphBuilder<'_>, [padding, size, stride]: [&str; 3]) -> LayerResult {
    let case = build.case;
    let ceiling = case.text("OutputShapeRounding")? == "Ceiling";
    let counts_padding = match case.text("PaddingMethod")? {
        "IgnoreValue" => 1,
        "Exclude" => 0,
        other => return Err(format!("unknown padding method: {other}")),
    };
    let padded = case.ints(padding)?;
    let window = [
        ("pads", pads(&padded)?),
        ("kernel_shape", reversed(&case.ints(size)?)),
        ("strides", reversed(&case.ints(stride)?)),
        ("ceil_mode", Attribute::Int(ceiling.into())),
        ("count_include_pad", Attribute::Int(counts_padding)),
    ];
    let rank = build.rank(0)?;
    let x = build.real_input(0)?;
    let x = build.with_channels_first(x, rank)?;
    let y = match case.text("Type")? {
        "Max" => build.node("MaxPool", &[x], &window[..4]),
        "Average" => build.node("AveragePool", &[x], &window),
        "L2" => root_mean_square(build, x, &window),
        other => Err(format!("unknown type: {other}")),
    }?;
    let longest = padded.iter().max();
    let y = if case.ints(size)?.iter().min() <= longest {
        zero_over_padding(build, y, &window[..4])?
    } else {
        y
    };
    build.in_case_layout(y, rank).map(LayerValue::Real)
}

/// Sets windows that cover only padding to 0, Arm NN's convention: those in which the maximum of an
/// image of ones is not 1.
fn zero_over_padding(
    build: &mut GraphBuilder<'_>,
    y: ValueId,
    window: AttributeList<'_>,
) -> Result<ValueId, String> {
    let ones = build.ones_like_planes()?;
    let largest = build.node("MaxPool", &[ones], window)?;
    let zero = build.scalar(0.0)?;
    let covers_image = build.node("Greater", &[largest, zero], &[])?;
    build.node("Where", &[covers_image, y, zero], &[])
}

/// sqrt(mean(x²)); ONNX's LpPool is the root of the sum, not of the mean.
fn root_mean_square(
    build: &mut GraphBuilder<'_>,
    x: ValueId,
    window: AttributeList<'_>,
) -> Result<ValueId, String> {
    let squares = build.node("Mul", &[x, x], &[])?;
    let mean = build.node("AveragePool", &[squares], window)?;
    build.node("Sqrt", &[mean], &[])
}

/// Resizes to the output's shape: the parameters of some cases have another one.
pub(super) fn resize(build: &mut GraphBuilder<'_>) -> LayerResult {
    let case = build.case;
    let corners = case.flag("AlignCorners")?;
    let coordinates = match (corners, case.flag("HalfPixelCenters")?) {
        (true, _) => "align_corners",
        (false, true) => "half_pixel",
        (false, false) => "asymmetric",
    };
    let (mode, nearest) = match case.text("ResizeMethod")? {
        "Bilinear" => ("linear", "floor"),
        // Half-pixel coordinates are rounded to the pixel that contains them, corners to the nearest.
        "NearestNeighbour" if coordinates == "asymmetric" => ("nearest", "floor"),
        "NearestNeighbour" => ("nearest", "round_prefer_ceil"),
        other => return Err(format!("unknown method: {other}")),
    };
    let planes = if case.channels_last()? { 1..3 } else { 2..4 };
    let sizes: Vec<i64> = case.output.shape()[planes]
        .iter()
        .map(|&extent| extent as i64)
        .collect();
    let x = build.real_input(0)?;
    let x = build.with_channels_first(x, 4)?;
    let [roi, scales] = [build.empty_list()?, build.empty_list()?];
    let sizes = build.int_list(&sizes)?;
    let attributes = [
        ("axes", ints([2, 3])),
        ("coordinate_transformation_mode", text(coordinates)),
        ("mode", text(mode)),
        ("nearest_mode", text(nearest)),
    ];
    let y = build.node("Resize", &[x, roi, scales, sizes], &attributes)?;
    build.in_case_layout(y, 4).map(LayerValue::Real)
}
