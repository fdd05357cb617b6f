//! Activations of fused operators: the elementwise function of their results.

use crate::signature::{Signature, refuse_attribute};
use crate::simd::math::UnaryFunction;
use tenon_backend::Refusal;

/// A clamp, which is part of the micro-kernels' epilogue, and an elementwise function, which is a
/// separate pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Activation {
    /// The lower and the upper bound of the clamp.
    pub(crate) limits: [f32; 2],
    /// The function after the clamp.
    pub(crate) function: Option<UnaryFunction>,
}

impl Activation {
    /// The identity.
    pub(crate) const NONE: Self = Self {
        limits: [f32::NEG_INFINITY, f32::INFINITY],
        function: None,
    };

    /// Reads the attributes `activation`, `alpha` and `beta` of a fused operator.
    pub(crate) fn of(signature: &Signature<'_>) -> Result<Self, Refusal> {
        let (alpha, beta) = (
            signature.float("alpha", 0.0)?,
            signature.float("beta", 0.0)?,
        );
        let function = match signature.string("activation", "none")? {
            "none" => return Ok(Self::NONE),
            "relu" => {
                return Ok(Self {
                    limits: [0.0, f32::INFINITY],
                    ..Self::NONE
                });
            }
            "clip" => {
                return Ok(Self {
                    limits: [alpha, beta],
                    ..Self::NONE
                });
            }
            "sigmoid" => UnaryFunction::Sigmoid,
            "tanh" => UnaryFunction::Tanh,
            "silu" => UnaryFunction::Swish { alpha: 1.0 },
            "hardswish" => UnaryFunction::HardSwish,
            "hardsigmoid" => UnaryFunction::HardSigmoid { alpha, beta },
            "leakyrelu" => UnaryFunction::LeakyRelu { alpha },
            "gelu" => UnaryFunction::Gelu,
            "gelu_tanh" => UnaryFunction::GeluTanh,
            other => return Err(refuse_attribute("activation", other)),
        };
        Ok(Self {
            function: Some(function),
            ..Self::NONE
        })
    }
}
