//! Positions of the greatest or least element along a dimension: ArgMax, ArgMin and Hardmax.

use super::elements::{Sink, Source};
use super::reduction::{self, Reducer};
use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatType, Floats, FloatsMut};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use std::ops::Range;
use tenon_backend::{Operands, Reason, Refusal, Workload};
use tenon_base::{Result, pool, stop};
use tenon_tensor::{DataType, Shape};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 16;

/// Elements of a row whose extreme is computed before its position.
const BLOCK: usize = 1024;

/// Columns that are searched at once.
const COLUMNS: usize = 256;

/// A dimension, and the elements before and after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct AxisExtents {
    pub(super) outer: usize,
    pub(super) extent: usize,
    pub(super) inner: usize,
}

impl AxisExtents {
    /// The dimension `axis`, which is below the rank.
    pub(super) fn new(shape: &Shape, axis: usize) -> Self {
        Self {
            outer: shape[..axis].iter().product(),
            extent: shape[axis],
            inner: shape[axis + 1..].iter().product(),
        }
    }

    /// Elements before a line.
    #[inline(always)]
    pub(super) fn start(&self, line: usize) -> usize {
        line * self.extent * self.inner
    }
}

/// The position of an extreme along a dimension.
struct ExtremePosition {
    level: Level,
    extents: AxisExtents,
    dtype: DataType,
    /// Whether it is the greatest, else the least.
    greatest: bool,
    /// Whether the last of equal elements counts, else the first.
    last: bool,
}

/// The kernel of ArgMax and ArgMin.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let output = signature.output(0)?;
    let axis = signature.axis("axis", 0, input.shape().len())?;
    let extents = AxisExtents::new(input.shape(), axis);
    let dtype = input.dtype();
    let supported = matches!(
        dtype,
        DataType::F64 | DataType::I32 | DataType::I64 | DataType::I8 | DataType::U8
    );
    if !supported && FloatType::of(dtype).is_none() {
        return Err(Reason::InputType {
            input: 0,
            found: dtype,
        }
        .into());
    }
    if output.dtype() != DataType::I64 || output.elements() != extents.outer * extents.inner {
        return Err(refuse("the shapes do not fit"));
    }
    if extents.extent == 0 || extents.extent > i32::MAX as usize {
        return Err(refuse("no kernel for a dimension of this extent"));
    }
    Ok(Box::new(ExtremePosition {
        level: signature.level,
        extents,
        dtype,
        greatest: signature.op.name == "ArgMax",
        last: signature.flag("select_last_index", false)?,
    }))
}

impl UnpreparedWorkload for ExtremePosition {}

impl Workload for ExtremePosition {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        if let Some(float) = FloatType::of(self.dtype) {
            let (inputs, mut outputs) = operands.split();
            let input = Floats::input(&inputs, 0, float)?;
            let output = outputs.slice::<i64>(0)?;
            if self.greatest {
                self.positions(reduction::MaxF32, input, output);
            } else {
                self.positions(reduction::MinF32, input, output);
            }
            return Ok(());
        }
        match (self.dtype, self.greatest) {
            (DataType::F64, true) => self.run(operands, reduction::MaxF64),
            (DataType::F64, false) => self.run(operands, reduction::MinF64),
            (DataType::I32, true) => self.run(operands, reduction::MaxI32),
            (DataType::I32, false) => self.run(operands, reduction::MinI32),
            (DataType::I64, true) => self.run(operands, reduction::MaxI64),
            (DataType::I64, false) => self.run(operands, reduction::MinI64),
            (DataType::I8, true) => self.run(operands, reduction::MaxI8),
            (DataType::I8, false) => self.run(operands, reduction::MinI8),
            (_, true) => self.run(operands, reduction::MaxU8),
            _ => self.run(operands, reduction::MinU8),
        }
    }
}

