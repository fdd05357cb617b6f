//! Elementwise operators of two or more inputs: arithmetic, comparison, logic and bits.

mod float;
mod half_precision;
mod words;

use super::arithmetic::{
    BinaryFunction, Comparison, arithmetic, comparison, divide_i32, integer, logic, truth,
    vector_comparison,
};
use super::broadcast::{Broadcast, PART};
use super::element_types::{integers, refuse_type};
use super::number::Number;
use super::{Kernel, elementwise, power};
use crate::signature::{Signature, refuse_attribute};
pub(super) use float::Apply;
use float::F32Binary;
use half::{bf16, f16};
use half_precision::{HalfBinary, half_tests};
use tenon_backend::{Inputs, Refusal, WorkloadPlan};
use tenon_base::Result;
use tenon_tensor::{DataType, Element, TensorType};
use words::{ScaleFn, tests, words};

/// The kernel of an elementwise operator of several inputs; `None` for any other operator.
pub(super) fn kernel(signature: &Signature<'_>) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    if signature.op.name == "Pow" {
        return Some(power::kernel(signature));
    }
    if let Some((comparison, order)) = comparison_of(signature.op.name) {
        return Some(compare(signature, comparison, order));
    }
    let function = function_of(signature)?;
    Some(function.and_then(|(function, factor)| of_type(signature, function, factor)))
}

/// The function of two operands that the operator computes, and the factor of its result; `None` for any
/// other operator.
pub(super) fn function_of(
    signature: &Signature<'_>,
) -> Option<Result<(BinaryFunction, Option<f64>), Refusal>> {
    let function = match signature.op.name {
        "Add" | "Sum" => BinaryFunction::Add,
        "Mean" => {
            let factor = 1.0 / signature.input_count().max(1) as f64;
            return Some(Ok((BinaryFunction::Add, Some(factor))));
        }
        "Sub" => BinaryFunction::Sub,
        "Mul" => BinaryFunction::Mul,
        "Div" => BinaryFunction::Div,
        "Min" => BinaryFunction::Min,
        "Max" => BinaryFunction::Max,
        "PRelu" => BinaryFunction::PRelu,
        "Pow" => BinaryFunction::Pow,
        "And" | "BitwiseAnd" => BinaryFunction::And,
        "Or" | "BitwiseOr" => BinaryFunction::Or,
        "Xor" | "BitwiseXor" => BinaryFunction::Xor,
        "Mod" => match signature.flag("fmod", false) {
            Ok(true) => BinaryFunction::Remainder,
            Ok(false) => BinaryFunction::Mod,
            Err(refusal) => return Some(Err(refusal)),
        },
        "SwiGLU" => match signature.float("alpha", 1.0) {
            Ok(alpha) => BinaryFunction::SwiGlu { alpha },
            Err(refusal) => return Some(Err(refusal)),
        },
        "BitShift" => match signature.string("direction", "") {
            Ok("LEFT") => BinaryFunction::ShiftLeft,
            Ok("RIGHT") => BinaryFunction::ShiftRight,
            Ok(other) => return Some(Err(refuse_attribute("direction", other))),
            Err(refusal) => return Some(Err(refusal)),
        },
        _ => return None,
    };
    Some(Ok((function, None)))
}

/// The comparison that the operator computes, and the order of its operands.
pub(super) fn comparison_of(operator: &str) -> Option<(Comparison, [usize; 2])> {
    Some(match operator {
        "Equal" => (Comparison::Equal, [0, 1]),
        "Greater" => (Comparison::Greater, [0, 1]),
        "GreaterOrEqual" => (Comparison::GreaterOrEqual, [0, 1]),
        "Less" => (Comparison::Greater, [1, 0]),
        "LessOrEqual" => (Comparison::GreaterOrEqual, [1, 0]),
        _ => return None,
    })
}

