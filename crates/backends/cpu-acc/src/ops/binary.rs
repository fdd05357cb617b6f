//! Elementwise (binary) operators with broadcasting. Adjacent dimensions are coalesced where both inputs
//! have a uniform stride over them, so that the innermost loop is long.

use super::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, pool};
use tenon_tensor::Shape;

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 15;

/// An elementwise function of two operands.
#[derive(Debug, Clone, Copy)]
enum BinaryFunction {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    /// `a` where it is not negative, else `a * b`.
    PRelu,
}

/// A coalesced dimension: its extent, and the stride of each input, 0 where it is broadcast.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LoopDim {
    extent: usize,
    strides: [usize; 2],
}

/// A binary operator.
struct Binary {
    level: Level,
    function: BinaryFunction,
    /// All dimensions but the innermost, outermost first.
    outer: Vec<LoopDim>,
    inner: LoopDim,
    /// Whether each input has the output's shape.
    has_output_shape: [bool; 2],
}

/// The kernel of a binary operator; `None` for any other operator.
pub(super) fn kernel(signature: &Signature<'_>) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    let function = match signature.op.name {
        "Add" => BinaryFunction::Add,
        "Sub" => BinaryFunction::Sub,
        "Mul" => BinaryFunction::Mul,
        "Div" => BinaryFunction::Div,
        "Min" => BinaryFunction::Min,
        "Max" => BinaryFunction::Max,
        "PRelu" => BinaryFunction::PRelu,
        _ => return None,
    };
    Some(Binary::of(signature, function).map(|binary| Box::new(binary) as Box<dyn Kernel>))
}

impl Binary {
    fn of(signature: &Signature<'_>, function: BinaryFunction) -> Result<Self, Refusal> {
        let (a, b) = (signature.f32_shape(0)?, signature.f32_shape(1)?);
        if signature.optional(2).is_some() {
            return Err(refuse("no kernel for more than two inputs"));
        }
        let output = signature.only_output()?;
        if a.broadcast(b).as_ref() != Some(output) {
            return Err(refuse("the shapes do not fit"));
        }
        let mut outer = merge(output, a, b);
        let inner = outer.pop().unwrap_or(LoopDim {
            extent: 1,
            strides: [0, 0],
        });
        let has_output_shape = [
            a.elements() == output.elements(),
            b.elements() == output.elements(),
        ];
        Ok(Self {
            level: signature.level,
            function,
            outer,
            inner,
            has_output_shape,
        })
    }
}

/// The dimensions of `output`, coalesced where both inputs have a uniform stride.
fn merge(output: &Shape, a: &Shape, b: &Shape) -> Vec<LoopDim> {
    let stride = |shape: &Shape, axis: usize| {
        let own = (axis + shape.len()).checked_sub(output.len());
        own.filter(|&own| shape[own] > 1)
            .map_or(0, |own| shape.strides()[own])
    };
    let mut merged: Vec<LoopDim> = Vec::new();
    for (axis, &extent) in output
        .iter()
        .enumerate()
        .filter(|(_, extent)| **extent != 1)
    {
        let strides = [stride(a, axis), stride(b, axis)];
        match merged.last_mut() {
            Some(last) if (0..2).all(|i| last.strides[i] == strides[i] * extent) => {
                *last = LoopDim {
                    extent: last.extent * extent,
                    strides,
                };
            }
            _ => merged.push(LoopDim { extent, strides }),
        }
    }
    merged
}

impl UnpreparedWorkload for Binary {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place((0..2).filter(|&input| self.has_output_shape[input]))
    }
}

impl Workload for Binary {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        // An input that the output replaces is read from the output's memory.
        let side = |index: usize| -> Result<Option<&[f32]>> {
            if inputs.is_replaced(index) {
                Ok(None)
            } else {
                inputs.slice(index).map(Some)
            }
        };
        let sides = [side(0)?, side(1)?];
        let output = outputs.slice::<f32>(0)?;
        let extent = self.inner.extent;
        if output.is_empty() {
            return Ok(());
        }
        let parallel = output.len() >= PARALLEL;
        let chunks = if parallel { 2 * pool::threads() } else { 1 };
        // Chunks are whole inner loops, or equal parts of one where there are few.
        let lines = output.len() / extent;
        let chunk = if lines >= chunks {
            lines.div_ceil(chunks) * extent
        } else {
            let parts = chunks.div_ceil(lines);
            equal_part(extent, parts)
        };
        for_each_chunk(output, chunk, parallel, |index, output| {
            self.level.run(BinaryChunk {
                binary: self,
                sides,
                start: index * chunk,
                output,
            });
        });
        Ok(())
    }
}

/// The length of `parts` to `4 * parts` equal parts of `extent`; `extent` when it is not divisible.
fn equal_part(extent: usize, parts: usize) -> usize {
    let found = (parts..parts * 4).find(|&parts| extent.is_multiple_of(parts));
    found.map_or(extent, |parts| extent / parts)
}

/// A chunk of the output: whole inner loops, or a part of one.
struct BinaryChunk<'a> {
    binary: &'a Binary,
    sides: [Option<&'a [f32]>; 2],
    start: usize,
    output: &'a mut [f32],
}

