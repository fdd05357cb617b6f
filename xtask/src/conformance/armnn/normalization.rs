//! Reductions and normalisations.

use super::build::{GraphBuilder, LayerResult, LayerValue, ints};
use tenon_graph::{Attribute, ValueId};
use tenon_tensor::{Tensor, convert};

pub(super) fn arg_min_max(build: &mut GraphBuilder<'_>) -> LayerResult {
    let op = match build.case.int("Function")? {
        0 => "ArgMin",
        1 => "ArgMax",
        other => return Err(format!("unknown function: {other}")),
    };
    let attributes = [
        ("axis", Attribute::Int(build.case.int("Axis")?)),
        ("keepdims", Attribute::Int(0)),
    ];
    let x = build.real_input(0)?;
    let index = build.node(op, &[x], &attributes)?;
    let to = build.case.output.kind.storage();
    build.cast(index, to).map(LayerValue::Stored)
}

pub(super) fn mean(build: &mut GraphBuilder<'_>) -> LayerResult {
    reduction(build, "ReduceMean")
}

pub(super) fn reduce(build: &mut GraphBuilder<'_>) -> LayerResult {
    let op = match build.case.text("ReduceOperation")? {
        "Sum" => "ReduceSum",
        "Max" => "ReduceMax",
        "Mean" => "ReduceMean",
        "Min" => "ReduceMin",
        "Prod" => "ReduceProd",
        other => return Err(format!("unknown operation: {other}")),
    };
    reduction(build, op)
}

/// Reduces over the given axes, or all. The rank of the output decides whether axes are kept: the
/// parameter of some cases contradicts it. A single element is a list of one, never a scalar.
fn reduction(build: &mut GraphBuilder<'_>, op: &str) -> LayerResult {
    let axes = build.case.ints("Axis")?;
    let rank = build.rank(0)?;
    let keep = build.case.output.shape().len() == rank;
    let all = axes.is_empty() || axes.len() == rank;
    let x = build.real_input(0)?;
    let mut inputs = vec![x];
    if !axes.is_empty() {
        inputs.push(build.int_list(&axes)?);
    }
    let mut y = build.node(op, &inputs, &[("keepdims", Attribute::Int(keep.into()))])?;
    if all && !keep {
        y = build.reshape(y, &[1])?;
    }
    Ok(LayerValue::Real(y))
}

/// Softmax, or its logarithm, of the input times the parameter Beta.
pub(super) fn softmax(build: &mut GraphBuilder<'_>, op: &str) -> LayerResult {
    let axis = build.case.int("Axis")?;
    let beta = build.case.float("Beta")?;
    let x = build.real_input(0)?;
    let beta = build.scalar(beta)?;
    let scaled = build.node("Mul", &[x, beta], &[])?;
    build
        .node(op, &[scaled], &[("axis", Attribute::Int(axis))])
        .map(LayerValue::Real)
}

pub(super) fn batch(build: &mut GraphBuilder<'_>) -> LayerResult {
    let rank = build.rank(0)?;
    let x = build.real_input(0)?;
    let x = build.with_channels_first(x, rank)?;
    let mut inputs = vec![x];
    for name in ["gamma", "beta", "mean", "var"] {
        let missing = || format!("parameter {name} is missing");
        let tensor = build.case.tensor(name).ok_or_else(missing)?;
        inputs.push(build.real_constant(tensor)?);
    }
    let epsilon = Attribute::Float(build.case.float("Eps")?);
    let y = build.node("BatchNormalization", &inputs, &[("epsilon", epsilon)])?;
    build.in_case_layout(y, rank).map(LayerValue::Real)
}

