//! Elementwise operators of one input: f32 with vector instructions, f64 by the functions of the
//! standard library, integers with wrapping arithmetic.

mod bit_test;
mod double;
mod float;
mod words;

use super::Kernel;
use super::element_types::integers;
use crate::elementary::Elementary;
use crate::signature::{Signature, refuse_attribute};
use crate::simd::math::UnaryFunction;
pub(super) use bit_test::{BitTestChunk, Test, f32_test};
pub(super) use float::UnaryMap;
use float::{F32Unary, HalfUnary};
use half::{bf16, f16};
use tenon_backend::Refusal;
use tenon_base::Result;
use tenon_tensor::DataType;
use words::{integer_kernel, number_map};

/// A function of f32.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Function {
    /// By vectors.
    Vector(UnaryFunction),
    /// By a loop that the compiler vectorises.
    Loop(Elementary),
    /// `Clip`, whose bounds are read when executing.
    Clip,
    /// A function of integers only, by shape inference.
    OfIntegers,
}

/// The kernel of an elementwise operator; `None` for any other operator.
pub(super) fn kernel(signature: &Signature<'_>) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    Some(match signature.op.name {
        "IsNaN" | "IsInf" => bit_test::kernel(signature),
        "Not" => number_map::<u8>(|truth| (truth == 0).into()),
        _ => float_function(signature)?.and_then(|function| of_type(signature, function)),
    })
}

/// The function of floats that the operator computes; `None` for any other operator.
pub(super) fn float_function(signature: &Signature<'_>) -> Option<Result<Function, Refusal>> {
    use Function::{Loop, Vector};
    let alpha = |default: f32| signature.float("alpha", default);
    Some(match signature.op.name {
        "Abs" => Ok(Vector(UnaryFunction::Abs)),
        "Neg" => Ok(Vector(UnaryFunction::Neg)),
        "Sqrt" => Ok(Vector(UnaryFunction::Sqrt)),
        "Reciprocal" => Ok(Vector(UnaryFunction::Reciprocal)),
        "Round" => Ok(Vector(UnaryFunction::Round)),
        "Floor" => Ok(Vector(UnaryFunction::Floor)),
        "Ceil" => Ok(Vector(UnaryFunction::Ceil)),
        "Exp" => Ok(Vector(UnaryFunction::Exp)),
        "Erf" => Ok(Vector(UnaryFunction::Erf)),
        "Tanh" => Ok(Vector(UnaryFunction::Tanh)),
        "Sigmoid" => Ok(Vector(UnaryFunction::Sigmoid)),
        "HardSwish" => Ok(Vector(UnaryFunction::HardSwish)),
        "Mish" => Ok(Vector(UnaryFunction::Mish)),
        "Relu" => Ok(Vector(UnaryFunction::Clamp {
            low: 0.0,
            high: f32::INFINITY,
        })),
        "Clip" => Ok(Function::Clip),
        "LeakyRelu" => alpha(0.01).map(|alpha| Vector(UnaryFunction::LeakyRelu { alpha })),
        "Elu" => alpha(1.0).map(|alpha| Vector(UnaryFunction::Elu { alpha })),
        "Swish" => alpha(1.0).map(|alpha| Vector(UnaryFunction::Swish { alpha })),
        "HardSigmoid" => hard_sigmoid(signature),
        "Gelu" => gelu(signature),
        "BitwiseNot" => Ok(Function::OfIntegers),
        "Sign" => Ok(Vector(UnaryFunction::Sign)),
        "Log" => Ok(Loop(Elementary::Log)),
        "Sin" => Ok(Loop(Elementary::Sin)),
        "Cos" => Ok(Loop(Elementary::Cos)),
        "Tan" => Ok(Loop(Elementary::Tan)),
        "Asin" => Ok(Loop(Elementary::Asin)),
        "Acos" => Ok(Loop(Elementary::Acos)),
        "Atan" => Ok(Loop(Elementary::Atan)),
        "Sinh" => Ok(Loop(Elementary::Sinh)),
        "Cosh" => Ok(Loop(Elementary::Cosh)),
        "Asinh" => Ok(Loop(Elementary::Asinh)),
        "Acosh" => Ok(Loop(Elementary::Acosh)),
        "Atanh" => Ok(Loop(Elementary::Atanh)),
        "Softplus" => Ok(Loop(Elementary::Softplus)),
        "Softsign" => Ok(Loop(Elementary::Softsign)),
        "ThresholdedRelu" => {
            alpha(1.0).map(|alpha| Vector(UnaryFunction::ThresholdedRelu { alpha }))
        }
        "Celu" => alpha(1.0).map(|alpha| Loop(Elementary::Celu { alpha })),
        "Selu" => selu(signature),
        "Shrink" => shrink(signature),
        _ => return None,
    })
}

fn of_type(signature: &Signature<'_>, function: Function) -> Result<Box<dyn Kernel>, Refusal> {
    let level = signature.level;
    match signature.input(0)?.dtype() {
        DataType::F32 => Ok(Box::new(F32Unary { level, function })),
        DataType::F16 => Ok(Box::new(HalfUnary::<f16>::new(level, function))),
        DataType::BF16 => Ok(Box::new(HalfUnary::<bf16>::new(level, function))),
        DataType::F64 => double::kernel(signature, function),
        dtype => integers!(dtype, 0, T => integer_kernel::<T>(signature, function)),
    }
}

fn hard_sigmoid(signature: &Signature<'_>) -> Result<Function, Refusal> {
    let (alpha, beta) = (
        signature.float("alpha", 0.2)?,
        signature.float("beta", 0.5)?,
    );
    Ok(Function::Vector(UnaryFunction::HardSigmoid { alpha, beta }))
}

fn gelu(signature: &Signature<'_>) -> Result<Function, Refusal> {
    match signature.string("approximate", "none")? {
        "none" => Ok(Function::Vector(UnaryFunction::Gelu)),
        "tanh" => Ok(Function::Vector(UnaryFunction::GeluTanh)),
        other => Err(refuse_attribute("approximate", other)),
    }
}

fn selu(signature: &Signature<'_>) -> Result<Function, Refusal> {
    let alpha = signature.float("alpha", 1.673_263_2)?;
    let gamma = signature.float("gamma", 1.050_701)?;
    Ok(Function::Loop(Elementary::Selu { alpha, gamma }))
}

fn shrink(signature: &Signature<'_>) -> Result<Function, Refusal> {
    let limit = signature.float("lambd", 0.5)?;
    let bias = signature.float("bias", 0.0)?;
    Ok(Function::Loop(Elementary::Shrink { limit, bias }))
}
