//! Conversions between element types and quantisations.

use crate::model::unsupported;
use crate::node::Operation;
use tenon_base::Result;
use tenon_onnx::proto::data_type;

pub(super) fn cast(op: &mut Operation<'_, '_>) -> Result<()> {
    let (from, to) = (op.info(0)?.dtype, op.output_info(0)?.dtype);
    let x = op.stored(0)?;
    let y = op.cast(&x, from, to)?;
    op.set_stored(0, y)
}

/// Real values, or integers of another quantisation.
pub(super) fn quantize(op: &mut Operation<'_, '_>) -> Result<()> {
    if op.output_info(0)?.quantised().is_none() {
        return Err(unsupported("an output without scales is not supported"));
    }
    let from = op.info(0)?;
    let x = op.real(0)?;
    let x = match from.dtype {
        data_type::FLOAT16 | data_type::BFLOAT16 => op.cast(&x, from.dtype, data_type::FLOAT)?,
        _ => x,
    };
    op.set(0, x)
}

/// Real values in f32, of integers, f16 or bf16.
pub(super) fn dequantize(op: &mut Operation<'_, '_>) -> Result<()> {
    let (from, to) = (op.info(0)?, op.output_info(0)?.dtype);
    let x = op.real(0)?;
    let real = if from.quantised().is_some() {
        data_type::FLOAT
    } else {
        from.dtype
    };
    let y = op.cast(&x, real, to)?;
    op.set(0, y)
}
