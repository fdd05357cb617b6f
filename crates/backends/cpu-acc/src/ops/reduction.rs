//! Reductions over any dimensions, and the global pools. Adjacent dimensions that are all reduced, or
//! all kept, are one. Rows of contiguous elements are reduced in independent lanes, columns row by row;
//! long sums are blocked (Higham, "The accuracy of floating point summation", SIAM Journal on
//! Scientific Computing, 1993): each block in the type of the elements, the blocks in f64.

use super::elements::{Sink, Source};
use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatType, Floats, FloatsMut};
use crate::panels::WIDTH;
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::math::exp;
use crate::simd::{Level, Portable, Simd, VectorOp};
use std::ops::Range;
use tenon_backend::{Operands, Reason, Refusal, Workload};
use tenon_base::{Result, pool, stop};
use tenon_tensor::{DataType, Element};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 16;

/// Independent accumulators of a row.
const LANES: usize = 32;

/// Elements of a block of a row.
const BLOCK: usize = 4096;

/// Columns that are accumulated at once.
const COLUMNS: usize = 1024;

/// Rows of a block of columns.
const ROWS: usize = 128;

/// Most outputs for which the reduced elements are divided among threads.
const FEW: usize = 16;

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

/// What is done with the joined elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Finish {
    Identity,
    /// Division by the number of elements.
    Mean(usize),
    SquareRoot,
    Logarithm,
    /// The root of this degree.
    Root(f64),
}

/// A loop over a dimension: its extent and the distance of its elements.
pub(super) type Loop = (usize, usize);

/// A tensor as kept and reduced dimensions, of which the innermost are contiguous.
#[derive(Debug, Clone, Default)]
pub(super) struct Extents {
    /// Kept dimensions before the last, outermost first.
    pub(super) kept: Vec<Loop>,
    /// Reduced dimensions before the last, outermost first.
    pub(super) far: Vec<Loop>,
    /// Elements of a row, or rows of a matrix of columns.
    pub(super) length: usize,
    /// Columns; 1 for a row.
    pub(super) inner: usize,
}

/// The offset of position `index` of nested loops.
#[inline(always)]
pub(super) fn offset(loops: &[Loop], mut index: usize) -> usize {
    if loops.is_empty() {
        return 0;
    }
    if let &[(_, stride)] = loops {
        return index * stride;
    }
    let mut at = 0;
    for &(extent, stride) in loops.iter().rev() {
        at += index % extent * stride;
        index /= extent;
    }
    at
}

impl Extents {
    pub(super) fn new(shape: &[usize], reduced: &[bool]) -> Self {
        let mut dims: Vec<(usize, bool)> = Vec::new();
        for (&extent, &reduced) in shape.iter().zip(reduced) {
            match dims.last_mut() {
                _ if extent == 1 => {}
                Some((above, same)) if *same == reduced => *above *= extent,
                _ => dims.push((extent, reduced)),
            }
        }
        let inner = match dims.last() {
            Some(&(extent, false)) => {
                dims.pop();
                extent
            }
            _ => 1,
        };
        let length = dims.pop().map_or(1, |(extent, _)| extent);
        let mut stride = length * inner;
        let mut loops = Self {
            length,
            inner,
            ..Self::default()
        };
        for &(extent, reduced) in dims.iter().rev() {
            let list = if reduced {
                &mut loops.far
            } else {
                &mut loops.kept
            };
            list.insert(0, (extent, stride));
            stride *= extent;
        }
        loops
    }

    /// Positions of the reduced dimensions: rows of columns, or elements of rows.
    pub(super) fn positions(&self) -> usize {
        self.far.iter().map(|dim| dim.0).product::<usize>() * self.length
    }

