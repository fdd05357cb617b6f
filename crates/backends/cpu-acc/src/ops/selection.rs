//! Operators that move elements selected by position: Trilu, OneHot, Compress, ReverseSequence, EyeLike,
//! Range, for every type whose elements are whole bytes.

use super::element_types::{numeric, sized};
use super::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::disjoint::for_each_chunk;
use std::marker::PhantomData;
use std::ops::Range;
use tenon_backend::{OperandPair, Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Error, ErrorKind, Result, bounded, pool, stop};
use tenon_tensor::{DataType, Element};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 16;

/// The kernel of an operator; `None` for any other operator.
pub(super) fn kernel(signature: &Signature<'_>) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    let build: fn(&Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> = match signature.op.name {
        "Trilu" => triangle,
        "OneHot" => one_hot,
        "Compress" => compress,
        "ReverseSequence" => reverse_sequence,
        "EyeLike" => eye_like,
        "Range" => range,
        _ => return None,
    };
    Some(build(signature))
}

/// The rows of a chunk: all of them in one chunk when there are few elements.
fn chunk_rows(elements: usize, row: usize) -> (usize, bool) {
    let parallel = elements >= PARALLEL;
    let rows = elements.div_ceil(row.max(1));
    (
        rows.div_ceil(if parallel { 4 * pool::threads() } else { 1 }),
        parallel,
    )
}

/// The kernel of Trilu: zeros on one side of a diagonal that is read at run time.
struct Triangle<T> {
    rows: usize,
    columns: usize,
    upper: bool,
    element: PhantomData<T>,
}

fn triangle(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let [.., rows, columns] = **input.shape() else {
        return Err(refuse("no kernel for tensors of less than two dimensions"));
    };
    let upper = signature.flag("upper", true)?;
    sized!(input.dtype(), 0, T => Ok(Box::new(Triangle::<T> {
        rows,
        columns,
        upper,
        element: PhantomData,
    })))
}

impl<T: Element + Default> UnpreparedWorkload for Triangle<T> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl<T: Element + Default> Workload for Triangle<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let diagonal = operands.split().0.optional::<i64>(1)?;
        let diagonal = diagonal.and_then(|k| k.first().copied()).unwrap_or(0);
        let (from, to) = match operands.pair::<T>(0, 0)? {
            OperandPair::InPlace(to) => (None, to),
            OperandPair::Apart(from, to) => (Some(from), to),
        };
        let (chunk, parallel) = chunk_rows(to.len(), self.columns);
        for_each_chunk(to, chunk * self.columns, parallel, |nth, to| {
            for (row, to) in (nth * chunk..).zip(to.chunks_exact_mut(self.columns)) {
                let kept = self.kept(row % self.rows, diagonal);
                if let Some(from) = from {
                    let from = &from[row * self.columns..][..self.columns];
                    to[kept.clone()].copy_from_slice(&from[kept.clone()]);
                }
                to[..kept.start].fill(T::default());
                to[kept.end..].fill(T::default());
            }
        });
        Ok(())
    }
}

impl<T> Triangle<T> {
    /// The columns of a row that are kept.
    fn kept(&self, row: usize, diagonal: i64) -> Range<usize> {
        let column = |at: i64| usize::try_from(at).unwrap_or(0).min(self.columns);
        let first = diagonal.saturating_add_unsigned(row as u64);
        if self.upper {
            column(first)..self.columns
        } else {
            0..column(first.saturating_add(1))
        }
    }
}

/// The kernel of OneHot: the output is `[outer, depth, inner]`.
struct OneHot<T> {
    index: DataType,
    depth: usize,
    inner: usize,
    element: PhantomData<T>,
}

fn one_hot(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let shape = signature.output(0)?.shape();
    let axis = signature.axis("axis", -1, shape.len())?;
    let index = signature.input(0)?.dtype();
    numeric!(index, 0, T => Ok(size_of::<T>()))?;
    sized!(signature.input(2)?.dtype(), 2, T => Ok(Box::new(OneHot::<T> {
        index,
        depth: shape[axis],
        inner: shape[axis + 1..].iter().product(),
        element: PhantomData,
    })))
}

impl<T: Element> UnpreparedWorkload for OneHot<T> {}

impl<T: Element> Workload for OneHot<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let &[off, on] = inputs.slice::<T>(2)? else {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                "input 'values' must have two elements",
            ));
        };
        let (indices, output) = (inputs.slice::<u8>(0)?, outputs.slice::<T>(0)?);
        let block = self.depth * self.inner;
        let (chunk, parallel) = chunk_rows(output.len(), block);
        for_each_chunk(output, chunk * block, parallel, |nth, to| {
            for (outer, to) in (nth * chunk..).zip(to.chunks_exact_mut(block)) {
                to.fill(off);
                self.mark(indices, outer * self.inner, on, to);
            }
        });
        Ok(())
    }
}

