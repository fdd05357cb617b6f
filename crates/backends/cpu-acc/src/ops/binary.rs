//! Elementwise operators of two inputs that broadcast: dimensions are merged where both inputs go on
//! evenly, so that the innermost loop is long.

use super::{Kernel, Plain};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{InPlace, Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, pool};
use tenon_tensor::Shape;

/// Numbers below which a second thread is not worth it.
const PARALLEL: usize = 1 << 15;

/// What is done to two numbers.
#[derive(Debug, Clone, Copy)]
enum Function {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    /// The first where positive, else the product.
    PRelu,
}

/// A dimension after merging: its extent, and how far each input moves at a step.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Dim {
    extent: usize,
    steps: [usize; 2],
}

/// An operator of two inputs.
struct Binary {
    level: Level,
    function: Function,
    /// All but the innermost, outermost first.
    outer: Vec<Dim>,
    inner: Dim,
    /// Inputs of the output's shape.
    whole: [bool; 2],
}

/// The kernel of an operator of two inputs; `None` when it is none.
pub(super) fn kernel(signature: &Signature<'_>) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    let function = match signature.op.name {
        "Add" => Function::Add,
        "Sub" => Function::Sub,
        "Mul" => Function::Mul,
        "Div" => Function::Div,
        "Min" => Function::Min,
        "Max" => Function::Max,
        "PRelu" => Function::PRelu,
        _ => return None,
    };
    Some(Binary::of(signature, function).map(|binary| Box::new(binary) as Box<dyn Kernel>))
}

impl Binary {
    fn of(signature: &Signature<'_>, function: Function) -> Result<Self, Refusal> {
        let (a, b) = (signature.numbers(0)?, signature.numbers(1)?);
        if signature.optional(2).is_some() {
            return Err(refuse("no kernel for more than two inputs"));
        }
        let output = signature.only_output()?;
        if a.broadcast(b).as_ref() != Some(output) {
            return Err(refuse("the shapes do not fit"));
        }
        let mut outer = merge(output, a, b);
        let inner = outer.pop().unwrap_or(Dim {
            extent: 1,
            steps: [0, 0],
        });
        let whole = [
            a.elements() == output.elements(),
            b.elements() == output.elements(),
        ];
        Ok(Self {
            level: signature.level,
            function,
            outer,
            inner,
            whole,
        })
    }
}

/// The dimensions of `output`, adjacent ones merged where both inputs go on evenly.
fn merge(output: &Shape, a: &Shape, b: &Shape) -> Vec<Dim> {
    let steps = |shape: &Shape, axis: usize| {
        let own = (axis + shape.len()).checked_sub(output.len());
        own.filter(|&own| shape[own] > 1)
            .map_or(0, |own| shape.strides()[own])
    };
    let mut merged: Vec<Dim> = Vec::new();
    for (axis, &extent) in output
        .iter()
        .enumerate()
        .filter(|(_, extent)| **extent != 1)
    {
        let steps = [steps(a, axis), steps(b, axis)];
        match merged.last_mut() {
            Some(last) if (0..2).all(|i| last.steps[i] == steps[i] * extent) => {
                *last = Dim {
                    extent: last.extent * extent,
                    steps,
                };
            }
            _ => merged.push(Dim { extent, steps }),
        }
    }
    merged
}

impl Plain for Binary {
    fn needs(&self) -> WorkloadPlan {
        let inputs = (0..2).filter(|&input| self.whole[input]);
        WorkloadPlan {
            in_place: inputs.map(|input| InPlace { input, output: 0 }).collect(),
            ..WorkloadPlan::default()
        }
    }
}

impl Workload for Binary {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        // An input that the output replaces is read there.
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
        let pieces = if parallel { 2 * pool::threads() } else { 1 };
        // Whole inner loops, unless there are few: then parts of one.
        let lines = output.len() / extent;
        let chunk = if lines >= pieces {
            lines.div_ceil(pieces) * extent
        } else {
            let parts = pieces.div_ceil(lines);
            divisor_near(extent, parts)
        };
        for_each_chunk(output, chunk, parallel, |index, output| {
            self.level.run(Part {
                binary: self,
                sides,
                start: index * chunk,
                output,
            });
        });
        Ok(())
    }
}

