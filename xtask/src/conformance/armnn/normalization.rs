//! Layers that reduce, and those that normalise.

use super::build::{Build, Flow, Made, ints};
use tenon_graph::{Attribute, ValueId};
use tenon_tensor::{Tensor, convert};

pub(super) fn arg_min_max(build: &mut Build<'_>) -> Made {
    let op = match build.case.int("Function")? {
        0 => "ArgMin",
        1 => "ArgMax",
        other => return Err(format!("an unknown function: {other}")),
    };
    let attributes = [
        ("axis", Attribute::Int(build.case.int("Axis")?)),
        ("keepdims", Attribute::Int(0)),
    ];
    let x = build.numbers(0)?;
    let index = build.node(op, &[x], &attributes)?;
    let to = build.case.output.kind.storage();
    build.cast(index, to).map(Flow::Stored)
}

pub(super) fn mean(build: &mut Build<'_>) -> Made {
    reduction(build, "ReduceMean")
}

pub(super) fn reduce(build: &mut Build<'_>) -> Made {
    let op = match build.case.text("ReduceOperation")? {
        "Sum" => "ReduceSum",
        "Max" => "ReduceMax",
        "Mean" => "ReduceMean",
        "Min" => "ReduceMin",
        "Prod" => "ReduceProd",
        other => return Err(format!("an unknown operation: {other}")),
    };
    reduction(build, op)
}

/// Over the named axes, or all. Whether they are kept is what the output shows: the parameter of
/// some cases says otherwise. One element is a list of one, never a scalar.
fn reduction(build: &mut Build<'_>, op: &str) -> Made {
    let axes = build.case.ints("Axis")?;
    let rank = build.rank(0)?;
    let keep = build.case.output.shape().len() == rank;
    let all = axes.is_empty() || axes.len() == rank;
    let x = build.numbers(0)?;
    let mut inputs = vec![x];
    if !axes.is_empty() {
        inputs.push(build.list(&axes)?);
    }
    let mut y = build.node(op, &inputs, &[("keepdims", Attribute::Int(keep.into()))])?;
    if all && !keep {
        y = build.reshaped(y, &[1])?;
    }
    Ok(Flow::Numbers(y))
}

/// Softmax, or its logarithm, of the numbers times the parameter Beta.
pub(super) fn softmax(build: &mut Build<'_>, op: &str) -> Made {
    let axis = build.case.int("Axis")?;
    let beta = build.case.number("Beta")?;
    let x = build.numbers(0)?;
    let beta = build.number(beta)?;
    let scaled = build.node("Mul", &[x, beta], &[])?;
    build
        .node(op, &[scaled], &[("axis", Attribute::Int(axis))])
        .map(Flow::Numbers)
}

pub(super) fn batch(build: &mut Build<'_>) -> Made {
    let rank = build.rank(0)?;
    let x = build.numbers(0)?;
    let x = build.channels_second(x, rank)?;
    let mut inputs = vec![x];
    for name in ["gamma", "beta", "mean", "var"] {
        let missing = || format!("parameter {name} is missing");
        let given = build.case.tensor(name).ok_or_else(missing)?;
        inputs.push(build.known(given)?);
    }
    let epsilon = Attribute::Float(build.case.number("Eps")?);
    let y = build.node("BatchNormalization", &inputs, &[("epsilon", epsilon)])?;
    build.as_laid_out(y, rank).map(Flow::Numbers)
}

pub(super) fn instance(build: &mut Build<'_>) -> Made {
    let (shape, rank) = (build.given(0)?.shape(), build.rank(0)?);
    let channels = match build.case.channels_last()? {
        true => shape[rank - 1],
        false => shape[1],
    };
    let x = build.numbers(0)?;
    let x = build.channels_second(x, rank)?;
    let gamma = each(build, "Gamma", channels)?;
    let beta = each(build, "Beta", channels)?;
    let epsilon = Attribute::Float(build.case.number("Eps")?);
    let y = build.node(
        "InstanceNormalization",
        &[x, gamma, beta],
        &[("epsilon", epsilon)],
    )?;
    build.as_laid_out(y, rank).map(Flow::Numbers)
}

/// A parameter as the same number for each channel.
fn each(build: &mut Build<'_>, name: &str, channels: usize) -> Result<ValueId, String> {
    let value = build.case.number(name)?;
    let list = Tensor::from_slice([channels], &vec![value; channels])
        .and_then(|list| convert(&list, build.computes_in()));
    Ok(build.constant(list.map_err(|error| error.to_string())?))
}

/// x / sqrt(max(sum of x² over the channels, epsilon)).
pub(super) fn l2(build: &mut Build<'_>) -> Made {
    // Arm NN's default; the data rounds the parameter to six places.
    let epsilon = build.case.number("Eps")?.max(1e-12);
    let channel = match build.case.channels_last()? {
        true => -1,
        false => 1,
    };
    let x = build.numbers(0)?;
    let squares = build.node("Mul", &[x, x], &[])?;
    let axes = build.list(&[channel])?;
    let sum = build.node("ReduceSum", &[squares, axes], &[])?;
    let epsilon = build.number(epsilon)?;
    let sum = build.node("Max", &[sum, epsilon], &[])?;
    let root = build.node("Sqrt", &[sum], &[])?;
    build.node("Div", &[x, root], &[]).map(Flow::Numbers)
}

/// x / (K + Alpha sum)^Beta, with the sum of x² over neighbouring channels or within a window.
pub(super) fn local_response(build: &mut Build<'_>) -> Made {
    let case = build.case;
    if case.text("NormMethodType")? != "LocalBrightness" {
        return Err("only LocalBrightness is known".into());
    }
    let size = case.int("NormSize")?;
    let (alpha, beta, k) = (
        case.number("Alpha")?,
        case.number("Beta")?,
        case.number("K")?,
    );
    let rank = build.rank(0)?;
    let x = build.numbers(0)?;
    let x = build.channels_second(x, rank)?;
    let y = match case.text("NormChannelType")? {
        "Across" => build.node(
            "LRN",
            &[x],
            &[
                // ONNX's is divided by the size.
                ("alpha", Attribute::Float(alpha * size as f32)),
                ("beta", Attribute::Float(beta)),
                ("bias", Attribute::Float(k)),
                ("size", Attribute::Int(size)),
            ],
        ),
        "Within" => within(build, x, size, [alpha, beta, k]),
        other => Err(format!("an unknown channel type: {other}")),
    }?;
    build.as_laid_out(y, rank).map(Flow::Numbers)
}

fn within(
    build: &mut Build<'_>,
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
    let alpha = build.number(alpha * (size * size) as f32)?;
    let scaled = build.node("Mul", &[mean, alpha], &[])?;
    let k = build.number(k)?;
    let sum = build.node("Add", &[scaled, k], &[])?;
    let beta = build.number(beta)?;
    let power = build.node("Pow", &[sum, beta], &[])?;
    build.node("Div", &[x, power], &[])
}
