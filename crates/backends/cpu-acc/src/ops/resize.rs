//! Resize in every mode: separable interpolation with tables of positions and weights, computed when the
//! workload is created. Nearest-neighbour interpolation moves elements of any type; the others compute in
//! f32.

use super::element_types::sized;
use super::gather::copy_slices;
use super::gathered_sum::{MISSING, SampleTable, gathered_sums};
use super::{Kernel, scratch};
use crate::floats::{FloatType, Floats, FloatsMut};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::{for_each_chunk, for_each_chunk2};
use crate::simd::{Level, Simd, VectorOp};
use std::marker::PhantomData;
use tenon_backend::{Operands, Outputs, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::{Error, ErrorKind, Result, bounded, pool, stop};
use tenon_graph::geometry::{AxisWeights, Interpolation, ResizeAxis, resize_axes};
use tenon_tensor::{DataType, Element};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 15;
/// Most chunks of rows that threads work on concurrently, each with its own scratch memory.
const CHUNKS: usize = 16;
/// Elements after an axis below which its positions are single elements, else rows.
const SHORT: usize = 16;

/// The kernel: the tables are made when it is bound.
struct Resize {
    level: Level,
    dtype: DataType,
    shape: Vec<usize>,
    axes: Vec<ResizeAxis>,
    interpolation: Interpolation,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let text = |error: Error| refuse(error.to_string());
    let axes = resize_axes(&signature.inference()).map_err(text)?;
    let interpolation = Interpolation::new(signature.attributes()).map_err(text)?;
    let cropping = signature.string("coordinate_transformation_mode", "half_pixel")?;
    if !interpolation.is_nearest() || cropping == "tf_crop_and_resize" {
        FloatType::of_input(input.dtype(), 0)?;
    }
    sized!(input.dtype(), 0, T => Ok(size_of::<T>()))?;
    Ok(Box::new(Resize {
        level: signature.level,
        dtype: input.dtype(),
        shape: input.shape().to_vec(),
        axes,
        interpolation,
    }))
}

impl Resize {
    fn weights(&self) -> Result<Vec<AxisWeights>> {
        let axes = self.axes.iter().zip(&self.shape);
        axes.map(|(axis, &extent)| self.interpolation.axis(axis, extent))
            .collect()
    }

    /// Whether elements are moved: the type does not matter.
    fn moves(&self, weights: &[AxisWeights]) -> bool {
        let inside = |axis: &AxisWeights| axis.iter().all(|weights| !weights.is_empty());
        self.interpolation.is_nearest() && weights.iter().all(inside)
    }

    fn interpolated(&self, weights: Vec<AxisWeights>) -> Result<Interpolated> {
        let float = FloatType::of(self.dtype);
        let float = float.ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "interpolation of a type that is not float",
            )
        })?;
        Interpolated::new(self, float, weights)
    }
}

impl Kernel for Resize {
    fn plan(&self, _spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        let weights = self.weights()?;
        if self.moves(&weights) {
            return Ok(WorkloadPlan::default());
        }
        Ok(WorkloadPlan {
            scratch_bytes: 4 * CHUNKS * self.interpolated(weights)?.slot,
            ..WorkloadPlan::default()
        })
    }

    fn bind(self: Box<Self>, _spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        let weights = self.weights()?;
        if !self.moves(&weights) {
            return Ok(Box::new(self.interpolated(weights)?));
        }
        let bound: Result<Result<Box<dyn Workload>>, Refusal> = sized!(self.dtype, 0, T => {
            Ok(Nearest::<T>::new(&self.shape, &weights).map(|nearest| Box::new(nearest) as _))
        });
        bound.map_err(|refusal| Error::new(ErrorKind::Unsupported, refusal.to_string()))?
    }
}

