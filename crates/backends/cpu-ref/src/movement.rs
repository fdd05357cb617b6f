//! Operators that move elements unchanged, or only change the shape.

use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, axis, indices, invalid, length, sized, unsupported_value,
};
use crate::loop_nest::{AxisExtents, AxisMaps, LoopNest, broadcast, strides};
use crate::number::Index;
use tenon_base::Result;
use tenon_graph::geometry::{padding, slice_axes, split_sizes};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("Reshape", same_bytes),
    ("Flatten", same_bytes),
    ("Squeeze", same_bytes),
    ("Unsqueeze", same_bytes),
    ("Identity", same_bytes),
    ("Dropout", same_bytes),
    ("Transpose", transpose),
    ("Concat", concat),
    ("Slice", slice),
    ("Split", split),
    ("Expand", expand),
    ("Pad", pad),
    ("Tile", tile),
    ("DepthToSpace", depth_to_space),
    ("SpaceToDepth", space_to_depth),
    ("CenterCropPad", center_crop_pad),
    ("ReverseSequence", reverse_sequence),
];

fn same_bytes(_: &Node<'_>) -> Result<Kernel, BuildError> {
    Ok(crate::unary::map(|byte: u8| byte))
}

/// A kernel that copies along `nest`, after filling the output with zeros where `gaps`.
fn copy(node: &Node<'_>, nest: LoopNest<2>, gaps: bool) -> Result<Kernel, BuildError> {
    sized!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let to = outputs.slice::<T>(0)?;
        if gaps {
            to.fill(0);
        }
        nest.copy(to, inputs.slice::<T>(0)?);
        Ok(())
    })))
}

fn transpose(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (from, to) = (node.shape(0)?, node.output(0)?.shape());
    let order: Vec<usize> = match node.attributes.ints("perm")? {
        Some(perm) => perm
            .iter()
            .map(|&at| axis(at, from.len()))
            .collect::<Result<_>>()?,
        None => (0..from.len()).rev().collect(),
    };
    let own = strides(from);
    let permuted: Vec<isize> = order.iter().map(|&axis| own[axis]).collect();
    copy(node, LoopNest::new(to, [&strides(to), &permuted]), false)
}

fn expand(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let to = node.output(0)?.shape();
    copy(
        node,
        LoopNest::new(to, [&strides(to), &broadcast(node.shape(0)?, to)?]),
        false,
    )
}

/// Each input is copied to a part of each of the output's rows.
fn concat(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let out = node.output(0)?.shape();
    let along = node.axis("axis", 0, out.len())?;
    let own = strides(out);
    let mut start = 0;
    let mut nests = Vec::new();
    for index in 0..node.inputs.len() {
        let shape = node.shape(index)?;
        nests.push(LoopNest::new(shape, [&own, &strides(shape)]).starting_at([start, 0]));
        start += own[along] * shape[along] as isize;
    }
    sized!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let to = outputs.slice::<T>(0)?;
        for (index, nest) in nests.iter().enumerate() {
            nest.copy(to, inputs.slice::<T>(index)?);
        }
        Ok(())
    })))
}

/// Each output is a part of each of the input's rows.
fn split(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?;
    let along = node.axis("axis", 0, shape.len())?;
    let own = strides(shape);
    let mut start = 0;
    let mut nests = Vec::new();
    for (index, extent) in split_sizes(&node.inference(), shape[along])?
        .into_iter()
        .enumerate()
    {
        if let Some(Some(ty)) = node.outputs.get(index) {
            let to = strides(ty.shape());
            nests.push((
                index,
                LoopNest::new(ty.shape(), [&to, &own]).starting_at([0, start]),
            ));
        }
        start += own[along] * extent as isize;
    }
    sized!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let from = inputs.slice::<T>(0)?;
        for (index, nest) in &nests {
            nest.copy(outputs.slice::<T>(*index)?, from);
        }
        Ok(())
    })))
}

