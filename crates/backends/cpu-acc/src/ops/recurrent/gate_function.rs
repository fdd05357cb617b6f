//! The activations of the gates of recurrent layers.

use super::Cell;
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::Simd;
use crate::simd::math::{UnaryFunction, map_in_place};
use tenon_backend::Refusal;

/// The activation of a gate.
#[derive(Debug, Clone, Copy)]
pub(super) enum GateFunction {
    Unary(UnaryFunction),
    /// `alpha * x + beta`.
    Affine(f32, f32),
    /// `alpha * tanh(beta * x)`.
    ScaledTanh(f32, f32),
    /// `x / (1 + |x|)`.
    Softsign,
    /// `ln(1 + exp(x))`.
    Softplus,
}

impl GateFunction {
    /// The functions of all directions; those with parameters take them from the lists in order.
    pub(super) fn all(
        signature: &Signature<'_>,
        cell: Cell,
        directions: usize,
    ) -> Result<Vec<Self>, Refusal> {
        let attributes = signature.inference().attributes;
        let list = |name| {
            let list = attributes.floats(name);
            list.map_err(|error| refuse(error.to_string()))
        };
        let mut alphas = list("activation_alpha")?.unwrap_or_default().iter();
        let mut betas = list("activation_beta")?.unwrap_or_default().iter();
        let mut alpha = |default: f32| alphas.next().copied().unwrap_or(default);
        let mut beta = |default: f32| betas.next().copied().unwrap_or(default);
        let given = attributes.strings("activations");
        let names: Vec<&str> = match given.map_err(|error| refuse(error.to_string()))? {
            Some(names) => names.iter().map(String::as_str).collect(),
            None => cell.default_functions().repeat(directions),
        };
        let function = |name: &str| {
            Ok(match name.to_ascii_lowercase().as_str() {
                "relu" => Self::Unary(UnaryFunction::Clamp {
                    low: 0.0,
                    high: f32::INFINITY,
                }),
                "tanh" => Self::Unary(UnaryFunction::Tanh),
                "sigmoid" => Self::Unary(UnaryFunction::Sigmoid),
                "affine" => Self::Affine(alpha(1.0), beta(0.0)),
                "leakyrelu" => Self::Unary(UnaryFunction::LeakyRelu { alpha: alpha(0.01) }),
                "thresholdedrelu" => {
                    Self::Unary(UnaryFunction::ThresholdedRelu { alpha: alpha(1.0) })
                }
                "scaledtanh" => Self::ScaledTanh(alpha(1.0), beta(1.0)),
                "hardsigmoid" => Self::Unary(UnaryFunction::HardSigmoid {
                    alpha: alpha(0.2),
                    beta: beta(0.5),
                }),
                "elu" => Self::Unary(UnaryFunction::Elu { alpha: alpha(1.0) }),
                "softsign" => Self::Softsign,
                "softplus" => Self::Softplus,
                _ => return Err(refuse_attribute("activations", name)),
            })
        };
        names.into_iter().map(function).collect()
    }

    #[inline(always)]
    pub(super) fn apply<S: Simd>(self, s: S, elements: &mut [f32]) {
        match self {
            Self::Unary(function) => map_in_place(s, function, elements),
            Self::Affine(alpha, beta) => elements.iter_mut().for_each(|x| *x = alpha * *x + beta),
            Self::ScaledTanh(alpha, beta) => {
                elements.iter_mut().for_each(|x| *x *= beta);
                map_in_place(s, UnaryFunction::Tanh, elements);
                elements.iter_mut().for_each(|x| *x *= alpha);
            }
            Self::Softsign => elements.iter_mut().for_each(|x| *x /= 1.0 + x.abs()),
            Self::Softplus => elements
                .iter_mut()
                .for_each(|x| *x = x.max(0.0) + (-x.abs()).exp().ln_1p()),
        }
    }
}