impl VectorOp for BinaryChunk<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _simd: S) {
        let Self {
            binary,
            sides,
            start,
            output,
        } = self;
        let inner = binary.inner;
        let mut at = start;
        for run in output.chunks_mut(inner.extent) {
            let (line, within) = (at / inner.extent, at % inner.extent);
            let offsets = binary.offsets(line, within);
            let operand = |i: usize| match (sides[i], inner.strides[i]) {
                (None, _) => Operand::InPlace,
                (Some(elements), 0) => Operand::Scalar(elements[offsets[i]]),
                (Some(elements), _) => Operand::Elements(&elements[offsets[i]..][..run.len()]),
            };
            let (a, b) = (operand(0), operand(1));
            at += run.len();
            binary.function.apply(a, b, run);
        }
    }
}

impl Binary {
    /// The offsets of the inputs at an element of an inner loop. The innermost stride is 0 or 1.
    #[inline(always)]
    fn offsets(&self, line: usize, within: usize) -> [usize; 2] {
        let (mut rest, mut offsets) = (line, self.inner.strides.map(|stride| stride * within));
        for dim in self.outer.iter().rev() {
            let index = rest % dim.extent;
            rest /= dim.extent;
            offsets[0] += index * dim.strides[0];
            offsets[1] += index * dim.strides[1];
        }
        offsets
    }
}

/// An operand of an inner loop.
#[derive(Clone, Copy)]
enum Operand<'a> {
    Elements(&'a [f32]),
    /// One element, broadcast.
    Scalar(f32),
    /// The output's memory.
    InPlace,
}

impl BinaryFunction {
    #[inline(always)]
    fn apply(self, a: Operand<'_>, b: Operand<'_>, output: &mut [f32]) {
        match self {
            BinaryFunction::Add => zip(a, b, output, |a, b| a + b),
            BinaryFunction::Sub => zip(a, b, output, |a, b| a - b),
            BinaryFunction::Mul => zip(a, b, output, |a, b| a * b),
            BinaryFunction::Div => zip(a, b, output, |a, b| a / b),
            // NaN in either operand gives NaN, as in ONNX.
            BinaryFunction::Min => {
                zip(a, b, output, |a, b| if a < b || a.is_nan() { a } else { b })
            }
            BinaryFunction::Max => {
                zip(a, b, output, |a, b| if a > b || a.is_nan() { a } else { b })
            }
            BinaryFunction::PRelu => zip(a, b, output, |a, b| if a < 0.0 { a * b } else { a }),
        }
    }
}

/// The inner loops, which the compiler vectorises.
#[inline(always)]
fn zip(a: Operand<'_>, b: Operand<'_>, output: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    use Operand::*;
    match (a, b) {
        (Elements(a), Elements(b)) => {
            for ((o, &a), &b) in output.iter_mut().zip(a).zip(b) {
                *o = f(a, b);
            }
        }
        (Elements(a), Scalar(b)) => output.iter_mut().zip(a).for_each(|(o, &a)| *o = f(a, b)),
        (Scalar(a), Elements(b)) => output.iter_mut().zip(b).for_each(|(o, &b)| *o = f(a, b)),
        (Scalar(a), Scalar(b)) => output.fill(f(a, b)),
        (InPlace, Elements(b)) => output.iter_mut().zip(b).for_each(|(o, &b)| *o = f(*o, b)),
        (Elements(a), InPlace) => output.iter_mut().zip(a).for_each(|(o, &a)| *o = f(a, *o)),
        (InPlace, Scalar(b)) => output.iter_mut().for_each(|o| *o = f(*o, b)),
        (Scalar(a), InPlace) => output.iter_mut().for_each(|o| *o = f(a, *o)),
        (InPlace, InPlace) => output.iter_mut().for_each(|o| *o = f(*o, *o)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(a: &[usize], b: &[usize]) -> Vec<(usize, [usize; 2])> {
        let (a, b) = (Shape::new(a), Shape::new(b));
        let output = a.broadcast(&b).unwrap();
        merge(&output, &a, &b)
            .iter()
            .map(|dim| (dim.extent, dim.strides))
            .collect()
    }

    #[test]
    fn dimensions_coalesce_where_both_strides_are_uniform() {
        assert_eq!(dims(&[2, 3, 4], &[2, 3, 4]), [(24, [1, 1])]);
        assert_eq!(dims(&[2, 3, 4], &[]), [(24, [1, 0])]);
        assert_eq!(dims(&[2, 3, 4], &[4]), [(6, [4, 0]), (4, [1, 1])]);
        assert_eq!(
            dims(&[2, 3, 4], &[2, 1, 4]),
            [(2, [12, 4]), (3, [4, 0]), (4, [1, 1])]
        );
        assert_eq!(
            dims(&[1, 8, 5, 5], &[8, 1, 1]),
            [(8, [25, 1]), (25, [1, 0])]
        );
        assert_eq!(dims(&[2, 1], &[1, 3]), [(2, [1, 0]), (3, [0, 1])]);
        assert_eq!(dims(&[], &[1, 1]), []);
    }
}
