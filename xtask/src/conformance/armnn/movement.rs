//! Layers that move elements, and layers that read only a shape.

use super::build::{GraphBuilder, LayerResult, LayerValue, text};
use tenon_graph::{Attribute, ValueId};
use tenon_tensor::DataType;

/// Applies `change` to the value, whatever its representation.
pub(super) fn map_value(
    value: LayerValue,
    change: impl FnOnce(ValueId) -> Result<ValueId, String>,
) -> LayerResult {
    match value {
        LayerValue::Stored(value) => change(value).map(LayerValue::Stored),
        LayerValue::Real(value) => change(value).map(LayerValue::Real),
    }
}

pub(super) fn identity(build: &mut GraphBuilder<'_>) -> LayerResult {
    let x = build.movable_input(0)?;
    map_value(x, |x| build.node("Identity", &[x], &[]))
}

/// The data has no origins of views: only a view of the whole tensor can be translated.
pub(super) fn splitter(build: &mut GraphBuilder<'_>) -> LayerResult {
    if build.input(0)?.shape() != build.case.output.shape() {
        return Err("the data has no origin of the view".into());
    }
    identity(build)
}

/// The elements are those of the expected output: the data has no others.
pub(super) fn constant(build: &mut GraphBuilder<'_>) -> LayerResult {
    let constant = build.constant(build.case.output.elements.clone());
    build
        .node("Identity", &[constant], &[])
        .map(LayerValue::Stored)
}

pub(super) fn permute(build: &mut GraphBuilder<'_>) -> LayerResult {
    // Arm NN stores the target of each dimension, ONNX its source.
    let targets = build.case.ints("DimMappings")?;
    let source = |target: i64| targets.iter().position(|&to| to == target);
    let order: Option<Vec<i64>> = (0..targets.len() as i64)
        .map(|target| source(target).map(|from| from as i64))
        .collect();
    let order = order.ok_or("the dimensions are not a permutation")?;
    let x = build.movable_input(0)?;
    map_value(x, |x| build.transpose(x, &order))
}

pub(super) fn transpose(build: &mut GraphBuilder<'_>) -> LayerResult {
    let order = build.case.ints("DimMappings")?;
    let x = build.movable_input(0)?;
    map_value(x, |x| build.transpose(x, &order))
}

/// Reshapes to the output's shape: the data has no target shape.
pub(super) fn reshape(build: &mut GraphBuilder<'_>) -> LayerResult {
    let shape = extents(build.case.output.shape());
    let x = build.movable_input(0)?;
    map_value(x, |x| build.reshape(x, &shape))
}

pub(super) fn extents(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&extent| extent as i64).collect()
}

pub(super) fn channel_shuffle(build: &mut GraphBuilder<'_>) -> LayerResult {
    let axis = build.case.int("Axis")? as usize;
    let groups = build.case.int("NumGroups")?;
    let shape = extents(build.input(0)?.shape());
    let split = [
        &shape[..axis],
        &[groups, shape[axis] / groups],
        &shape[axis + 1..],
    ]
    .concat();
    let mut order: Vec<i64> = (0..split.len() as i64).collect();
    order.swap(axis, axis + 1);
    let x = build.movable_input(0)?;
    map_value(x, |x| {
        let split = build.reshape(x, &split)?;
        let shuffled = build.transpose(split, &order)?;
        build.reshape(shuffled, &shape)
    })
}

/// DepthToSpace or SpaceToDepth, columns before rows before depth.
pub(super) fn depth_and_space(build: &mut GraphBuilder<'_>, op: &str) -> LayerResult {
    let attributes = [
        ("blocksize", Attribute::Int(build.case.int("BlockSize")?)),
        ("mode", text("DCR")),
    ];
    let x = build.movable_input(0)?;
    map_value(x, |x| {
        let x = build.with_channels_first(x, 4)?;
        let y = build.node(op, &[x], &attributes)?;
        build.in_case_layout(y, 4)
    })
}

/// Pairs of a parameter such as `[0,0],[2,0]`.
fn pairs(build: &GraphBuilder<'_>, name: &str) -> Result<Vec<[i64; 2]>, String> {
    let list = build.case.ints(name)?;
    let (pairs, rest) = list.as_chunks::<2>();
    match rest {
        [] => Ok(pairs.to_vec()),
        _ => Err(format!("parameter {name} is not a list of pairs")),
    }
}

/// Input 0 in channels-last layout, and its shape in that layout.
fn to_channels_last(build: &mut GraphBuilder<'_>) -> Result<(LayerValue, Vec<i64>), String> {
    let shape = extents(build.input(0)?.shape());
    let x = build.movable_input(0)?;
    if build.case.channels_last()? {
        return Ok((x, shape));
    }
    let (rank, mut permuted) = (shape.len() as i64, shape);
    permuted[1..].rotate_left(1);
    let order: Vec<i64> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let x = map_value(x, |x| build.transpose(x, &order))?;
    Ok((x, permuted))
}

/// Converts from channels-last layout to that of the case.
fn from_channels_last(
    build: &mut GraphBuilder<'_>,
    x: ValueId,
    rank: usize,
) -> Result<ValueId, String> {
    if build.case.channels_last()? {
        return Ok(x);
    }
    let last = rank as i64 - 1;
    let order: Vec<i64> = [0, last].into_iter().chain(1..last).collect();
    build.transpose(x, &order)
}

