//! Operators that select elements by a condition, by order or by position.

use crate::chunks::for_each_chunk;
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, axis, floats, indices, integers, invalid, numeric,
    position, scratch, sized, unsupported_type,
};
use crate::lanes::Lanes;
use crate::loop_nest::{AxisExtents, BLOCK, LoopNest, broadcast, gather};
use crate::number::{Accumulator, Index, Number, WidenedArithmetic};
use std::cmp::Ordering;
use tenon_backend::Inputs;
use tenon_base::{Result, stop, vectorized};
use tenon_graph::geometry::{selected_boxes, unique_elements};
use tenon_tensor::DataType;

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("Where", select),
    ("ArgMax", |node| extreme_position(node, Ordering::Greater)),
    ("ArgMin", |node| extreme_position(node, Ordering::Less)),
    ("TopK", top_k),
    ("CumSum", cum_sum),
    ("CumProd", cum_prod),
    ("Trilu", triangle),
    ("OneHot", one_hot),
    ("NonZero", non_zero),
    ("Compress", compress),
    ("Unique", unique),
    ("NonMaxSuppression", suppression),
];

fn select(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let out = node.output(0)?.shape();
    let strides_of = |index| broadcast(node.shape(index)?, out);
    let (condition, x, y) = (strides_of(0)?, strides_of(1)?, strides_of(2)?);
    let nest = LoopNest::new(out, [&condition, &x, &y]);
    sized!(node.dtype(1)?, 1, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let condition = inputs.slice::<u8>(0)?;
        let (x, y) = (inputs.slice::<T>(1)?, inputs.slice::<T>(2)?);
        for_each_chunk(outputs.slice::<T>(0)?, |first, mut to| {
            nest.for_each_run(first, to.len(), |at, strides, count| {
                let run = to.split_off_mut(..count).unwrap_or_default();
                let (mut conditions, mut others) = ([0; BLOCK], [T::default(); BLOCK]);
                for (nth, to) in run.chunks_mut(BLOCK).enumerate() {
                    let start = |n: usize| at[n].wrapping_add_signed((nth * BLOCK) as isize * strides[n]);
                    let (conditions, others) = (&mut conditions[..to.len()], &mut others[..to.len()]);
                    gather(condition, start(0), strides[0], conditions);
                    gather(x, start(1), strides[1], to);
                    gather(y, start(2), strides[2], others);
                    vectorized!(for ((to, &condition), &other) in to.iter_mut().zip(&*conditions).zip(&*others) {
                            *to = if condition == 0 { other } else { *to };
                        });
                }
            });
        });
        Ok(())
    })))
}

/// A total order with NaN above all other values.
fn order<T: Number>(a: T, b: T) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.widen().is_nan().cmp(&b.widen().is_nan()))
}

/// The position of the maximum or minimum; NaN is both, as in NumPy.
fn extreme_position(node: &Node<'_>, better: Ordering) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?;
    let along = node.axis("axis", 0, shape.len())?;
    let lanes = Lanes::new(shape, |axis| axis == along);
    let last = node.attributes.flag("select_last_index", false)?;
    if lanes.len == 0 && node.output(0)?.elements() > 0 {
        return Err(invalid("the maximum or minimum of an empty dimension").into());
    }
    numeric!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<i64>(0)?);
        lanes.starts.for_each(|[out, start]| {
            let (mut best, mut best_at, mut nth) = (from[start], 0, 0);
            lanes.lane.for_each(|[at]| {
                let value = from[start + at];
                let order = match (value.widen().is_nan(), best.widen().is_nan()) {
                    (true, false) => better,
                    (false, true) => better.reverse(),
                    _ => value.partial_cmp(&best).unwrap_or(Ordering::Equal),
                };
                if order == better || (last && order == Ordering::Equal) {
                    (best, best_at) = (value, nth);
                }
                nth += 1;
            });
            to[out] = best_at;
        });
        Ok(())
    })))
}

/// The most elements that `TopK` keeps in order while it reads, instead of sorting positions.
const FEW: usize = 32;

