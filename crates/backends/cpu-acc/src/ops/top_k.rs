//! TopK: the K largest or smallest elements along an axis, in order, ties by the lower index.
//!
//! A lane is read once. Elements are mapped to unsigned keys with the order of the result; a block of
//! keys without one above the K-th best so far is skipped in vectors. The others are appended to a list
//! of candidates, which quickselect (Hoare, "Algorithm 65: Find", 1961; `select_nth_unstable`) reduces to
//! the best K when it is full.

mod candidates;
mod keys;

use super::element_types::numeric;
use super::{Kernel, UnpreparedWorkload, scratch};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::{for_each_chunk, for_each_chunk2};
use crate::simd::{Level, Simd, VectorOp};
use candidates::Candidates;
use keys::{Keyed, rank};
use std::marker::PhantomData;
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, stop};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 15;
/// Elements of a block.
const BLOCK: usize = 64;
/// Most chunks of lanes that threads work on concurrently, each with its own candidates.
const CHUNKS: usize = 16;
/// Adjacent lanes that are read together where their elements are not contiguous.
const LANES: usize = 16;

/// A TopK of `[outer, extent, inner]`.
struct TopK<T> {
    level: Level,
    largest: bool,
    outer: usize,
    extent: usize,
    inner: usize,
    count: usize,
    /// Words of scratch memory: for the positions of all lanes, and for the candidates of a chunk of lanes.
    positions: usize,
    slot: usize,
    element: PhantomData<T>,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let shape = input.shape();
    let axis = signature.axis("axis", -1, shape.len())?;
    let count = signature.any_output(0).or(signature.any_output(1));
    let count = count
        .ok_or_else(|| refuse("no output is requested"))?
        .shape()[axis];
    if shape[axis] > u32::MAX as usize {
        return Err(refuse("no kernel for so large a dimension"));
    }
    let largest = signature.flag("largest", true)?;
    let (outer, inner) = (&shape[..axis], &shape[axis + 1..]);
    let (outer, inner) = (outer.iter().product(), inner.iter().product());
    let [positions, slot] =
        scratch_words(outer, inner, count).ok_or_else(|| refuse("the dimension is too large"))?;
    numeric!(input.dtype(), 0, T => Ok(Box::new(TopK::<T> {
        level: signature.level,
        largest,
        outer,
        extent: shape[axis],
        inner,
        count,
        positions,
        slot,
        element: PhantomData,
    })))
}

/// Words of scratch memory: for the positions of all lanes, and for the candidates of a chunk of lanes;
/// `None` where all of them are too large.
fn scratch_words(outer: usize, inner: usize, count: usize) -> Option<[usize; 2]> {
    let positions = outer.checked_mul(inner)?.checked_mul(count)?;
    let candidates = count.checked_mul(2)?.checked_add(BLOCK)?;
    let slot = candidates.checked_mul(inner.min(LANES))?;
    let all = slot.checked_mul(CHUNKS)?.checked_add(positions)?;
    let fits = all <= isize::MAX as usize / size_of::<u64>();
    fits.then_some([positions, slot])
}

/// Finds the first block with an element that may have a better rank than the threshold's.
struct FirstBlock<'a, T> {
    from: &'a [T],
    threshold: T,
    largest: bool,
}

impl<T: Keyed> VectorOp for FirstBlock<'_, T> {
    type Output = Option<usize>;

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) -> Option<usize> {
        let Self {
            from, threshold, ..
        } = self;
        let any = |block: &[T], greater| {
            let beyond = block.iter().map(|x| x.is_beyond(threshold, greater));
            beyond.fold(false, |any, is| any | is)
        };
        if self.largest {
            from.chunks(BLOCK).position(|block| any(block, true))
        } else {
            from.chunks(BLOCK).position(|block| any(block, false))
        }
    }
}

/// Finds the first row of adjacent lanes with an element that may have a better rank than the threshold
/// of its lane.
struct FirstRow<'a, T> {
    /// Rows of `stride` elements, from the first lane on.
    from: &'a [T],
    stride: usize,
    thresholds: &'a [T],
    largest: bool,
}

impl<T: Keyed> VectorOp for FirstRow<'_, T> {
    type Output = Option<usize>;

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) -> Option<usize> {
        let Self { thresholds, .. } = self;
        let any = |row: &[T], greater| {
            let pairs = row[..thresholds.len()].iter().zip(thresholds);
            let beyond = pairs.map(|(x, &threshold)| x.is_beyond(threshold, greater));
            beyond.fold(false, |any, is| any | is)
        };
        let mut rows = self.from.chunks(self.stride);
        if self.largest {
            rows.position(|row| any(row, true))
        } else {
            rows.position(|row| any(row, false))
        }
    }
}

impl<T: Keyed> TopK<T> {
    /// Candidates at which they are reduced to the best.
    fn limit(&self) -> usize {
        2 * self.count
    }

    fn flip(&self) -> u64 {
        if self.largest { u64::MAX } else { 0 }
    }

    /// The positions of the best elements of a contiguous lane.
    fn lane(&self, from: &[T], list: &mut [u64], to: &mut [u64]) {
        let flip = self.flip();
        let rank_at = |at: usize| rank(from[at], flip);
        let mut candidates = Candidates { list, len: 0 };
        let mut at = (self.limit() + BLOCK).min(from.len());
        for (position, &x) in from[..at].iter().enumerate() {
            candidates.push::<T>(rank(x, flip), position, true);
        }
        if at < from.len() {
            let mut threshold = from[candidates.reduce::<T>(self.count, rank_at)];
            while let Some(skipped) = self.level.run(FirstBlock {
                from: &from[at..],
                threshold,
                largest: self.largest,
            }) {
                at += skipped * BLOCK;
                let block = &from[at..(at + BLOCK).min(from.len())];
                let limit = rank(threshold, flip);
                for (&x, position) in block.iter().zip(at..) {
                    let rank = rank(x, flip);
                    candidates.push::<T>(rank, position, rank < limit);
                }
                if candidates.len >= self.limit() {
                    threshold = from[candidates.reduce::<T>(self.count, rank_at)];
                }
                at += block.len();
            }
        }
        candidates.finish::<T>(to, rank_at);
    }

