//! Conversions between element types and quantisations.

use crate::model::{invalid, unsupported};
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

/// A sparse constant as a dense one: all of them are decoded when their tensors are read.
pub(super) fn densify(op: &mut Operation<'_, '_>) -> Result<()> {
    let (from, to) = (op.info(0)?, op.output_info(0)?);
    if from.dtype != to.dtype {
        return Err(invalid("input and output have different element types"));
    }
    let x = op.stored(0)?;
    op.set_stored(0, x)
}

/// Real values rounded to the steps of a quantisation; the range is moved so that 0 is a step.
pub(super) fn fake_quantize(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_fake_quant_options();
    let options = options.ok_or_else(|| invalid("the options of the operator are missing"))?;
    let (bits, least, greatest) = (options.num_bits(), options.min(), options.max());
    let is_range = least <= 0.0 && greatest >= 0.0 && least < greatest;
    if !is_range || !(2..=16).contains(&bits) {
        return Err(invalid("the options of the operator are out of range")
            .expected("2 to 16 bits, and a range with 0 in it")
            .found(format_args!("{bits} bits from {least} to {greatest}")));
    }
    let first = if options.narrow_range() { 1.0 } else { 0.0 };
    let last = ((1i32 << bits) - 1) as f32;
    let scale = (greatest - least) / (last - first);
    let zero = (first - least / scale).round().clamp(first, last);
    let (low, high) = ((first - zero) * scale, (last - zero) * scale);
    let dtype = op.info(0)?.dtype;
    let x = op.real(0)?;
    let constants = [low, high, 1.0 / scale, 0.5, scale];
    let constants = constants.map(|value| op.scalar_of(dtype, value));
    let [low, high, inverse, half, scale] = constants;
    let (low, half) = (low?, half?);
    let x = op.emit("Clip", &[&x, &low, &high?], Vec::new())?;
    let x = op.emit("Sub", &[&x, &low], Vec::new())?;
    let steps = op.emit("Mul", &[&x, &inverse?], Vec::new())?;
    let steps = op.emit("Add", &[&steps, &half], Vec::new())?;
    let steps = op.emit("Floor", &[&steps], Vec::new())?;
    let y = op.emit("Mul", &[&steps, &scale?], Vec::new())?;
    let y = op.emit("Add", &[&y, &low], Vec::new())?;
    op.set(0, y)
}
