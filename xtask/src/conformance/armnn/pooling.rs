//! Pooling and resizing.

use super::build::{Build, Flow, List, Made, ints, text};
use super::convolution::{pads, reversed};
use tenon_graph::{Attribute, ValueId};

pub(super) fn two_dimensional(build: &mut Build<'_>) -> Made {
    pool(build, ["Padding(T,L,B,R)", "(Width,Height)", "Stride(X,Y)"])
}

pub(super) fn three_dimensional(build: &mut Build<'_>) -> Made {
    pool(
        build,
        [
            "Padding(T,L,B,R,F,B)",
            "(Width,Height,Depth)",
            "Stride(X,Y,Z)",
        ],
    )
}

fn pool(build: &mut Build<'_>, [padding, size, stride]: [&str; 3]) -> Made {
    let case = build.case;
    let ceiling = case.text("OutputShapeRounding")? == "Ceiling";
    let counts_padding = match case.text("PaddingMethod")? {
        "IgnoreValue" => 1,
        "Exclude" => 0,
        other => return Err(format!("an unknown padding method: {other}")),
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
    let x = build.numbers(0)?;
    let x = build.channels_second(x, rank)?;
    let y = match case.text("Type")? {
        "Max" => build.node("MaxPool", &[x], &window[..4]),
        "Average" => build.node("AveragePool", &[x], &window),
        "L2" => root_mean_square(build, x, &window),
        other => Err(format!("an unknown type: {other}")),
    }?;
    let longest = padded.iter().max();
    let y = match case.ints(size)?.iter().min() <= longest {
        true => zero_over_padding(build, y, &window[..4])?,
        false => y,
    };
    build.as_laid_out(y, rank).map(Flow::Numbers)
}

/// A window over padding alone gives 0 by Arm NN's convention: the others are those in which the
/// largest of ones is a one.
fn zero_over_padding(
    build: &mut Build<'_>,
    y: ValueId,
    window: List<'_>,
) -> Result<ValueId, String> {
    let ones = build.ones_of_planes()?;
    let largest = build.node("MaxPool", &[ones], window)?;
    let zero = build.number(0.0)?;
    let reached = build.node("Greater", &[largest, zero], &[])?;
    build.node("Where", &[reached, y, zero], &[])
}

/// sqrt(mean(x²)); ONNX's LpPool is the root of the sum.
fn root_mean_square(
    build: &mut Build<'_>,
    x: ValueId,
    window: List<'_>,
) -> Result<ValueId, String> {
    let squares = build.node("Mul", &[x, x], &[])?;
    let mean = build.node("AveragePool", &[squares], window)?;
    build.node("Sqrt", &[mean], &[])
}

/// To the output's shape: the parameters of some cases tell another one.
pub(super) fn resize(build: &mut Build<'_>) -> Made {
    let case = build.case;
    let corners = case.flag("AlignCorners")?;
    let coordinates = match (corners, case.flag("HalfPixelCenters")?) {
        (true, _) => "align_corners",
        (false, true) => "half_pixel",
        (false, false) => "asymmetric",
    };
    let (mode, nearest) = match case.text("ResizeMethod")? {
        "Bilinear" => ("linear", "floor"),
        // Half-pixel positions are rounded to the pixel they lie in, corners to the nearest.
        "NearestNeighbour" if coordinates == "asymmetric" => ("nearest", "floor"),
        "NearestNeighbour" => ("nearest", "round_prefer_ceil"),
        other => return Err(format!("an unknown method: {other}")),
    };
    let planes = if case.channels_last()? { 1..3 } else { 2..4 };
    let sizes: Vec<i64> = case.output.shape()[planes]
        .iter()
        .map(|&extent| extent as i64)
        .collect();
    let x = build.numbers(0)?;
    let x = build.channels_second(x, 4)?;
    let [roi, scales] = [build.no_numbers()?, build.no_numbers()?];
    let sizes = build.list(&sizes)?;
    let attributes = [
        ("axes", ints([2, 3])),
        ("coordinate_transformation_mode", text(coordinates)),
        ("mode", text(mode)),
        ("nearest_mode", text(nearest)),
    ];
    let y = build.node("Resize", &[x, roi, scales, sizes], &attributes)?;
    build.as_laid_out(y, 4).map(Flow::Numbers)
}
