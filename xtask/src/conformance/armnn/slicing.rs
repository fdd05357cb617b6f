//! Slices, gathers, concatenation and padding.

use super::build::{GraphBuilder, LayerResult, LayerValue, text};
use super::movement::{extents, map_value};
use tenon_graph::{Attribute, ValueId};
use tenon_tensor::DataType;

/// Concatenates all inputs: stored elements if all have the encoding of the output, otherwise real
/// values.
fn join(build: &mut GraphBuilder<'_>, axis: i64, op: Join) -> LayerResult {
    let case = build.case;
    let stored = case
        .inputs
        .iter()
        .all(|tensor| tensor.has_same_encoding(&case.output));
    let mut parts = Vec::new();
    for index in 0..case.inputs.len() {
        let mut part = if stored {
            build.stored_input(index)?
        } else {
            build.real_input(index)?
        };
        if op == Join::Stack {
            let axes = build.int_list(&[axis])?;
            part = build.node("Unsqueeze", &[part, axes], &[])?;
        }
        parts.push(part);
    }
    let whole = build.node("Concat", &parts, &[("axis", Attribute::Int(axis))])?;
    Ok(if stored {
        LayerValue::Stored(whole)
    } else {
        LayerValue::Real(whole)
    })
}

#[derive(PartialEq)]
enum Join {
    Concat,
    Stack,
}

/// Concatenates along the dimension in which the output is longer: some cases have no parameter.
pub(super) fn concat(build: &mut GraphBuilder<'_>) -> LayerResult {
    let (first, whole) = (build.input(0)?.shape(), build.case.output.shape());
    let axis = first.iter().zip(whole).position(|(a, b)| a != b);
    join(build, axis.unwrap_or(0) as i64, Join::Concat)
}

pub(super) fn stack(build: &mut GraphBuilder<'_>) -> LayerResult {
    let axis = build.case.int("Axis")?;
    join(build, axis, Join::Stack)
}

pub(super) fn gather(build: &mut GraphBuilder<'_>) -> LayerResult {
    let axis = Attribute::Int(build.case.int("Axis")?);
    let x = build.movable_input(0)?;
    let indices = build.stored_input(1)?;
    map_value(x, |x| {
        build.node("Gather", &[x, indices], &[("axis", axis)])
    })
}

pub(super) fn gather_nd(build: &mut GraphBuilder<'_>) -> LayerResult {
    let x = build.movable_input(0)?;
    let indices = build.stored_input(1)?;
    let indices = build.cast(indices, DataType::I64)?;
    map_value(x, |x| build.node("GatherND", &[x, indices], &[]))
}

pub(super) fn tile(build: &mut GraphBuilder<'_>) -> LayerResult {
    let multiples = build.case.ints("Multiples")?;
    let x = build.movable_input(0)?;
    let multiples = build.int_list(&multiples)?;
    map_value(x, |x| build.node("Tile", &[x, multiples], &[]))
}

/// The operands of Slice; steps may be negative.
struct SliceRange {
    starts: Vec<i64>,
    ends: Vec<i64>,
    steps: Vec<i64>,
    axes: Vec<i64>,
}

impl SliceRange {
    fn apply(&self, build: &mut GraphBuilder<'_>, x: ValueId) -> Result<ValueId, String> {
        let starts = build.int_list(&self.starts)?;
        let ends = build.int_list(&self.ends)?;
        let axes = build.int_list(&self.axes)?;
        let steps = build.int_list(&self.steps)?;
        build.node("Slice", &[x, starts, ends, axes, steps], &[])
    }

    /// `count` elements of `axis` in reverse order, starting at `last`.
    fn backwards(axis: i64, last: i64, count: i64) -> Self {
        // An end below -extent is before the first element.
        let end = if last < count { i64::MIN } else { last - count };
        Self {
            starts: vec![last],
            ends: vec![end],
            steps: vec![-1],
            axes: vec![axis],
        }
    }
}

pub(super) fn slice(build: &mut GraphBuilder<'_>) -> LayerResult {
    let starts = build.case.ints("Begin")?;
    let sizes = build.case.ints("Size")?;
    let part = SliceRange {
        ends: starts.iter().zip(&sizes).map(|(a, b)| a + b).collect(),
        steps: vec![1; starts.len()],
        axes: (0..starts.len() as i64).collect(),
        starts,
    };
    let x = build.movable_input(0)?;
    map_value(x, |x| part.apply(build, x))
}

