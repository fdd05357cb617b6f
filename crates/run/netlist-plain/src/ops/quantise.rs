//! Quantization, requantization and dequantization with a scale and a zero point.

use crate::format::int8;
use crate::tensor::Tensor;
use tenon_base::Result;

/// a * scale + zero point, as Int8; the scale is the reciprocal of the quantization step.
pub fn quantization(a: &Tensor, scale: &Tensor, zero_point: f32) -> Result<Tensor> {
    let a = a.try_clone()?;
    Ok(a.zip(scale, |a, scale| int8(a * scale + zero_point)))
}

/// a * scale + zero point, as Int8.
pub fn requantization(a: &Tensor, scale: &Tensor, zero_point: f32) -> Result<Tensor> {
    let a = a.try_clone()?;
    Ok(a.zip(scale, |a, scale| int8(a * scale + zero_point)))
}

/// (a - zero point) * scale.
pub fn dequantization(a: &Tensor, scale: &Tensor, zero_point: f32) -> Result<Tensor> {
    let a = a.try_clone()?;
    Ok(a.zip(scale, |a, scale| (a - zero_point) * scale))
}
