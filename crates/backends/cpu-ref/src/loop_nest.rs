//! Nested loops over a shape with strided operands, in which all kernels access memory.

use crate::kernel::invalid;
use crate::number::{Number, WidenedArithmetic, read_reals, read_widened};
use std::sync::{Mutex, PoisonError};
use tenon_base::{Result, bounded, pool, stop};
use tenon_tensor::Shape;

/// Elements between two checkpoints for cancellation.
pub(crate) const CHECKPOINT_ELEMENTS: usize = 1 << 16;

/// Elements that are converted to f64 at a time, and computed on in the first-level cache.
pub(crate) const BLOCK: usize = 128;

/// The positions of `N` operands for each element of a shape, in row-major order. Adjacent dimensions
/// are coalesced where all operands have a uniform stride over them.
#[derive(Debug, Clone)]
pub(crate) struct LoopNest<const N: usize> {
    /// Extent and strides of the outer loops, outermost first.
    outer: Vec<(usize, [isize; N])>,
    /// Extent and strides of the innermost loop.
    inner: (usize, [isize; N]),
    start: [isize; N],
}

impl<const N: usize> LoopNest<N> {
    /// Loops over `shape`; operand `n` has `strides[n]`.
    pub(crate) fn new(shape: &[usize], strides: [&[isize]; N]) -> Self {
        let mut loops: Vec<(usize, [isize; N])> = Vec::new();
        for (axis, &extent) in shape.iter().enumerate() {
            let stride = strides.map(|strides| strides[axis]);
            match loops.last_mut() {
                _ if extent == 1 => {}
                Some((above, step)) if (0..N).all(|n| step[n] == stride[n] * extent as isize) => {
                    *above *= extent;
                    *step = stride;
                }
                _ => loops.push((extent, stride)),
            }
        }
        let inner = loops.pop().unwrap_or((1, [0; N]));
        Self {
            outer: loops,
            inner,
            start: [0; N],
        }
    }

    /// The loops with operand `n` from position `start[n]` on.
    pub(crate) fn starting_at(self, start: [isize; N]) -> Self {
        Self { start, ..self }
    }

    fn rows(&self) -> usize {
        if self.inner.0 == 0 {
            0
        } else {
            self.outer.iter().map(|&(extent, _)| extent).product()
        }
    }

    /// The operands' positions at the start of an innermost loop.
    fn row(&self, mut row: usize) -> [usize; N] {
        let mut at = self.start;
        for &(extent, strides) in self.outer.iter().rev() {
            let step = (row % extent) as isize;
            row /= extent;
            for n in 0..N {
                at[n] += step * strides[n];
            }
        }
        at.map(|position| position as usize)
    }

    /// The operands' positions of one element; there are elements.
    pub(crate) fn at(&self, element: usize) -> [usize; N] {
        let (extent, strides) = self.inner;
        let mut at = self.row(element / extent);
        for n in 0..N {
            at[n] = at[n].wrapping_add_signed((element % extent) as isize * strides[n]);
        }
        at
    }

    /// Calls `body` with the operands' positions of each element. Compiled for each of hundreds of
    /// `body`, so that it has plain loops instead of iterators and calls of generic functions.
    pub(crate) fn for_each(&self, mut body: impl FnMut([usize; N])) {
        let (count, strides) = self.inner;
        for row in 0..self.rows() {
            let (mut at, mut left) = (self.row(row), count);
            while left > 0 {
                stop::checkpoint();
                let now = left.min(CHECKPOINT_ELEMENTS);
                left -= now;
                for _ in 0..now {
                    body(at);
                    for n in 0..N {
                        at[n] = at[n].wrapping_add_signed(strides[n]);
                    }
                }
            }
        }
    }

    /// Calls `body` with the operands' positions at the start of each run of uniform strides, these
    /// strides, and the number of its elements, for `count` elements from element `first` on.
    pub(crate) fn for_each_run(
        &self,
        first: usize,
        mut count: usize,
        mut body: impl FnMut([usize; N], [isize; N], usize),
    ) {
        let (extent, strides) = self.inner;
        let mut element = first;
        while count > 0 && extent > 0 {
            stop::checkpoint();
            let within = element % extent;
            let now = (extent - within).min(count).min(CHECKPOINT_ELEMENTS);
            body(self.at(element), strides, now);
            element += now;
            count -= now;
        }
    }