impl<T: Element> OneHot<T> {
    /// Writes `on` for the indices from `first` on. Indices out of the depth are not marked.
    fn mark(&self, indices: &[u8], first: usize, on: T, to: &mut [T]) {
        macro_rules! each {
            ($($name:ident $rust:ty: $index:expr;)*) => {
                match self.index {
                    $(DataType::$name => {
                        let indices = indices.as_chunks::<{ size_of::<$rust>() }>().0;
                        let index: fn($rust) -> i64 = $index;
                        for (nth, &bytes) in indices[first..][..self.inner].iter().enumerate() {
                            let at = index(<$rust>::from_ne_bytes(bytes));
                            if let Some(at) = normalized(at, self.depth) {
                                to[at * self.inner + nth] = on;
                            }
                        }
                    })*
                    _ => {}
                }
            };
        }
        each! {
            I64 i64: |at| at;
            I32 i32: i64::from;
            I16 i16: i64::from;
            I8 i8: i64::from;
            U64 u64: |at| i64::try_from(at).unwrap_or(i64::MAX);
            U32 u32: i64::from;
            U16 u16: i64::from;
            U8 u8: i64::from;
            F32 f32: |at| at as i64;
            F64 f64: |at| at as i64;
            F16 half::f16: |at| at.to_f32() as i64;
            BF16 half::bf16: |at| at.to_f32() as i64;
        }
    }
}

/// The position of an index, counted from the end when negative; `None` out of bounds.
fn normalized(index: i64, extent: usize) -> Option<usize> {
    let at = if index < 0 {
        index.saturating_add_unsigned(extent as u64)
    } else {
        index
    };
    usize::try_from(at).ok().filter(|&at| at < extent)
}

/// The kernel of Compress: runs of slices, known when compiling, of a tensor `[outer, extent, inner]`.
struct Compress<T> {
    /// Ranges of elements of `[extent, inner]`, and their sum.
    runs: Vec<Range<usize>>,
    kept: usize,
    /// Elements of `[extent, inner]`.
    block: usize,
    element: PhantomData<T>,
}

fn compress(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let condition = signature.constant_ints(1)?.unwrap_or_default();
    let (extent, inner) = if signature.has("axis") {
        let shape = input.shape();
        let axis = signature.axis("axis", 0, shape.len())?;
        (shape[axis], shape[axis + 1..].iter().product())
    } else {
        (input.elements(), 1)
    };
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, _) in condition.iter().enumerate().filter(|(_, flag)| **flag != 0) {
        let next = at * inner..(at + 1) * inner;
        match runs.last_mut() {
            Some(run) if run.end == next.start => run.end = next.end,
            _ => {
                bounded::reserve("runs of selected elements", &mut runs, 1)
                    .map_err(|error| refuse(error.to_string()))?;
                runs.push(next);
            }
        }
    }
    let kept = runs.iter().map(ExactSizeIterator::len).sum();
    sized!(input.dtype(), 0, T => Ok(Box::new(Compress::<T> {
        runs,
        kept,
        block: extent * inner,
        element: PhantomData,
    })))
}

impl<T: Element> UnpreparedWorkload for Compress<T> {}

impl<T: Element> Workload for Compress<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let parallel = to.len() >= PARALLEL;
        for_each_chunk(to, self.kept, parallel, |nth, mut to| {
            let from = &from[nth * self.block..][..self.block];
            for run in &self.runs {
                let (part, rest) = to.split_at_mut(run.len());
                part.copy_from_slice(&from[run.clone()]);
                to = rest;
            }
        });
        Ok(())
    }
}

/// The kernel of ReverseSequence on `[first, second, inner]`, one of which is the sequence.
struct ReverseSequence<T> {
    /// Whether the batch is the first dimension.
    batch_first: bool,
    first: usize,
    second: usize,
    inner: usize,
    element: PhantomData<T>,
}

fn reverse_sequence(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let [first, second, ref inner @ ..] = **input.shape() else {
        return Err(refuse("no kernel for tensors of less than two dimensions"));
    };
    let rank = input.shape().len();
    let batch = signature.axis("batch_axis", 1, rank)?;
    let time = signature.axis("time_axis", 0, rank)?;
    if batch + time != 1 {
        return Err(refuse_attribute("batch_axis", batch));
    }
    let inner = inner.iter().product();
    sized!(input.dtype(), 0, T => Ok(Box::new(ReverseSequence::<T> {
        batch_first: batch == 0,
        first,
        second,
        inner,
        element: PhantomData,
    })))
}

impl<T: Element> UnpreparedWorkload for ReverseSequence<T> {}