    /// Kept positions before the columns.
    pub(super) fn lines(&self) -> usize {
        self.kept.iter().map(|dim| dim.0).product()
    }
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
        let output = signature.output(0)?;
        let reduced: Vec<bool> = if global {
            (0..shape.len()).map(|axis| axis >= 2).collect()
        } else {
            reduced_axes(signature, shape.len())?
        };
        let extents = Extents::new(shape, &reduced);
        let count = extents.positions();
        if count == 0
            || output.dtype() != dtype
            || output.elements() != extents.lines() * extents.inner
        {
            return Err(refuse("no kernel for a reduction of no elements"));
        }
        use ReductionKind::{L1, Max, Mean, Min, Prod, Sum, SumSquare};
        let supported = match dtype {
            DataType::F32 | DataType::F16 | DataType::BF16 | DataType::F64 => true,
            DataType::I32 => matches!(kind, Sum | Mean | Max | Min | Prod | L1 | SumSquare),
            DataType::I64 => matches!(kind, Sum | Max | Min | Prod | L1 | SumSquare),
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
    let mut reduced = vec![false; rank];
    for axis in given {
        let positive = if axis < 0 {
            axis.saturating_add(rank as i64)
        } else {
            axis
        };
        let axis = usize::try_from(positive).ok();
        let axis = axis.and_then(|axis| reduced.get_mut(axis));
        *axis.ok_or_else(|| refuse(format!("there is no axis {positive}")))? = true;
    }
    Ok(reduced)
}

/// A reduction of elements of one type, as a type, so that loops are compiled for each.
pub(super) trait Reducer: Copy + Send + Sync + 'static {
    type Element: Element;
    /// The accumulator of a block.
    type Sum: Copy + Send + Sync + 'static;
    /// The accumulator of blocks.
    type Total: Copy + Send + Sync + 'static;
    /// The same with a sum that neither overflows nor loses small terms.
    type Exact: Reducer<Element = Self::Element, Total = Self::Total>;
    const START: Self::Sum;
    fn exact(self) -> Self::Exact;
    /// Whether the total is as [`Reducer::exact`] computes it.
    #[inline(always)]
    fn is_exact(_: Self::Total) -> bool {
        true
    }
    fn step(self, sum: Self::Sum, x: Self::Element) -> Self::Sum;
    fn join(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    fn total(sum: Self::Sum) -> Self::Total;
    fn join_totals(a: Self::Total, b: Self::Total) -> Self::Total;
    fn finish(total: Self::Total, finish: Finish) -> Self::Element;
    /// Reduces contiguous elements.
    #[inline(always)]
    fn row<S: Simd>(self, _: S, row: &[Self::Element]) -> Self::Sum {
        in_lanes(self, row)
    }
}

/// Finishes a floating-point total.
#[inline(always)]
fn finish_real(total: f64, finish: Finish) -> f64 {
    match finish {
        Finish::Identity => total,
        Finish::Mean(count) => total / count as f64,
        Finish::SquareRoot => total.sqrt(),
        Finish::Logarithm => total.ln(),
        Finish::Root(p) => total.powf(1.0 / p),
    }
}

/// A reducer `$name` of `$element`: `$start`, then `$step`; accumulators are joined by `$join`.
macro_rules! reducer {
    ($name:ident $(($parameter:ty))?, $element:ty, $sum:ty, $total:ty, $start:expr,
     |$this:ident, $a:ident, $x:ident| $step:expr, |$b:ident, $c:ident| $join:expr,
     |$all:ident, $finish:ident| $done:expr $(, $item:item)*) => {
        #[derive(Clone, Copy)]
        pub(super) struct $name $(($parameter))?;

        impl Reducer for $name {
            type Element = $element;
            type Sum = $sum;
            type Total = $total;
            type Exact = Self;
            const START: $sum = $start;
            #[inline(always)]
            fn exact(self) -> Self {
                self
            }
            #[inline(always)]
            fn step(self, $a: $sum, $x: $element) -> $sum {
                let $this = self;
                $step
            }
            #[inline(always)]
            fn join($b: $sum, $c: $sum) -> $sum {
                $join
            }
            #[inline(always)]
            fn total(sum: $sum) -> $total {
                sum as $total
            }
            #[inline(always)]
            fn join_totals($b: $total, $c: $total) -> $total {
                $join
            }
            #[inline(always)]
            fn finish($all: $total, $finish: Finish) -> $element {
                $done
            }
            $($item)*
        }
    };
}

/// Reducers of a floating-point type, with sums in it; those of f32 reduce rows with vectors.
macro_rules! float_reducers {
    ($float:ident: $sum:ident $l1:ident $product:ident $max:ident $min:ident $norm:ident
     $({ $sum_row:item $l1_row:item $max_row:item $min_row:item })?) => {
        reducer! { $sum, $float, $float, f64, 0.0, |_this, a, x| a + x, |b, c| b + c,
            |all, finish| finish_real(all, finish) as $float $(, $sum_row)? }
        reducer! { $l1, $float, $float, f64, 0.0, |_this, a, x| a + x.abs(), |b, c| b + c,
            |all, finish| finish_real(all, finish) as $float $(, $l1_row)? }
        reducer! { $product, $float, f64, f64, 1.0, |_this, a, x| a * f64::from(x), |b, c| b * c,
            |all, finish| finish_real(all, finish) as $float }
        reducer! { $norm(f64), $float, f64, f64, 0.0,
            |this, a, x| a + f64::from(x.abs()).powf(this.0), |b, c| b + c,
            |all, finish| finish_real(all, finish) as $float }
        // NaN is the greatest and the least.
        reducer! { $max, $float, $float, $float, $float::NEG_INFINITY,
            |_this, a, x| if x > a || x.is_nan() { x } else { a },
            |b, c| if c > b || c.is_nan() { c } else { b }, |all, _finish| all $(, $max_row)? }
        reducer! { $min, $float, $float, $float, $float::INFINITY,
            |_this, a, x| if x < a || x.is_nan() { x } else { a },
            |b, c| if c < b || c.is_nan() { c } else { b }, |all, _finish| all $(, $min_row)? }
    };
}

float_reducers! { f32: SumF32 L1F32 ProductF32 MaxF32 MinF32 NormF32 {
    #[inline(always)]
    fn row<S: Simd>(self, s: S, row: &[f32]) -> f32 {
        sum_of(s, row, |x| x)
    }
    #[inline(always)]
    fn row<S: Simd>(self, s: S, row: &[f32]) -> f32 {
        sum_of(s, row, |x| s.abs(x))
    }
    #[inline(always)]
    fn row<S: Simd>(self, s: S, row: &[f32]) -> f32 {
        let (vectors, rest) = extreme_of(s, row, f32::NEG_INFINITY, |a, x| s.max(a, x));
        vectors.iter().chain(rest).fold(Self::START, |a, &x| self.step(a, x))
    }
    #[inline(always)]
    fn row<S: Simd>(self, s: S, row: &[f32]) -> f32 {
        let (vectors, rest) = extreme_of(s, row, f32::INFINITY, |a, x| s.min(a, x));
        vectors.iter().chain(rest).fold(Self::START, |a, &x| self.step(a, x))
    }
} }
float_reducers! { f64: SumF64 L1F64 ProductF64 MaxF64 MinF64 NormF64 }

/// The sum of `f` over a row in four independent chains; `f` of 0 is 0.
#[inline(always)]
fn sum_of<S: Simd>(s: S, row: &[f32], f: impl Fn(S::V) -> S::V) -> f32 {
    let mut sums = [s.splat(0.0); 4];
    let groups = row.chunks_exact(4 * S::LANES);
    let rest = groups.remainder();
    for group in groups {
        for (sum, chunk) in sums.iter_mut().zip(group.chunks_exact(S::LANES)) {
            *sum = s.add(*sum, f(s.load(chunk)));
        }
    }
    for (sum, chunk) in sums.iter_mut().zip(rest.chunks(S::LANES)) {
        *sum = s.add(*sum, f(s.load_part(chunk)));
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}

/// The lanes of the extremes of a row's whole vectors, all NaN when an element is NaN, and the elements
/// after them. `join` returns its second operand when either is NaN.
#[inline(always)]
fn extreme_of<S: Simd>(
    s: S,
    row: &[f32],
    start: f32,
    join: impl Fn(S::V, S::V) -> S::V,
) -> ([f32; WIDTH], &[f32]) {
    let infinity = s.splat(f32::INFINITY);
    let mut extremes = [s.splat(start); 4];
    // Infinite until an element is NaN.
    let mut nan = [infinity; 2];
    let groups = row.chunks_exact(4 * S::LANES);
    let rest = groups.remainder();
    for group in groups {
        for (lane, chunk) in group.chunks_exact(S::LANES).enumerate() {
            let x = s.load(chunk);
            extremes[lane] = join(extremes[lane], x);
            nan[lane % 2] = s.add(nan[lane % 2], s.max(infinity, x));
        }
    }
    let mut lanes = [start; WIDTH];
    if s.sum(s.add(nan[0], nan[1])).is_nan() {
        return ([f32::NAN; WIDTH], rest);
    }
    let halves = [
        join(extremes[0], extremes[1]),
        join(extremes[2], extremes[3]),
    ];
    s.store(join(halves[0], halves[1]), &mut lanes);
    (lanes, rest)
}

reducer! { SquaresF64, f64, f64, f64, 0.0, |_this, a, x| a + x * x, |b, c| b + c,
|all, finish| finish_real(all, finish) }
reducer! { WideSquaresF32, f32, f64, f64, 0.0, |_this, a, x| a + f64::from(x) * f64::from(x),
|b, c| b + c, |all, finish| finish_real(all, finish) as f32 }

#[derive(Clone, Copy)]
pub(super) struct SquaresF32;

impl Reducer for SquaresF32 {
    type Element = f32;
    type Sum = f32;
    type Total = f64;
    type Exact = WideSquaresF32;
    const START: f32 = 0.0;
    #[inline(always)]
    fn exact(self) -> WideSquaresF32 {
        WideSquaresF32
    }
    #[inline(always)]
    fn is_exact(total: f64) -> bool {
        total > 1e-30 && total < f64::INFINITY
    }
    #[inline(always)]
    fn step(self, sum: f32, x: f32) -> f32 {
        sum + x * x
    }
    #[inline(always)]
    fn join(a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn total(sum: f32) -> f64 {
        sum.into()
    }
    #[inline(always)]
    fn join_totals(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn finish(total: f64, finish: Finish) -> f32 {
        finish_real(total, finish) as f32
    }
    #[inline(always)]
    fn row<S: Simd>(self, s: S, row: &[f32]) -> f32 {
        sum_of(s, row, |x| s.mul(x, x))
    }
}

/// Reducers of an integer type, whose arithmetic wraps.
macro_rules! integer_reducers {
    ($integer:ident: $sum:ident $l1:ident $squares:ident $product:ident) => {
        reducer! { $sum, $integer, $integer, $integer, 0, |_this, a, x| a.wrapping_add(x),
        |b, c| b.wrapping_add(c), |all, _finish| all }
        reducer! { $l1, $integer, $integer, $integer, 0,
        |_this, a, x| a.wrapping_add(x.wrapping_abs()), |b, c| b.wrapping_add(c),
        |all, _finish| all }
        reducer! { $squares, $integer, $integer, $integer, 0,
        |_this, a, x| a.wrapping_add(x.wrapping_mul(x)), |b, c| b.wrapping_add(c),
        |all, _finish| all }
        reducer! { $product, $integer, $integer, $integer, 1, |_this, a, x| a.wrapping_mul(x),
        |b, c| b.wrapping_mul(c), |all, _finish| all }
    };
}

integer_reducers! { i32: SumI32 L1I32 SquaresI32 ProductI32 }
integer_reducers! { i64: SumI64 L1I64 SquaresI64 ProductI64 }

// The mean of the exact sum, truncated.
reducer! { MeanI32, i32, i64, i64, 0, |_this, a, x| a.wrapping_add(i64::from(x)),
    |b, c| b.wrapping_add(c), |all, finish| match finish {
        Finish::Mean(count) => (all / count.max(1) as i64) as i32,
        _ => all as i32,
    }
}

/// The maximum and minimum of an integer type.
macro_rules! order_reducers {
    ($($integer:ident: $max:ident $min:ident;)*) => {$(
        reducer! { $max, $integer, $integer, $integer, $integer::MIN, |_this, a, x| a.max(x),
            |b, c| b.max(c), |all, _finish| all }
        reducer! { $min, $integer, $integer, $integer, $integer::MAX, |_this, a, x| a.min(x),
            |b, c| b.min(c), |all, _finish| all }
    )*};
}

order_reducers! { i32: MaxI32 MinI32; i64: MaxI64 MinI64; i8: MaxI8 MinI8; u8: MaxU8 MinU8; }

impl UnpreparedWorkload for Reduction {}

impl Workload for Reduction {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        use ReductionKind::{
            L1, L2, LogSum, LogSumExp, Max, Mean, Min, Norm, Prod, Sum, SumSquare,
        };
        if let Some(float) = FloatType::of(self.dtype) {
            let (inputs, mut outputs) = operands.split();
            let input = Floats::input(&inputs, 0, float)?;
            let output = FloatsMut::output(&mut outputs, 0, float)?;
            let level = Some(self.level);
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
            (DataType::F64, Sum | Mean | LogSum) => self.run_plain(operands, SumF64),
            (DataType::F64, L1) => self.run_plain(operands, L1F64),
            (DataType::F64, SumSquare | L2) => self.run_plain(operands, SquaresF64),
            (DataType::F64, Prod) => self.run_plain(operands, ProductF64),
            (DataType::F64, Max) => self.run_plain(operands, MaxF64),
            (DataType::F64, Min) => self.run_plain(operands, MinF64),
            (DataType::F64, Norm(p)) => self.run_plain(operands, NormF64(p)),
            (DataType::F64, LogSumExp) => self.log_sum_exp_f64(operands),
            (DataType::I32, Sum) => self.run(operands, SumI32),
            (DataType::I32, Mean) => self.run_plain(operands, MeanI32),
            (DataType::I32, L1) => self.run_plain(operands, L1I32),
            (DataType::I32, SumSquare) => self.run_plain(operands, SquaresI32),
            (DataType::I32, Prod) => self.run_plain(operands, ProductI32),
            (DataType::I32, Max) => self.run(operands, MaxI32),
            (DataType::I32, Min) => self.run(operands, MinI32),
            (DataType::I64, Sum) => self.run(operands, SumI64),
            (DataType::I64, L1) => self.run_plain(operands, L1I64),
            (DataType::I64, SumSquare) => self.run_plain(operands, SquaresI64),
            (DataType::I64, Prod) => self.run_plain(operands, ProductI64),
            (DataType::I64, Max) => self.run(operands, MaxI64),
            (DataType::I64, Min) => self.run(operands, MinI64),
            (DataType::I8, Max) => self.run(operands, MaxI8),
            (DataType::I8, _) => self.run(operands, MinI8),
            (_, Max) => self.run(operands, MaxU8),
            _ => self.run(operands, MinU8),
        }
    }
}

impl Reduction {
    /// Runs with the vectors of the level.
    fn run<R: Reducer>(&self, operands: &mut Operands<'_>, reducer: R) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let input = inputs.slice::<R::Element>(0)?;
        let output = outputs.slice::<R::Element>(0)?;
        self.reduce(reducer, Some(self.level), input, output);
        Ok(())
    }

    /// Runs with the vectors of the target's baseline, for types and kinds that are rare.
    fn run_plain<R: Reducer>(&self, operands: &mut Operands<'_>, reducer: R) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let input = inputs.slice::<R::Element>(0)?;
        let output = outputs.slice::<R::Element>(0)?;
        self.reduce(reducer, None, input, output);
        Ok(())
    }

    /// Elements of the input.
    fn elements(&self) -> usize {
        self.extents.lines() * self.extents.positions() * self.extents.inner
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
        let parallel = self.elements() >= PARALLEL;
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
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        // Whole cache lines of the output, so that threads do not share one (false sharing).
        let chunk = output.len().div_ceil(chunks).next_multiple_of(16);
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

/// The totals of at most [`COLUMNS`] outputs over a part of the reduced positions.
struct Totals<'a, R: Reducer, I> {
    reduction: &'a Reduction,
    reducer: R,
    input: I,
    outputs: Range<usize>,
    part: Range<usize>,
    to: &'a mut [R::Total],
}

impl<R: Reducer, I: Source<Element = R::Element>> VectorOp for Totals<'_, R, I> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Extents {
            kept,
            far,
            length,
            inner,
        } = &self.reduction.extents;
        let (length, inner) = (*length, *inner);
        let level = self.reduction.level;
        // Any element: the buffer is written before it is read.
        let any = R::finish(R::total(R::START), Finish::Identity);
        let mut buffer = [any; BLOCK];
        let mut sums = [R::START; COLUMNS];
        self.to.fill(R::total(R::START));
        let mut left = self.to;
        let mut output = self.outputs.start;
        while !left.is_empty() {
            let (line, column) = (output / inner, output % inner);
            let count = (inner - column).min(left.len());
            let (to, rest) = left.split_at_mut(count);
            left = rest;
            output += count;
            let base = offset(kept, line);
            let mut at = self.part.start;
            while at < self.part.end {
                let (outer, first) = (at / length, at % length);
                let count = (length - first).min(self.part.end - at);
                at += count;
                let start = base + offset(far, outer) + first * inner;
                if inner > 1 {
                    let matrix = Matrix {
                        level,
                        start,
                        rows: count,
                        inner,
                        columns: column..column + to.len(),
                    };
                    matrix.reduce(self.reducer, &self.input, &mut buffer, &mut sums, to);
                    continue;
                }
                for block in (0..count).step_by(BLOCK) {
                    stop::checkpoint();
                    let range = start + block..start + (block + BLOCK).min(count);
                    let elements = self.input.load(level, range, &mut buffer);
                    to[0] = R::join_totals(to[0], R::total(self.reducer.row(s, elements)));
                }
            }
        }
    }
}

/// Reduces contiguous elements in independent lanes.
#[inline(always)]
fn in_lanes<R: Reducer>(reducer: R, row: &[R::Element]) -> R::Sum {
    let mut sum = R::START;
    let (groups, rest) = row.as_chunks::<LANES>();
    if let [_, _, ..] = groups {
        let mut sums = [R::START; LANES];
        for group in groups {
            for (sum, &x) in sums.iter_mut().zip(group) {
                *sum = reducer.step(*sum, x);
            }
        }
        let mut width = LANES / 2;
        while width > 0 {
            for lane in 0..width {
                sums[lane] = R::join(sums[lane], sums[lane + width]);
            }
            width /= 2;
        }
        sum = sums[0];
    } else {
        for &x in groups.as_flattened() {
            sum = reducer.step(sum, x);
        }
    }
    rest.iter().fold(sum, |sum, &x| reducer.step(sum, x))
}

/// Some columns of a matrix.
struct Matrix {
    level: Level,
    /// The first element.
    start: usize,
    rows: usize,
    /// Elements of a row.
    inner: usize,
    columns: Range<usize>,
}

impl Matrix {
    /// Reduces the columns, and joins the results to `to`.
    #[inline(always)]
    fn reduce<R: Reducer, I: Source<Element = R::Element>>(
        &self,
        reducer: R,
        input: &I,
        buffer: &mut [R::Element; BLOCK],
        sums: &mut [R::Sum; COLUMNS],
        to: &mut [R::Total],
    ) {
        let (inner, count) = (self.inner, self.columns.len());
        // Several narrow rows are one wide row.
        let wide = if count == inner {
            (256 / inner).clamp(1, self.rows)
        } else {
            1
        };
        let sums = &mut sums[..count * wide];
        let [buffer_a, buffer_b, buffer_c, buffer_d] = {
            let (ab, cd) = buffer.split_at_mut(BLOCK / 2);
            let (a, b) = ab.split_at_mut(BLOCK / 4);
            let (c, d) = cd.split_at_mut(BLOCK / 4);
            [a, b, c, d]
        };
        for block in (0..self.rows).step_by(ROWS * wide) {
            stop::checkpoint();
            sums.fill(R::START);
            let end = (block + ROWS * wide).min(self.rows);
            let range = |row: usize, rows: usize| {
                let start = self.start + row * inner + self.columns.start;
                start..start + count * rows
            };
            let mut row = block;
            while row < end {
                if end - row >= 4 * wide {
                    let a = input.load(self.level, range(row, wide), buffer_a);
                    let b = input.load(self.level, range(row + wide, wide), buffer_b);
                    let c = input.load(self.level, range(row + 2 * wide, wide), buffer_c);
                    let d = input.load(self.level, range(row + 3 * wide, wide), buffer_d);
                    for ((((sum, &a), &b), &c), &d) in sums.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                        let first = reducer.step(reducer.step(*sum, a), b);
                        *sum = reducer.step(reducer.step(first, c), d);
                    }
                    row += 4 * wide;
                    continue;
                }
                let rows = wide.min(end - row);
                let from = input.load(self.level, range(row, rows), buffer_a);
                for (sum, &x) in sums.iter_mut().zip(from) {
                    *sum = reducer.step(*sum, x);
                }
                row += rows;
            }
            for sums in sums.chunks_exact(count) {
                for (to, &sum) in to.iter_mut().zip(sums) {
                    *to = R::join_totals(*to, R::total(sum));
                }
            }
        }
    }
}