    /// The positions of the best elements of adjacent lanes; `from` starts at the first of them.
    fn lanes(&self, from: &[T], list: &mut [u64], to: &mut [u64]) {
        let flip = self.flip();
        let lanes = to.len() / self.count;
        let capacity = self.limit() + BLOCK;
        let mut lens = [0; LANES];
        let mut thresholds = [from[0]; LANES];
        let thresholds = &mut thresholds[..lanes];
        let mut row = (self.limit() + BLOCK).min(self.extent);
        for (lane, list) in list.chunks_exact_mut(capacity).take(lanes).enumerate() {
            let mut candidates = Candidates { list, len: 0 };
            let elements = from[lane..].iter().step_by(self.inner);
            for (position, &x) in elements.take(row).enumerate() {
                candidates.push::<T>(rank(x, flip), position, true);
            }
            if row < self.extent {
                let rank_at = |at: usize| rank(from[at * self.inner + lane], flip);
                let worst = candidates.reduce::<T>(self.count, rank_at);
                thresholds[lane] = from[worst * self.inner + lane];
            }
            lens[lane] = candidates.len;
        }
        while row < self.extent {
            let Some(skipped) = self.level.run(FirstRow {
                from: &from[row * self.inner..],
                stride: self.inner,
                thresholds,
                largest: self.largest,
            }) else {
                break;
            };
            row += skipped;
            for lane in 0..lanes {
                let x = from[row * self.inner + lane];
                if rank(x, flip) < rank(thresholds[lane], flip) {
                    let mut candidates = Candidates {
                        list: &mut list[lane * capacity..][..capacity],
                        len: lens[lane],
                    };
                    candidates.push::<T>(rank(x, flip), row, true);
                    if candidates.len >= self.limit() {
                        let rank_at = |at: usize| rank(from[at * self.inner + lane], flip);
                        let worst = candidates.reduce::<T>(self.count, rank_at);
                        thresholds[lane] = from[worst * self.inner + lane];
                    }
                    lens[lane] = candidates.len;
                }
            }
            row += 1;
        }
        for (lane, to) in to.chunks_exact_mut(self.count).enumerate() {
            let mut candidates = Candidates {
                list: &mut list[lane * capacity..][..capacity],
                len: lens[lane],
            };
            candidates.finish::<T>(to, |at| rank(from[at * self.inner + lane], flip));
        }
    }

    /// The positions of the lanes from `first` on.
    fn chunk(&self, from: &[T], mut first: usize, list: &mut [u64], mut to: &mut [u64]) {
        while !to.is_empty() {
            stop::checkpoint();
            let (outer, inner) = (first / self.inner, first % self.inner);
            let from = &from[outer * self.extent * self.inner..][..self.extent * self.inner];
            let lanes = (to.len() / self.count).min(self.inner - inner).min(LANES);
            let (part, rest) = to.split_at_mut(lanes * self.count);
            if self.inner == 1 {
                self.lane(from, list, part);
            } else {
                self.lanes(&from[inner..], list, part);
            }
            to = rest;
            first += lanes;
        }
    }

    /// Calls `write` with the elements of an output, the position of each in the input and its position
    /// along the axis.
    fn write<U: Send>(
        &self,
        to: &mut [U],
        positions: &[u64],
        write: impl Fn(&mut U, usize, u64) + Sync,
    ) {
        let parallel = to.len() >= PARALLEL;
        let block = self.count * self.inner;
        for_each_chunk(to, block, parallel, |outer, to| {
            let positions = &positions[outer * block..][..block];
            for (nth, to) in to.chunks_exact_mut(self.inner).enumerate() {
                for (lane, to) in to.iter_mut().enumerate() {
                    let at = positions[lane * self.count + nth];
                    let element = (outer * self.extent + at as usize) * self.inner + lane;
                    write(to, element, at);
                }
            }
        });
    }
}

impl<T: Keyed> UnpreparedWorkload for TopK<T> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan {
            scratch_bytes: size_of::<u64>() * (self.positions + CHUNKS * self.slot),
            ..WorkloadPlan::default()
        }
    }
}

impl<T: Keyed> Workload for TopK<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let from = inputs.slice::<T>(0)?;
        let (values, indices) = (outputs.optional::<T>(0)?, outputs.optional::<i64>(1)?);
        let words = scratch::<u64>(&mut outputs, self.positions + CHUNKS * self.slot)?;
        let (positions, lists) = words.split_at_mut(self.positions);
        let chunk = (self.outer * self.inner).div_ceil(CHUNKS) * self.count;
        let parallel = from.len() >= PARALLEL;
        for_each_chunk2(
            (positions, chunk),
            (lists, self.slot),
            parallel,
            |nth, to, list| {
                self.chunk(from, nth * chunk / self.count, list, to);
            },
        );
        if let Some(values) = values {
            self.write(values, positions, |to, element, _| *to = from[element]);
        }
        if let Some(indices) = indices {
            self.write(indices, positions, |to, _, at| *to = at as i64);
        }
        Ok(())
    }
}
