//! Layers that move elements, and those that only look at a shape.

use super::build::{Build, Flow, Made, text};
use tenon_graph::{Attribute, ValueId};
use tenon_tensor::DataType;

/// Applies `change` to a value on its way, whatever it is.
pub(super) fn through(flow: Flow, change: impl FnOnce(ValueId) -> Result<ValueId, String>) -> Made {
    match flow {
        Flow::Stored(value) => change(value).map(Flow::Stored),
        Flow::Numbers(value) => change(value).map(Flow::Numbers),
    }
}

pub(super) fn identity(build: &mut Build<'_>) -> Made {
    let x = build.moved(0)?;
    through(x, |x| build.node("Identity", &[x], &[]))
}

/// The data has no origins of views: it can only be the whole.
pub(super) fn splitter(build: &mut Build<'_>) -> Made {
    if build.given(0)?.shape() != build.case.output.shape() {
        return Err("the data has no origin of the view".into());
    }
    identity(build)
}

/// The elements are the output's: there is nothing else.
pub(super) fn constant(build: &mut Build<'_>) -> Made {
    let constant = build.constant(build.case.output.tensor.clone());
    build.node("Identity", &[constant], &[]).map(Flow::Stored)
}

pub(super) fn permute(build: &mut Build<'_>) -> Made {
    // Where each dimension goes; ONNX says where each comes from.
    let targets = build.case.ints("DimMappings")?;
    let source = |target: i64| targets.iter().position(|&to| to == target);
    let order: Option<Vec<i64>> = (0..targets.len() as i64)
        .map(|target| source(target).map(|from| from as i64))
        .collect();
    let order = order.ok_or("the dimensions are no permutation")?;
    let x = build.moved(0)?;
    through(x, |x| build.transposed(x, &order))
}

pub(super) fn transpose(build: &mut Build<'_>) -> Made {
    let order = build.case.ints("DimMappings")?;
    let x = build.moved(0)?;
    through(x, |x| build.transposed(x, &order))
}

/// To the output's shape: the data has no target.
pub(super) fn reshape(build: &mut Build<'_>) -> Made {
    let shape = extents(build.case.output.shape());
    let x = build.moved(0)?;
    through(x, |x| build.reshaped(x, &shape))
}

pub(super) fn extents(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&extent| extent as i64).collect()
}

pub(super) fn channel_shuffle(build: &mut Build<'_>) -> Made {
    let axis = build.case.int("Axis")? as usize;
    let groups = build.case.int("NumGroups")?;
    let shape = extents(build.given(0)?.shape());
    let split = [
        &shape[..axis],
        &[groups, shape[axis] / groups],
        &shape[axis + 1..],
    ]
    .concat();
    let mut order: Vec<i64> = (0..split.len() as i64).collect();
    order.swap(axis, axis + 1);
    let x = build.moved(0)?;
    through(x, |x| {
        let apart = build.reshaped(x, &split)?;
        let shuffled = build.transposed(apart, &order)?;
        build.reshaped(shuffled, &shape)
    })
}

/// DepthToSpace or SpaceToDepth, columns before rows before depth.
pub(super) fn depth_and_space(build: &mut Build<'_>, op: &str) -> Made {
    let attributes = [
        ("blocksize", Attribute::Int(build.case.int("BlockSize")?)),
        ("mode", text("DCR")),
    ];
    let x = build.moved(0)?;
    through(x, |x| {
        let x = build.channels_second(x, 4)?;
        let y = build.node(op, &[x], &attributes)?;
        build.as_laid_out(y, 4)
    })
}

/// Pairs of a parameter such as `[0,0],[2,0]`.
fn pairs(build: &Build<'_>, name: &str) -> Result<Vec<[i64; 2]>, String> {
    let list = build.case.ints(name)?;
    let (pairs, rest) = list.as_chunks::<2>();
    match rest {
        [] => Ok(pairs.to_vec()),
        _ => Err(format!("parameter {name} is no list of pairs")),
    }
}

/// Input 0 with the planes' dimensions right behind the batch, and its shape then.
fn channels_at_end(build: &mut Build<'_>) -> Result<(Flow, Vec<i64>), String> {
    let shape = extents(build.given(0)?.shape());
    let x = build.moved(0)?;
    if build.case.channels_last()? {
        return Ok((x, shape));
    }
    let (rank, mut moved) = (shape.len() as i64, shape);
    moved[1..].rotate_left(1);
    let order: Vec<i64> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let x = through(x, |x| build.transposed(x, &order))?;
    Ok((x, moved))
}

/// The other way round.
fn channels_as_before(build: &mut Build<'_>, x: ValueId, rank: usize) -> Result<ValueId, String> {
    if build.case.channels_last()? {
        return Ok(x);
    }
    let last = rank as i64 - 1;
    let order: Vec<i64> = [0, last].into_iter().chain(1..last).collect();
    build.transposed(x, &order)
}