    /// [`Self::for_each`] until `body` fails.
    pub(crate) fn try_for_each(
        &self,
        mut body: impl FnMut([usize; N]) -> Result<()>,
    ) -> Result<()> {
        let mut result = Ok(());
        self.for_each(|at| {
            if result.is_ok() {
                result = body(at);
            }
        });
        result
    }
}

/// Most chunks of a parallel loop.
pub(crate) const CHUNKS: usize = 64;

/// Calls `body` with chunks of `elements` and the index of their first element, on all threads when
/// they are many.
pub(crate) fn for_each_chunk<T: Send>(elements: &mut [T], body: impl Fn(usize, &mut [T]) + Sync) {
    let operations = elements.len();
    for_each_chunk_of(elements, 1, operations, body);
}

/// [`for_each_chunk`] of whole units of `unit` elements, on all threads when all of them together take many
/// `operations`.
pub(crate) fn for_each_chunk_of<T: Send>(
    elements: &mut [T],
    unit: usize,
    operations: usize,
    body: impl Fn(usize, &mut [T]) + Sync,
) {
    run_chunks(
        elements,
        unit,
        operations,
        &mut [],
        0,
        &|first, elements, _| {
            body(first, elements);
        },
    );
}

/// [`for_each_chunk_of`] with `size` elements of scratch memory for each chunk. If `scratch` is too short for some
/// chunks, there are fewer.
pub(crate) fn for_each_chunk_with<T: Send>(
    elements: &mut [T],
    unit: usize,
    operations: usize,
    scratch: &mut [f64],
    size: usize,
    body: impl Fn(usize, &mut [T], &mut [f64]) + Sync,
) {
    run_chunks(elements, unit, operations, scratch, size, &body);
}

/// A chunk, its scratch memory, or nothing when it has been taken.
type Chunk<'a, T> = Mutex<Option<(&'a mut [T], &'a mut [f64])>>;

/// Computes a chunk, from the index of its first element on, with scratch memory.
type ComputeChunk<'a, T> = dyn Fn(usize, &mut [T], &mut [f64]) + Sync + 'a;

/// The loops above, compiled once for a type of elements.
fn run_chunks<T: Send>(
    elements: &mut [T],
    unit: usize,
    operations: usize,
    mut scratch: &mut [f64],
    size: usize,
    body: &ComputeChunk<'_, T>,
) {
    if elements.is_empty() {
        return;
    }
    let threads = pool::threads();
    let units = elements.len() / unit.max(1);
    if threads == 1 || units < 2 || operations < 2 * CHECKPOINT_ELEMENTS {
        return body(0, elements, scratch);
    }
    // Several chunks for each thread, since threads may be interrupted; none too small.
    let most = (4 * threads)
        .min(CHUNKS)
        .min(scratch.len().checked_div(size).unwrap_or(CHUNKS));
    let least = CHECKPOINT_ELEMENTS.div_ceil((operations / units).max(1));
    let chunk = units.div_ceil(most.max(1)).max(least) * unit;
    let count = elements.len().div_ceil(chunk);
    let mut rest = elements.chunks_mut(chunk);
    // An array, since executing allocates no memory.
    let chunks: [Chunk<'_, T>; CHUNKS] = std::array::from_fn(|_| {
        Mutex::new(rest.next().map(|elements| {
            let own = scratch.split_off_mut(..size).unwrap_or_default();
            (elements, own)
        }))
    });
    pool::for_each(count, |index| {
        let taken = chunks[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((elements, scratch)) = taken {
            body(index * chunk, elements, scratch);
        }
    });
}

impl LoopNest<2> {
    /// Copies the elements of operand 1 to the positions of operand 0.
    pub(crate) fn copy<T: Copy>(&self, target: &mut [T], source: &[T]) {
        let (count, [to, from]) = self.inner;
        if (to, from) != (1, 1) {
            return self.for_each(|[to, from]| target[to] = source[from]);
        }
        for row in 0..self.rows() {
            stop::checkpoint();
            let [to, from] = self.row(row);
            target[to..to + count].copy_from_slice(&source[from..from + count]);
        }
    }
}

