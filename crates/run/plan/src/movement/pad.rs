//! Lowering of Pad: with a constant, or with elements of the input.

use super::{MAX_DESCRIPTORS, MovementNode, RefusalText, copy, text, wrap};
use tenon_dma::Descriptor;
use tenon_graph::Attributes;

impl MovementNode<'_> {
    pub(super) fn pad(&self, attributes: &Attributes) -> Result<Vec<Descriptor>, RefusalText> {
        let mode = attributes.string("mode", "constant").map_err(text)?;
        if mode != "constant" {
            return self.pad_from_inside(mode);
        }
        let (from, to) = (self.input(0)?, self.output(0)?);
        let fill = self.input(2).map_err(|_| "the fill value has no memory")?;
        let rank = to.ty.shape().len();
        let mut before = vec![0i64; rank];
        let mut inside = from.ty.shape().to_vec();
        for (axis, ends) in self.pads(rank)?.into_iter().enumerate() {
            // A negative pad crops the input.
            for pad in ends {
                let cropped = usize::try_from(pad.min(0).unsigned_abs());
                let cropped = cropped.map_err(|_| "a pad is too large")?;
                inside[axis] = inside[axis]
                    .checked_sub(cropped)
                    .ok_or("a pad is too large")?;
            }
            before[axis] = ends[0];
        }
        let mut list = Vec::new();
        // For each axis the slabs before and after, restricted to the inside of the previous axes.
        let mut start = vec![0usize; rank];
        let mut cut = vec![0usize; rank];
        let mut shape = to.ty.shape().to_vec();
        for axis in 0..rank {
            let first = usize::try_from(before[axis].max(0)).map_err(|_| "a pad is too large")?;
            let last = first + inside[axis];
            let after = shape[axis].checked_sub(last).ok_or("the pads do not fit")?;
            for (first, count) in [(0, first), (last, after)] {
                start[axis] = first;
                shape[axis] = count;
                let source = fill.place(&[], vec![0; rank]);
                list.extend(copy(
                    &to,
                    &shape,
                    source,
                    to.place(&start, to.strides.clone()),
                )?);
            }
            start[axis] = first;
            shape[axis] = inside[axis];
            cut[axis] = usize::try_from(before[axis].min(0).unsigned_abs())
                .map_err(|_| "a pad is too large")?;
        }
        list.extend(copy(
            &to,
            &shape,
            from.place(&cut, from.strides.clone()),
            to.place(&start, to.strides.clone()),
        )?);
        Ok(list)
    }

    /// The pads before and after each axis.
    fn pads(&self, rank: usize) -> Result<Vec<[i64; 2]>, RefusalText> {
        let pads = self.ints(1)?.ok_or("the pads are left out")?;
        let axes = self.ints(3)?.unwrap_or_else(|| (0..rank as i64).collect());
        let mut ends = vec![[0; 2]; rank];
        for (index, &axis) in axes.iter().enumerate() {
            let pair = pads.get(index).zip(pads.get(index + axes.len()));
            let (&before, &after) = pair.ok_or("the pads are too few")?;
            ends[wrap(axis, rank)?] = [before, after];
        }
        Ok(ends)
    }

    /// A pad with elements of the input: a copy for each combination of the segments before, inside
    /// and after of every axis.
    fn pad_from_inside(&self, mode: &str) -> Result<Vec<Descriptor>, RefusalText> {
        let (from, to) = (self.input(0)?, self.output(0)?);
        let rank = to.ty.shape().len();
        let (mut axes, mut total) = (Vec::with_capacity(rank), 1usize);
        for (axis, [before, after]) in self.pads(rank)?.into_iter().enumerate() {
            let (extent, padded) = (from.ty.shape()[axis], to.ty.shape()[axis]);
            let segments = segments(mode, extent, before, after)?;
            if segments.iter().map(|segment| segment.count).sum::<usize>() != padded {
                return Err("the pads do not fit".into());
            }
            total = total.saturating_mul(segments.len());
            axes.push(segments);
        }
        if total > MAX_DESCRIPTORS {
            return Err(format!("it would take {total} descriptors"));
        }
        let mut list = Vec::with_capacity(total);
        for combination in 0..total {
            let (mut rest, mut shape) = (combination, vec![0; rank]);
            let (mut first, mut strides) = (vec![0; rank], from.strides.clone());
            let mut start = vec![0; rank];
            for (axis, segments) in axes.iter().enumerate() {
                let segment = &segments[rest % segments.len()];
                rest /= segments.len();
                (start[axis], shape[axis], first[axis]) =
                    (segment.start, segment.count, segment.first);
                strides[axis] *= segment.step;
            }
            let source = from.place(&first, strides);
            list.extend(copy(
                &to,
                &shape,
                source,
                to.place(&start, to.strides.clone()),
            )?);
        }
        Ok(list)
    }
}

/// A segment of one axis of a padded tensor, and the elements of the source that fill it.
struct Segment {
    /// The first index in the padded tensor.
    start: usize,
    count: usize,
    /// The first index in the source.
    first: usize,
    /// The step in the source: 0 repeats one element, -1 is reversed.
    step: i64,
}

/// The non-empty segments of an axis of `extent`.
fn segments(
    mode: &str,
    extent: usize,
    before: i64,
    after: i64,
) -> Result<Vec<Segment>, RefusalText> {
    let count = |pad: i64| {
        let pad = usize::try_from(pad);
        pad.map_err(|_| format!("descriptors do not take away by mode {mode}"))
    };
    let (before, after) = (count(before)?, count(after)?);
    // The largest possible pad, the first source elements of both pads, and their step.
    let (limit, first, after_first, step) = match mode {
        "edge" => (usize::MAX, 0, extent.saturating_sub(1), 0),
        "reflect" => (
            extent.saturating_sub(1),
            before,
            extent.saturating_sub(2),
            -1,
        ),
        "wrap" => (extent, extent.saturating_sub(before), 0, 1),
        _ => return Err(format!("descriptors do not pad by mode {mode}")),
    };
    let whole = before.checked_add(extent);
    if whole.and_then(|sum| sum.checked_add(after)).is_none() {
        return Err("a pad is too large".into());
    }
    if before.max(after) > limit || (extent == 0 && before + after > 0) {
        return Err(format!(
            "a pad by mode {mode} is larger than what it repeats"
        ));
    }
    let segment = |start: usize, count: usize, first: usize, step: i64| Segment {
        start,
        count,
        first,
        step,
    };
    let mut segments = vec![
        segment(0, before, first, step),
        segment(before, extent, 0, 1),
        segment(before + extent, after, after_first, step),
    ];
    segments.retain(|segment| segment.count > 0);
    Ok(segments)
}
