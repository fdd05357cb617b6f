//! Positions of the greatest or least element along a dimension: ArgMax, ArgMin and Hardmax.

mod hardmax;

use super::axis_extents::AxisExtents;
use super::elements::Source;
use super::reduction::{self, Reducer};
use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatType, Floats};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Reason, Refusal, Workload};
use tenon_base::{Result, pool, stop};
use tenon_tensor::DataType;

pub(super) use self::hardmax::kernel as hardmax;

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 16;

/// Elements of a row whose extreme is computed before its position.
const BLOCK: usize = 1024;

/// Columns that are searched at once.
const COLUMNS: usize = 256;

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
    signature.output(0)?;
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
    if extents.extent > i32::MAX as usize {
        return Err(refuse("no kernel for so large a dimension"));
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
