//! Layers that take parts, and those that put parts together.

use super::build::{Build, Flow, Made, text};
use super::movement::{extents, through};
use tenon_graph::{Attribute, ValueId};
use tenon_tensor::DataType;

/// All inputs one behind the other: as stored when all mean the same as the output, else the
/// numbers.
fn joined(build: &mut Build<'_>, axis: i64, op: Join) -> Made {
    let case = build.case;
    let stored = case
        .inputs
        .iter()
        .all(|given| given.means_the_same(&case.output));
    let mut parts = Vec::new();
    for index in 0..case.inputs.len() {
        let mut part = match stored {
            true => build.stored(index)?,
            false => build.numbers(index)?,
        };
        if op == Join::Stack {
            let axes = build.list(&[axis])?;
            part = build.node("Unsqueeze", &[part, axes], &[])?;
        }
        parts.push(part);
    }
    let whole = build.node("Concat", &parts, &[("axis", Attribute::Int(axis))])?;
    Ok(match stored {
        true => Flow::Stored(whole),
        false => Flow::Numbers(whole),
    })
}

#[derive(PartialEq)]
enum Join {
    Concat,
    Stack,
}

/// Along the dimension in which the output is longer: the parameter is not set in some cases.
pub(super) fn concat(build: &mut Build<'_>) -> Made {
    let (first, whole) = (build.given(0)?.shape(), build.case.output.shape());
    let axis = first.iter().zip(whole).position(|(a, b)| a != b);
    joined(build, axis.unwrap_or(0) as i64, Join::Concat)
}

pub(super) fn stack(build: &mut Build<'_>) -> Made {
    let axis = build.case.int("Axis")?;
    joined(build, axis, Join::Stack)
}

pub(super) fn gather(build: &mut Build<'_>) -> Made {
    let axis = Attribute::Int(build.case.int("Axis")?);
    let x = build.moved(0)?;
    let indices = build.stored(1)?;
    through(x, |x| {
        build.node("Gather", &[x, indices], &[("axis", axis)])
    })
}

pub(super) fn gather_nd(build: &mut Build<'_>) -> Made {
    let x = build.moved(0)?;
    let indices = build.stored(1)?;
    let indices = build.cast(indices, DataType::I64)?;
    through(x, |x| build.node("GatherND", &[x, indices], &[]))
}

pub(super) fn tile(build: &mut Build<'_>) -> Made {
    let multiples = build.case.ints("Multiples")?;
    let x = build.moved(0)?;
    let multiples = build.list(&multiples)?;
    through(x, |x| build.node("Tile", &[x, multiples], &[]))
}

/// A part of a value; steps may go backwards.
struct Part {
    starts: Vec<i64>,
    ends: Vec<i64>,
    steps: Vec<i64>,
    axes: Vec<i64>,
}

impl Part {
    fn of(&self, build: &mut Build<'_>, x: ValueId) -> Result<ValueId, String> {
        let starts = build.list(&self.starts)?;
        let ends = build.list(&self.ends)?;
        let axes = build.list(&self.axes)?;
        let steps = build.list(&self.steps)?;
        build.node("Slice", &[x, starts, ends, axes, steps], &[])
    }

    /// `count` elements of `axis`, the last first, from `last` downwards.
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

pub(super) fn slice(build: &mut Build<'_>) -> Made {
    let starts = build.case.ints("Begin")?;
    let sizes = build.case.ints("Size")?;
    let part = Part {
        ends: starts.iter().zip(&sizes).map(|(a, b)| a + b).collect(),
        steps: vec![1; starts.len()],
        axes: (0..starts.len() as i64).collect(),
        starts,
    };
    let x = build.moved(0)?;
    through(x, |x| part.of(build, x))
}

pub(super) fn strided_slice(build: &mut Build<'_>) -> Made {
    let case = build.case;
    if case.int("EllipsisMask")? != 0 || case.int("NewAxisMask")? != 0 {
        return Err("masks of new dimensions are not known".into());
    }
    let masks = |name| case.int(name);
    let (begins, ends, shrinks) = (
        masks("BeginMask")?,
        masks("EndMask")?,
        masks("ShrinkAxisMask")?,
    );
    let mut part = Part {
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
            // One element, whatever the end says.
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
    let x = build.moved(0)?;
    through(x, |x| {
        let kept = part.of(build, x)?;
        if shrinks == 0 {
            return Ok(kept);
        }
        build.reshaped(kept, &shape)
    })
}

/// Backwards along the axes that input 1 names.
pub(super) fn reverse(build: &mut Build<'_>) -> Made {
    let axes = build
        .given(1)?
        .tensor
        .to_i64s()
        .ok_or("axes are no integers")?;
    let part = Part {
        starts: vec![-1; axes.len()],
        ends: vec![i64::MIN; axes.len()],
        steps: vec![-1; axes.len()],
        axes,
    };
    let x = build.moved(0)?;
    through(x, |x| part.of(build, x))
}

pub(super) fn pad(build: &mut Build<'_>) -> Made {
    let list = build.case.ints("PadList")?;
    let (pairs, _) = list.as_chunks::<2>();
    let x = build.moved(0)?;
    let mode = match build.case.text("PaddingMode")? {
        // The name that the data's writer gives mode Constant.
        "Exclude" => "constant",
        "Reflect" => "reflect",
        "Symmetric" => {
            return through(x, |x| symmetric(build, x, pairs));
        }
        other => return Err(format!("an unknown mode: {other}")),
    };
    // The value is one of the stored integers where they are quantised.
    let storage = build.given(0)?.kind.storage();
    let value = build.case.number("PadValue")?;
    let value = build.number_of(storage, value)?;
    let pads: Vec<i64> = [0, 1]
        .into_iter()
        .flat_map(|end| pairs.iter().map(move |pair| pair[end]))
        .collect();
    through(x, |x| {
        let pads = build.list(&pads)?;
        build.node("Pad", &[x, pads, value], &[("mode", text(mode))])
    })
}

/// Mirrored at the edges, the edge elements twice, one dimension after the other.
fn symmetric(build: &mut Build<'_>, x: ValueId, pairs: &[[i64; 2]]) -> Result<ValueId, String> {
    let shape = extents(build.given(0)?.shape());
    let mut x = x;
    for (axis, (&[before, after], extent)) in pairs.iter().zip(shape).enumerate() {
        let axis = axis as i64;
        let mut parts = Vec::new();
        if before > 0 {
            parts.push(Part::backwards(axis, before - 1, before).of(build, x)?);
        }
        parts.push(x);
        if after > 0 {
            parts.push(Part::backwards(axis, extent - 1, after).of(build, x)?);
        }
        x = build.node("Concat", &parts, &[("axis", Attribute::Int(axis))])?;
    }
    Ok(x)
}
