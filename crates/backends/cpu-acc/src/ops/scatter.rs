//! ScatterElements, ScatterND and TensorScatter: a copy of the data, or the data in place, with updates
//! written or combined at indices. Updates of one element are applied in their order.

use super::element_types::{numeric, sized};
use super::gather::{ElementRow, ElementRows};
use super::indices::{BLOCK, FirstError, IndexType, Indices, position};
use super::number::Number;
use super::{Kernel, UnpreparedWorkload, chunk_rows};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::Level;
use crate::simd::disjoint::for_each_chunk;
use std::marker::PhantomData;
use tenon_backend::{Inputs, Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, stop};
use tenon_tensor::{DataType, Element};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 16;

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let dtype = signature.input(0)?.dtype();
    if signature.op.name == "TensorScatter" {
        return sized!(dtype, 0, T => Ok(Box::new(TensorScatter::<T>::new(signature)?)));
    }
    match (signature.string("reduction", "none")?, dtype) {
        ("none", _) => sized!(dtype, 0, T => combined::<T, Replace>(signature)),
        // A bool is 0 or 1: addition is or, which is the maximum.
        ("add" | "max", DataType::Bool) => combined::<u8, Greatest>(signature),
        ("mul" | "min", DataType::Bool) => combined::<u8, Least>(signature),
        ("add", _) => numeric!(dtype, 0, T => combined::<T, Sum>(signature)),
        ("mul", _) => numeric!(dtype, 0, T => combined::<T, Product>(signature)),
        ("min", _) => numeric!(dtype, 0, T => combined::<T, Least>(signature)),
        ("max", _) => numeric!(dtype, 0, T => combined::<T, Greatest>(signature)),
        (other, _) => Err(refuse_attribute("reduction", other)),
    }
}

fn combined<T: Element, C: Combine<T>>(
    signature: &Signature<'_>,
) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(match signature.op.name {
        "ScatterND" => Box::new(ScatterSlices::<T>::new(signature, combine_slices::<T, C>)?),
        _ => Box::new(ScatterElements::<T>::new(signature, combine_row::<T, C>)?),
    })
}

/// The combination of an element and its update.
trait Combine<T> {
    fn combine(element: T, update: T) -> T;
}

struct Replace;
struct Sum;
struct Product;
struct Least;
struct Greatest;

impl<T> Combine<T> for Replace {
    fn combine(_: T, update: T) -> T {
        update
    }
}

impl<T: Number> Combine<T> for Sum {
    fn combine(element: T, update: T) -> T {
        element.plus(update)
    }
}

impl<T: Number> Combine<T> for Product {
    fn combine(element: T, update: T) -> T {
        element.times(update)
    }
}

impl<T: Number> Combine<T> for Least {
    fn combine(element: T, update: T) -> T {
        element.least(update)
    }
}

impl<T: Number> Combine<T> for Greatest {
    fn combine(element: T, update: T) -> T {
        element.greatest(update)
    }
}

/// The data in the output: copied, unless the output is computed in place of it.
fn initialized<'a, T: Element>(inputs: &Inputs<'a>, output: &'a mut [T]) -> Result<&'a mut [T]> {
    if !inputs.is_replaced(0) {
        let data = inputs.slice::<T>(0)?;
        let chunk = PARALLEL;
        let parallel = output.len() >= 4 * PARALLEL;
        for_each_chunk(output, chunk, parallel, |nth, to| {
            to.copy_from_slice(&data[nth * chunk..][..to.len()]);
        });
    }
    Ok(output)
}

/// Combines a part of a row of elements with updates; the row starts at `start` of the elements.
type CombineRow<T> = fn(&mut [T], ElementRow<'_>, usize, &[T]);

fn combine_row<T: Element, C: Combine<T>>(
    to: &mut [T],
    row: ElementRow<'_>,
    mut start: usize,
    updates: &[T],
) {
    for (&update, &position) in updates.iter().zip(row.positions) {
        let to = &mut to[start + position * row.step];
        *to = C::combine(*to, update);
        start += row.lane;
    }
}

/// The kernel of ScatterElements. The items of the first dimension are independent, unless it is that of
/// the indices.
struct ScatterElements<T> {
    rows: ElementRows,
    combine: CombineRow<T>,
    /// Elements of an item of the indices.
    item: usize,
    /// Elements of an item of the data.
    data_item: usize,
}

impl<T: Element> ScatterElements<T> {
    fn new(signature: &Signature<'_>, combine: CombineRow<T>) -> Result<Self, Refusal> {
        let (data, indices) = (signature.input(0)?, signature.input(1)?);
        let axis = signature.axis("axis", 0, data.shape().len())?;
        let items = |shape: &[usize]| match shape {
            [first, ..] if axis > 0 => *first,
            _ => 1,
        };
        let (Some(item), Some(data_item)) = (
            indices.elements().checked_div(items(indices.shape())),
            data.elements().checked_div(items(data.shape())),
        ) else {
            return Err(refuse("no kernel for empty tensors"));
        };
        Ok(Self {
            rows: ElementRows::new(signature)?,
            combine,
            item,
            data_item,
        })
    }
}

impl<T: Element> UnpreparedWorkload for ScatterElements<T> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl<T: Element> Workload for ScatterElements<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let output = initialized(&inputs, outputs.slice::<T>(0)?)?;
        let indices = Indices::new(&inputs, 1, self.rows.index())?;
        let updates = inputs.slice::<T>(2)?;
        let items = updates.len().checked_div(self.item).unwrap_or(0);
        let parallel = items > 1 && updates.len() >= PARALLEL;
        let chunk = chunk_rows(items, parallel);
        let error = FirstError::default();
        let output = &mut output[..items * self.data_item];
        for_each_chunk(output, chunk * self.data_item, parallel, |nth, to| {
            let item = nth * chunk;
            let (first, count) = (item * self.item, chunk.min(items - item) * self.item);
            let base = item * self.data_item;
            error.record(self.rows.for_each(indices, first, count, |done, row| {
                let updates = &updates[first + done..][..row.positions.len()];
                let start = row.start - base;
                (self.combine)(to, row, start, updates);
            }));
        });
        error.into_result()
    }
}

