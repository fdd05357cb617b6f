//! Gather, GatherND and GatherElements, for every type whose elements are whole bytes.

use super::element_types::sized;
use super::indices::{BLOCK, FirstError, IndexType, Indices};
use super::{Kernel, UnpreparedWorkload, chunk_rows};
use crate::signature::{Signature, refuse};
use crate::simd::Level;
use crate::simd::disjoint::for_each_chunk;
use std::marker::PhantomData;
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::{Result, stop};
use tenon_tensor::Element;

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 16;

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let dtype = signature.input(0)?.dtype();
    sized!(dtype, 0, T => Ok(match signature.op.name {
        "GatherElements" => Box::new(GatherElements::<T> {
            rows: ElementRows::new(signature)?,
            element: PhantomData,
        }),
        "GatherND" => Box::new(gather_nd::<T>(signature)?),
        _ => Box::new(gather::<T>(signature)?),
    }))
}

/// Slices of `data` (`[batches, extents..., slice]`) at tuples of indices: the output is
/// `[batches, taken, slice]`.
struct GatherSlices<T> {
    level: Level,
    index: IndexType,
    /// The dimensions that a tuple of indices addresses.
    extents: Vec<usize>,
    /// Tuples of a batch.
    taken: usize,
    /// Whether all batches have the same indices.
    shared: bool,
    /// Elements of a slice.
    slice: usize,
    element: PhantomData<T>,
}

fn gather<T: Element>(signature: &Signature<'_>) -> Result<GatherSlices<T>, Refusal> {
    let shape = signature.input(0)?.shape();
    let axis = signature.axis("axis", 0, shape.len())?;
    Ok(GatherSlices {
        level: signature.level,
        index: IndexType::of(signature, 1)?,
        extents: vec![shape[axis]],
        taken: signature.input(1)?.elements(),
        shared: true,
        slice: shape[axis + 1..].iter().product(),
        element: PhantomData,
    })
}

fn gather_nd<T: Element>(signature: &Signature<'_>) -> Result<GatherSlices<T>, Refusal> {
    let (shape, at) = (signature.input(0)?.shape(), signature.input(1)?.shape());
    let batch = signature.int("batch_dims", 0)? as usize;
    let Some((&tuple, tuples)) = at.split_last() else {
        return Err(refuse("no kernel for a scalar as indices"));
    };
    let (extents, slice) = shape[batch..].split_at(tuple);
    Ok(GatherSlices {
        level: signature.level,
        index: IndexType::of(signature, 1)?,
        extents: extents.to_vec(),
        taken: tuples[batch..].iter().product(),
        shared: false,
        slice: slice.iter().product(),
        element: PhantomData,
    })
}

impl<T: Element> UnpreparedWorkload for GatherSlices<T> {}

impl<T: Element> Workload for GatherSlices<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (data, output) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let indices = Indices::new(&inputs, 1, self.index)?;
        let rows = output.len() / self.slice;
        let parallel = output.len() >= PARALLEL;
        let chunk = chunk_rows(rows, parallel);
        let error = FirstError::default();
        let repeats = self.shared && self.taken <= BLOCK;
        for_each_chunk(output, chunk * self.slice, parallel, |nth, to| {
            let first = nth * chunk;
            error.record(match repeats {
                true => self.repeated_rows(data, indices, first, to),
                false => self.rows(data, indices, first, to),
            });
        });
        error.into_result()
    }
}

impl<T: Element> GatherSlices<T> {
    /// The rows of the output from `row` on.
    fn rows(
        &self,
        data: &[T],
        indices: Indices<'_>,
        mut row: usize,
        mut to: &mut [T],
    ) -> Result<()> {
        let batch_len = self.extents.iter().product::<usize>() * self.slice;
        let mut positions = [0; BLOCK];
        while !to.is_empty() {
            stop::checkpoint();
            let (batch, nth) = (row / self.taken, row % self.taken);
            let count = (to.len() / self.slice).min(self.taken - nth).min(BLOCK);
            let positions = &mut positions[..count];
            let start = if self.shared { nth } else { row };
            indices.tuples(self.level, start, &self.extents, positions)?;
            let (block, rest) = to.split_at_mut(count * self.slice);
            copy_slices(
                &data[batch * batch_len..][..batch_len],
                positions,
                self.slice,
                block,
            );
            to = rest;
            row += count;
        }
        Ok(())
    }

    /// The same where all batches have the same few indices.
    fn repeated_rows(
        &self,
        data: &[T],
        indices: Indices<'_>,
        row: usize,
        mut to: &mut [T],
    ) -> Result<()> {
        let batch_len = self.extents.iter().product::<usize>() * self.slice;
        let mut positions = [0; BLOCK];
        let positions = &mut positions[..self.taken];
        indices.tuples(self.level, 0, &self.extents, positions)?;
        let (first, mut nth) = (row / self.taken, row % self.taken);
        let mut batches = data[first * batch_len..].chunks_exact(batch_len);
        let mut unchecked = 0;
        while let Some(data) = batches.next().filter(|_| !to.is_empty()) {
            let count = (to.len() / self.slice).min(self.taken - nth);
            let (block, rest) = to.split_at_mut(count * self.slice);
            copy_slices(data, &positions[nth..][..count], self.slice, block);
            (to, nth) = (rest, 0);
            unchecked += count;
            if unchecked >= BLOCK {
                stop::checkpoint();
                unchecked = 0;
            }
        }
        Ok(())
    }
}