/// Columns of a log-sum-exp.
const EXPONENTIALS: usize = 256;

impl Reduction {
    /// Log-sum-exp: the maximum is subtracted first, so that no exponential overflows.
    fn log_sum_exp(&self, input: Floats<'_>, output: FloatsMut<'_>) {
        let parallel = self.elements() >= PARALLEL;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let chunk = output.len().div_ceil(chunks).next_multiple_of(16);
        output.for_each(chunk, parallel, |index, mut output| {
            let mut shifts = [0f32; EXPONENTIALS];
            let mut sums = [0f32; EXPONENTIALS];
            for first in (0..output.len()).step_by(EXPONENTIALS) {
                let end = (first + EXPONENTIALS).min(output.len());
                let outputs = index * chunk + first..index * chunk + end;
                let (shifts, sums) = (&mut shifts[..end - first], &mut sums[..end - first]);
                let whole = [outputs.clone(), 0..self.extents.positions()];
                self.totals(MaxF32, Some(self.level), input, whole, shifts);
                for shift in shifts.iter_mut().filter(|shift| !shift.is_finite()) {
                    *shift = 0.0;
                }
                self.level.run(Exponentials {
                    reduction: self,
                    input,
                    outputs,
                    shifts,
                    sums,
                });
                for (sum, shift) in sums.iter_mut().zip(&*shifts) {
                    *sum = sum.ln() + shift;
                }
                output.write(self.level, first..end, sums);
            }
        });
    }

