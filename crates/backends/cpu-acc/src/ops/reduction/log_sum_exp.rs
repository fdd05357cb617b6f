//! Log-sum-exp: the maximum is subtracted first, so that no exponential overflows.

use super::Reduction;
use super::extents::{Extents, offset};
use super::reducers::{MaxF32, MaxF64};
use super::totals::ROWS;
use crate::floats::{Floats, FloatsMut};
use crate::ops::blocks::{BLOCK, blocks};
use crate::ops::elements::Sink;
use crate::ops::softmax::{add_exp, sum_exp};
use crate::simd::{Simd, VectorOp};
use std::ops::Range;
use tenon_backend::Operands;
use tenon_base::{Result, stop};

/// Outputs that are computed at once.
const OUTPUTS: usize = 256;

impl Reduction {
    /// Log-sum-exp of f32, f16 or bf16.
    pub(super) fn log_sum_exp(&self, input: Floats<'_>, output: FloatsMut<'_>) {
        let (chunk, parallel) = self.chunk(output.len());
        output.for_each(chunk, parallel, |index, mut output| {
            let mut shifts = [0f32; OUTPUTS];
            let mut sums = [0f32; OUTPUTS];
            for first in (0..output.len()).step_by(OUTPUTS) {
                let end = (first + OUTPUTS).min(output.len());
                let outputs = index * chunk + first..index * chunk + end;
                let (shifts, sums) = (&mut shifts[..end - first], &mut sums[..end - first]);
                let whole = [outputs.clone(), 0..self.extents.positions()];
                self.totals(MaxF32, Some(self.level), input, whole, shifts);
                self.level.run(Exponentials {
                    reduction: self,
                    input,
                    outputs,
                    shifts,
                    sums,
                });
                for (sum, shift) in sums.iter_mut().zip(&*shifts) {
                    // The logarithm of infinity, of 0, or NaN.
                    let is_extreme = !shift.is_finite();
                    *sum = if is_extreme { *shift } else { sum.ln() + shift };
                }
                output.write(self.level, first..end, sums);
            }
        });
    }

    /// Log-sum-exp of f64, with plain loops.
    pub(super) fn log_sum_exp_f64(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let input = inputs.slice::<f64>(0)?;
        let output = outputs.slice::<f64>(0)?;
        self.reduce(MaxF64, None, input, &mut *output);
        let Extents {
            kept,
            far,
            length,
            inner,
        } = &self.extents;
        for (at, to) in output.iter_mut().enumerate() {
            stop::checkpoint();
            let shift = if to.is_finite() { *to } else { 0.0 };
            let mut sum = 0.0;
            for outer in 0..self.extents.positions() / length {
                let start = offset(kept, at / inner) + offset(far, outer) + at % inner;
                let elements = input[start..].iter().step_by(*inner).take(*length);
                sum += elements.map(|x| (x - shift).exp()).sum::<f64>();
            }
            *to = sum.ln() + shift;
        }
        Ok(())
    }
}

/// The sums of exponentials of some outputs.
struct Exponentials<'a> {
    reduction: &'a Reduction,
    input: Floats<'a>,
    outputs: Range<usize>,
    shifts: &'a [f32],
    sums: &'a mut [f32],
}

impl VectorOp for Exponentials<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Extents {
            far, length, inner, ..
        } = &self.reduction.extents;
        let (length, inner) = (*length, *inner);
        let level = self.reduction.level;
        let outers = self.reduction.extents.positions() / length;
        let mut buffer = [0f32; BLOCK];
        let mut done = 0;
        for (base, columns) in self.reduction.extents.line_parts(self.outputs) {
            let part = done..done + columns.len();
            done = part.end;
            let (sums, shifts) = (&mut self.sums[part.clone()], &self.shifts[part]);
            sums.fill(0.0);
            let base = base + columns.start;
            let count = columns.len();
            for outer in 0..outers {
                let start = base + offset(far, outer);
                if inner == 1 {
                    let mut total = 0.0;
                    for block in blocks(start..start + length) {
                        stop::checkpoint();
                        let block = self.input.load(level, block, &mut buffer);
                        total += f64::from(sum_exp(s, block, shifts[0]));
                    }
                    sums[0] += total as f32;
                    continue;
                }
                for row in 0..length {
                    if row.is_multiple_of(ROWS) {
                        stop::checkpoint();
                    }
                    let range = start + row * inner..start + row * inner + count;
                    let from = self.input.load(level, range, &mut buffer);
                    add_exp(s, from, shifts, sums);
                }
            }
        }
    }
}
