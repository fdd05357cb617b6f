//! The functions of instructions, on parts of f32 and of bytes.

use super::Source;
use crate::floats::FloatType;
use crate::ops::arithmetic::{BinaryFunction, ZipFn, logic, truth, vector_comparison};
use crate::ops::binary::{comparison_of, function_of};
use crate::ops::element_types::refuse_type;
use crate::ops::quantized::ByteType;
use crate::ops::unary::{Function as UnaryFunction, Test, f32_test, float_function};
use crate::signature::{Signature, refuse, refuse_attribute};
use tenon_backend::{Reason, Refusal};
use tenon_graph::elementwise::is_quantization;
use tenon_tensor::DataType;

/// The function of an instruction.
pub(super) enum Function {
    /// Of one operand of floats.
    Unary(UnaryFunction),
    /// `Clip`, whose bounds are inputs of the program.
    Clip,
    /// Of two or more operands of floats, from left to right, with the factor of its result.
    Binary(BinaryFunction, Option<f32>),
    /// Floats to truth values.
    Compare(ZipFn<u32, u8>),
    /// Floats to truth values.
    Test(Test<u32>),
    /// Of one operand of truth values.
    Not,
    /// Of two operands of truth values.
    Logic(ZipFn<u8, u8>),
    /// `Where`, of floats or of bytes.
    Select,
    /// Floats to quantized elements. Scale and zero point are inputs of the program.
    Quantize(ByteType),
    /// Quantized elements to floats.
    Dequantize(ByteType),
}

impl Function {
    /// The function of an operator, and the order of its operands.
    pub(super) fn of(signature: &Signature<'_>) -> Result<(Self, Vec<usize>), Refusal> {
        let name = signature.op.name;
        let dtype = signature.input(0)?.dtype();
        if is_quantization(signature.op) {
            let function = Self::quantization(signature)?;
            return Ok((function, (0..signature.input_count()).collect()));
        }
        let is_truth = dtype == DataType::Bool;
        let unsupported = || refuse_type(0, dtype);
        if !is_truth && FloatType::of(dtype).is_none() {
            return Err(unsupported());
        }
        if let Some((comparison, order)) = comparison_of(name) {
            let function = if is_truth {
                Self::Logic(truth(comparison))
            } else {
                Self::Compare(vector_comparison::<f32>(comparison))
            };
            return Ok((function, order.to_vec()));
        }
        let function = match name {
            "IsNaN" | "IsInf" => Self::Test(f32_test(signature)?),
            "Not" => Self::Not,
            "Where" => Self::Select,
            "Clip" => Self::Clip,
            _ => match (function_of(signature), float_function(signature)) {
                (Some(function), _) if is_truth => {
                    Self::Logic(logic(function?.0).ok_or_else(unsupported)?)
                }
                (Some(function), _) => {
                    let (function, factor) = function?;
                    Self::Binary(function, factor.map(|factor| factor as f32))
                }
                (None, Some(function)) if !is_truth => Self::Unary(function?),
                _ => return Err(Reason::UnknownOperator.into()),
            },
        };
        Ok((function, (0..signature.input_count()).collect()))
    }

    /// The function of QuantizeLinear or DequantizeLinear between f32 and bytes.
    fn quantization(signature: &Signature<'_>) -> Result<Self, Refusal> {
        signature.f32_shape(1)?;
        let block = signature.int("block_size", 0)?;
        if block != 0 {
            return Err(refuse_attribute("block_size", block));
        }
        let precision = signature.string("precision", "")?;
        if !matches!(precision, "" | "f32") {
            return Err(refuse_attribute("precision", precision));
        }
        if signature.op.name == "QuantizeLinear" {
            signature.f32_shape(0)?;
            let found = signature.output(0)?.dtype();
            let ty = ByteType::of(found).ok_or_else(|| {
                refuse(format!(
                    "no kernel for an output of type {found} in a program"
                ))
            })?;
            return Ok(Self::Quantize(ty));
        }
        signature.typed_output(DataType::F32)?;
        Ok(Self::Dequantize(ByteType::of_input(signature, 0)?))
    }

    /// Refuses operands in registers that are read once for the whole output.
    pub(super) fn check(&self, operands: &[Option<Source>]) -> Result<(), Refusal> {
        let is_register = |operand: &Option<Source>| matches!(operand, Some(Source::Register(_)));
        let has_parameters = matches!(self, Self::Clip | Self::Quantize(_) | Self::Dequantize(_));
        if has_parameters && operands.iter().skip(1).any(is_register) {
            return Err(refuse(
                "no kernel for bounds or scales that the program computes",
            ));
        }
        Ok(())
    }

    /// Whether operand `nth` is read as a slice, where it is floats.
    pub(super) fn reads_slice(&self, nth: usize) -> bool {
        match self {
            Self::Compare(_) | Self::Test(_) => true,
            Self::Quantize(_) => nth == 0,
            Self::Select => nth > 0,
            _ => false,
        }
    }
}
