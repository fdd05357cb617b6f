//! Reductions (sum, mean, maximum, minimum) over adjacent dimensions, and the global pools.

use super::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::{Result, pool};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq)]
enum ReductionKind {
    Sum,
    Mean,
    Max,
    Min,
}

/// A reduction of `[outer, length, inner]` along the middle.
struct Reduction {
    level: Level,
    kind: ReductionKind,
    length: usize,
    inner: usize,
}

/// The kernel of a reduction; `None` when the operator is none.
pub(super) fn kernel(signature: &Signature<'_>) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    let (kind, global) = match signature.op.name {
        "ReduceSum" => (ReductionKind::Sum, false),
        "ReduceMean" => (ReductionKind::Mean, false),
        "ReduceMax" => (ReductionKind::Max, false),
        "ReduceMin" => (ReductionKind::Min, false),
        "GlobalAveragePool" => (ReductionKind::Mean, true),
        "GlobalMaxPool" => (ReductionKind::Max, true),
        _ => return None,
    };
    Some(Reduction::of(signature, kind, global).map(|reduction| Box::new(reduction) as _))
}

impl Reduction {
    fn of(signature: &Signature<'_>, kind: ReductionKind, global: bool) -> Result<Self, Refusal> {
        let shape = signature.f32_shape(0)?;
        let output = signature.only_output()?;
        let rank = shape.len();
        let axes = if global {
            (2..rank).collect()
        } else {
            reduced_axes(signature, rank)?
        };
        // Dimensions of extent 1 may be between the reduced ones.
        let reduced: Vec<usize> = axes.into_iter().filter(|&axis| shape[axis] != 1).collect();
        let first = reduced.first().copied().unwrap_or(rank);
        let end = reduced.last().map_or(rank, |last| last + 1);
        let adjacent = (first..end).all(|axis| shape[axis] == 1 || reduced.contains(&axis));
        if !adjacent {
            return Err(refuse(
                "no kernel for reduced dimensions that are not adjacent",
            ));
        }
        let length: usize = shape[first..end].iter().product();
        let inner: usize = shape[end..].iter().product();
        let outer: usize = shape[..first].iter().product();
        if length == 0 || output.elements() != outer * inner {
            return Err(refuse("no kernel for a reduction of no elements"));
        }
        Ok(Self {
            level: signature.level,
            kind,
            length,
            inner,
        })
    }
}

/// The reduced dimensions, sorted, without duplicates.
fn reduced_axes(signature: &Signature<'_>, rank: usize) -> Result<Vec<usize>, Refusal> {
    let given = signature.constant_ints(1)?.unwrap_or_default();
    if given.is_empty() {
        let none = signature.flag("noop_with_empty_axes", false)?;
        return Ok(if none {
            Vec::new()
        } else {
            (0..rank).collect()
        });
    }
    let mut axes = Vec::new();
    for axis in given {
        let positive = if axis < 0 {
            axis.saturating_add(rank as i64)
        } else {
            axis
        };
        let axis = usize::try_from(positive).ok().filter(|&axis| axis < rank);
        axes.push(axis.ok_or_else(|| refuse(format!("there is no axis {positive}")))?);
    }
    axes.sort_unstable();
    axes.dedup();
    Ok(axes)
}

impl UnpreparedWorkload for Reduction {}

impl Workload for Reduction {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let input = inputs.slice::<f32>(0)?;
        let output = outputs.slice::<f32>(0)?;
        let parallel = input.len() >= PARALLEL;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        // Whole cache lines of the output, so that threads do not share one (false sharing).
        let chunk = output.len().div_ceil(chunks).next_multiple_of(16);
        for_each_chunk(output, chunk, parallel, |index, output| {
            self.level.run(ReductionChunk {
                reduction: self,
                input,
                start: index * chunk,
                output,
            });
        });
        Ok(())
    }
}

/// A chunk of the output.
struct ReductionChunk<'a> {
    reduction: &'a Reduction,
    input: &'a [f32],
    start: usize,
    output: &'a mut [f32],
}

impl VectorOp for ReductionChunk<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        match self.reduction.kind {
            ReductionKind::Sum => self.reduce(s, 0.0, |a, b| a + b, |a, b| s.add(a, b), 1.0),
            ReductionKind::Mean => {
                let factor = 1.0 / self.reduction.length as f32;
                self.reduce(s, 0.0, |a, b| a + b, |a, b| s.add(a, b), factor);
            }
            ReductionKind::Max => {
                self.reduce(s, f32::NEG_INFINITY, f32::max, |a, b| s.max(a, b), 1.0);
            }
            ReductionKind::Min => self.reduce(s, f32::INFINITY, f32::min, |a, b| s.min(a, b), 1.0),
        }
    }
}

impl ReductionChunk<'_> {
    /// `join` and `join_vectors` are the same function, on elements and on vectors.
    #[inline(always)]
    fn reduce<S: Simd>(
        self,
        s: S,
        neutral: f32,
        join: impl Fn(f32, f32) -> f32,
        join_vectors: impl Fn(S::V, S::V) -> S::V,
        factor: f32,
    ) {
        let Reduction { length, inner, .. } = *self.reduction;
        if inner == 1 {
            for (index, output) in self.output.iter_mut().enumerate() {
                let row = &self.input[(self.start + index) * length..][..length];
                let mut sums = [s.splat(neutral); 4];
                let groups = row.chunks_exact(4 * S::LANES);
                let rest = groups.remainder();
                for group in groups {
                    for (sum, chunk) in sums.iter_mut().zip(group.chunks_exact(S::LANES)) {
                        *sum = join_vectors(*sum, s.load(chunk));
                    }
                }
                let all = join_vectors(
                    join_vectors(sums[0], sums[1]),
                    join_vectors(sums[2], sums[3]),
                );
                let mut lanes = [neutral; 16];
                s.store(all, &mut lanes);
                let result = lanes
                    .iter()
                    .chain(rest)
                    .fold(neutral, |sum, &x| join(sum, x));
                *output = result * factor;
            }
            return;
        }
        // Columns: runs of the output within one row of the inner dimension.
        let mut at = self.start;
        let mut left = self.output;
        while !left.is_empty() {
            let (line, column) = (at / inner, at % inner);
            let count = (inner - column).min(left.len()).min(4 * S::LANES);
            let (run, rest) = left.split_at_mut(count);
            let mut sums = [s.splat(neutral); 4];
            for row in 0..length {
                let from = &self.input[(line * length + row) * inner + column..][..count];
                for (sum, chunk) in sums.iter_mut().zip(from.chunks(S::LANES)) {
                    *sum = join_vectors(*sum, s.load_part(chunk));
                }
            }
            for (sum, chunk) in sums.iter().zip(run.chunks_mut(S::LANES)) {
                s.store_part(s.mul(*sum, s.splat(factor)), chunk);
            }
            at += count;
            left = rest;
        }
    }
}