pub(super) fn instance(build: &mut GraphBuilder<'_>) -> LayerResult {
    let (shape, rank) = (build.input(0)?.shape(), build.rank(0)?);
    let channels = if build.case.channels_last()? {
        shape[rank - 1]
    } else {
        shape[1]
    };
    let x = build.real_input(0)?;
    let x = build.with_channels_first(x, rank)?;
    let gamma = per_channel(build, "Gamma", channels)?;
    let beta = per_channel(build, "Beta", channels)?;
    let epsilon = Attribute::Float(build.case.float("Eps")?);
    let y = build.node(
        "InstanceNormalization",
        &[x, gamma, beta],
        &[("epsilon", epsilon)],
    )?;
    build.in_case_layout(y, rank).map(LayerValue::Real)
}

/// A parameter repeated for each channel.
fn per_channel(
    build: &mut GraphBuilder<'_>,
    name: &str,
    channels: usize,
) -> Result<ValueId, String> {
    let value = build.case.float(name)?;
    let list = Tensor::from_slice([channels], &vec![value; channels])
        .and_then(|list| convert(&list, build.compute_type()));
    Ok(build.constant(list.map_err(|error| error.to_string())?))
}

/// x / sqrt(max(sum of x² over the channels, epsilon)).
pub(super) fn l2(build: &mut GraphBuilder<'_>) -> LayerResult {
    // Arm NN's default; the data rounds the parameter to six places.
    let epsilon = build.case.float("Eps")?.max(1e-12);
    let channel = if build.case.channels_last()? { -1 } else { 1 };
    let x = build.real_input(0)?;
    let squares = build.node("Mul", &[x, x], &[])?;
    let axes = build.int_list(&[channel])?;
    let sum = build.node("ReduceSum", &[squares, axes], &[])?;
    let epsilon = build.scalar(epsilon)?;
    let sum = build.node("Max", &[sum, epsilon], &[])?;
    let root = build.node("Sqrt", &[sum], &[])?;
    build.node("Div", &[x, root], &[]).map(LayerValue::Real)
}

/// x / (K + Alpha sum)^Beta, with the sum of x² over neighbouring channels or within a window.
pub(super) fn local_response(build: &mut GraphBuilder<'_>) -> LayerResult {
    let case = build.case;
    if case.text("NormMethodType")? != "LocalBrightness" {
        return Err("NormMethodType is not LocalBrightness".into());
    }
    let size = case.int("NormSize")?;
    let (alpha, beta, k) = (case.float("Alpha")?, case.float("Beta")?, case.float("K")?);
    let rank = build.rank(0)?;
    let x = build.real_input(0)?;
    let x = build.with_channels_first(x, rank)?;
    let y = match case.text("NormChannelType")? {
        "Across" => build.node(
            "LRN",
            &[x],
            &[
                // ONNX divides alpha by the size.
                ("alpha", Attribute::Float(alpha * size as f32)),
                ("beta", Attribute::Float(beta)),
                ("bias", Attribute::Float(k)),
                ("size", Attribute::Int(size)),
            ],
        ),
        "Within" => local_response_within(build, x, size, [alpha, beta, k]),
        other => Err(format!("unknown channel type: {other}")),
    }?;
    build.in_case_layout(y, rank).map(LayerValue::Real)
}

fn local_response_within(
    build: &mut GraphBuilder<'_>,
    x: ValueId,
    size: i64,
    [alpha, beta, k]: [f32; 3],
) -> Result<ValueId, String> {
    let squares = build.node("Mul", &[x, x], &[])?;
    let around = size / 2;
    let window = [
        ("kernel_shape", ints([size, size])),
        ("pads", ints([around; 4])),
        ("count_include_pad", Attribute::Int(1)),
    ];
    let mean = build.node("AveragePool", &[squares], &window)?;
    let alpha = build.scalar(alpha * (size * size) as f32)?;
    let scaled = build.node("Mul", &[mean, alpha], &[])?;
    let k = build.scalar(k)?;
    let sum = build.node("Add", &[scaled, k], &[])?;
    let beta = build.scalar(beta)?;
    let power = build.node("Pow", &[sum, beta], &[])?;
    build.node("Div", &[x, power], &[])
}