/// Copies the elements at `start`, `start + stride`... to `to`.
pub(crate) fn gather<T: Copy>(from: &[T], start: usize, stride: isize, to: &mut [T]) {
    match stride {
        1 => to.copy_from_slice(&from[start..start + to.len()]),
        0 => to.fill(from[start]),
        _ => {
            let mut at = start;
            for to in to {
                *to = from[at];
                at = at.wrapping_add_signed(stride);
            }
        }
    }
}

/// Strides of a contiguous tensor.
pub(crate) fn strides(shape: &Shape) -> Vec<isize> {
    shape
        .strides()
        .into_iter()
        .map(|stride| stride as isize)
        .collect()
}

/// The strides of a contiguous tensor that is broadcast to shape `to`.
pub(crate) fn broadcast(shape: &Shape, to: &[usize]) -> Result<Vec<isize>> {
    let missing = to.len().checked_sub(shape.len());
    let missing =
        missing.ok_or_else(|| invalid(format!("{shape} does not broadcast to {to:?}")))?;
    let mut all = vec![0; missing];
    for (axis, stride) in strides(shape).into_iter().enumerate() {
        match (shape[axis], to[missing + axis]) {
            (1, _) => all.push(0),
            (extent, target) if extent == target => all.push(stride),
            _ => return Err(invalid(format!("{shape} does not broadcast to {to:?}"))),
        }
    }
    Ok(all)
}

/// A tensor as lanes along some axes: the first position of each lane, and the positions of a lane's
/// elements relative to it.
#[derive(Debug, Clone)]
pub(crate) struct Lanes {
    /// Operand 0: the position in a tensor of the other dimensions; operand 1: in the tensor itself.
    pub(crate) starts: LoopNest<2>,
    /// Positions in a lane.
    pub(crate) lane: LoopNest<1>,
    /// Elements of a lane.
    pub(crate) len: usize,
}

impl Lanes {
    /// The lanes of `shape` along the axes for which `along` is true.
    pub(crate) fn new(shape: &Shape, along: impl Fn(usize) -> bool) -> Self {
        let strides = strides(shape);
        let select = |in_lane: bool| -> (Vec<usize>, Vec<isize>) {
            (0..shape.len())
                .filter(|&axis| along(axis) == in_lane)
                .map(|axis| (shape[axis], strides[axis]))
                .unzip()
        };
        let ((kept, kept_strides), (lane, lane_strides)) = (select(false), select(true));
        let dense = self::strides(&Shape::new(kept.clone()));
        Self {
            starts: LoopNest::new(&kept, [&dense, &kept_strides]),
            len: lane.iter().product(),
            lane: LoopNest::new(&lane, [&lane_strides]),
        }
    }
}

/// How elements are reduced to one total. Several totals are independent, so that they are computed in vectors.
#[derive(Clone, Copy)]
pub(crate) struct Fold<W> {
    pub(crate) start: W,
    /// Adds elements to totals: the first to the first total, and again from it when all have one.
    pub(crate) add: fn(&mut [W], &[W]),
    /// Joins totals.
    pub(crate) join: fn(&mut [W; TOTALS]) -> W,
}

/// A [`Fold`] from its start, the function of two totals that joins them, and the total after an element.
macro_rules! fold {
    ($start:expr, |$a:ident, $b:ident| $join:expr, |$total:ident, $x:ident| $next:expr) => {
        $crate::loop_nest::Fold {
            start: $start,
            add: |totals, values| {
                tenon_base::vectorized!(for values in values.chunks(totals.len()) {
                    for (total, &$x) in totals.iter_mut().zip(values) {
                        let $total = *total;
                        *total = $next;
                    }
                });
            },
            join: |totals| {
                let mut half = totals.len() / 2;
                while half > 0 {
                    let (first, second) = totals.split_at_mut(half);
                    for (first, second) in first.iter_mut().zip(second) {
                        let ($a, $b) = (*first, *second);
                        *first = $join;
                    }
                    half /= 2;
                }
                totals[0]
            },
        }
    };
}
pub(crate) use fold;

/// The sum.
pub(crate) const SUM: Fold<f64> = fold!(0.0, |a, b| a + b, |total, x| total + x);

/// The maximum; NaN if any element is NaN.
pub(crate) const MAXIMUM: Fold<f64> =
    fold!(f64::NEG_INFINITY, |a, b| a.nan_max(b), |total, x| total
        .nan_max(x));

