//! Separable linear and cubic interpolation in f32.

use super::pass::Pass;
use super::weighted_sum::{WeightedSum, weighted_sum};
use super::{CHUNKS, PARALLEL, Resize, SHORT};
use crate::floats::{FloatElement, FloatType, Floats, FloatsMut, match_floats};
use crate::ops::scratch;
use crate::simd::Level;
use crate::simd::disjoint::for_each_chunk2;
use std::ops::Range;
use tenon_backend::{Operands, Outputs, Workload};
use tenon_base::{Error, ErrorKind, Result, stop};
use tenon_graph::geometry::AxisWeights;

/// An interpolation of `[outer, rows, slab]`, where a slab is the dimensions after the rows: weighted sums
/// of rows, and passes over the axes of a slab.
pub(super) struct Interpolated {
    level: Level,
    float: FloatType,
    rows_in: usize,
    rows: AxisWeights,
    slab_in: usize,
    slab_out: usize,
    passes: Vec<Pass>,
    /// Whether rows are summed before the passes: less work when the rows become fewer.
    sums_first: bool,
    /// Adjacent rows that an output row reads.
    span: usize,
    /// Most elements between two passes.
    between: usize,
    extrapolation: f32,
    /// Elements of scratch memory of a chunk of rows.
    pub(super) slot: usize,
}

impl Interpolated {
    /// The input has at least one dimension, by shape inference.
    pub(super) fn new(
        resize: &Resize,
        float: FloatType,
        mut weights: Vec<AxisWeights>,
    ) -> Result<Self> {
        let mut shape = resize.shape.clone();
        let large = || {
            Error::new(
                ErrorKind::OutOfMemory,
                "the resized dimensions are too large",
            )
        };
        let changed: Vec<usize> = (0..shape.len())
            .filter(|&axis| !weights[axis].is_identity(shape[axis]))
            .collect();
        // The rows are along the first axis that changes, unless it alone does and its rows are short.
        let first = match changed[..] {
            [] => 0,
            [axis] if axis > 0 && shape[axis + 1..].iter().product::<usize>() < SHORT => axis - 1,
            [axis, ..] => axis,
        };
        let slab_in: usize = shape[first + 1..].iter().product();
        let mut passes = Vec::new();
        let mut between = 0usize;
        for &axis in changed.iter().filter(|&&axis| axis > first).rev() {
            passes.push(Pass::new(
                shape[first + 1..axis].iter().product(),
                shape[axis],
                shape[axis + 1..].iter().product(),
                &weights[axis],
            )?);
            shape[axis] = weights[axis].len();
            let elements = shape[first + 1..]
                .iter()
                .try_fold(1, |n: usize, &e| n.checked_mul(e));
            between = between.max(elements.ok_or_else(large)?);
        }
        let slab_out: usize = shape[first + 1..].iter().product();
        let (rows_in, rows) = (shape[first], weights.swap_remove(first));
        let spans = rows.iter().map(|samples| sampled_rows(samples).len());
        let span = spans.max().unwrap_or(1).max(1);
        let sums_first = passes.is_empty() || rows.len() <= rows_in;
        let kept = if sums_first {
            slab_in
        } else {
            slab_in.max(slab_out * span)
        };
        let slot = [slab_in, kept, slab_out, 2 * between]
            .into_iter()
            .try_fold(0usize, usize::checked_add)
            .filter(|&slot| slot <= isize::MAX as usize / (4 * CHUNKS))
            .ok_or_else(large)?;
        Ok(Self {
            level: resize.level,
            float,
            rows_in,
            rows,
            slab_in,
            slab_out,
            passes,
            sums_first,
            span,
            between,
            extrapolation: resize.interpolation.extrapolation as f32,
            slot,
        })
    }
}

/// The rows from the first to the last of the samples.
fn sampled_rows(samples: &[(usize, f64)]) -> Range<usize> {
    let rows = samples.iter().map(|sample| sample.0);
    let end = rows.clone().max().map_or(0, |last| last + 1);
    rows.min().unwrap_or(end)..end
}

/// The scratch memory of a chunk of rows.
struct Slot<'a> {
    /// A row of the input in f32.
    load: &'a mut [f32],
    /// The sum of rows, or the last rows after the passes: row `n` at `n % span`.
    kept: &'a mut [f32],
    between: [&'a mut [f32]; 2],
}

impl Workload for Interpolated {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let input = Floats::input(&inputs, 0, self.float)?;
        let output = FloatsMut::output(&mut outputs, 0, self.float)?;
        let rows = output.len() / self.slab_out;
        let chunk = rows.div_ceil(CHUNKS);
        let parallel = output.len() >= PARALLEL;
        self.chunks(output, chunk, &mut outputs, parallel, |nth, to, slot| {
            self.run(input, nth * chunk, to, slot);
        })
    }
}