impl ExtremePosition {
    fn run<R>(&self, operands: &mut Operands<'_>, reducer: R) -> Result<()>
    where
        R: Reducer<Sum = <R as Reducer>::Element>,
        R::Element: PartialOrd,
    {
        let (inputs, mut outputs) = operands.split();
        let input = inputs.slice::<R::Element>(0)?;
        self.positions(reducer, input, outputs.slice::<i64>(0)?);
        Ok(())
    }

    fn positions<R, I>(&self, reducer: R, input: I, output: &mut [i64])
    where
        R: Reducer<Sum = <R as Reducer>::Element>,
        R::Element: PartialOrd,
        I: Source<Element = R::Element>,
    {
        let parallel = output.len().saturating_mul(self.extents.extent) >= PARALLEL;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let chunk = output.len().div_ceil(chunks).next_multiple_of(8);
        for_each_chunk(output, chunk, parallel, |index, output| {
            self.level.run(Positions {
                extreme: self,
                reducer,
                input,
                first: index * chunk,
                output,
            });
        });
    }
}

/// Some positions.
struct Positions<'a, R, I> {
    extreme: &'a ExtremePosition,
    reducer: R,
    input: I,
    first: usize,
    output: &'a mut [i64],
}

/// Whether two elements are equal, or both NaN.
#[inline(always)]
fn same<T: PartialOrd>(a: T, b: T) -> bool {
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    (a == b) | (is_nan(&a) & is_nan(&b))
}

impl<R, I> VectorOp for Positions<'_, R, I>
where
    R: Reducer<Sum = <R as Reducer>::Element>,
    R::Element: PartialOrd,
    I: Source<Element = R::Element>,
{
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let Self {
            extreme,
            reducer,
            input,
            first,
            output,
        } = self;
        let AxisExtents { extent, inner, .. } = extreme.extents;
        let level = extreme.level;
        let last = extreme.last;
        let mut buffer = [R::START; BLOCK];
        if inner == 1 {
            for (row, to) in output.iter_mut().enumerate() {
                let start = (first + row) * extent;
                let block = |at: usize| start + at..start + (at + BLOCK).min(extent);
                let mut best = R::START;
                let mut best_block = 0;
                for at in (0..extent).step_by(BLOCK) {
                    stop::checkpoint();
                    let elements = input.load(level, block(at), &mut buffer);
                    let of_block = reducer.row(s, elements);
                    let joined = R::join(best, of_block);
                    if is_replaced(joined, best, of_block, last) {
                        (best, best_block) = (of_block, at);
                    }
                }
                let elements = input.load(level, block(best_block), &mut buffer);
                let mut found = elements.iter().map(|&x| same(x, best));
                let position = if last {
                    found.rposition(|found| found)
                } else {
                    found.position(|found| found)
                };
                *to = (best_block + position.unwrap_or(0)) as i64;
            }
            return;
        }
        let mut done = 0;
        while done < output.len() {
            let (line, column) = ((first + done) / inner, (first + done) % inner);
            let count = (inner - column).min(output.len() - done).min(COLUMNS);
            let start = extreme.extents.start(line) + column;
            let mut best = [R::START; COLUMNS];
            let mut best_at = [0i32; COLUMNS];
            best[..count].copy_from_slice(input.load(level, start..start + count, &mut buffer));
            for row in 1..extent {
                if row.is_multiple_of(64) {
                    stop::checkpoint();
                }
                let start = start + row * inner;
                let from = input.load(level, start..start + count, &mut buffer);
                for ((best, at), &x) in best.iter_mut().zip(&mut best_at).zip(from) {
                    let joined = reducer.step(*best, x);
                    let better = is_replaced(joined, *best, x, last);
                    *best = if better { x } else { *best };
                    *at = if better { row as i32 } else { *at };
                }
            }
            for (to, &at) in output[done..done + count].iter_mut().zip(&best_at) {
                *to = at.into();
            }
            done += count;
        }
    }
}

/// Whether `x` replaces `best`, when `joined` is the extreme of both.
#[inline(always)]
fn is_replaced<T: PartialOrd + Copy>(joined: T, best: T, x: T, last: bool) -> bool {
    if last {
        same(joined, x)
    } else {
        !same(joined, best)
    }
}

/// 1 at the first of the greatest elements along a dimension, else 0.
struct Hardmax {
    level: Level,
    extents: AxisExtents,
    float: FloatType,
}

/// The kernel of Hardmax.
pub(super) fn hardmax(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let axis = signature.axis("axis", -1, input.shape().len())?;
    let float = FloatType::of_input(input.dtype(), 0)?;
    if signature.output(0)? != input {
        return Err(refuse("the shapes do not fit"));
    }
    let extents = AxisExtents::new(input.shape(), axis);
    if extents.extent == 0 || extents.extent > i32::MAX as usize {
        return Err(refuse("no kernel for a dimension of this extent"));
    }
    Ok(Box::new(Hardmax {
        level: signature.level,
        extents,
        float,
    }))
}

