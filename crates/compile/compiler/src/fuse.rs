//! Fusing: patterns of several nodes that one operator says.

mod activation;
mod attention;
mod convolution;
mod matmul;
mod normalization;

use crate::rewrite::Rule;

/// Patterns of plain operators. They run before [`PRODUCTS`], which changes what they look for.
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

/// Products with what follows them.
pub(crate) const PRODUCTS: &[Rule] = &[
    matmul::from_plain,
    matmul::transposed_b,
    matmul::scaled_input,
    matmul::bias,
    matmul::scaled_result,
    convolution::bias,
    activation::into_product,
    residual,
];

use convolution::residual;