/// [b.. N, D.., C] to [N, D b.., C], then cropped.
pub(super) fn batch_to_space(build: &mut GraphBuilder<'_>) -> LayerResult {
    let blocks = build.case.ints("BlockShape")?;
    let crops = pairs(build, "Crops")?;
    let (x, shape) = to_channels_last(build)?;
    let count = blocks.len();
    let batch = shape[0] / blocks.iter().product::<i64>();
    let split = [&blocks[..], &[batch], &shape[1..]].concat();
    // The batch, then each extent with its block, then the remaining dimensions.
    let mut order = vec![count as i64];
    let mut merged = vec![batch];
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for (index, (&block, [before, after])) in blocks.iter().zip(crops).enumerate() {
        order.extend([(count + 1 + index) as i64, index as i64]);
        let extent = shape[1 + index] * block;
        merged.push(extent);
        starts.push(before);
        ends.push(extent - after);
    }
    order.extend(2 * count as i64 + 1..split.len() as i64);
    merged.extend(&shape[1 + count..]);
    map_value(x, |x| {
        let split = build.reshape(x, &split)?;
        let ordered = build.transpose(split, &order)?;
        let whole = build.reshape(ordered, &merged)?;
        let [starts, ends] = [build.int_list(&starts)?, build.int_list(&ends)?];
        let axes: Vec<i64> = (1..=count as i64).collect();
        let axes = build.int_list(&axes)?;
        let cropped = build.node("Slice", &[whole, starts, ends, axes], &[])?;
        from_channels_last(build, cropped, shape.len())
    })
}

/// Padded, then [N, D b.., C] to [b.. N, D.., C].
pub(super) fn space_to_batch(build: &mut GraphBuilder<'_>) -> LayerResult {
    let blocks = build.case.ints("BlockShape")?;
    let paddings = pairs(build, "PadList")?;
    let (x, shape) = to_channels_last(build)?;
    let count = blocks.len();
    let axes: Vec<i64> = (1..=count as i64).collect();
    let pads: Vec<i64> = [0, 1]
        .into_iter()
        .flat_map(|end| paddings.iter().map(move |pad| pad[end]))
        .collect();
    let mut split = vec![shape[0]];
    let mut merged = vec![shape[0] * blocks.iter().product::<i64>()];
    for (index, (&block, [before, after])) in blocks.iter().zip(paddings).enumerate() {
        let extent = (shape[1 + index] + before + after) / block;
        split.extend([extent, block]);
        merged.push(extent);
    }
    split.extend(&shape[1 + count..]);
    merged.extend(&shape[1 + count..]);
    let axes_from = |first: usize| (0..count).map(move |index| (first + 2 * index) as i64);
    let order: Vec<i64> = axes_from(2)
        .chain([0])
        .chain(axes_from(1))
        .chain(2 * count as i64 + 1..split.len() as i64)
        .collect();
    let zero = zero(build, x)?;
    map_value(x, |x| {
        let [pads, axes] = [build.int_list(&pads)?, build.int_list(&axes)?];
        let padded = build.node("Pad", &[x, pads, zero, axes], &[])?;
        let split = build.reshape(padded, &split)?;
        let ordered = build.transpose(split, &order)?;
        let whole = build.reshape(ordered, &merged)?;
        from_channels_last(build, whole, shape.len())
    })
}

/// The constant that represents 0 in the encoding of `value`.
fn zero(build: &mut GraphBuilder<'_>, value: LayerValue) -> Result<ValueId, String> {
    match value {
        LayerValue::Real(_) => build.scalar(0.0),
        LayerValue::Stored(_) => {
            let tensor = build.input(0)?;
            let offset = if tensor.kind.is_quantised() {
                tensor.offset
            } else {
                0
            };
            build.scalar_of(tensor.kind.storage(), offset as f32)
        }
    }
}

/// The parameter's value, expanded to the shape that input 0 contains.
pub(super) fn fill(build: &mut GraphBuilder<'_>) -> LayerResult {
    let to = build.case.output.kind.storage();
    let value = build.case.float("Value")?;
    let shape = build.stored_input(0)?;
    let shape = build.cast(shape, DataType::I64)?;
    let value = build.scalar_of(to, value)?;
    build
        .node("Expand", &[value, shape], &[])
        .map(LayerValue::Stored)
}

pub(super) fn shape(build: &mut GraphBuilder<'_>) -> LayerResult {
    let x = build.stored_input(0)?;
    let shape = build.node("Shape", &[x], &[])?;
    let to = build.case.output.kind.storage();
    build.cast(shape, to).map(LayerValue::Stored)
}

/// The number of dimensions.
pub(super) fn rank(build: &mut GraphBuilder<'_>) -> LayerResult {
    let x = build.stored_input(0)?;
    let shape = build.node("Shape", &[x], &[])?;
    let rank = build.node("Size", &[shape], &[])?;
    let to = build.case.output.kind.storage();
    let rank = build.cast(rank, to)?;
    build.reshape(rank, &[1]).map(LayerValue::Stored)
}