/// A stable order: equal elements keep their order. The scratch memory holds a lane's positions.
fn top_k(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?;
    let along = node.axis("axis", -1, shape.len())?;
    let AxisExtents {
        outer,
        extent,
        inner,
    } = AxisExtents::new(shape, along);
    let count = node.output(0).or_else(|_| node.output(1))?.shape()[along];
    let largest = node.attributes.flag("largest", true)?;
    if count > extent {
        return Err(invalid("K exceeds the elements of the dimension")
            .expected(format_args!("at most {extent}"))
            .found(count)
            .into());
    }
    numeric!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let from = inputs.slice::<T>(0)?;
        let (mut values, mut indices) = (outputs.optional::<T>(0)?, outputs.optional::<i64>(1)?);
        let positions = scratch::<u64>(&mut outputs, extent)?;
        for lane in 0..outer * inner {
            stop::checkpoint();
            let (above, below) = (lane / inner, lane % inner);
            let value = |at: u64| from[(above * extent + at as usize) * inner + below];
            let compare = |&a: &u64, &b: &u64| {
                let order = order(value(a), value(b));
                (if largest { order.reverse() } else { order }).then(a.cmp(&b))
            };
            if count <= FEW && count < extent {
                // The best so far in order; few elements are better than the last of them.
                let best = &mut positions[..count];
                let mut found = 0;
                for at in 0..extent as u64 {
                    if found == count {
                        if best.last().is_none_or(|last| compare(&at, last).is_gt()) {
                            continue;
                        }
                        found -= 1;
                    }
                    let to = best[..found].partition_point(|other| compare(other, &at).is_lt());
                    best.copy_within(to..found, to + 1);
                    best[to] = at;
                    found += 1;
                }
            } else {
                positions.iter_mut().zip(0..).for_each(|(to, at)| *to = at);
                if (1..extent).contains(&count) {
                    positions.select_nth_unstable_by(count - 1, compare);
                }
                positions[..count].sort_unstable_by(compare);
            }
            for (nth, &at) in positions.iter().take(count).enumerate() {
                let to = (above * count + nth) * inner + below;
                if let Some(values) = &mut values {
                    values[to] = value(at);
                }
                if let Some(indices) = &mut indices {
                    indices[to] = at as i64;
                }
            }
        }
        Ok(())
    })
    .with_scratch(extent))
}

/// A scan (prefix sum or product) along the axis of input 1, which is read at run time.
fn scan<T: Number, A: Copy + Send + Sync + 'static>(
    node: &Node<'_>,
    start: A,
    step: impl Fn(A, T) -> A + Send + Sync + 'static,
    finish: impl Fn(A) -> T + Send + Sync + 'static,
) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?.clone();
    let exclusive = node.attributes.flag("exclusive", false)?;
    let reverse = node.attributes.flag("reverse", false)?;
    // A function, so that the rest is not compiled for each index type.
    let along_of = indices!(node.dtype(1)?, 1, I => Ok::<fn(&Inputs<'_>) -> Result<i64>, BuildError>(|inputs| {
        Ok(inputs.slice::<I>(1)?.first().map_or(0, |along| along.to_i64()))
    }))?;
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let along = axis(along_of(&inputs)?, shape.len())?;
        let AxisExtents {
            outer,
            extent,
            inner,
        } = AxisExtents::new(&shape, along);
        for above in 0..outer {
            // Adjacent columns together, so that whole lines of memory are read.
            for column in (0..inner).step_by(BLOCK) {
                let width = BLOCK.min(inner - column);
                let mut totals = [start; BLOCK];
                for nth in 0..extent {
                    stop::checkpoint();
                    let nth = if reverse { extent - 1 - nth } else { nth };
                    let first = (above * extent + nth) * inner + column;
                    let (from, to) = (&from[first..first + width], &mut to[first..first + width]);
                    vectorized!(
                        for ((total, &x), to) in totals.iter_mut().zip(from).zip(to) {
                            let next = step(*total, x);
                            *to = finish(if exclusive { *total } else { next });
                            *total = next;
                        }
                    );
                }
            }
        }
        Ok(())
    }))
}

fn cum_sum(node: &Node<'_>) -> Result<Kernel, BuildError> {
    numeric!(node.dtype(0)?, 0, T => {
        scan::<T, <T as Number>::Accumulator>(node, Default::default(), |a, x| a.added(x.term()), T::total)
    })
}

fn cum_prod(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let dtype = node.dtype(0)?;
    if dtype.is_float() {
        floats!(dtype, 0, T => scan::<T, f64>(node, 1.0, |a, x| a * x.to_f64(), T::of_f64))
    } else {
        integers!(dtype, 0, T => {
            scan::<T, i64>(node, 1, |a, x| a.wrapping_mul(x.term()), T::total)
        })
    }
}

/// The diagonal is read at run time.
fn triangle(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?;
    let [.., rows, columns] = **shape else {
        return Err(invalid(format!("a triangle of a tensor {shape}")).into());
    };
    let upper = node.attributes.flag("upper", true)?;
    sized!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let k = inputs.optional::<i64>(1)?.and_then(|k| k.first().copied()).unwrap_or(0);
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        for (row, (to, from)) in to.chunks_exact_mut(columns).zip(from.chunks_exact(columns)).enumerate() {
            stop::checkpoint();
            // The first column above the diagonal, the diagonal included for the upper triangle.
            let split = k.saturating_add_unsigned((row % rows) as u64).saturating_add(i64::from(!upper));
            let split = usize::try_from(split).unwrap_or(0).min(columns);
            let kept = if upper { split..columns } else { 0..split };
            to.fill(0);
            to[kept.clone()].copy_from_slice(&from[kept]);
        }
        Ok(())
    })))
}