pub(super) fn strided_slice(build: &mut GraphBuilder<'_>) -> LayerResult {
    let case = build.case;
    if case.int("EllipsisMask")? != 0 || case.int("NewAxisMask")? != 0 {
        return Err("ellipsis and new-axis masks are not supported".into());
    }
    let masks = |name| case.int(name);
    let (begins, ends, shrinks) = (
        masks("BeginMask")?,
        masks("EndMask")?,
        masks("ShrinkAxisMask")?,
    );
    let mut part = SliceRange {
        starts: case.ints("Begin")?,
        ends: case.ints("End")?,
        steps: case.ints("Stride")?,
        axes: Vec::new(),
    };
    for axis in 0..part.starts.len() {
        let set = |mask: i64| mask >> axis & 1 == 1;
        let forward = part.steps[axis] > 0;
        if set(begins) {
            part.starts[axis] = if forward { 0 } else { i64::MAX };
        }
        if set(shrinks) {
            // One element, whatever the end is.
            part.ends[axis] = match part.starts[axis] {
                -1 => i64::MAX,
                start => start + 1,
            };
            part.steps[axis] = 1;
        } else if set(ends) {
            part.ends[axis] = if forward { i64::MAX } else { i64::MIN };
        }
        part.axes.push(axis as i64);
    }
    let shape = extents(case.output.shape());
    let x = build.movable_input(0)?;
    map_value(x, |x| {
        let sliced = part.apply(build, x)?;
        if shrinks == 0 {
            return Ok(sliced);
        }
        build.reshape(sliced, &shape)
    })
}

/// Reverses the axes in input 1.
pub(super) fn reverse(build: &mut GraphBuilder<'_>) -> LayerResult {
    let axes = build
        .input(1)?
        .elements
        .to_i64s()
        .ok_or("the axes are not integers")?;
    let part = SliceRange {
        starts: vec![-1; axes.len()],
        ends: vec![i64::MIN; axes.len()],
        steps: vec![-1; axes.len()],
        axes,
    };
    let x = build.movable_input(0)?;
    map_value(x, |x| part.apply(build, x))
}

pub(super) fn pad(build: &mut GraphBuilder<'_>) -> LayerResult {
    let list = build.case.ints("PadList")?;
    let (pairs, _) = list.as_chunks::<2>();
    let x = build.movable_input(0)?;
    let mode = match build.case.text("PaddingMode")? {
        // The data calls the mode Constant so.
        "Exclude" => "constant",
        "Reflect" => "reflect",
        "Symmetric" => {
            return map_value(x, |x| symmetric(build, x, pairs));
        }
        other => return Err(format!("an unknown mode: {other}")),
    };
    // The value is a stored integer if the input is quantised.
    let storage = build.input(0)?.kind.storage();
    let value = build.case.float("PadValue")?;
    let value = build.scalar_of(storage, value)?;
    let pads: Vec<i64> = [0, 1]
        .into_iter()
        .flat_map(|end| pairs.iter().map(move |pair| pair[end]))
        .collect();
    map_value(x, |x| {
        let pads = build.int_list(&pads)?;
        build.node("Pad", &[x, pads, value], &[("mode", text(mode))])
    })
}

/// Pads by reflection that repeats the edge elements, one dimension after the other.
fn symmetric(
    build: &mut GraphBuilder<'_>,
    x: ValueId,
    pairs: &[[i64; 2]],
) -> Result<ValueId, String> {
    let shape = extents(build.input(0)?.shape());
    let mut x = x;
    for (axis, (&[before, after], extent)) in pairs.iter().zip(shape).enumerate() {
        let axis = axis as i64;
        let mut parts = Vec::new();
        if before > 0 {
            parts.push(SliceRange::backwards(axis, before - 1, before).apply(build, x)?);
        }
        parts.push(x);
        if after > 0 {
            parts.push(SliceRange::backwards(axis, extent - 1, after).apply(build, x)?);
        }
        x = build.node("Concat", &parts, &[("axis", Attribute::Int(axis))])?;
    }
    Ok(x)
}