/// Copies the slices of `data` at `positions`, each of `slice` elements.
pub(super) fn copy_slices<T: Element>(data: &[T], positions: &[usize], slice: usize, to: &mut [T]) {
    /// A copy of few elements without a call of `memcpy`.
    fn short<T: Element, const N: usize>(data: &[T], positions: &[usize], to: &mut [T]) {
        let (data, to) = (data.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
        for (to, &position) in to.iter_mut().zip(positions) {
            *to = data[position];
        }
    }
    match slice {
        1 => short::<T, 1>(data, positions, to),
        2 => short::<T, 2>(data, positions, to),
        4 => short::<T, 4>(data, positions, to),
        8 => short::<T, 8>(data, positions, to),
        _ => {
            for (to, &position) in to.chunks_exact_mut(slice).zip(positions) {
                to.copy_from_slice(&data[position * slice..][..slice]);
            }
        }
    }
}

/// The elements that GatherElements and ScatterElements address: rows of the indices, and for element `at`
/// of a row with position `p` the element `start + at * lane + p * step` of the data.
#[derive(Debug)]
pub(super) struct ElementRows {
    level: Level,
    index: IndexType,
    /// Extent and stride in the data of the dimensions outside of a row.
    outer: Vec<(usize, usize)>,
    /// Elements of a row, and their distance in the data.
    pub(super) row: usize,
    lane: usize,
    /// The extent and the stride in the data of the dimension of the indices.
    extent: usize,
    step: usize,
}

/// A row of [`ElementRows`], or a part of it.
pub(super) struct ElementRow<'a> {
    /// The first element of the row in the data, and the distance of the others.
    pub(super) start: usize,
    pub(super) lane: usize,
    /// For each element its position along the dimension of the indices, and the stride of that dimension.
    pub(super) positions: &'a [usize],
    pub(super) step: usize,
}

impl ElementRows {
    /// Of a node whose input 0 is the data and input 1 the indices.
    pub(super) fn new(signature: &Signature<'_>) -> Result<Self, Refusal> {
        let (data, indices) = (signature.input(0)?.shape(), signature.input(1)?.shape());
        let axis = signature.axis("axis", 0, data.len())?;
        let strides = data.strides();
        // Adjacent dimensions with a uniform stride in the data are one.
        let mut outer: Vec<(usize, usize)> = Vec::new();
        for (at, &extent) in indices.iter().enumerate() {
            let stride = if at == axis { 0 } else { strides[at] };
            match outer.last_mut() {
                _ if extent == 1 => {}
                Some((above, step)) if Some(*step) == stride.checked_mul(extent) => {
                    *above *= extent;
                    *step = stride;
                }
                _ => outer.push((extent, stride)),
            }
        }
        let (row, lane) = outer.pop().unwrap_or((1, 0));
        Ok(Self {
            level: signature.level,
            index: IndexType::of(signature, 1)?,
            outer,
            row,
            lane,
            extent: data[axis],
            step: strides[axis],
        })
    }

    pub(super) fn index(&self) -> IndexType {
        self.index
    }

    /// Calls `body` for the elements `first..first + count` of the indices, in order, in parts of rows:
    /// with the number of elements before the part, and the part.
    pub(super) fn for_each(
        &self,
        indices: Indices<'_>,
        first: usize,
        count: usize,
        mut body: impl FnMut(usize, ElementRow<'_>),
    ) -> Result<()> {
        let mut positions = [0; BLOCK];
        let mut done = 0;
        while done < count {
            stop::checkpoint();
            let (row, at) = ((first + done) / self.row, (first + done) % self.row);
            let start = self.start(row) + at * self.lane;
            let len = (self.row - at).min(count - done).min(BLOCK);
            let positions = &mut positions[..len];
            indices.positions(self.level, first + done, self.extent, positions)?;
            body(
                done,
                ElementRow {
                    start,
                    lane: self.lane,
                    positions,
                    step: self.step,
                },
            );
            done += len;
        }
        Ok(())
    }

    /// The first element of a row.
    fn start(&self, mut row: usize) -> usize {
        let mut start = 0;
        for &(extent, stride) in self.outer.iter().rev() {
            start += row % extent * stride;
            row /= extent;
        }
        start
    }
}

/// The kernel of GatherElements.
struct GatherElements<T> {
    rows: ElementRows,
    element: PhantomData<T>,
}

impl<T: Element> UnpreparedWorkload for GatherElements<T> {}

impl<T: Element> Workload for GatherElements<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (data, output) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let indices = Indices::new(&inputs, 1, self.rows.index())?;
        let parallel = output.len() >= PARALLEL;
        let chunk = chunk_rows(output.len(), parallel);
        let error = FirstError::default();
        for_each_chunk(output, chunk, parallel, |nth, to| {
            let (first, count) = (nth * chunk, to.len());
            error.record(self.rows.for_each(indices, first, count, |done, row| {
                let to = &mut to[done..][..row.positions.len()];
                if row.lane == 0 && row.step == 1 {
                    let data = &data[row.start..];
                    for (to, &position) in to.iter_mut().zip(row.positions) {
                        *to = data[position];
                    }
                } else {
                    let mut start = row.start;
                    for (to, &position) in to.iter_mut().zip(row.positions) {
                        *to = data[start + position * row.step];
                        start += row.lane;
                    }
                }
            }));
        });
        error.into_result()
    }
}