/// Most lanes that are in scratch memory at a time.
const MAPPED: usize = 16;

/// Independent totals of a lane, a power of two.
pub(crate) const TOTALS: usize = 32;

impl<W: Copy> Fold<W> {
    /// The total of all elements.
    pub(crate) fn of(&self, values: &[W]) -> W {
        let mut totals = [self.start; TOTALS];
        (self.add)(&mut totals, values);
        (self.join)(&mut totals)
    }
}

impl Lanes {
    /// Reduces each lane; `finish` makes an element of the lane's total.
    pub(crate) fn fold<T: Number, R: Send>(
        &self,
        from: &[T],
        to: &mut [R],
        fold: Fold<T::Widened>,
        finish: impl Fn(T::Widened) -> R + Sync,
    ) {
        let operations = to.len().saturating_mul(self.len);
        for_each_chunk_of(to, 1, operations, |first, mut to| {
            self.starts
                .for_each_run(first, to.len(), |[_, start], [_, stride], count| {
                    let run = to.split_off_mut(..count).unwrap_or_default();
                    if stride != 1 || self.lane.inner.1 == [1] {
                        for (nth, to) in run.iter_mut().enumerate() {
                            let start = start.wrapping_add_signed(nth as isize * stride);
                            *to = finish(self.fold_lane(start, fold, |at, stride, values| {
                                read_widened(from, at, stride, values);
                            }));
                        }
                        return;
                    }
                    // Adjacent lanes: a total for each.
                    for (nth, run) in run.chunks_mut(BLOCK).enumerate() {
                        let mut totals = [fold.start; BLOCK];
                        let mut values = [fold.start; BLOCK];
                        let values = &mut values[..run.len()];
                        self.lane.for_each(|[at]| {
                            T::widens(&from[start + nth * BLOCK + at..][..run.len()], values);
                            (fold.add)(&mut totals[..run.len()], values);
                        });
                        run.iter_mut()
                            .zip(totals)
                            .for_each(|(to, total)| *to = finish(total));
                    }
                });
        });
    }

    /// Reduces the lane at `start` in f64. `prepare` may change the elements first.
    pub(crate) fn fold_reals<T: Number>(
        &self,
        from: &[T],
        start: usize,
        fold: Fold<f64>,
        prepare: impl Fn(&mut [f64]),
    ) -> f64 {
        self.fold_lane(start, fold, |at, stride, values| {
            read_reals(from, at, stride, values);
            prepare(values);
        })
    }

    /// Reduces the lane at `start`, whose elements `read` writes: those at a position and from there with a stride.
    fn fold_lane<W: Copy>(
        &self,
        start: usize,
        fold: Fold<W>,
        read: impl Fn(usize, isize, &mut [W]),
    ) -> W {
        let mut totals = [fold.start; TOTALS];
        let mut values = [fold.start; BLOCK];
        self.lane
            .for_each_run(0, self.len, |[at], [stride], count| {
                for first in (0..count).step_by(BLOCK) {
                    let values = &mut values[..BLOCK.min(count - first)];
                    let at = (start + at).wrapping_add_signed(first as isize * stride);
                    read(at, stride, values);
                    (fold.add)(&mut totals, values);
                }
            });
        (fold.join)(&mut totals)
    }

    /// Reads the lane at `start` as f64.
    fn read<T: Number>(&self, from: &[T], start: usize, mut to: &mut [f64]) {
        self.lane
            .for_each_run(0, self.len, |[at], [stride], count| {
                let run = to.split_off_mut(..count).unwrap_or_default();
                read_reals(from, start + at, stride, run);
            });
    }

    /// Writes the lane at `start`; `to` starts with element `first` of the tensor.
    fn write<T: Number>(&self, mut from: &[f64], start: usize, to: &mut [T], first: usize) {
        self.lane
            .for_each_run(0, self.len, |[at], [stride], count| {
                let run = from.split_off(..count).unwrap_or_default();
                let to = &mut to[start + at - first..];
                if stride == 1 {
                    T::from_reals(run, &mut to[..count]);
                } else {
                    // Lanes of one element may have a stride of 0.
                    let to = to.iter_mut().step_by(stride.max(1) as usize);
                    to.zip(run).for_each(|(to, &x)| *to = T::of_f64(x));
                }
            });
    }

