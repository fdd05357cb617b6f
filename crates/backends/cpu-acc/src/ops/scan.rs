//! Inclusive and exclusive prefix sums and products along a dimension (scans): CumSum and CumProd. Floating
//! point accumulates in f64, integers in i64, which wraps.

use super::axis_extents::AxisExtents;
use super::elements::{Sink, Source};
use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatType, Floats, FloatsMut};
use crate::signature::Signature;
use crate::simd::{Level, Simd, VectorOp};
use std::marker::PhantomData;
use std::ops::Range;
use tenon_backend::{Inputs, Operands, Reason, Refusal, Workload};
use tenon_base::{Error, ErrorKind, Result, pool, stop};
use tenon_tensor::{DataType, Element, Shape};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 16;

/// Elements of a block of a row or of columns.
const BLOCK: usize = 512;

/// Rows that are scanned at once: independent chains of additions.
const ROWS: usize = 4;

/// A scan.
struct Scan {
    level: Level,
    shape: Shape,
    dtype: DataType,
    axis_type: DataType,
    product: bool,
    exclusive: bool,
    reverse: bool,
}

/// The kernel of CumSum and CumProd.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let axis = signature.input(1)?;
    let dtype = input.dtype();
    let supported = matches!(dtype, DataType::F64 | DataType::I32 | DataType::I64);
    if !supported && FloatType::of(dtype).is_none() {
        return Err(Reason::InputType {
            input: 0,
            found: dtype,
        }
        .into());
    }
    signature.output(0)?;
    Ok(Box::new(Scan {
        level: signature.level,
        shape: input.shape().clone(),
        dtype,
        axis_type: axis.dtype(),
        product: signature.op.name == "CumProd",
        exclusive: signature.flag("exclusive", false)?,
        reverse: signature.flag("reverse", false)?,
    }))
}

/// A sum or product of elements of one type, as a type.
trait Prefix: Copy + Send + Sync + 'static {
    type Element: Element + Default;
    type Sum: Copy + Send + Sync + 'static;
    const START: Self::Sum;
    fn step(sum: Self::Sum, x: Self::Element) -> Self::Sum;
    fn element(sum: Self::Sum) -> Self::Element;
}

macro_rules! prefix {
    ($name:ident, $element:ty, $sum:ty, $start:expr, |$a:ident, $x:ident| $step:expr) => {
        #[derive(Clone, Copy)]
        struct $name;

        impl Prefix for $name {
            type Element = $element;
            type Sum = $sum;
            const START: $sum = $start;
            #[inline(always)]
            fn step($a: $sum, $x: $element) -> $sum {
                $step
            }
            #[inline(always)]
            fn element(sum: $sum) -> $element {
                sum as $element
            }
        }
    };
}

prefix! { SumF32, f32, f64, 0.0, |a, x| a + f64::from(x) }
prefix! { ProductF32, f32, f64, 1.0, |a, x| a * f64::from(x) }
prefix! { SumF64, f64, f64, 0.0, |a, x| a + x }
prefix! { ProductF64, f64, f64, 1.0, |a, x| a * x }
prefix! { SumI32, i32, i64, 0, |a, x| a.wrapping_add(x.into()) }
prefix! { ProductI32, i32, i64, 1, |a, x| a.wrapping_mul(x.into()) }
prefix! { SumI64, i64, i64, 0, |a, x| a.wrapping_add(x) }
prefix! { ProductI64, i64, i64, 1, |a, x| a.wrapping_mul(x) }

impl UnpreparedWorkload for Scan {}

impl Workload for Scan {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        if let Some(float) = FloatType::of(self.dtype) {
            let (inputs, mut outputs) = operands.split();
            let extents = self.extents(&inputs)?;
            let input = Floats::input(&inputs, 0, float)?;
            let output = FloatsMut::output(&mut outputs, 0, float)?;
            if self.product {
                self.scan::<ProductF32, _, _>(extents, input, output);
            } else {
                self.scan::<SumF32, _, _>(extents, input, output);
            }
            return Ok(());
        }
        match (self.dtype, self.product) {
            (DataType::F64, false) => self.run::<SumF64>(operands),
            (DataType::F64, true) => self.run::<ProductF64>(operands),
            (DataType::I32, false) => self.run::<SumI32>(operands),
            (DataType::I32, true) => self.run::<ProductI32>(operands),
            (_, false) => self.run::<SumI64>(operands),
            _ => self.run::<ProductI64>(operands),
        }
    }
}

impl Scan {
    /// The dimension, which is read at run time.
    fn extents(&self, inputs: &Inputs<'_>) -> Result<AxisExtents> {
        let axis = if self.axis_type == DataType::I64 {
            inputs.slice::<i64>(1)?.first().copied()
        } else {
            inputs.slice::<i32>(1)?.first().map(|&axis| axis.into())
        };
        let (axis, rank) = (axis.unwrap_or(0), self.shape.len());
        let positive = if axis < 0 {
            axis.saturating_add_unsigned(rank as u64)
        } else {
            axis
        };
        let found = usize::try_from(positive).ok().filter(|&axis| axis < rank);
        let found = found.ok_or_else(|| {
            Error::new(
                ErrorKind::OutOfBounds,
                "the axis is not one of the tensor's",
            )
            .expected(format_args!("-{rank} to {}", rank as i64 - 1))
            .found(axis)
        })?;
        Ok(AxisExtents::new(&self.shape, found))
    }

