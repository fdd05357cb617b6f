//! Reductions over any dimensions, and the global pools. Adjacent dimensions that are all reduced, or
//! all kept, are one. Rows of contiguous elements are reduced in independent lanes, columns row by row;
//! long sums are blocked (Higham, "The accuracy of floating point summation", SIAM Journal on
//! Scientific Computing, 1993): each block in the type of the elements, the blocks in f64.

mod extents;
mod log_sum_exp;
mod reducers;
mod totals;

use self::totals::{COLUMNS, Totals};
use super::elements::{Sink, Source};
use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatType, Floats, FloatsMut};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Portable, VectorOp};
use std::ops::Range;
use tenon_backend::{Operands, Reason, Refusal, Workload};
use tenon_base::{Result, pool};
use tenon_tensor::DataType;

pub(super) use self::extents::{Extents, Loop, offset, reduced_dimensions};
pub(super) use self::reducers::*;

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 16;

/// Most outputs for which the reduced elements are divided among threads.
const FEW: usize = 64;

/// Parts of the reduced elements where there are few outputs: the same for any number of threads, so
/// that results are.
const PARTS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq)]
enum ReductionKind {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
    L1,
    L2,
    SumSquare,
    LogSum,
    LogSumExp,
    /// The p-norm.
    Norm(f64),
}

/// A reduction.
struct Reduction {
    level: Level,
    kind: ReductionKind,
    dtype: DataType,
    extents: Extents,
    finish: Finish,
}

/// The kernel of a reduction; `None` when the operator is none.
pub(super) fn kernel(signature: &Signature<'_>) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    let (kind, global) = match signature.op.name {
        "ReduceSum" => (ReductionKind::Sum, false),
        "ReduceMean" => (ReductionKind::Mean, false),
        "ReduceMax" => (ReductionKind::Max, false),
        "ReduceMin" => (ReductionKind::Min, false),
        "ReduceProd" => (ReductionKind::Prod, false),
        "ReduceL1" => (ReductionKind::L1, false),
        "ReduceL2" => (ReductionKind::L2, false),
        "ReduceSumSquare" => (ReductionKind::SumSquare, false),
        "ReduceLogSum" => (ReductionKind::LogSum, false),
        "ReduceLogSumExp" => (ReductionKind::LogSumExp, false),
        "GlobalAveragePool" => (ReductionKind::Mean, true),
        "GlobalMaxPool" => (ReductionKind::Max, true),
        "GlobalLpPool" => match signature.int("p", 2) {
            Ok(1) => (ReductionKind::L1, true),
            Ok(2) => (ReductionKind::L2, true),
            Ok(p) => (ReductionKind::Norm(p as f64), true),
            Err(refusal) => return Some(Err(refusal)),
        },
        _ => return None,
    };
    Some(Reduction::of(signature, kind, global).map(|reduction| Box::new(reduction) as _))
}

impl Reduction {
    fn of(signature: &Signature<'_>, kind: ReductionKind, global: bool) -> Result<Self, Refusal> {
        let input = signature.input(0)?;
        let (shape, dtype) = (input.shape(), input.dtype());
        signature.output(0)?;
        let reduced: Vec<bool> = if global {
            (0..shape.len()).map(|axis| axis >= 2).collect()
        } else {
            reduced_axes(signature, shape.len())?
        };
        let extents = Extents::new(shape, &reduced);
        let count = extents.positions();
        if count == 0 {
            return Err(refuse("no kernel for a reduction of no elements"));
        }
        use ReductionKind::{L1, Max, Mean, Min, Prod, Sum, SumSquare};
        let supported = match dtype {
            DataType::F32 | DataType::F16 | DataType::BF16 | DataType::F64 => true,
            DataType::I32 | DataType::I64 | DataType::U32 | DataType::U64 => {
                matches!(kind, Sum | Mean | Max | Min | Prod | L1 | SumSquare)
            }
            DataType::I8 | DataType::U8 | DataType::Bool => matches!(kind, Max | Min),
            _ => false,
        };
        if !supported {
            return Err(Reason::InputType {
                input: 0,
                found: dtype,
            }
            .into());
        }
        let finish = match kind {
            ReductionKind::Mean => Finish::Mean(count),
            ReductionKind::L2 => Finish::SquareRoot,
            ReductionKind::LogSum => Finish::Logarithm,
            ReductionKind::Norm(p) => Finish::Root(p),
            _ => Finish::Identity,
        };
        Ok(Self {
            level: signature.level,
            kind,
            dtype,
            extents,
            finish,
        })
    }
}

