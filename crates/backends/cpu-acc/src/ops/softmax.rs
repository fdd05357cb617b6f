//! Softmax and LogSoftmax along any dimension: safe softmax, which subtracts the maximum, in three passes;
//! log-softmax by log-sum-exp. Along the last dimension a row is computed in place; along another, or in
//! half precision, the exponentials are computed twice instead of stored between the passes.

use super::extremes::AxisExtents;
use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatType, Floats, FloatsMut, for_each_float_chunk};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::math::exp;
use crate::simd::{Level, Simd, VectorOp};
use std::ops::Range;
use tenon_backend::{OperandPair, Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, pool, stop};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 13;

/// Elements of a block of a row in half precision.
const BLOCK: usize = 4096;

/// Most columns that are computed at once.
const COLUMNS: usize = 512;

/// Elements of a block of columns, which stay in the second-level cache between the passes.
const MATRIX: usize = 1 << 16;

/// The softmax, or its logarithm, along a dimension.
struct Softmax {
    level: Level,
    logarithm: bool,
    extents: AxisExtents,
    float: FloatType,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let axis = signature.axis("axis", -1, input.shape().len())?;
    if signature.output(0)? != input || signature.has_output(1) {
        return Err(refuse("the shapes do not fit"));
    }
    Ok(Box::new(Softmax {
        level: signature.level,
        logarithm: signature.op.name == "LogSoftmax",
        extents: AxisExtents::new(input.shape(), axis),
        float: FloatType::of_input(input.dtype(), 0)?,
    }))
}

impl Softmax {
    /// Whether rows of f32 are computed in place.
    fn is_in_place(&self) -> bool {
        self.extents.inner == 1 && self.float == FloatType::F32
    }
}

impl UnpreparedWorkload for Softmax {
    fn workload_plan(&self) -> WorkloadPlan {
        if self.is_in_place() {
            WorkloadPlan::in_place([0])
        } else {
            WorkloadPlan::default()
        }
    }
}

impl Workload for Softmax {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let AxisExtents {
            outer,
            extent,
            inner,
        } = self.extents;
        let slab = (extent * inner).max(1);
        let parallel = outer * slab >= PARALLEL;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let lines = outer.div_ceil(chunks).max(1);
        if !self.is_in_place() {
            let (inputs, mut outputs) = operands.split();
            let input = Floats::input(&inputs, 0, self.float)?;
            let output = FloatsMut::output(&mut outputs, 0, self.float)?;
            for_each_float_chunk(output, lines * slab, parallel, |index, output| {
                self.level.run(SoftmaxLines {
                    softmax: self,
                    input,
                    lines: index * lines..index * lines + output.len() / slab,
                    output,
                });
            });
            return Ok(());
        }
        let (from, to) = match operands.pair::<f32>(0, 0)? {
            OperandPair::InPlace(elements) => (None, elements),
            OperandPair::Apart(from, to) => (Some(from), to),
        };
        for_each_chunk(to, lines * slab, parallel, |index, to| {
            if let Some(from) = from {
                to.copy_from_slice(&from[index * lines * slab..][..to.len()]);
            }
            self.level.run(SoftmaxRows {
                softmax: self,
                rows: to,
            });
        });
        Ok(())
    }
}

/// Some rows, computed in place.
struct SoftmaxRows<'a> {
    softmax: &'a Softmax,
    rows: &'a mut [f32],
}

impl VectorOp for SoftmaxRows<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        for row in self
            .rows
            .chunks_exact_mut(self.softmax.extents.extent.max(1))
        {
            if self.softmax.logarithm {
                log_softmax(s, row);
            } else {
                softmax(s, row);
            }
        }
    }
}

/// Some lines: rows in half precision, or matrices of columns.
struct SoftmaxLines<'a> {
    softmax: &'a Softmax,
    input: Floats<'a>,
    lines: Range<usize>,
    output: FloatsMut<'a>,
}

