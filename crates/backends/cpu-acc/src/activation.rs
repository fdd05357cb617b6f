//! Activations: what fused operators do to each number at the end.

use crate::signature::{Signature, refuse_attribute};
use crate::simd::math::Curve;
use tenon_backend::Refusal;

/// Limits that are free as the numbers are written, and a curve that is a pass of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Activation {
    /// The least and the greatest result.
    pub(crate) limits: [f32; 2],
    /// What is done after that.
    pub(crate) curve: Option<Curve>,
}

impl Activation {
    /// None at all.
    pub(crate) const NONE: Self = Self {
        limits: [f32::NEG_INFINITY, f32::INFINITY],
        curve: None,
    };

    /// Reads the attributes `activation`, `alpha` and `beta` of a fused operator.
    pub(crate) fn of(signature: &Signature<'_>) -> Result<Self, Refusal> {
        let (alpha, beta) = (
            signature.float("alpha", 0.0)?,
            signature.float("beta", 0.0)?,
        );
        let curve = match signature.string("activation", "none")? {
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
            "sigmoid" => Curve::Sigmoid,
            "tanh" => Curve::Tanh,
            "silu" => Curve::Swish { alpha: 1.0 },
            "hardswish" => Curve::HardSwish,
            "hardsigmoid" => Curve::HardSigmoid { alpha, beta },
            "leakyrelu" => Curve::LeakyRelu { alpha },
            "gelu" => Curve::Gelu,
            "gelu_tanh" => Curve::GeluTanh,
            other => return Err(refuse_attribute("activation", other)),
        };
        Ok(Self {
            curve: Some(curve),
            ..Self::NONE
        })
    }
}