/// Which dimensions are reduced.
fn reduced_axes(signature: &Signature<'_>, rank: usize) -> Result<Vec<bool>, Refusal> {
    let given = signature.constant_ints(1)?.unwrap_or_default();
    if given.is_empty() {
        let none = signature.flag("noop_with_empty_axes", false)?;
        return Ok(vec![!none; rank]);
    }
    Ok(reduced_dimensions(&given, rank))
}

impl UnpreparedWorkload for Reduction {}

impl Workload for Reduction {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        use ReductionKind::{
            L1, L2, LogSum, LogSumExp, Max, Mean, Min, Norm, Prod, Sum, SumSquare,
        };
        let level = Some(self.level);
        if let Some(float) = FloatType::of(self.dtype) {
            let (inputs, mut outputs) = operands.split();
            let input = Floats::input(&inputs, 0, float)?;
            let output = FloatsMut::output(&mut outputs, 0, float)?;
            match self.kind {
                Sum | Mean | LogSum => self.reduce(SumF32, level, input, output),
                L1 => self.reduce(L1F32, level, input, output),
                L2 | SumSquare => self.reduce(SquaresF32, level, input, output),
                Prod => self.reduce(ProductF32, level, input, output),
                Max => self.reduce(MaxF32, level, input, output),
                Min => self.reduce(MinF32, level, input, output),
                LogSumExp => self.log_sum_exp(input, output),
                Norm(p) => self.reduce(NormF32(p), None, input, output),
            }
            return Ok(());
        }
        match (self.dtype, self.kind) {
            (DataType::F64, Sum | Mean | LogSum) => self.run(operands, SumF64, None),
            (DataType::F64, L1) => self.run(operands, L1F64, None),
            (DataType::F64, SumSquare | L2) => self.run(operands, SquaresF64, None),
            (DataType::F64, Prod) => self.run(operands, ProductF64, None),
            (DataType::F64, Max) => self.run(operands, MaxF64, None),
            (DataType::F64, Min) => self.run(operands, MinF64, None),
            (DataType::F64, Norm(p)) => self.run(operands, NormF64(p), None),
            (DataType::F64, LogSumExp) => self.log_sum_exp_f64(operands),
            (DataType::I32, Sum) => self.run(operands, SumI32, level),
            (DataType::I32, Mean) => self.run(operands, MeanI32, None),
            (DataType::I32, L1) => self.run(operands, L1I32, None),
            (DataType::I32, SumSquare) => self.run(operands, SquaresI32, None),
            (DataType::I32, Prod) => self.run(operands, ProductI32, None),
            (DataType::I32, Max) => self.run(operands, MaxI32, level),
            (DataType::I32, Min) => self.run(operands, MinI32, level),
            (DataType::I64, Mean) => self.run(operands, MeanI64, None),
            (DataType::I64, Sum) => self.run(operands, SumI64, level),
            (DataType::I64, L1) => self.run(operands, L1I64, None),
            (DataType::I64, SumSquare) => self.run(operands, SquaresI64, None),
            (DataType::I64, Prod) => self.run(operands, ProductI64, None),
            (DataType::I64, Max) => self.run(operands, MaxI64, level),
            (DataType::I64, Min) => self.run(operands, MinI64, level),
            (DataType::U32, Sum | L1) => self.run(operands, SumU32, None),
            (DataType::U32, Mean) => self.run(operands, MeanU32, None),
            (DataType::U32, SumSquare) => self.run(operands, SquaresU32, None),
            (DataType::U32, Prod) => self.run(operands, ProductU32, None),
            (DataType::U32, Max) => self.run(operands, MaxU32, None),
            (DataType::U32, _) => self.run(operands, MinU32, None),
            (DataType::U64, Sum | L1) => self.run(operands, SumU64, None),
            (DataType::U64, Mean) => self.run(operands, MeanU64, None),
            (DataType::U64, SumSquare) => self.run(operands, SquaresU64, None),
            (DataType::U64, Prod) => self.run(operands, ProductU64, None),
            (DataType::U64, Max) => self.run(operands, MaxU64, None),
            (DataType::U64, _) => self.run(operands, MinU64, None),
            (DataType::I8, Max) => self.run(operands, MaxI8, level),
            (DataType::I8, _) => self.run(operands, MinI8, level),
            (_, Max) => self.run(operands, MaxU8, level),
            _ => self.run(operands, MinU8, level),
        }
    }
}