fn slice(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let out = node.output(0)?.shape();
    let mut from = strides(node.shape(0)?);
    let mut start = 0;
    for (stride, axis) in from.iter_mut().zip(slice_axes(&node.inference())?) {
        start += axis.start as isize * *stride;
        // The step of a single element is not used, and may be too large for the stride.
        *stride = if axis.length > 1 {
            *stride * axis.step as isize
        } else {
            0
        };
    }
    copy(
        node,
        LoopNest::new(out, [&strides(out), &from]).starting_at([0, start]),
        false,
    )
}

/// Output dimension i is split into [repeats, input dimension].
fn tile(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (shape, out) = (node.shape(0)?, node.output(0)?.shape());
    let own = strides(out);
    let from = strides(shape);
    let (mut dims, mut to_strides, mut from_strides) = (vec![], vec![], vec![]);
    for at in 0..shape.len() {
        let repeats = out[at].checked_div(shape[at]).unwrap_or(0);
        dims.extend([repeats, shape[at]]);
        to_strides.extend([own[at] * shape[at] as isize, own[at]]);
        from_strides.extend([0, from[at]]);
    }
    copy(
        node,
        LoopNest::new(&dims, [&to_strides, &from_strides]),
        false,
    )
}

/// The output's [N, C, H, b, W, b] read from the input's channels.
fn depth_to_space(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let out = node.output(0)?.shape();
    let block = node.attributes.int("blocksize", 1)?.max(1) as usize;
    let (plane, h, w) = (
        node.shape(0)?[2] * node.shape(0)?[3],
        node.shape(0)?[2],
        node.shape(0)?[3],
    );
    let channels = out[1];
    let deep = (channels * block * block * plane) as isize;
    // Strides of channel, block row and block column among the input's channels.
    let (c, row, column) = match node.attributes.string("mode", "DCR")? {
        "DCR" => (1, block * channels, channels),
        "CRD" => (block * block, block, 1),
        mode => return Err(unsupported_value("mode", mode)),
    };
    let step = |channels: usize| (channels * plane) as isize;
    let dims = [out[0], channels, h, block, w, block];
    let from = [deep, step(c), w as isize, step(row), 1, step(column)];
    copy(node, LoopNest::new(&dims, [&dense(&dims), &from]), false)
}

/// The output's [N, b, b, C, H, W] (or [N, C, b, b, H, W]) read from the input's plane.
fn space_to_depth(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (shape, out) = (node.shape(0)?, node.output(0)?.shape());
    let block = node.attributes.int("blocksize", 1)?.max(1) as usize;
    let own = strides(shape);
    let (b, c, h, w) = (block, shape[1], out[2], out[3]);
    let (row, column) = (own[2], own[3]);
    let (down, right) = (row * b as isize, column * b as isize);
    let (dims, from) = match node.attributes.string("mode", "DCR")? {
        "DCR" => (
            [shape[0], b, b, c, h, w],
            [own[0], row, column, own[1], down, right],
        ),
        "CRD" => (
            [shape[0], c, b, b, h, w],
            [own[0], own[1], row, column, down, right],
        ),
        mode => return Err(unsupported_value("mode", mode)),
    };
    copy(node, LoopNest::new(&dims, [&dense(&dims), &from]), false)
}

fn dense(dims: &[usize]) -> Vec<isize> {
    strides(&dims.to_vec().into())
}

/// The part of an axis that is kept, and its position in a padded tensor.
struct PaddedAxis {
    /// Elements removed at the start.
    skipped: usize,
    /// Padding at the start.
    before: usize,
    /// Elements kept.
    kept: usize,
}

fn padded(node: &Node<'_>) -> Result<Vec<PaddedAxis>> {
    let (shape, out) = (node.shape(0)?, node.output(0)?.shape());
    let pads = padding(&node.inference())?;
    let axis = |at: usize| {
        let before = pads[at].0;
        let skipped = usize::try_from(before.saturating_neg())
            .unwrap_or(0)
            .min(shape[at]);
        let before = usize::try_from(before).unwrap_or(0).min(out[at]);
        PaddedAxis {
            skipped,
            before,
            kept: (shape[at] - skipped).min(out[at] - before),
        }
    };
    Ok((0..shape.len()).map(axis).collect())
}

