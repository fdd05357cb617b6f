//! Softmax and LogSoftmax along the last dimension: safe softmax, which subtracts the row's maximum, in
//! three passes; log-softmax by log-sum-exp.

use super::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse_attribute};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::math::exp;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{OperandPair, Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, pool};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 13;

/// The softmax, or its logarithm, of rows of `length` elements.
struct Softmax {
    level: Level,
    logarithm: bool,
    length: usize,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let shape = signature.same_shape()?;
    let axis = signature.axis("axis", -1, shape.len())?;
    if shape[axis + 1..].iter().any(|&extent| extent != 1) {
        return Err(refuse_attribute(
            "axis",
            format_args!("{axis}, which is not the last"),
        ));
    }
    let logarithm = signature.op.name == "LogSoftmax";
    Ok(Box::new(Softmax {
        level: signature.level,
        logarithm,
        length: shape[axis],
    }))
}

impl UnpreparedWorkload for Softmax {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl Workload for Softmax {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (from, to) = match operands.pair::<f32>(0, 0)? {
            OperandPair::InPlace(elements) => (None, elements),
            OperandPair::Apart(from, to) => (Some(from), to),
        };
        let length = self.length.max(1);
        let parallel = to.len() >= PARALLEL;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let chunk = (to.len() / length).div_ceil(chunks).max(1) * length;
        for_each_chunk(to, chunk, parallel, |index, to| {
            if let Some(from) = from {
                to.copy_from_slice(&from[index * chunk..][..to.len()]);
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
        for row in self.rows.chunks_exact_mut(self.softmax.length.max(1)) {
            if self.softmax.logarithm {
                log_softmax(s, row);
            } else {
                softmax(s, row);
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
    let offset = most + (s.sum(sum) + rest).ln();
    // In two steps: a large maximum would absorb the logarithm of the sum.
    let tail = offset - most;
    row.iter_mut().for_each(|x| *x = (*x - most) - tail);
}