impl UnpreparedWorkload for Hardmax {}

impl Workload for Hardmax {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let input = Floats::input(&inputs, 0, self.float)?;
        let output = FloatsMut::output(&mut outputs, 0, self.float)?;
        let AxisExtents {
            outer,
            extent,
            inner,
        } = self.extents;
        let slab = extent * inner;
        let parallel = outer * slab >= PARALLEL;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let lines = outer.div_ceil(chunks);
        output.for_each(lines * slab, parallel, |index, output| {
            self.level.run(HardmaxLines {
                hardmax: self,
                input,
                lines: index * lines..index * lines + output.len() / slab,
                output,
            });
        });
        Ok(())
    }
}

/// Some lines.
struct HardmaxLines<'a> {
    hardmax: &'a Hardmax,
    input: Floats<'a>,
    lines: Range<usize>,
    output: FloatsMut<'a>,
}

impl VectorOp for HardmaxLines<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(mut self, _: S) {
        let AxisExtents { extent, inner, .. } = self.hardmax.extents;
        let level = self.hardmax.level;
        let mut buffer = [0f32; BLOCK];
        let first = self.lines.start;
        for line in self.lines {
            let (start, to) = (line * extent * inner, (line - first) * extent * inner);
            for column in (0..inner).step_by(COLUMNS) {
                let count = (inner - column).min(COLUMNS);
                let mut best_at = [0i32; COLUMNS];
                if inner == 1 {
                    best_at[0] = self.hardmax.row(&self.input, start, &mut buffer) as i32;
                } else {
                    let mut best = [0f32; COLUMNS];
                    for row in 0..extent {
                        stop::checkpoint();
                        let start = start + row * inner + column;
                        let from = self.input.load(level, start..start + count, &mut buffer);
                        if row == 0 {
                            best[..count].copy_from_slice(from);
                        }
                        for ((best, at), &x) in best.iter_mut().zip(&mut best_at).zip(from) {
                            let better = x > *best;
                            *best = if better { x } else { *best };
                            *at = if better { row as i32 } else { *at };
                        }
                    }
                }
                if inner == 1 {
                    let at = best_at[0] as usize;
                    for block in (0..extent).step_by(BLOCK) {
                        let end = (block + BLOCK).min(extent);
                        let elements = &mut buffer[..end - block];
                        elements.fill(0.0);
                        if (block..end).contains(&at) {
                            elements[at - block] = 1.0;
                        }
                        self.output.write(level, to + block..to + end, elements);
                    }
                    continue;
                }
                for row in 0..extent {
                    let elements = &mut buffer[..count];
                    for (element, &at) in elements.iter_mut().zip(&best_at) {
                        *element = f32::from(u8::from(at == row as i32));
                    }
                    let to = to + row * inner + column;
                    self.output.write(level, to..to + count, elements);
                }
            }
        }
    }
}

impl Hardmax {
    /// The position of the first of the greatest elements of a row; NaN is only the greatest when it is
    /// the first.
    #[inline(always)]
    fn row(&self, input: &Floats<'_>, start: usize, buffer: &mut [f32; BLOCK]) -> usize {
        let extent = self.extents.extent;
        let mut best = input.get(start);
        let mut position = 0;
        for block in (0..extent).step_by(BLOCK) {
            stop::checkpoint();
            let range = start + block..start + (block + BLOCK).min(extent);
            let elements = input.load(self.level, range, buffer);
            let (groups, rest) = elements.as_chunks::<32>();
            let mut greatest = [f32::NEG_INFINITY; 32];
            for group in groups {
                for (greatest, &x) in greatest.iter_mut().zip(group) {
                    *greatest = if x > *greatest { x } else { *greatest };
                }
            }
            let all = greatest.iter().chain(rest);
            let greatest = all.fold(f32::NEG_INFINITY, |a, &x| if x > a { x } else { a });
            if greatest > best {
                best = greatest;
                let found = elements.iter().position(|&x| x == greatest);
                position = block + found.unwrap_or(0);
            }
        }
        position
    }
}
