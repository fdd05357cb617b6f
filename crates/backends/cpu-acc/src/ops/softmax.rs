//! Softmax and LogSoftmax along any dimension: safe softmax, which subtracts the maximum, in three passes;
//! log-softmax by log-sum-exp. A row of f32 along the last dimension is computed in place; else the
//! exponentials are computed twice instead of stored between the passes.

mod shifts;

use self::shifts::COLUMNS;
use super::axis_extents::AxisExtents;
use super::blocks::{BLOCK, Buffers};
use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatType, Floats, FloatsMut, for_each_float_chunk};
use crate::signature::Signature;
use crate::simd::disjoint::for_each_chunk;
use crate::simd::math::exp_nonpositive;
use crate::simd::{Level, Simd, VectorOp};
use std::ops::Range;
use tenon_backend::{OperandPair, Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, pool, stop};

pub(super) use self::shifts::{
    ColumnShifts, Matrix, RowShift, add_exp, largest, log_softmax_of_columns, log_softmax_of_row,
    sum_exp, write_exp,
};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 13;

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
    signature.output(0)?;
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
        let slab = extent * inner;
        let parallel = outer * slab >= PARALLEL;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let lines = outer.div_ceil(chunks);
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
            self.level.run(SoftmaxRows {
                softmax: self,
                from: from.map(|from| &from[index * lines * slab..][..to.len()]),
                rows: to,
            });
        });
        Ok(())
    }
}

/// Some rows, computed in place.
struct SoftmaxRows<'a> {
    softmax: &'a Softmax,
    /// The elements, where they are not in the output.
    from: Option<&'a [f32]>,
    rows: &'a mut [f32],
}

impl VectorOp for SoftmaxRows<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let extent = self.softmax.extents.extent;
        for (index, row) in self.rows.chunks_exact_mut(extent).enumerate() {
            let from = self.from.map(|from| &from[index * extent..][..extent]);
            if self.softmax.logarithm {
                log_softmax(s, from, row);
            } else {
                softmax(s, from, row);
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
        if inner == 1 && (1..=BLOCK).contains(&extent) {
            return self.eval_short_rows(s, buffers);
        }
        let mut shifts = ColumnShifts::new();
        for (nth, line) in self.lines.clone().enumerate() {
            let (start, to) = (line * extent * inner, nth * extent * inner);
            if inner == 1 {
                let row = start..start + extent;
                let shift = RowShift::of(s, level, &self.input, row, &mut buffers.from);
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
            let columns = (MATRIX / extent).clamp(64, COLUMNS);
            for column in (0..inner).step_by(columns) {
                let count = (inner - column).min(columns);
                let matrix = Matrix {
                    start: start + column,
                    rows: extent,
                    inner,
                    count,
                };
                let Buffers { from, to: results } = &mut buffers;
                matrix.shifts(s, level, &self.input, from, &mut shifts);
                let (maxima, sums) = (&shifts.maxima[..count], &mut shifts.sums[..count]);
                // Multiplied by the reciprocals of the sums, or shifted by their logarithms.
                for sum in &mut *sums {
                    *sum = if logarithm { sum.ln() } else { 1.0 / *sum };
                }
                for row in 0..extent {
                    if row.is_multiple_of(64) {
                        stop::checkpoint();
                    }
                    let from = self.input.load(level, matrix.row(row), &mut from[..]);
                    let results = &mut results[..count];
                    if logarithm {
                        log_softmax_of_columns(from, maxima, sums, results);
                    } else {
                        let shifts = maxima.chunks(S::LANES).zip(sums.chunks(S::LANES));
                        let elements = results.chunks_mut(S::LANES).zip(from.chunks(S::LANES));
                        for ((to, x), (maximum, factor)) in elements.zip(shifts) {
                            let difference = s.sub(s.load_part(x), s.load_part(maximum));
                            let power = exp_nonpositive(s, difference);
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

impl SoftmaxLines<'_> {
    /// Computes rows of which a block has at least one.
    #[inline(always)]
    fn eval_short_rows<S: Simd>(mut self, s: S, mut buffers: Buffers) {
        let (extent, level) = (self.softmax.extents.extent, self.softmax.level);
        let first = self.lines.start * extent;
        let end = self.lines.end * extent;
        for start in (first..end).step_by(BLOCK / extent * extent) {
            stop::checkpoint();
            let range = start..end.min(start + BLOCK / extent * extent);
            let from = self.input.load(level, range.clone(), &mut buffers.from);
            let results = &mut buffers.to[..from.len()];
            SoftmaxRows {
                softmax: self.softmax,
                from: Some(from),
                rows: results,
            }
            .eval(s);
            let to = range.start - first..range.end - first;
            self.output.write(level, to, results);
        }
    }
}

/// Writes the softmax of `from`, or of the row itself. A row of negative infinities only becomes NaN, as in ONNX.
#[inline(always)]
fn softmax<S: Simd>(s: S, from: Option<&[f32]>, row: &mut [f32]) {
    let maximum = largest(s, from.unwrap_or(row));
    let factor = 1.0 / write_exp(s, from, row, maximum);
    row.iter_mut().for_each(|x| *x *= factor);
}

/// Writes the logarithm of the softmax of `from`, or of the row itself.
#[inline(always)]
fn log_softmax<S: Simd>(s: S, from: Option<&[f32]>, row: &mut [f32]) {
    let elements = from.unwrap_or(row);
    let maximum = largest(s, elements);
    let tail = sum_exp(s, elements, maximum).ln();
    match from {
        Some(from) => log_softmax_of_row(from, maximum, tail, row),
        // In two steps, as there.
        None => row.iter_mut().for_each(|x| *x = (*x - maximum) - tail),
    }
}