    fn run<P: Prefix>(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let extents = self.extents(&inputs)?;
        let input = inputs.slice::<P::Element>(0)?;
        let output = outputs.slice::<P::Element>(0)?;
        self.scan::<P, _, _>(extents, input, output);
        Ok(())
    }

    fn scan<P, I, O>(&self, extents: AxisExtents, input: I, output: O)
    where
        P: Prefix,
        I: Source<Element = P::Element>,
        O: Sink<Element = P::Element>,
    {
        let AxisExtents {
            outer,
            extent,
            inner,
        } = extents;
        let slab = extent * inner;
        let parallel = outer * slab >= PARALLEL && outer > 1;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let lines = outer.div_ceil(chunks).next_multiple_of(ROWS).min(outer);
        output.for_each(lines * slab, parallel, |index, output| {
            self.level.run(ScanLines::<P, I, O::Part<'_>> {
                scan: self,
                extents,
                input,
                lines: index * lines..index * lines + output.len() / slab,
                output,
                prefix: PhantomData,
            });
        });
    }
}

/// Some lines.
struct ScanLines<'a, P, I, O> {
    scan: &'a Scan,
    extents: AxisExtents,
    input: I,
    lines: Range<usize>,
    output: O,
    prefix: PhantomData<P>,
}

impl<P, I, O> VectorOp for ScanLines<'_, P, I, O>
where
    P: Prefix,
    I: Source<Element = P::Element>,
    O: Sink<Element = P::Element>,
{
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(mut self, _: S) {
        let first = self.lines.start;
        if self.extents.inner == 1 {
            let mut line = first;
            while line < self.lines.end {
                let count = (self.lines.end - line).min(ROWS);
                self.rows(line, line - first, count);
                line += count;
            }
            return;
        }
        for line in self.lines.clone() {
            self.columns(line, line - first);
        }
    }
}

impl<P, I, O> ScanLines<'_, P, I, O>
where
    P: Prefix,
    I: Source<Element = P::Element>,
    O: Sink<Element = P::Element>,
{
    /// Scans `count` rows from row `line` on, the `nth` of the output.
    #[inline(always)]
    fn rows(&mut self, line: usize, nth: usize, count: usize) {
        let Scan {
            level,
            exclusive,
            reverse,
            ..
        } = *self.scan;
        let extent = self.extents.extent;
        let mut sums = [P::START; ROWS];
        let mut buffers = [[P::Element::default(); BLOCK]; ROWS];
        let mut results = [[P::Element::default(); BLOCK]; ROWS];
        let blocks = extent.div_ceil(BLOCK);
        for block in 0..blocks {
            stop::checkpoint();
            let block = if reverse { blocks - 1 - block } else { block };
            let range = block * BLOCK..((block + 1) * BLOCK).min(extent);
            let len = range.len();
            let input = &self.input;
            let mut row = 0;
            // Rows that are missing repeat the last one.
            let rows = buffers.each_mut().map(|buffer| {
                let start = (line + row) * extent;
                row = (row + 1).min(count - 1);
                let from = input.load(level, start + range.start..start + range.end, buffer);
                &from[..len]
            });
            for at in 0..len {
                let at = if reverse { len - 1 - at } else { at };
                for ((sum, from), to) in sums.iter_mut().zip(&rows).zip(&mut results) {
                    let next = P::step(*sum, from[at]);
                    to[at] = P::element(if exclusive { *sum } else { next });
                    *sum = next;
                }
            }
            for (row, result) in results.iter().enumerate().take(count) {
                let start = (nth + row) * extent;
                self.output.write(
                    level,
                    start + range.start..start + range.end,
                    &result[..len],
                );
            }
        }
    }

    /// Scans the columns of a line, the `nth` of the output.
    #[inline(always)]
    fn columns(&mut self, line: usize, nth: usize) {
        let Scan {
            level,
            exclusive,
            reverse,
            ..
        } = *self.scan;
        let AxisExtents { extent, inner, .. } = self.extents;
        let (start, to) = (self.extents.start(line), self.extents.start(nth));
        let mut buffer = [P::Element::default(); BLOCK];
        let mut result = [P::Element::default(); BLOCK];
        for column in (0..inner).step_by(BLOCK) {
            let count = (inner - column).min(BLOCK);
            let mut sums = [P::START; BLOCK];
            for row in 0..extent {
                if row.is_multiple_of(64) {
                    stop::checkpoint();
                }
                let row = if reverse { extent - 1 - row } else { row };
                let at = row * inner + column;
                let from = self
                    .input
                    .load(level, start + at..start + at + count, &mut buffer);
                let range = to + at..to + at + count;
                let results = self.output.results(range.clone(), &mut result).iter_mut();
                if exclusive {
                    for ((sum, &x), to) in sums.iter_mut().zip(from).zip(results) {
                        *to = P::element(*sum);
                        *sum = P::step(*sum, x);
                    }
                } else {
                    for ((sum, &x), to) in sums.iter_mut().zip(from).zip(results) {
                        *sum = P::step(*sum, x);
                        *to = P::element(*sum);
                    }
                }
                self.output.write_results(level, range, &result);
            }
        }
    }
}