/// The length of about `parts` equal parts of `extent`, or all of it when there is no such length.
fn divisor_near(extent: usize, parts: usize) -> usize {
    let found = (parts..parts * 4).find(|&parts| extent.is_multiple_of(parts));
    found.map_or(extent, |parts| extent / parts)
}

/// Some of the output: whole inner loops, or a part of one.
struct Part<'a> {
    binary: &'a Binary,
    sides: [Option<&'a [f32]>; 2],
    start: usize,
    output: &'a mut [f32],
}

impl VectorOp for Part<'_> {
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
            let operand = |i: usize| match (sides[i], inner.steps[i]) {
                (None, _) => Operand::InPlace,
                (Some(numbers), 0) => Operand::One(numbers[offsets[i]]),
                (Some(numbers), _) => Operand::Each(&numbers[offsets[i]..][..run.len()]),
            };
            let (a, b) = (operand(0), operand(1));
            at += run.len();
            binary.function.apply(a, b, run);
        }
    }
}

impl Binary {
    /// Where the inputs are at a place of an inner loop. The innermost step is 0 or 1.
    #[inline(always)]
    fn offsets(&self, line: usize, within: usize) -> [usize; 2] {
        let (mut rest, mut offsets) = (line, self.inner.steps.map(|step| step * within));
        for dim in self.outer.iter().rev() {
            let index = rest % dim.extent;
            rest /= dim.extent;
            offsets[0] += index * dim.steps[0];
            offsets[1] += index * dim.steps[1];
        }
        offsets
    }
}

/// One side of an inner loop.
#[derive(Clone, Copy)]
enum Operand<'a> {
    Each(&'a [f32]),
    One(f32),
    InPlace,
}

impl Function {
    #[inline(always)]
    fn apply(self, a: Operand<'_>, b: Operand<'_>, output: &mut [f32]) {
        match self {
            Function::Add => zip(a, b, output, |a, b| a + b),
            Function::Sub => zip(a, b, output, |a, b| a - b),
            Function::Mul => zip(a, b, output, |a, b| a * b),
            Function::Div => zip(a, b, output, |a, b| a / b),
            // A NaN on either side stays one, as in ONNX.
            Function::Min => zip(a, b, output, |a, b| if a < b || a.is_nan() { a } else { b }),
            Function::Max => zip(a, b, output, |a, b| if a > b || a.is_nan() { a } else { b }),
            Function::PRelu => zip(a, b, output, |a, b| if a < 0.0 { a * b } else { a }),
        }
    }
}

/// The loops; the compiler makes vectors of them.
#[inline(always)]
fn zip(a: Operand<'_>, b: Operand<'_>, output: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    use Operand::*;
    match (a, b) {
        (Each(a), Each(b)) => {
            for ((o, &a), &b) in output.iter_mut().zip(a).zip(b) {
                *o = f(a, b);
            }
        }
        (Each(a), One(b)) => output.iter_mut().zip(a).for_each(|(o, &a)| *o = f(a, b)),
        (One(a), Each(b)) => output.iter_mut().zip(b).for_each(|(o, &b)| *o = f(a, b)),
        (One(a), One(b)) => output.fill(f(a, b)),
        (InPlace, Each(b)) => output.iter_mut().zip(b).for_each(|(o, &b)| *o = f(*o, b)),
        (Each(a), InPlace) => output.iter_mut().zip(a).for_each(|(o, &a)| *o = f(a, *o)),
        (InPlace, One(b)) => output.iter_mut().for_each(|o| *o = f(*o, b)),
        (One(a), InPlace) => output.iter_mut().for_each(|o| *o = f(a, *o)),
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
            .map(|dim| (dim.extent, dim.steps))
            .collect()
    }

    #[test]
    fn dimensions_merge_where_both_go_on_evenly() {
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