impl<T: Element> Workload for ReverseSequence<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let lengths = inputs.slice::<i64>(1)?;
        let steps = if self.batch_first {
            self.second
        } else {
            self.first
        };
        let length = |batch: usize| lengths.get(batch).copied().unwrap_or(0);
        let outside = |&length: &i64| !(0..=steps as i64).contains(&length);
        if let Some(found) = lengths.iter().copied().find(outside) {
            return Err(
                Error::new(ErrorKind::OutOfBounds, "a length is out of range")
                    .expected(format_args!("0 to {steps}"))
                    .found(found),
            );
        }
        let (chunk, parallel) = chunk_rows(to.len(), self.inner);
        for_each_chunk(to, chunk * self.inner, parallel, |nth, to| {
            stop::checkpoint();
            for (row, to) in (nth * chunk..).zip(to.chunks_exact_mut(self.inner)) {
                let (first, second) = (row / self.second, row % self.second);
                let source = |step: usize, batch: usize| {
                    let length = length(batch) as usize;
                    if step < length {
                        length - 1 - step
                    } else {
                        step
                    }
                };
                let row = if self.batch_first {
                    first * self.second + source(second, first)
                } else {
                    source(first, second) * self.second + second
                };
                to.copy_from_slice(&from[row * self.inner..][..self.inner]);
            }
        });
        Ok(())
    }
}

/// The kernel of EyeLike.
struct Diagonal<T> {
    columns: usize,
    diagonal: i64,
    one: T,
}

fn eye_like(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let output = signature.output(0)?;
    let [_, columns] = **output.shape() else {
        return Err(refuse("the shapes do not fit"));
    };
    let diagonal = signature.int("k", 0)?;
    if output.dtype() == DataType::Bool {
        return Ok(Box::new(Diagonal {
            columns,
            diagonal,
            one: 1u8,
        }));
    }
    numeric!(output.dtype(), 0, T => Ok(Box::new(Diagonal {
        columns,
        diagonal,
        one: T::from_step(1),
    })))
}

impl<T: Element + Default> UnpreparedWorkload for Diagonal<T> {}

impl<T: Element + Default> Workload for Diagonal<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let output = operands.split().1.slice::<T>(0)?;
        let (chunk, parallel) = chunk_rows(output.len(), self.columns);
        for_each_chunk(output, chunk * self.columns, parallel, |nth, to| {
            for (row, to) in (nth * chunk..).zip(to.chunks_exact_mut(self.columns)) {
                to.fill(T::default());
                let column = self.diagonal.saturating_add_unsigned(row as u64);
                if let Some(to) = usize::try_from(column).ok().and_then(|at| to.get_mut(at)) {
                    *to = self.one;
                }
            }
        });
        Ok(())
    }
}

/// The kernel of Range.
struct Steps<T>(PhantomData<T>);

fn range(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    numeric!(signature.input(0)?.dtype(), 0, T => Ok(Box::new(Steps::<T>(PhantomData))))
}

/// An element type with arithmetic progressions.
trait Progression: Element + Default {
    fn from_step(step: usize) -> Self;
    /// `start + step * delta`, rounded once or wrapped.
    fn term(start: Self, delta: Self, step: usize) -> Self;
}

macro_rules! progressions {
    ($($T:ty: $from:expr, $term:expr;)*) => {$(
        impl Progression for $T {
            fn from_step(step: usize) -> Self {
                $from(step)
            }
            fn term(start: Self, delta: Self, step: usize) -> Self {
                $term(start, delta, step)
            }
        }
    )*};
    (integers $($T:ty)*) => {
        progressions! {$(
            $T: |step| step as $T, |start: $T, delta: $T, step| {
                start.wrapping_add(delta.wrapping_mul(step as $T))
            };
        )*}
    };
}

progressions! { integers i8 i16 i32 i64 u8 u16 u32 u64 }

progressions! {
    f32: |step| step as f32, |start, delta, step| {
        (f64::from(start) + f64::from(delta) * step as f64) as f32
    };
    f64: |step| step as f64, |start, delta, step| start + delta * step as f64;
    half::f16: |step| half::f16::from_f32(step as f32), |start: half::f16, delta: half::f16, step| {
        half::f16::from_f64(start.to_f64() + delta.to_f64() * step as f64)
    };
    half::bf16: |step| half::bf16::from_f32(step as f32), |start: half::bf16, delta: half::bf16, step| {
        half::bf16::from_f64(start.to_f64() + delta.to_f64() * step as f64)
    };
}

impl<T: Progression> UnpreparedWorkload for Steps<T> {}

impl<T: Progression> Workload for Steps<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let first = |index| -> Result<T> {
            Ok(inputs
                .slice::<T>(index)?
                .first()
                .copied()
                .unwrap_or_default())
        };
        let (start, delta) = (first(0)?, first(2)?);
        let output = outputs.slice::<T>(0)?;
        let (chunk, parallel) = chunk_rows(output.len(), 1);
        for_each_chunk(output, chunk, parallel, |nth, to| {
            for (to, step) in to.iter_mut().zip(nth * chunk..) {
                *to = T::term(start, delta, step);
            }
        });
        Ok(())
    }
}