    /// Elements of scratch memory that [`map`](Self::map) requires.
    pub(crate) fn scratch(&self, elements: usize) -> usize {
        let lanes = elements.checked_div(self.len).unwrap_or(0);
        lanes.min(MAPPED).saturating_mul(self.len)
    }

    /// Writes `apply` of each lane, which replaces the lane's elements.
    pub(crate) fn map<T: Number>(
        &self,
        from: &[T],
        to: &mut [T],
        scratch: &mut [f64],
        apply: impl Fn(&mut [f64]) + Sync,
    ) {
        let is_contiguous = self.lane.outer.is_empty() && self.lane.inner == (self.len, [1]);
        let (unit, operations) = if is_contiguous {
            (self.len, to.len().saturating_mul(4))
        } else {
            (to.len(), 0)
        };
        for_each_chunk_with(
            to,
            unit,
            operations,
            scratch,
            self.len,
            |first, to, scratch| {
                let values = &mut scratch[..self.len];
                let mut one = |start: usize, to: &mut [T]| {
                    stop::checkpoint();
                    self.read(from, start, values);
                    apply(values);
                    self.write(values, start, to, first);
                };
                if is_contiguous {
                    (first..first + to.len())
                        .step_by(self.len)
                        .for_each(|start| one(start, to));
                } else {
                    self.starts.for_each(|[_, start]| one(start, to));
                }
            },
        );
    }
}

/// A shape as three extents: the product of the dimensions before an axis, the axis, and the product of
/// the dimensions after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AxisExtents {
    pub(crate) outer: usize,
    pub(crate) extent: usize,
    pub(crate) inner: usize,
}

impl AxisExtents {
    /// `axis` must be below the rank.
    pub(crate) fn new(shape: &[usize], axis: usize) -> Self {
        Self {
            outer: shape[..axis].iter().product(),
            extent: shape[axis],
            inner: shape[axis + 1..].iter().product(),
        }
    }
}

/// For each axis of an output, the offset in the input of each position.
#[derive(Debug, Clone)]
pub(crate) struct AxisMaps(Vec<Vec<usize>>);

impl AxisMaps {
    /// `positions(axis, at)` returns the input's position along an axis for the output's.
    pub(crate) fn new(
        input: &Shape,
        output: &Shape,
        positions: impl Fn(usize, usize) -> usize,
    ) -> Result<Self> {
        let strides = input.strides();
        let axis = |axis: usize| {
            let at = 0..output[axis];
            let positions = at.map(|at| positions(axis, at) * strides[axis]);
            bounded::collect("positions of a dimension", positions)
        };
        let axes = 0..output.len();
        Ok(Self(axes.map(axis).collect::<Result<_>>()?))
    }

