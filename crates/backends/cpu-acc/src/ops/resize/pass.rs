//! The interpolation of a slab along one axis.

use super::SHORT;
use super::weighted_sum::weighted_sum;
use crate::ops::gathered_sum::{MISSING, MOST_ELEMENTS, SampleTable, gathered_sums};
use crate::simd::Level;
use tenon_base::{Result, bounded};
use tenon_graph::geometry::AxisWeights;

/// The interpolation of a slab `[outer, input, inner]` along the middle.
pub(super) struct Pass {
    outer: usize,
    /// Elements of `[input, inner]` and of `[output, inner]`.
    from: usize,
    to: usize,
    inner: usize,
    /// The weights of rows of `inner` elements, where those are long.
    rows: Option<AxisWeights>,
    /// Else the positions of `samples` elements for each of `[output, inner]`, and their weights, see
    /// [`SampleTable`].
    samples: usize,
    positions: Vec<u32>,
    weights: Vec<f32>,
    /// The elements outside of the crop.
    outside: Vec<usize>,
}

const TABLE: &str = "positions of a resized dimension";

impl Pass {
    pub(super) fn new(
        outer: usize,
        input: usize,
        inner: usize,
        weights: &AxisWeights,
    ) -> Result<Self> {
        let (from, to) = (input * inner, weights.len() * inner);
        let mut pass = Self {
            outer,
            from,
            to,
            inner,
            rows: (inner >= SHORT || from > MOST_ELEMENTS).then(|| weights.clone()),
            samples: 0,
            positions: Vec::new(),
            weights: Vec::new(),
            outside: Vec::new(),
        };
        if pass.rows.is_some() {
            return Ok(pass);
        }
        pass.samples = weights.iter().map(<[_]>::len).max().unwrap_or(0).max(1);
        let len = to.saturating_mul(pass.samples);
        bounded::reserve(TABLE, &mut pass.positions, len)?;
        bounded::reserve(TABLE, &mut pass.weights, len)?;
        for nth in 0..pass.samples {
            for samples in weights.iter() {
                let sample = samples.get(nth);
                for lane in 0..inner {
                    let (element, weight) = sample.map_or((MISSING, 0.0), |&(row, weight)| {
                        ((row * inner + lane) as u32, weight as f32)
                    });
                    pass.positions.push(element);
                    pass.weights.push(weight);
                }
            }
        }
        for (at, _) in weights
            .iter()
            .enumerate()
            .filter(|(_, samples)| samples.is_empty())
        {
            bounded::reserve(TABLE, &mut pass.outside, inner)?;
            pass.outside.extend(at * inner..(at + 1) * inner);
        }
        Ok(pass)
    }

    pub(super) fn run(&self, level: Level, extrapolation: f32, from: &[f32], to: &mut [f32]) {
        let slabs = from
            .chunks_exact(self.from)
            .zip(to.chunks_exact_mut(self.to));
        for (from, to) in slabs.take(self.outer) {
            let Some(rows) = &self.rows else {
                let samples = SampleTable {
                    count: self.samples,
                    stride: self.to,
                    positions: &self.positions,
                    weights: &self.weights,
                };
                gathered_sums(level, samples, from, to);
                self.outside.iter().for_each(|&at| to[at] = extrapolation);
                continue;
            };
            for (samples, to) in rows.iter().zip(to.chunks_exact_mut(self.inner)) {
                if samples.is_empty() {
                    to.fill(extrapolation);
                } else {
                    let row = |at: usize| &from[at * self.inner..][..self.inner];
                    weighted_sum(level, samples, row, to);
                }
            }
        }
    }
}
