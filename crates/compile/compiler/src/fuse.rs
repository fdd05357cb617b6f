//! Fusion: patterns of several nodes that are one operator.

mod activation;
mod attention;
mod convolution;
mod elementwise;
mod matmul;
mod normalization;

use crate::rewrite::Rule;

/// Patterns of ONNX operators. They run before [`PRODUCTS`], which rewrites these operators.
pub(crate) const PATTERNS: &[Rule] = &[
    activation::gelu,
    activation::times_gate,
    activation::hard_sigmoid,
    normalization::layer,
    normalization::layer_scale,
    normalization::root_mean_square,
    attention::additive_mask,
    attention::attention,
];

/// Matmuls and convolutions with their epilogues.
pub(crate) const PRODUCTS: &[Rule] = &[
    matmul::from_plain,
    matmul::transposed_b,
    matmul::scaled_input,
    matmul::bias,
    matmul::scaled_result,
    convolution::bias,
    activation::into_product,
    residual,
    crate::quantize::residual,
    crate::quantize::output,
];

/// Chains of the elementwise operators that are left.
pub(crate) const ELEMENTWISE: &[Rule] = &[elementwise::chain];

pub(crate) use activation::{into_product, is_activation};
pub(crate) use matmul::{bias as matmul_bias, broadcast_bias};

use convolution::residual;