impl Reduction {
    /// Runs with the vectors of `level`, or of the target's baseline for types and kinds that are rare.
    fn run<R: Reducer>(
        &self,
        operands: &mut Operands<'_>,
        reducer: R,
        level: Option<Level>,
    ) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let input = inputs.slice::<R::Element>(0)?;
        let output = outputs.slice::<R::Element>(0)?;
        self.reduce(reducer, level, input, output);
        Ok(())
    }

    /// Elements of the input.
    fn elements(&self) -> usize {
        self.extents.lines() * self.extents.positions() * self.extents.inner
    }

    /// Outputs of a chunk, and whether chunks are computed in parallel. A chunk has whole cache lines of
    /// the output, so that threads do not share one (false sharing), and of columns several lines of each row.
    fn chunk(&self, outputs: usize) -> (usize, bool) {
        let parallel = self.elements() >= PARALLEL;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let lines = if self.extents.inner > 1 { 4 } else { 1 };
        (
            outputs.div_ceil(chunks).next_multiple_of(16 * lines),
            parallel,
        )
    }

    /// The totals of some outputs over a part of the reduced positions.
    fn totals<R: Reducer, I: Source<Element = R::Element>>(
        &self,
        reducer: R,
        level: Option<Level>,
        input: I,
        [outputs, part]: [Range<usize>; 2],
        to: &mut [R::Total],
    ) {
        let totals = Totals {
            reduction: self,
            reducer,
            input,
            outputs: outputs.clone(),
            part: part.clone(),
            to,
        };
        match level {
            Some(level) => level.run(totals),
            None => totals.eval(Portable),
        }
        if to.iter().any(|&total| !R::is_exact(total)) {
            let totals = Totals {
                reduction: self,
                reducer: reducer.exact(),
                input,
                outputs,
                part,
                to,
            };
            totals.eval(Portable);
        }
    }

    /// `level` is `None` for the vectors of the target's baseline.
    fn reduce<R, I, O>(&self, reducer: R, level: Option<Level>, input: I, output: O)
    where
        R: Reducer,
        I: Source<Element = R::Element>,
        O: Sink<Element = R::Element>,
    {
        let inner = self.extents.inner;
        let positions = self.extents.positions();
        let (chunk, parallel) = self.chunk(output.len());
        if output.len() <= FEW && self.extents.lines() == 1 && parallel {
            let start = R::total(R::START);
            let mut parts = [[start; FEW]; PARTS];
            let part = positions.div_ceil(PARTS);
            for_each_chunk(&mut parts, 1, true, |index, to| {
                let range = (index * part).min(positions)..((index + 1) * part).min(positions);
                self.totals(
                    reducer,
                    level,
                    input,
                    [0..inner, range],
                    &mut to[0][..inner],
                );
            });
            let mut output = output;
            for column in 0..inner {
                let parts = parts.iter().map(|part| part[column]);
                let element = R::finish(parts.fold(start, R::join_totals), self.finish);
                output.write(self.level, column..column + 1, &[element]);
            }
            return;
        }
        output.for_each(chunk, parallel, |index, mut output| {
            let mut to = [R::total(R::START); COLUMNS];
            let mut elements = [R::finish(R::total(R::START), self.finish); COLUMNS];
            for first in (0..output.len()).step_by(COLUMNS) {
                let end = (first + COLUMNS).min(output.len());
                let (to, elements) = (&mut to[..end - first], &mut elements[..end - first]);
                let outputs = index * chunk + first..index * chunk + end;
                self.totals(reducer, level, input, [outputs, 0..positions], to);
                for (element, &total) in elements.iter_mut().zip(&*to) {
                    *element = R::finish(total, self.finish);
                }
                output.write(self.level, first..end, elements);
            }
        });
    }
}