/// Indices out of the depth give rows of the off value.
fn one_hot(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let out = node.output(0)?.shape();
    let AxisExtents {
        extent: depth,
        inner,
        ..
    } = AxisExtents::new(out, node.axis("axis", -1, out.len())?);
    numeric!(node.dtype(0)?, 0, I => sized!(node.dtype(2)?, 2, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (at, values) = (inputs.slice::<I>(0)?, inputs.slice::<T>(2)?);
        let &[off, on] = values else {
            return Err(invalid("input 'values' must have two elements").found(values.len()));
        };
        let to = outputs.slice::<T>(0)?;
        to.fill(off);
        for (nth, index) in at.iter().enumerate() {
            if let Ok(index) = position(index.to_f64() as i64, depth) {
                to[(nth / inner * depth + index) * inner + nth % inner] = on;
            }
        }
        Ok(())
    }))))
}

/// The count is known when compiling, from the same elements.
fn non_zero(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let strides = node.shape(0)?.strides();
    let shape = node.shape(0)?.clone();
    let count = node.output(0)?.shape()[1];
    macro_rules! kernel {
        ($T:ty) => {
            Ok(Kernel::new(move |operands| {
                let (inputs, mut outputs) = operands.split();
                let (from, to) = (inputs.slice::<$T>(0)?, outputs.slice::<i64>(0)?);
                let nonzero = from
                    .iter()
                    .enumerate()
                    .filter(|&(_, &value)| value != <$T>::default());
                for (nth, (at, _)) in nonzero.enumerate() {
                    if nth >= count {
                        return Err(changed(count));
                    }
                    for (axis, stride) in strides.iter().enumerate() {
                        to[axis * count + nth] = (at / stride % shape[axis]) as i64;
                    }
                }
                Ok(())
            }))
        };
    }
    match node.dtype(0)? {
        DataType::Bool => kernel!(u8),
        dtype => numeric!(dtype, 0, T => kernel!(T)),
    }
}

/// The result is computed when compiling.
fn unique(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let found = unique_elements(&node.inference())?;
    let list = |all: &[usize]| all.iter().map(|&at| at as i64).collect::<Vec<_>>();
    let lists = [&found.first, &found.inverse, &found.counts].map(|all| list(all));
    sized!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let slices = (0..found.outer).flat_map(|outer| found.first.iter().map(move |at| (outer, at)));
        for (to, (outer, at)) in to.chunks_exact_mut(found.inner.max(1)).zip(slices) {
            let start = (outer * found.extent + at) * found.inner;
            to.copy_from_slice(&from[start..start + found.inner]);
        }
        for (index, list) in lists.iter().enumerate() {
            if let Some(to) = outputs.optional::<i64>(index + 1)? {
                to.copy_from_slice(list);
            }
        }
        Ok(())
    })))
}

/// The selected boxes are computed when compiling.
fn suppression(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let rows = selected_boxes(&node.inference())?.concat();
    Ok(Kernel::new(move |operands| {
        let (_, mut outputs) = operands.split();
        outputs.slice::<i64>(0)?.copy_from_slice(&rows);
        Ok(())
    }))
}

fn changed(count: usize) -> tenon_base::Error {
    invalid("more elements are selected than when compiling").expected(count)
}

fn compress(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let shape = node.shape(0)?;
    let AxisExtents {
        outer,
        extent,
        inner,
    } = match node.attributes.value("axis") {
        Some(_) => AxisExtents::new(shape, node.axis("axis", 0, shape.len())?),
        None => AxisExtents {
            outer: 1,
            extent: shape.elements(),
            inner: 1,
        },
    };
    let chosen = node
        .output(0)?
        .elements()
        .checked_div(outer * inner)
        .unwrap_or(0);
    if node.dtype(1)? != DataType::Bool {
        return Err(unsupported_type(1, node.dtype(1)?));
    }
    sized!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, condition) = (inputs.slice::<T>(0)?, inputs.slice::<u8>(1)?);
        let to = outputs.slice::<T>(0)?;
        for above in 0..outer {
            let selected = condition.iter().take(extent).enumerate().filter(|(_, c)| **c != 0);
            for (nth, (at, _)) in selected.enumerate() {
                if nth >= chosen {
                    return Err(changed(chosen));
                }
                let (to_at, from_at) = ((above * chosen + nth) * inner, (above * extent + at) * inner);
                to[to_at..to_at + inner].copy_from_slice(&from[from_at..from_at + inner]);
            }
        }
        Ok(())
    })))
}