fn pad(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (shape, out) = (node.shape(0)?, node.output(0)?.shape());
    let axes = padded(node)?;
    let mode = node.attributes.string("mode", "constant")?;
    if mode == "constant" {
        let kept: Vec<usize> = axes.iter().map(|axis| axis.kept).collect();
        let (own, from) = (strides(out), strides(shape));
        let start = |of: &[isize], at: fn(&PaddedAxis) -> usize| -> isize {
            axes.iter()
                .zip(of)
                .map(|(axis, stride)| at(axis) as isize * stride)
                .sum()
        };
        let starts = [
            start(&own, |axis| axis.before),
            start(&from, |axis| axis.skipped),
        ];
        let nest = LoopNest::new(&kept, [&own, &from]).starting_at(starts);
        return sized!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            let value = inputs.optional::<T>(2)?.and_then(|value| value.first().copied());
            let to = outputs.slice::<T>(0)?;
            to.fill(value.unwrap_or(0));
            nest.copy(to, inputs.slice::<T>(0)?);
            Ok(())
        })));
    }
    let source: fn(i64, i64) -> i64 = match mode {
        "edge" => |at, kept| at.clamp(0, kept - 1),
        "wrap" => i64::rem_euclid,
        "reflect" => |at, kept| {
            let period = (2 * (kept - 1)).max(1);
            let at = at.rem_euclid(period);
            at.min(period - at).min(kept - 1)
        },
        mode => return Err(unsupported_value("mode", mode)),
    };
    if axes
        .iter()
        .zip(&**out)
        .any(|(axis, &extent)| axis.kept == 0 && extent > 0)
    {
        return Err(invalid("padding of an empty dimension requires mode constant").into());
    }
    let maps = AxisMaps::new(shape, out, |axis, at| {
        let axis = &axes[axis];
        axis.skipped + source(at as i64 - axis.before as i64, axis.kept as i64) as usize
    })?;
    sized!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        maps.copy(outputs.slice::<T>(0)?, inputs.slice::<T>(0)?);
        Ok(())
    })))
}

/// Keeps the middle; an odd element is removed, or added, at the end.
fn center_crop_pad(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (shape, out) = (node.shape(0)?, node.output(0)?.shape());
    let (own, from) = (strides(out), strides(shape));
    let kept: Vec<usize> = shape.iter().zip(&**out).map(|(&a, &b)| a.min(b)).collect();
    let mut starts = [0isize; 2];
    for at in 0..shape.len() {
        starts[0] += own[at] * (out[at].saturating_sub(shape[at]) / 2) as isize;
        starts[1] += from[at] * (shape[at].saturating_sub(out[at]) / 2) as isize;
    }
    copy(
        node,
        LoopNest::new(&kept, [&own, &from]).starting_at(starts),
        true,
    )
}

/// The lengths are read at run time.
fn reverse_sequence(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?.clone();
    let batch = node.axis("batch_axis", 1, shape.len())?;
    let time = node.axis("time_axis", 0, shape.len())?;
    if batch.max(time) != 1 || batch == time {
        return Err(unsupported_value("batch_axis", batch));
    }
    let rows = AxisExtents::new(&shape, 1);
    let (batches, steps) = (shape[batch], shape[time]);
    let row = move |batch_at: usize, step: usize| {
        let (first, second) = if batch == 0 {
            (batch_at, step)
        } else {
            (step, batch_at)
        };
        (first * rows.extent + second) * rows.inner
    };
    sized!(node.dtype(0)?, 0, T => indices!(node.dtype(1)?, 1, I => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, lens) = (inputs.slice::<T>(0)?, inputs.slice::<I>(1)?);
        let to = outputs.slice::<T>(0)?;
        for (at, len) in lens.iter().enumerate().take(batches) {
            let len = length(len.to_i64(), steps)?;
            for step in 0..steps {
                let source = if step < len { len - 1 - step } else { step };
                let (start, source) = (row(at, step), row(at, source));
                to[start..start + rows.inner].copy_from_slice(&from[source..source + rows.inner]);
            }
        }
        Ok(())
    }))))
}
