//! Parts of tensors by position.

use super::movement::{axis, moved};
use crate::model::{invalid, unsupported};
use crate::node::Operation;
use tenon_base::Result;

/// Input 1 is the begin, input 2 the size of each dimension; -1: up to the end.
pub(super) fn slice(op: &mut Operation<'_, '_>) -> Result<()> {
    let (begins, sizes) = (op.constant_ints(1)?, op.constant_ints(2)?);
    if let (Some(begins), Some(sizes)) = (begins, sizes) {
        let end = |(&begin, &size): (&i64, &i64)| match size {
            -1 => i64::MAX,
            size => begin.saturating_add(size),
        };
        let ends: Vec<i64> = begins.iter().zip(&sizes).map(end).collect();
        let (begins, ends) = (op.i64_constant(&begins), op.i64_constant(&ends));
        return moved(op, "Slice", &[&begins, &ends], Vec::new());
    }
    let (begins, sizes) = (op.i64_list(1)?, op.i64_list(2)?);
    let ends = op.emit("Add", &[&begins, &sizes], Vec::new())?;
    let x = op.stored(0)?;
    let extents = op.emit("Shape", &[&x], Vec::new())?;
    let open = op.i64_constant(&[-1]);
    let is_open = op.emit("Equal", &[&sizes, &open], Vec::new())?;
    let ends = op.emit("Where", &[&is_open, &extents, &ends], Vec::new())?;
    moved(op, "Slice", &[&begins, &ends], Vec::new())
}

/// The dimensions of input 1 in reverse order.
pub(super) fn reverse(op: &mut Operation<'_, '_>) -> Result<()> {
    let axes = op.ints(1, "dimensions")?;
    let list = |value: i64| vec![value; axes.len()];
    let lists = [list(-1), list(i64::MIN + 1), axes.clone(), list(-1)];
    let lists = lists.map(|list| op.i64_constant(&list));
    let operands: Vec<&str> = lists.iter().map(String::as_str).collect();
    moved(op, "Slice", &operands, Vec::new())
}

/// The bounds of a slice: one entry for each dimension that is cut.
#[derive(Debug, Default, PartialEq)]
struct Bounds {
    starts: Vec<i64>,
    ends: Vec<i64>,
    axes: Vec<i64>,
    steps: Vec<i64>,
    /// The dimensions of one position, which are removed.
    removed: Vec<i64>,
    /// The new dimensions, positions in the output.
    added: Vec<i64>,
}

/// The masks of a strided slice: bit i is that of entry i.
#[derive(Debug, Clone, Copy, Default)]
struct Masks {
    begin: i32,
    end: i32,
    ellipsis: i32,
    new_axis: i32,
    shrink: i32,
    /// Ends are relative to begins.
    offset: bool,
}

impl Bounds {
    /// The bounds for a tensor of `rank` dimensions. Entries are those of dimensions in order; that of the ellipsis is for as many as
    /// the others leave, that of a new dimension for none.
    fn new(masks: Masks, [begins, ends, steps]: [&[i64]; 3], rank: usize) -> Result<Self> {
        let count = begins.len();
        if ends.len() != count || steps.len() != count || count > 32 {
            return Err(invalid(
                "the bounds of a strided slice have different lengths, or more than 32 entries",
            )
            .found(format_args!("{count}, {} and {}", ends.len(), steps.len())));
        }
        let is = |mask: i32, entry: usize| mask >> entry & 1 != 0;
        let taken = (0..count)
            .filter(|&at| !is(masks.ellipsis, at) && !is(masks.new_axis, at))
            .count();
        let mut bounds = Self::default();
        let (mut dimension, mut output, mut seen_ellipsis) = (0usize, 0i64, false);
        for at in 0..count {
            if is(masks.ellipsis, at) {
                if std::mem::replace(&mut seen_ellipsis, true) {
                    return Err(invalid("a strided slice has more than one ellipsis"));
                }
                let skipped = rank.saturating_sub(taken);
                dimension += skipped;
                output += skipped as i64;
                continue;
            }
            if is(masks.new_axis, at) {
                bounds.added.push(output);
                output += 1;
                continue;
            }
            let along = axis(dimension as i64, rank)? as i64;
            dimension += 1;
            let step = steps[at];
            if step == 0 {
                return Err(invalid("a strided slice has a step of 0"));
            }
            let shrinks = is(masks.shrink, at);
            let begin = match is(masks.begin, at) && !shrinks {
                true if step > 0 => 0,
                true => i64::MAX,
                false => begins[at],
            };
            let end = match is(masks.end, at) && !shrinks {
                true if step > 0 => i64::MAX,
                true => i64::MIN + 1,
                false if masks.offset => begins[at].saturating_add(ends[at]),
                false => ends[at],
            };
            if shrinks {
                bounds.removed.push(along);
            } else {
                output += 1;
            }
            let (end, step) = match (shrinks, begin) {
                (true, -1) => (i64::MAX, 1),
                (true, begin) => (begin.saturating_add(1), 1),
                _ => (end, step),
            };
            bounds.starts.push(begin);
            bounds.ends.push(end);
            bounds.axes.push(along);
            bounds.steps.push(step);
        }
        Ok(bounds)
    }
}