impl VectorOp for SoftmaxLines<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(mut self, s: S) {
        let AxisExtents { extent, inner, .. } = self.softmax.extents;
        let level = self.softmax.level;
        let logarithm = self.softmax.logarithm;
        let mut buffers = Buffers::new();
        for (nth, line) in self.lines.clone().enumerate() {
            let (start, to) = (line * extent * inner, nth * extent * inner);
            if inner == 1 {
                let shift = row_shift(s, level, &self.input, start..start + extent, &mut buffers);
                for at in (0..extent).step_by(BLOCK) {
                    stop::checkpoint();
                    let end = (at + BLOCK).min(extent);
                    let range = start + at..start + end;
                    let from = self.input.load(level, range, &mut buffers.from);
                    let results = &mut buffers.to[..from.len()];
                    shift.apply(s, logarithm, from, results);
                    self.output.write(level, to + at..to + end, results);
                }
                continue;
            }
            let columns = (MATRIX / extent.max(1)).clamp(64, COLUMNS);
            for column in (0..inner).step_by(columns) {
                let count = (inner - column).min(columns);
                let matrix = Matrix {
                    start: start + column,
                    rows: extent,
                    inner,
                    count,
                };
                matrix.shifts(s, level, &self.input, &mut buffers);
                let Buffers {
                    from,
                    to: results,
                    most,
                    sums,
                } = &mut buffers;
                // Multiplied by the reciprocals of the sums, or shifted by their logarithms.
                for sum in &mut sums[..count] {
                    *sum = if logarithm { sum.ln() } else { 1.0 / *sum };
                }
                let (most, sums) = (&most[..count], &sums[..count]);
                for row in 0..extent {
                    if row.is_multiple_of(64) {
                        stop::checkpoint();
                    }
                    let from = self.input.load(level, matrix.row(row), &mut from[..]);
                    let results = &mut results[..count];
                    if logarithm {
                        let shifts = most.iter().zip(sums);
                        for ((to, &x), (&most, &sum)) in results.iter_mut().zip(from).zip(shifts) {
                            *to = (x - most) - sum;
                        }
                    } else {
                        let shifts = most.chunks(S::LANES).zip(sums.chunks(S::LANES));
                        let elements = results.chunks_mut(S::LANES).zip(from.chunks(S::LANES));
                        for ((to, x), (most, factor)) in elements.zip(shifts) {
                            let power = exp(s, s.sub(s.load_part(x), s.load_part(most)));
                            s.store_part(s.mul(power, s.load_part(factor)), to);
                        }
                    }
                    let to = to + row * inner + column;
                    self.output.write(level, to..to + count, results);
                }
            }
        }
    }
}

/// Memory for the blocks of a thread.
pub(super) struct Buffers {
    from: [f32; BLOCK],
    to: [f32; BLOCK],
    /// The maxima of columns.
    pub(super) most: [f32; COLUMNS],
    /// The sums of the exponentials of columns.
    pub(super) sums: [f32; COLUMNS],
}

impl Buffers {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            from: [0.0; BLOCK],
            to: [0.0; BLOCK],
            most: [0.0; COLUMNS],
            sums: [0.0; COLUMNS],
        }
    }
}

/// The maximum of a row, and the sum of the exponentials of the differences to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowShift {
    pub(super) most: f32,
    pub(super) sum: f32,
}

impl RowShift {
    /// The softmax of elements, or its logarithm.
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, logarithm: bool, from: &[f32], to: &mut [f32]) {
        if logarithm {
            // In two steps: a large maximum would absorb the logarithm of the sum.
            let rest = self.sum.ln();
            for (to, &x) in to.iter_mut().zip(from) {
                *to = (x - self.most) - rest;
            }
            return;
        }
        let (most, factor) = (s.splat(self.most), s.splat(1.0 / self.sum));
        for (to, x) in to.chunks_mut(S::LANES).zip(from.chunks(S::LANES)) {
            let power = exp(s, s.sub(s.load_part(x), most));
            s.store_part(s.mul(power, factor), to);
        }
    }
}

/// The shift of a row of any length.
#[inline(always)]
pub(super) fn row_shift<S: Simd>(
    s: S,
    level: Level,
    input: &Floats<'_>,
    row: Range<usize>,
    buffers: &mut Buffers,
) -> RowShift {
    let blocks = || {
        let (start, end) = (row.start, row.end);
        let firsts = row.clone().step_by(BLOCK);
        firsts.map(move |at| at..(at + BLOCK).min(end).max(start))
    };
    let mut most = f32::NEG_INFINITY;
    for block in blocks() {
        stop::checkpoint();
        let of_block = largest(s, input.load(level, block, &mut buffers.from));
        // NaN stays the maximum.
        most = if of_block > most || of_block.is_nan() {
            of_block
        } else {
            most
        };
    }
    let shift = s.splat(most);
    let mut total = 0.0;
    for block in blocks() {
        let from = input.load(level, block, &mut buffers.from);
        let whole = from.len() - from.len() % S::LANES;
        let mut sum = s.splat(0.0);
        for chunk in from[..whole].chunks_exact(S::LANES) {
            sum = s.add(sum, exp(s, s.sub(s.load(chunk), shift)));
        }
        let rest: f32 = from[whole..].iter().map(|&x| (x - most).exp()).sum();
        total += f64::from(s.sum(sum)) + f64::from(rest);
    }
    RowShift {
        most,
        sum: total as f32,
    }
}

