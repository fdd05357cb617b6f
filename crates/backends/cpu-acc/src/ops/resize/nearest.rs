//! Nearest-neighbour resize, which moves elements of any type.

use super::PARALLEL;
use crate::ops::chunk_rows;
use crate::ops::gather::copy_slices;
use crate::simd::disjoint::for_each_chunk;
use std::marker::PhantomData;
use tenon_backend::{Operands, Workload};
use tenon_base::{Result, bounded, stop};
use tenon_graph::geometry::AxisWeights;
use tenon_tensor::Element;

/// A nearest-neighbour resize: rows of positions along the last axis that changes.
pub(super) struct Nearest<T> {
    /// For each dimension before the rows, the start of the input's rows of each position.
    outer: Vec<Vec<usize>>,
    /// The input's position of each output position of a row.
    columns: Vec<usize>,
    /// How often each position is repeated, when all are, in order.
    repeat: Option<usize>,
    /// Positions of a row of the input, and elements of a position.
    width: usize,
    inner: usize,
    element: PhantomData<T>,
}

impl<T: Element> Nearest<T> {
    /// The workload for an input of `shape`.
    pub(super) fn bind(shape: &[usize], weights: &[AxisWeights]) -> Result<Box<dyn Workload>> {
        Ok(Box::new(Self::new(shape, weights)?))
    }

    /// `shape` has at least one dimension, by shape inference.
    fn new(shape: &[usize], weights: &[AxisWeights]) -> Result<Self> {
        let positions = |axis: usize, stride: usize| {
            let starts = (0..weights[axis].len()).map(|at| weights[axis].of(at)[0].0 * stride);
            bounded::collect("positions of a resized dimension", starts)
        };
        let changed = |axis: &usize| !weights[*axis].is_identity(shape[*axis]);
        let last = (0..shape.len()).rev().find(changed).unwrap_or(0);
        let mut outer: Vec<Vec<usize>> = Vec::new();
        let mut same = 1usize;
        for axis in 0..last {
            // Adjacent dimensions that do not change are one.
            if changed(&axis) {
                outer.push(positions(axis, shape[axis + 1..].iter().product())?);
                same = 1;
            } else if same > 1 {
                let stride = shape[axis + 1..].iter().product::<usize>();
                same *= shape[axis];
                outer.pop();
                let starts = (0..same).map(|at| at * stride);
                outer.push(bounded::collect("positions of a dimension", starts)?);
            } else {
                same = shape[axis];
                outer.push(positions(axis, shape[axis + 1..].iter().product())?);
            }
        }
        let (columns, width) = (positions(last, 1)?, shape[last]);
        let times = columns.len() / width;
        let repeated = columns
            .iter()
            .enumerate()
            .all(|(at, &from)| from == at / times.max(1));
        Ok(Self {
            outer,
            repeat: (repeated && times * width == columns.len()).then_some(times),
            columns,
            width,
            inner: shape[last + 1..].iter().product(),
            element: PhantomData,
        })
    }

    /// The start of the input's row of an output row.
    fn source(&self, mut row: usize) -> usize {
        let mut start = 0;
        for starts in self.outer.iter().rev() {
            start += starts[row % starts.len()];
            row /= starts.len();
        }
        start
    }

    fn row(&self, from: &[T], to: &mut [T]) {
        fn repeated<T: Element, const N: usize>(from: &[T], to: &mut [T]) {
            for (to, &x) in to.as_chunks_mut::<N>().0.iter_mut().zip(from) {
                *to = [x; N];
            }
        }
        match self.repeat {
            Some(1) => to.copy_from_slice(from),
            Some(2) if self.inner == 1 => repeated::<T, 2>(from, to),
            Some(3) if self.inner == 1 => repeated::<T, 3>(from, to),
            Some(4) if self.inner == 1 => repeated::<T, 4>(from, to),
            _ => copy_slices(from, &self.columns, self.inner, to),
        }
    }
}

impl<T: Element> Workload for Nearest<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (input, output) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let line = self.columns.len() * self.inner;
        let parallel = output.len() >= PARALLEL;
        let rows = output.len() / line;
        let chunk = chunk_rows(rows, parallel);
        for_each_chunk(output, chunk * line, parallel, |nth, to| {
            let mut last = usize::MAX;
            for (row, start) in (0..to.len()).step_by(line).enumerate() {
                stop::checkpoint();
                let source = self.source(nth * chunk + row);
                if source == last {
                    to.copy_within(start - line..start, start);
                } else {
                    let from = &input[source..][..self.width * self.inner];
                    self.row(from, &mut to[start..][..line]);
                }
                last = source;
            }
        });
        Ok(())
    }
}
