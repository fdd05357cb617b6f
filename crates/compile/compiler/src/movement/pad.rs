//! Pads as descriptors: with a constant around the inside, or with what the inside repeats.

use super::{MAX_DESCRIPTORS, Mover, Refused, copy, text, wrap};
use tenon_dma::Descriptor;
use tenon_graph::Attributes;

impl Mover<'_> {
    pub(super) fn pad(&self, attributes: &Attributes) -> Result<Vec<Descriptor>, Refused> {
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
            // A negative pad takes away: less of the source is inside.
            for pad in ends {
                let less = usize::try_from(pad.min(0).unsigned_abs());
                let less = less.map_err(|_| "a pad is too large")?;
                inside[axis] = inside[axis].checked_sub(less).ok_or("a pad is too large")?;
            }
            before[axis] = ends[0];
        }
        let mut list = Vec::new();
        // Axis by axis the slabs before and after; axes done already are restricted to the inside.
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
    fn pads(&self, rank: usize) -> Result<Vec<[i64; 2]>, Refused> {
        let pads = self.ints(1)?.ok_or("the pads are left out")?;
        let axes = self.ints(3)?.unwrap_or_else(|| (0..rank as i64).collect());
        let mut ends = vec![[0; 2]; rank];
        for (index, &axis) in axes.iter().enumerate() {
            let given = pads.get(index).zip(pads.get(index + axes.len()));
            let (&before, &after) = given.ok_or("the pads are too few")?;
            ends[wrap(axis, rank)?] = [before, after];
        }
        Ok(ends)
    }

    /// A pad with what is inside: a copy for each combination of what stands before, inside and
    /// behind on every axis.
    fn pad_from_inside(&self, mode: &str) -> Result<Vec<Descriptor>, Refused> {
        let (from, to) = (self.input(0)?, self.output(0)?);
        let rank = to.ty.shape().len();
        let (mut axes, mut total) = (Vec::with_capacity(rank), 1usize);
        for (axis, [before, after]) in self.pads(rank)?.into_iter().enumerate() {
            let (extent, padded) = (from.ty.shape()[axis], to.ty.shape()[axis]);
            let parts = parts(mode, extent, before, after)?;
            if parts.iter().map(|part| part.count).sum::<usize>() != padded {
                return Err("the pads do not fit".into());
            }
            total = total.saturating_mul(parts.len());
            axes.push(parts);
        }
        if total > MAX_DESCRIPTORS {
            return Err(format!("it would take {total} descriptors"));
        }
        let mut list = Vec::with_capacity(total);
        for combination in 0..total {
            let (mut rest, mut shape) = (combination, vec![0; rank]);
            let (mut first, mut strides) = (vec![0; rank], from.strides.clone());
            let mut start = vec![0; rank];
            for (axis, parts) in axes.iter().enumerate() {
                let part = &parts[rest % parts.len()];
                rest /= parts.len();
                (start[axis], shape[axis], first[axis]) = (part.start, part.count, part.first);
                strides[axis] *= part.step;
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

/// A stretch of one axis of a padded tensor: where it starts and how long it is, and where on the
/// axis of the source it begins, in which direction.
struct Part {
    start: usize,
    count: usize,
    first: usize,
    step: i64,
}

/// The stretches of an axis of `extent`, empty ones left out.
fn parts(mode: &str, extent: usize, before: i64, after: i64) -> Result<Vec<Part>, Refused> {
    let count = |pad: i64| {
        let pad = usize::try_from(pad);
        pad.map_err(|_| format!("descriptors do not take away by mode {mode}"))
    };
    let (before, after) = (count(before)?, count(after)?);
    // How much an axis has to give, where what is before and behind begins, and its direction.
    let (most, first, behind, step) = match mode {
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
    if before.max(after) > most || (extent == 0 && before + after > 0) {
        return Err(format!(
            "a pad by mode {mode} is larger than what it repeats"
        ));
    }
    let part = |start: usize, count: usize, first: usize, step: i64| Part {
        start,
        count,
        first,
        step,
    };
    let mut parts = vec![
        part(0, before, first, step),
        part(before, extent, 0, 1),
        part(before + extent, after, behind, step),
    ];
    parts.retain(|part| part.count > 0);
    Ok(parts)
}