impl Interpolated {
    /// Calls `body` with the chunks of the output, each with scratch memory.
    fn chunks(
        &self,
        output: FloatsMut<'_>,
        chunk: usize,
        outputs: &mut Outputs<'_>,
        parallel: bool,
        body: impl Fn(usize, FloatsMut<'_>, &mut [f32]) + Sync,
    ) -> Result<()> {
        let chunk = chunk * self.slab_out;
        let slots = (scratch(outputs, CHUNKS * self.slot)?, self.slot);
        match_floats!(FloatsMut, output, to => {
            for_each_chunk2((to, chunk), slots, parallel, |nth, to, slot| {
                body(nth, FloatElement::floats_mut(to), slot);
            });
        });
        Ok(())
    }

    /// The rows of the output from `first` on.
    fn run(&self, input: Floats<'_>, first: usize, mut to: FloatsMut<'_>, slot: &mut [f32]) {
        let (load, slot) = slot.split_at_mut(self.slab_in);
        let (between, slot) = slot.split_at_mut(2 * self.between);
        let (out, kept) = slot.split_at_mut(self.slab_out);
        let (a, b) = between.split_at_mut(self.between);
        let mut slot = Slot {
            load,
            kept,
            between: [a, b],
        };
        // The rows of the current item that `kept` has.
        let mut ready = (usize::MAX, 0..0);
        for row in 0..to.len() / self.slab_out {
            stop::checkpoint();
            let (item, at) = (
                (first + row) / self.rows.len(),
                (first + row) % self.rows.len(),
            );
            let samples = self.rows.of(at);
            let range = row * self.slab_out..(row + 1) * self.slab_out;
            if !self.sums_first {
                self.keep(input, item, samples, &mut ready, &mut slot);
            }
            to.store(self.level, range, out, |to| {
                if samples.is_empty() {
                    to.fill(self.extrapolation);
                } else if self.sums_first {
                    self.sum_then_passes(input, item, samples, to, &mut slot);
                } else {
                    let kept = &*slot.kept;
                    let row = |at: usize| &kept[at % self.span * self.slab_out..][..self.slab_out];
                    weighted_sum(self.level, samples, row, to);
                }
            });
        }
    }

    fn input_row(&self, item: usize, row: usize) -> Range<usize> {
        let start = (item * self.rows_in + row) * self.slab_in;
        start..start + self.slab_in
    }

    fn sum_then_passes(
        &self,
        input: Floats<'_>,
        item: usize,
        samples: &[(usize, f64)],
        to: &mut [f32],
        slot: &mut Slot<'_>,
    ) {
        let Slot {
            load,
            kept,
            between,
        } = slot;
        if let ([(row, 1.0)], false) = (samples, self.passes.is_empty()) {
            let from = input.load(self.level, self.input_row(item, *row), load);
            return self.passes(from, to, between);
        }
        let sum = if self.passes.is_empty() {
            &mut *to
        } else {
            &mut kept[..self.slab_in]
        };
        if let Floats::F32(all) = input {
            weighted_sum(
                self.level,
                samples,
                |row| &all[self.input_row(item, row)],
                sum,
            );
        } else {
            for (nth, &(row, weight)) in samples.iter().enumerate() {
                let from = input.load(self.level, self.input_row(item, row), load);
                self.level.run(WeightedSum {
                    rows: [from],
                    weights: [weight as f32],
                    adds: nth > 0,
                    to: sum,
                });
            }
        }
        if !self.passes.is_empty() {
            self.passes(&kept[..self.slab_in], to, between);
        }
    }

    /// Runs the passes over the rows of the samples that `kept` does not have.
    fn keep(
        &self,
        input: Floats<'_>,
        item: usize,
        samples: &[(usize, f64)],
        ready: &mut (usize, Range<usize>),
        slot: &mut Slot<'_>,
    ) {
        let Range { start, end } = sampled_rows(samples);
        if start == end {
            return;
        }
        if ready.0 != item || start < ready.1.start || start > ready.1.end {
            *ready = (item, start..start);
        }
        for row in ready.1.end..end {
            let from = input.load(self.level, self.input_row(item, row), slot.load);
            let to = &mut slot.kept[row % self.span * self.slab_out..][..self.slab_out];
            self.passes(from, to, &mut slot.between);
        }
        let end = ready.1.end.max(end);
        ready.1 = ready.1.start.max(end.saturating_sub(self.span))..end;
    }

    /// The passes over the axes of a slab.
    fn passes(&self, from: &[f32], to: &mut [f32], between: &mut [&mut [f32]; 2]) {
        let [a, b] = between;
        let (mut now, mut next): (&mut [f32], &mut [f32]) = (a, b);
        let last = self.passes.len() - 1;
        for (nth, pass) in self.passes.iter().enumerate() {
            let from = if nth == 0 { from } else { &*now };
            if nth == last {
                pass.run(self.level, self.extrapolation, from, to);
            } else {
                pass.run(self.level, self.extrapolation, from, next);
                std::mem::swap(&mut now, &mut next);
            }
        }
    }
}
