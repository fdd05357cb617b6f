//! Nested loops over a shape with strided operands, in which all kernels access memory.

use crate::chunks::CHECKPOINT_ELEMENTS;
use crate::kernel::invalid;
use tenon_base::{Result, bounded, stop};
use tenon_tensor::Shape;

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

impl LoopNest<1> {
    /// The stride of the innermost loop.
    pub(crate) fn stride(&self) -> isize {
        self.inner.1[0]
    }

    /// Whether the elements are contiguous.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.outer.is_empty() && self.stride() == 1
    }
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

/// All pairs of `0..a` and `0..b`, with a checkpoint for cancellation before each.
pub(crate) fn pairs(a: usize, b: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..a).flat_map(move |i| {
        (0..b).map(move |j| {
            stop::checkpoint();
            (i, j)
        })
    })
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
}