/// Combines the slices of elements at `positions` with slices of updates.
type CombineSlices<T> = fn(&mut [T], &[usize], usize, &[T]);

fn combine_slices<T: Element, C: Combine<T>>(
    to: &mut [T],
    positions: &[usize],
    slice: usize,
    updates: &[T],
) {
    if slice == 1 {
        for (&position, &update) in positions.iter().zip(updates) {
            to[position] = C::combine(to[position], update);
        }
        return;
    }
    for (&position, updates) in positions.iter().zip(updates.chunks_exact(slice)) {
        let to = &mut to[position * slice..][..slice];
        for (to, &update) in to.iter_mut().zip(updates) {
            *to = C::combine(*to, update);
        }
    }
}

/// The kernel of ScatterND: slices at tuples of indices.
struct ScatterSlices<T> {
    level: Level,
    index: IndexType,
    combine: CombineSlices<T>,
    /// The dimensions that a tuple of indices addresses.
    extents: Vec<usize>,
    tuples: usize,
    /// Elements of a slice.
    slice: usize,
}

impl<T: Element> ScatterSlices<T> {
    fn new(signature: &Signature<'_>, combine: CombineSlices<T>) -> Result<Self, Refusal> {
        let (data, at) = (signature.input(0)?.shape(), signature.input(1)?.shape());
        let Some((&tuple, tuples)) = at.split_last() else {
            return Err(refuse("no kernel for a scalar as indices"));
        };
        let (extents, slice) = data.split_at(tuple);
        Ok(Self {
            level: signature.level,
            index: IndexType::of(signature, 1)?,
            combine,
            extents: extents.to_vec(),
            tuples: tuples.iter().product(),
            slice: slice.iter().product(),
        })
    }
}

impl<T: Element> UnpreparedWorkload for ScatterSlices<T> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl<T: Element> Workload for ScatterSlices<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let output = initialized(&inputs, outputs.slice::<T>(0)?)?;
        let indices = Indices::new(&inputs, 1, self.index)?;
        let updates = inputs.slice::<T>(2)?;
        let mut positions = [0; BLOCK];
        for first in (0..self.tuples).step_by(BLOCK) {
            stop::checkpoint();
            let positions = &mut positions[..BLOCK.min(self.tuples - first)];
            indices.tuples(self.level, first, &self.extents, positions)?;
            let updates = &updates[first * self.slice..][..positions.len() * self.slice];
            (self.combine)(output, positions, self.slice, updates);
        }
        Ok(())
    }
}

/// The kernel of TensorScatter: `steps` rows of each cache (`[extent, inner]`) from a write index on.
struct TensorScatter<T> {
    circular: bool,
    /// Caches that share a write index.
    per_batch: usize,
    extent: usize,
    steps: usize,
    inner: usize,
    element: PhantomData<T>,
}

impl<T: Element> TensorScatter<T> {
    fn new(signature: &Signature<'_>) -> Result<Self, Refusal> {
        let (cache, update) = (signature.input(0)?.shape(), signature.input(1)?.shape());
        let axis = signature.axis("axis", -2, cache.len())?;
        let Some(between) = cache.get(1..axis) else {
            return Err(refuse_attribute("axis", axis));
        };
        Ok(Self {
            circular: signature.string("mode", "linear")? == "circular",
            per_batch: between.iter().product(),
            extent: cache[axis],
            steps: update[axis],
            inner: cache[axis + 1..].iter().product(),
            element: PhantomData,
        })
    }

    /// Writes the rows of one cache from row `start` on.
    fn write(&self, start: i64, updates: &[T], to: &mut [T]) -> Result<()> {
        for (step, update) in updates.chunks_exact(self.inner).enumerate() {
            let at = start.saturating_add_unsigned(step as u64);
            let at = if self.circular {
                at.rem_euclid(self.extent as i64)
            } else {
                at
            };
            let at = position(at, self.extent)?;
            to[at * self.inner..][..self.inner].copy_from_slice(update);
        }
        Ok(())
    }
}

impl<T: Element> UnpreparedWorkload for TensorScatter<T> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl<T: Element> Workload for TensorScatter<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let output = initialized(&inputs, outputs.slice::<T>(0)?)?;
        let updates = inputs.slice::<T>(1)?;
        let starts = inputs.optional::<i64>(2)?;
        let (cache, update) = (self.extent * self.inner, self.steps * self.inner);
        let error = FirstError::default();
        for_each_chunk(output, cache, updates.len() >= PARALLEL, |nth, to| {
            let start = starts.map_or(0, |starts| starts[nth / self.per_batch]);
            error.record(self.write(start, &updates[nth * update..][..update], to));
        });
        error.into_result()
    }
}