    /// Copies the input's elements to the output.
    pub(crate) fn copy<T: Copy>(&self, to: &mut [T], from: &[T]) {
        let Some((inner, outer)) = self.0.split_last() else {
            return to.copy_from_slice(from);
        };
        if to.is_empty() {
            return;
        }
        for (row, to) in to.chunks_exact_mut(inner.len()).enumerate() {
            stop::checkpoint();
            let mut rest = row;
            let mut start = 0;
            for map in outer.iter().rev() {
                start += map[rest % map.len()];
                rest /= map.len();
            }
            to.iter_mut()
                .zip(inner)
                .for_each(|(to, &at)| *to = from[start + at]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_of_uniform_stride_are_one_loop() {
        let shape = Shape::new([2, 1, 3, 4]);
        let nest = LoopNest::new(&shape, [&strides(&shape), &[12, 0, 4, 1]]);
        assert!(nest.outer.is_empty());
        assert_eq!(nest.inner, (24, [1, 1]));
    }

    #[test]
    fn transposed_and_empty_loops() {
        let mut out = [0; 6];
        LoopNest::new(&[3, 2], [&[2, 1], &[1, 3]]).copy(&mut out, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(out, [1, 4, 2, 5, 3, 6]);
        LoopNest::new(&[3, 0], [&[0, 1]]).for_each(|_: [usize; 1]| panic!("no elements"));
        LoopNest::new(&[0, 3], [&[3, 1]]).for_each(|_: [usize; 1]| panic!("no elements"));
        let mut calls = 0;
        LoopNest::new(&[], [&[]]).for_each(|_: [usize; 1]| calls += 1);
        assert_eq!(calls, 1);
    }

    #[test]
    fn runs_start_anywhere() {
        // Rows of 3 of a transposed matrix.
        let nest = LoopNest::new(&[2, 3], [&[1, 2]]);
        let from = [0, 1, 2, 3, 4, 5];
        for first in 0..6 {
            let mut found = Vec::new();
            nest.for_each_run(first, 6 - first, |[at], [stride], count| {
                found.extend((0..count).map(|i| from[at + i * stride as usize]));
            });
            assert_eq!(found, [0, 2, 4, 1, 3, 5][first..]);
        }
    }

    #[test]
    fn chunks_have_every_element() {
        let mut elements = vec![0; 2 * CHECKPOINT_ELEMENTS + 7];
        for_each_chunk(&mut elements, |first, chunk| {
            for (index, element) in chunk.iter_mut().enumerate() {
                *element += first + index;
            }
        });
        assert!(elements.iter().enumerate().all(|(i, &n)| i == n));
    }

    #[test]
    fn chunks_are_whole_units_with_separate_scratch_memory() {
        let mut elements = vec![0; 3 * 1000];
        let mut scratch = vec![0.0; 2 * CHUNKS];
        for_each_chunk_with(
            &mut elements,
            3,
            1 << 20,
            &mut scratch,
            2,
            |first, chunk, scratch| {
                assert!(first % 3 == 0 && chunk.len() % 3 == 0 && scratch.len() >= 2);
                scratch.fill(first as f64);
                for (index, element) in chunk.iter_mut().enumerate() {
                    *element += scratch[1] as usize + index;
                }
            },
        );
        assert!(elements.iter().enumerate().all(|(i, &n)| i == n));
        // Without memory for two chunks there is one.
        for_each_chunk_with(
            &mut elements,
            3,
            1 << 20,
            &mut [0.0; 3],
            2,
            |_, chunk, scratch| {
                assert!(chunk.len() == 3000 && scratch.len() >= 2);
            },
        );
    }

    #[test]
    fn lanes_of_any_length_are_folded() {
        for len in [0, 1, TOTALS - 1, TOTALS, TOTALS + 1, BLOCK, 3 * BLOCK + 5] {
            let values: Vec<f32> = (0..2 * len).map(|at| (at % 17) as f32).collect();
            for axis in [0, 1] {
                let shape = Shape::new(if axis == 1 { [2, len] } else { [len, 2] });
                let lanes = Lanes::new(&shape, |at| at == axis);
                let lane = |nth: usize| {
                    let at = move |at: usize| {
                        if axis == 1 {
                            nth * len + at
                        } else {
                            2 * at + nth
                        }
                    };
                    (0..len)
                        .map(at)
                        .map(|at| f64::from(values[at]))
                        .collect::<Vec<f64>>()
                };
                let mut found = [-1.0; 2];
                lanes.fold(&values, &mut found, SUM, |total| total);
                assert_eq!(
                    found,
                    [0, 1].map(|nth| lane(nth).iter().sum::<f64>()),
                    "{len}"
                );
                let mut nth = 0;
                lanes.starts.for_each(|[_, start]| {
                    let max = lane(nth).into_iter().fold(f64::NEG_INFINITY, f64::max);
                    assert_eq!(
                        lanes.fold_reals(&values, start, MAXIMUM, |_| {}),
                        max,
                        "{len}"
                    );
                    nth += 1;
                });
                let mut scratch = vec![0.0; lanes.scratch(values.len())];
                let mut mapped = values.clone();
                lanes.map(&values, &mut mapped, &mut scratch, |lane| lane.reverse());
                let mut again = values.clone();
                lanes.map(&mapped, &mut again, &mut scratch, |lane| lane.reverse());
                assert_eq!(again, values);
                assert!(len < 2 || mapped != values);
            }
        }
    }

    #[test]
    fn lanes_along_the_first_axis() {
        let lanes = Lanes::new(&Shape::new([2, 3]), |axis| axis == 0);
        let mut sums = [0; 3];
        lanes.starts.for_each(|[to, start]| {
            lanes
                .lane
                .for_each(|[at]| sums[to] += [1, 2, 3, 10, 20, 30][start + at]);
        });
        assert_eq!(sums, [11, 22, 33]);
    }
}