    fn log_sum_exp_f64(&self, operands: &mut Operands<'_>) -> Result<()> {
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
            kept,
            far,
            length,
            inner,
        } = &self.reduction.extents;
        let (length, inner) = (*length, *inner);
        let level = self.reduction.level;
        let outers = self.reduction.extents.positions() / length;
        let mut buffer = [0f32; BLOCK];
        let mut done = 0;
        while done < self.sums.len() {
            let at = self.outputs.start + done;
            let (line, column) = (at / inner, at % inner);
            let count = (inner - column).min(self.sums.len() - done);
            let (sums, shifts) = (
                &mut self.sums[done..done + count],
                &self.shifts[done..done + count],
            );
            done += count;
            sums.fill(0.0);
            let base = offset(kept, line) + column;
            for outer in 0..outers {
                let start = base + offset(far, outer);
                if inner == 1 {
                    let mut total = 0.0;
                    for block in (0..length).step_by(BLOCK) {
                        stop::checkpoint();
                        let range = start + block..start + (block + BLOCK).min(length);
                        let block = self.input.load(level, range, &mut buffer);
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
                    let sums = sums.chunks_mut(S::LANES).zip(shifts.chunks(S::LANES));
                    for ((sums, shift), x) in sums.zip(from.chunks(S::LANES)) {
                        let x = exp(s, s.sub(s.load_part(x), s.load_part(shift)));
                        s.store_part(s.add(s.load_part(sums), x), sums);
                    }
                }
            }
        }
    }
}

/// The sum of `exp(x - shift)` over a row.
#[inline(always)]
fn sum_exp<S: Simd>(s: S, row: &[f32], shift: f32) -> f32 {
    let shift_vector = s.splat(shift);
    let mut sums = [s.splat(0.0); 2];
    let whole = row.len() - row.len() % (2 * S::LANES);
    for pair in row[..whole].chunks_exact(2 * S::LANES) {
        let (a, b) = pair.split_at(S::LANES);
        sums = [
            s.add(sums[0], exp(s, s.sub(s.load(a), shift_vector))),
            s.add(sums[1], exp(s, s.sub(s.load(b), shift_vector))),
        ];
    }
    let rest: f32 = row[whole..].iter().map(|&x| (x - shift).exp()).sum();
    s.sum(s.add(sums[0], sums[1])) + rest
}