/// Inputs: tensor, begins, ends, steps.
pub(super) fn strided_slice(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_strided_slice_options();
    let masks = options.map_or(Masks::default(), |it| Masks {
        begin: it.begin_mask(),
        end: it.end_mask(),
        ellipsis: it.ellipsis_mask(),
        new_axis: it.new_axis_mask(),
        shrink: it.shrink_axis_mask(),
        offset: it.offset(),
    });
    let rank = op.info(0)?.rank();
    let steps = op.ints(3, "steps")?;
    let (begins, ends) = (op.constant_ints(1)?, op.constant_ints(2)?);
    let one_form = op.has_one_form(&[0], &[0])?;
    let mut x = op.operand(0, one_form)?;
    let bounds = match (begins, ends) {
        (Some(begins), Some(ends)) => {
            let bounds = Bounds::new(masks, [&begins, &ends, &steps], rank)?;
            let lists = [&bounds.starts, &bounds.ends, &bounds.axes, &bounds.steps];
            let lists = lists.map(|list| op.i64_constant(list));
            if !bounds.axes.is_empty() {
                x = op.emit(
                    "Slice",
                    &[&x, &lists[0], &lists[1], &lists[2], &lists[3]],
                    Vec::new(),
                )?;
            }
            bounds
        }
        _ => computed_bounds(op, &mut x, masks, &steps, rank)?,
    };
    if !bounds.removed.is_empty() {
        let axes = op.i64_constant(&bounds.removed);
        x = op.emit("Squeeze", &[&x, &axes], Vec::new())?;
    }
    if !bounds.added.is_empty() {
        let axes = op.i64_constant(&bounds.added);
        x = op.emit("Unsqueeze", &[&x, &axes], Vec::new())?;
    }
    op.set_result(0, x, one_form)
}

/// A slice with computed bounds, whose dimensions are the first ones.
fn computed_bounds(
    op: &mut Operation<'_, '_>,
    x: &mut String,
    masks: Masks,
    steps: &[i64],
    rank: usize,
) -> Result<Bounds> {
    if masks.ellipsis != 0
        || masks.new_axis != 0
        || masks.offset
        || steps.iter().any(|&step| step <= 0)
    {
        return Err(unsupported(
            "computed bounds are supported with positive steps, without an ellipsis and without new dimensions only",
        ));
    }
    // The known parts: the defaults of masked entries.
    let zeros = vec![0; steps.len()];
    let mut bounds = Bounds::new(masks, [&zeros, &zeros, steps], rank)?;
    let flags = |mask: i32| -> Vec<i64> {
        (0..steps.len())
            .map(|at| i64::from(mask >> at & 1))
            .collect()
    };
    let extents = op.emit("Shape", &[x], Vec::new())?;
    let [zero, one, count] = [0, 1, steps.len() as i64].map(|value| op.i64_constant(&[value]));
    let extents = op.emit("Slice", &[&extents, &zero, &count], Vec::new())?;
    let begins = inside(op, 1, &extents)?;
    let begins = choose(op, &flags(masks.begin & !masks.shrink), &zero, begins)?;
    let ends = inside(op, 2, &extents)?;
    let ends = choose(op, &flags(masks.end & !masks.shrink), &extents, ends)?;
    let next = op.emit("Add", &[&begins, &one], Vec::new())?;
    let ends = choose(op, &flags(masks.shrink), &next, ends)?;
    let (axes, steps) = (
        op.i64_constant(&bounds.axes),
        op.i64_constant(&bounds.steps),
    );
    *x = op.emit("Slice", &[x, &begins, &ends, &axes, &steps], Vec::new())?;
    bounds.starts.clear();
    Ok(bounds)
}

/// The positions of input `index` in dimensions of these extents: negative ones count from the end, others are limited.
fn inside(op: &mut Operation<'_, '_>, index: usize, extents: &str) -> Result<String> {
    let positions = op.i64_list(index)?;
    let zero = op.i64_constant(&[0]);
    let is_negative = op.emit("Less", &[&positions, &zero], Vec::new())?;
    let from_end = op.emit("Add", &[&positions, extents], Vec::new())?;
    let positions = op.emit("Where", &[&is_negative, &from_end, &positions], Vec::new())?;
    let positions = op.emit("Max", &[&positions, &zero], Vec::new())?;
    op.emit("Min", &[&positions, extents], Vec::new())
}

/// The elements of `chosen` where a flag is set, of `other` elsewhere.
fn choose(
    op: &mut Operation<'_, '_>,
    flags: &[i64],
    chosen: &str,
    other: String,
) -> Result<String> {
    if flags.iter().all(|&flag| flag == 0) {
        return Ok(other);
    }
    let one = op.i64_constant(&[1]);
    let flags = op.i64_constant(flags);
    let is_set = op.emit("Equal", &[&flags, &one], Vec::new())?;
    op.emit("Where", &[&is_set, chosen, &other], Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_select_dimensions() {
        // x[..., new, 1, 2:]
        let masks = Masks {
            ellipsis: 1,
            new_axis: 2,
            shrink: 4,
            end: 8,
            ..Masks::default()
        };
        let bounds = Bounds::new(masks, [&[0, 0, 1, 2], &[0, 0, 2, 0], &[1, 1, 1, 1]], 4).unwrap();
        let expected = Bounds {
            starts: vec![1, 2],
            ends: vec![2, i64::MAX],
            axes: vec![2, 3],
            steps: vec![1, 1],
            removed: vec![2],
            added: vec![2],
        };
        assert_eq!(bounds, expected);
    }

    #[test]
    fn invalid_bounds_are_errors() {
        let refused = |masks, lists: [&[i64]; 3], rank| {
            Bounds::new(masks, lists, rank).unwrap_err().to_string()
        };
        let none = Masks::default();
        assert!(refused(none, [&[0], &[1], &[0]], 1).contains("a step of 0"));
        assert!(refused(none, [&[0], &[1, 2], &[1]], 1).contains("different lengths"));
        assert!(
            refused(none, [&[0, 0], &[1, 1], &[1, 1]], 1).contains("a dimension does not exist")
        );
        let twice = Masks {
            ellipsis: 3,
            ..none
        };
        assert!(refused(twice, [&[0, 0], &[1, 1], &[1, 1]], 3).contains("more than one ellipsis"));
    }
}