/// A nearest-neighbour resize: rows of positions along the last axis that changes.
struct Nearest<T> {
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
    fn new(shape: &[usize], weights: &[AxisWeights]) -> Result<Self> {
        let positions = |axis: usize, stride: usize| {
            let starts = (0..weights[axis].len()).map(|at| weights[axis].of(at)[0].0 * stride);
            bounded::collect("positions of a resized dimension", starts)
        };
        let changed = |axis: &usize| !weights[*axis].is_identity(shape[*axis]);
        let last = (0..shape.len()).rev().find(changed).unwrap_or(0);
        let mut outer: Vec<Vec<usize>> = Vec::new();
        let mut same = 1usize;
        for axis in 0..last.min(shape.len()) {
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
        let (columns, width, inner) = match shape.get(last) {
            Some(&width) => (
                positions(last, 1)?,
                width,
                shape[last + 1..].iter().product(),
            ),
            None => (vec![0], 1, 1),
        };
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
            inner,
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
        let chunk = rows.div_ceil(if parallel { 4 * pool::threads() } else { 1 });
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

/// An interpolation of `[outer, rows, slab]`, where a slab is the dimensions after the rows: weighted sums
/// of rows, and passes over the axes of a slab.
struct Interpolated {
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
    slot: usize,
}

impl Interpolated {
    fn new(resize: &Resize, float: FloatType, mut weights: Vec<AxisWeights>) -> Result<Self> {
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
        let slab_in: usize = shape.get(first + 1..).unwrap_or_default().iter().product();
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
        let slab_out: usize = shape.get(first + 1..).unwrap_or_default().iter().product();
        let (rows_in, rows) = if shape.is_empty() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "interpolation of a scalar",
            ));
        } else {
            (shape[first], weights.swap_remove(first))
        };
        let reach = |samples: &[(usize, f64)]| {
            let at = |end: Option<usize>| end.unwrap_or(0);
            let first = at(samples.iter().map(|sample| sample.0).min());
            at(samples.iter().map(|sample| sample.0).max()) - first + 1
        };
        let span = rows.iter().map(reach).max().unwrap_or(1);
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
        match output {
            FloatsMut::F32(to) => for_each_chunk2((to, chunk), slots, parallel, |nth, to, slot| {
                body(nth, FloatsMut::F32(to), slot);
            }),
            FloatsMut::F16(to) => for_each_chunk2((to, chunk), slots, parallel, |nth, to, slot| {
                body(nth, FloatsMut::F16(to), slot);
            }),
            FloatsMut::Bf16(to) => {
                for_each_chunk2((to, chunk), slots, parallel, |nth, to, slot| {
                    body(nth, FloatsMut::Bf16(to), slot);
                })
            }
        }
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

    fn input_row(&self, item: usize, row: usize) -> std::ops::Range<usize> {
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
        ready: &mut (usize, std::ops::Range<usize>),
        slot: &mut Slot<'_>,
    ) {
        let (Some(low), Some(high)) = (
            samples.iter().map(|sample| sample.0).min(),
            samples.iter().map(|sample| sample.0).max(),
        ) else {
            return;
        };
        if ready.0 != item || low < ready.1.start || low > ready.1.end {
            *ready = (item, low..low);
        }
        for row in ready.1.end..=high {
            let from = input.load(self.level, self.input_row(item, row), slot.load);
            let to = &mut slot.kept[row % self.span * self.slab_out..][..self.slab_out];
            self.passes(from, to, &mut slot.between);
        }
        let end = ready.1.end.max(high + 1);
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

/// The interpolation of a slab `[outer, input, inner]` along the middle.
struct Pass {
    outer: usize,
    /// Elements of `[input, inner]` and of `[output, inner]`.
    from: usize,
    to: usize,
    inner: usize,
    /// The weights of rows of `inner` elements, where those are long.
    rows: Option<AxisWeights>,
    /// Else, for each element of `[output, inner]`, `samples` positions and their weights.
    samples: usize,
    positions: Vec<u32>,
    weights: Vec<f32>,
    /// The elements outside of the crop.
    outside: Vec<usize>,
}

const TABLE: &str = "positions of a resized dimension";

impl Pass {
    fn new(outer: usize, input: usize, inner: usize, weights: &AxisWeights) -> Result<Self> {
        let (from, to) = (input * inner, weights.len() * inner);
        let mut pass = Self {
            outer,
            from,
            to,
            inner,
            rows: (inner >= SHORT || from >= u32::MAX as usize).then(|| weights.clone()),
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
        for (at, samples) in weights.iter().enumerate() {
            for lane in 0..inner {
                for nth in 0..pass.samples {
                    let (element, weight) =
                        samples.get(nth).map_or((MISSING, 0.0), |&(row, weight)| {
                            ((row * inner + lane) as u32, weight as f32)
                        });
                    pass.positions.push(element);
                    pass.weights.push(weight);
                }
                if samples.is_empty() {
                    bounded::reserve(TABLE, &mut pass.outside, 1)?;
                    pass.outside.push(at * inner + lane);
                }
            }
        }
        Ok(pass)
    }

    fn run(&self, level: Level, extrapolation: f32, from: &[f32], to: &mut [f32]) {
        let slabs = from
            .chunks_exact(self.from)
            .zip(to.chunks_exact_mut(self.to));
        for (from, to) in slabs.take(self.outer) {
            let Some(rows) = &self.rows else {
                let samples = SampleTable {
                    count: self.samples,
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

/// The sum of rows times weights.
fn weighted_sum<'a>(
    level: Level,
    samples: &[(usize, f64)],
    row: impl Fn(usize) -> &'a [f32],
    to: &mut [f32],
) {
    for (nth, group) in samples.chunks(4).enumerate() {
        let adds = nth > 0;
        let row = |at: usize| row(group[at].0);
        let weight = |at: usize| group[at].1 as f32;
        match group.len() {
            1 => level.run(WeightedSum {
                rows: [row(0)],
                weights: [weight(0)],
                adds,
                to,
            }),
            2 => level.run(WeightedSum {
                rows: [row(0), row(1)],
                weights: [weight(0), weight(1)],
                adds,
                to,
            }),
            3 => level.run(WeightedSum {
                rows: [row(0), row(1), row(2)],
                weights: [weight(0), weight(1), weight(2)],
                adds,
                to,
            }),
            _ => level.run(WeightedSum {
                rows: [row(0), row(1), row(2), row(3)],
                weights: [weight(0), weight(1), weight(2), weight(3)],
                adds,
                to,
            }),
        }
    }
}

/// The sum of `N` rows times weights, written or added.
struct WeightedSum<'a, const N: usize> {
    rows: [&'a [f32]; N],
    weights: [f32; N],
    adds: bool,
    to: &'a mut [f32],
}

impl<const N: usize> VectorOp for WeightedSum<'_, N> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let len = self.to.len();
        let rows = self.rows.map(|row| &row[..len]);
        let sum = |at: usize, start: f32| {
            let terms = rows.iter().zip(self.weights);
            terms.fold(start, |sum, (row, weight)| sum + row[at] * weight)
        };
        if self.adds {
            for (at, to) in self.to.iter_mut().enumerate() {
                *to = sum(at, *to);
            }
        } else {
            for (at, to) in self.to.iter_mut().enumerate() {
                *to = sum(at, 0.0);
            }
        }
    }
}
