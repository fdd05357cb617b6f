//! Quantised numbers: a scale and a zero point.

use crate::format::int8;
use crate::tensor::Tensor;

fn scaled(a: &Tensor, scale: &Tensor, combine: impl Fn(f32, f32) -> f32) -> Tensor {
    let mut output = a.clone();
    for (value, scale) in output.values.iter_mut().zip(&scale.values) {
        *value = combine(*value, *scale);
    }
    output
}

/// a * scale + zero point, as Int8; the scale is inverted already.
pub fn quantization(a: &Tensor, scale: &Tensor, zero_point: f32) -> Tensor {
    scaled(a, scale, |a, scale| int8(a * scale + zero_point))
}

/// a * scale + zero point, as Int8.
pub fn requantization(a: &Tensor, scale: &Tensor, zero_point: f32) -> Tensor {
    scaled(a, scale, |a, scale| int8(a * scale + zero_point))
}

/// (a - zero point) * scale.
pub fn dequantization(a: &Tensor, scale: &Tensor, zero_point: f32) -> Tensor {
    scaled(a, scale, |a, scale| (a - zero_point) * scale)
}