/// [b.. N, D.., C] to [N, D b.., C], then cropped.
pub(super) fn batch_to_space(build: &mut Build<'_>) -> Made {
    let blocks = build.case.ints("BlockShape")?;
    let crops = pairs(build, "Crops")?;
    let (x, shape) = channels_at_end(build)?;
    let count = blocks.len();
    let batch = shape[0] / blocks.iter().product::<i64>();
    let apart = [&blocks[..], &[batch], &shape[1..]].concat();
    // The batch, then each extent with its block, then what is left.
    let mut order = vec![count as i64];
    let mut together = vec![batch];
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for (index, (&block, [before, after])) in blocks.iter().zip(crops).enumerate() {
        order.extend([(count + 1 + index) as i64, index as i64]);
        let extent = shape[1 + index] * block;
        together.push(extent);
        starts.push(before);
        ends.push(extent - after);
    }
    order.extend(2 * count as i64 + 1..apart.len() as i64);
    together.extend(&shape[1 + count..]);
    through(x, |x| {
        let apart = build.reshaped(x, &apart)?;
        let ordered = build.transposed(apart, &order)?;
        let whole = build.reshaped(ordered, &together)?;
        let [starts, ends] = [build.list(&starts)?, build.list(&ends)?];
        let axes: Vec<i64> = (1..=count as i64).collect();
        let axes = build.list(&axes)?;
        let cropped = build.node("Slice", &[whole, starts, ends, axes], &[])?;
        channels_as_before(build, cropped, shape.len())
    })
}

/// Padded, then [N, D b.., C] to [b.. N, D.., C].
pub(super) fn space_to_batch(build: &mut Build<'_>) -> Made {
    let blocks = build.case.ints("BlockShape")?;
    let paddings = pairs(build, "PadList")?;
    let (x, shape) = channels_at_end(build)?;
    let count = blocks.len();
    let axes: Vec<i64> = (1..=count as i64).collect();
    let pads: Vec<i64> = [0, 1]
        .into_iter()
        .flat_map(|end| paddings.iter().map(move |pad| pad[end]))
        .collect();
    let mut apart = vec![shape[0]];
    let mut together = vec![shape[0] * blocks.iter().product::<i64>()];
    for (index, (&block, [before, after])) in blocks.iter().zip(paddings).enumerate() {
        let extent = (shape[1 + index] + before + after) / block;
        apart.extend([extent, block]);
        together.push(extent);
    }
    apart.extend(&shape[1 + count..]);
    together.extend(&shape[1 + count..]);
    let places = |first: usize| (0..count).map(move |index| (first + 2 * index) as i64);
    let order: Vec<i64> = places(2)
        .chain([0])
        .chain(places(1))
        .chain(2 * count as i64 + 1..apart.len() as i64)
        .collect();
    let zero = zero(build, x)?;
    through(x, |x| {
        let [pads, axes] = [build.list(&pads)?, build.list(&axes)?];
        let padded = build.node("Pad", &[x, pads, zero, axes], &[])?;
        let apart = build.reshaped(padded, &apart)?;
        let ordered = build.transposed(apart, &order)?;
        let whole = build.reshaped(ordered, &together)?;
        channels_as_before(build, whole, shape.len())
    })
}

/// What stands for 0 in `flow`.
fn zero(build: &mut Build<'_>, flow: Flow) -> Result<ValueId, String> {
    match flow {
        Flow::Numbers(_) => build.number(0.0),
        Flow::Stored(_) => {
            let given = build.given(0)?;
            let offset = if given.kind.is_quantised() {
                given.offset
            } else {
                0
            };
            build.number_of(given.kind.storage(), offset as f32)
        }
    }
}

/// The parameter's value in the shape that input 0 holds.
pub(super) fn fill(build: &mut Build<'_>) -> Made {
    let to = build.case.output.kind.storage();
    let value = build.case.number("Value")?;
    let shape = build.stored(0)?;
    let shape = build.cast(shape, DataType::I64)?;
    let value = build.number_of(to, value)?;
    build.node("Expand", &[value, shape], &[]).map(Flow::Stored)
}

pub(super) fn shape(build: &mut Build<'_>) -> Made {
    let x = build.stored(0)?;
    let shape = build.node("Shape", &[x], &[])?;
    let to = build.case.output.kind.storage();
    build.cast(shape, to).map(Flow::Stored)
}

/// How many extents the shape has.
pub(super) fn rank(build: &mut Build<'_>) -> Made {
    let x = build.stored(0)?;
    let shape = build.node("Shape", &[x], &[])?;
    let rank = build.node("Size", &[shape], &[])?;
    let to = build.case.output.kind.storage();
    let rank = build.cast(rank, to)?;
    build.reshaped(rank, &[1]).map(Flow::Stored)
}