/// Some columns of a matrix.
pub(super) struct Matrix {
    /// The first element.
    pub(super) start: usize,
    pub(super) rows: usize,
    /// Elements from a row to the next.
    pub(super) inner: usize,
    /// Columns.
    pub(super) count: usize,
}

impl Matrix {
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> Range<usize> {
        let start = self.start + row * self.inner;
        start..start + self.count
    }

    /// Computes the maxima of the columns, and the sums of the exponentials of the differences.
    #[inline(always)]
    pub(super) fn shifts<S: Simd>(
        &self,
        s: S,
        level: Level,
        input: &Floats<'_>,
        buffers: &mut Buffers,
    ) {
        let Buffers {
            from, most, sums, ..
        } = buffers;
        let (most, sums) = (&mut most[..self.count], &mut sums[..self.count]);
        most.fill(f32::NEG_INFINITY);
        sums.fill(0.0);
        for row in 0..self.rows {
            if row.is_multiple_of(64) {
                stop::checkpoint();
            }
            let from = input.load(level, self.row(row), &mut from[..]);
            for (most, &x) in most.iter_mut().zip(from) {
                *most = if x > *most { x } else { *most };
            }
        }
        for row in 0..self.rows {
            if row.is_multiple_of(64) {
                stop::checkpoint();
            }
            let from = input.load(level, self.row(row), &mut from[..]);
            let sums = sums.chunks_mut(S::LANES).zip(most.chunks(S::LANES));
            for ((sums, most), x) in sums.zip(from.chunks(S::LANES)) {
                let power = exp(s, s.sub(s.load_part(x), s.load_part(most)));
                s.store_part(s.add(s.load_part(sums), power), sums);
            }
        }
    }
}

/// The maximum of a row; negative infinity for an empty row.
#[inline(always)]
pub(super) fn largest<S: Simd>(s: S, row: &[f32]) -> f32 {
    let mut most = s.splat(f32::NEG_INFINITY);
    let whole = row.len() - row.len() % S::LANES;
    let mut chunks = row[..whole].chunks_exact(S::LANES);
    for chunk in chunks.by_ref() {
        most = s.max(most, s.load(chunk));
    }
    row[whole..]
        .iter()
        .fold(s.largest(most), |most, &x| most.max(x))
}

/// Replaces a row by its softmax.
#[inline(always)]
fn softmax<S: Simd>(s: S, row: &mut [f32]) {
    let most = largest(s, row);
    // A row of negative infinities only becomes NaN, as in ONNX.
    let shift = s.splat(most);
    let mut sums = [s.splat(0.0); 2];
    let whole = row.len() - row.len() % (2 * S::LANES);
    let (body, tail) = row.split_at_mut(whole);
    for pair in body.chunks_exact_mut(2 * S::LANES) {
        let (first, second) = pair.split_at_mut(S::LANES);
        let (a, b) = (
            exp(s, s.sub(s.load(first), shift)),
            exp(s, s.sub(s.load(second), shift)),
        );
        s.store(a, first);
        s.store(b, second);
        sums = [s.add(sums[0], a), s.add(sums[1], b)];
    }
    let mut rest = 0.0;
    for chunk in tail.chunks_mut(S::LANES) {
        s.store_part(exp(s, s.sub(s.load_part(chunk), shift)), chunk);
        rest += chunk.iter().sum::<f32>();
    }
    let factor = 1.0 / (s.sum(s.add(sums[0], sums[1])) + rest);
    row.iter_mut().for_each(|x| *x *= factor);
}

/// Replaces a row by the logarithm of its softmax.
#[inline(always)]
fn log_softmax<S: Simd>(s: S, row: &mut [f32]) {
    let most = largest(s, row);
    let shift = s.splat(most);
    let mut sum = s.splat(0.0);
    let whole = row.len() - row.len() % S::LANES;
    for chunk in row[..whole].chunks_exact(S::LANES) {
        sum = s.add(sum, exp(s, s.sub(s.load(chunk), shift)));
    }
    let rest: f32 = row[whole..].iter().map(|&x| (x - most).exp()).sum();
    // In two steps: a large maximum would absorb the logarithm of the sum.
    let tail = (s.sum(sum) + rest).ln();
    row.iter_mut().for_each(|x| *x = (*x - most) - tail);
}