/// The kernel of a function of numeric elements, of their bits, or of truth values.
fn of_type(
    signature: &Signature<'_>,
    function: BinaryFunction,
    factor: Option<f64>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let dtype = signature.input(0)?.dtype();
    let unsupported = || refuse_type(0, dtype);
    // The sum and the mean of one input are its elements, and so is the minimum with itself.
    let function = if signature.input_count() == 1 {
        BinaryFunction::Min
    } else {
        function
    };
    match dtype {
        DataType::F32 => Ok(Box::new(F32Binary::of(signature, function, factor)?)),
        DataType::F64 => {
            let apply = arithmetic::<f64>(function).ok_or_else(unsupported)?;
            let scale: ScaleFn<u64> = Box::new(|elements, factor| {
                let scaled = |word: u64| (f64::of(word) * factor).word();
                elements.iter_mut().for_each(|word| *word = scaled(*word));
            });
            words(signature, apply, factor.map(|factor| (scale, factor)))
        }
        DataType::F16 | DataType::BF16 if signature.input_count() > 2 || factor.is_some() => {
            elementwise::single(signature)
        }
        DataType::F16 => Ok(Box::new(HalfBinary::<f16>::of(signature, function)?)),
        DataType::BF16 => Ok(Box::new(HalfBinary::<bf16>::of(signature, function)?)),
        DataType::I32 if function == BinaryFunction::Div => words(signature, divide_i32, None),
        DataType::Bool => words(signature, logic(function).ok_or_else(unsupported)?, None),
        dtype => integers!(dtype, 0, T => {
            words(signature, integer::<T>(function).ok_or_else(unsupported)?, None)
        }),
    }
}

/// The kernel of a function of two operands of one floating-point type other than f64.
pub(super) fn of_floats(
    signature: &Signature<'_>,
    function: BinaryFunction,
) -> Result<Box<dyn Kernel>, Refusal> {
    of_type(signature, function, None)
}

fn compare(
    signature: &Signature<'_>,
    function: Comparison,
    order: [usize; 2],
) -> Result<Box<dyn Kernel>, Refusal> {
    match signature.input(0)?.dtype() {
        DataType::F32 => tests(signature, vector_comparison::<f32>(function), order),
        DataType::F64 => tests(signature, vector_comparison::<f64>(function), order),
        DataType::I32 => tests(signature, vector_comparison::<i32>(function), order),
        DataType::I64 => tests(signature, vector_comparison::<i64>(function), order),
        DataType::F16 => half_tests::<f16>(signature, function, order),
        DataType::BF16 => half_tests::<bf16>(signature, function, order),
        DataType::Bool => tests(signature, truth(function), order),
        dtype => integers!(dtype, 0, T => tests(signature, comparison::<T>(function), order)),
    }
}

/// The broadcast of the first two inputs, in the order `order`, and of each further one. A single input
/// is both.
struct OperandLoops {
    order: [usize; 2],
    pair: Broadcast<2>,
    further: Vec<Broadcast<1>>,
}

impl OperandLoops {
    fn of(signature: &Signature<'_>, mut order: [usize; 2]) -> Result<Self, Refusal> {
        let output = signature.output(0)?.shape();
        let count = signature.input_count();
        if count == 1 {
            order = [0, 0];
        }
        let [a, b] = order;
        let shape = |index| signature.input(index).map(TensorType::shape);
        let further = (2..count).map(|index| Broadcast::new(output, [shape(index)?]));
        Ok(Self {
            order,
            pair: Broadcast::new(output, [shape(a)?, shape(b)?])?,
            further: further.collect::<Result<_, _>>()?,
        })
    }

    /// The loops over the operands after the first two, and their elements.
    fn further<'a, T: Element>(
        &self,
        inputs: &Inputs<'a>,
    ) -> Result<Vec<(&Broadcast<1>, &'a [T])>> {
        let further = self.further.iter().enumerate();
        further
            .map(|(index, loops)| Ok((loops, inputs.slice(index + 2)?)))
            .collect()
    }

    /// Blocks of a chunk of the output with their first positions: with more than two operands so small that they stay
    /// in the first level cache.
    fn blocks<'a, T>(
        &self,
        start: usize,
        chunk: &'a mut [T],
    ) -> impl Iterator<Item = (usize, &'a mut [T])> {
        let len = match self.further.is_empty() {
            true => chunk.len().max(1),
            false => 2 * PART,
        };
        let blocks = chunk.chunks_mut(len).enumerate();
        blocks.map(move |(index, block)| (start + index * len, block))
    }

    /// The inputs that the output may replace: those that are read before it is written.
    fn in_place(&self) -> WorkloadPlan {
        let [a, b] = self.order;
        let mut inputs: Vec<usize> = self.pair.dense().map(|n| self.order[n]).collect();
        if a == b {
            inputs.truncate(1);
        }
        WorkloadPlan::in_place(inputs)
    }
}
