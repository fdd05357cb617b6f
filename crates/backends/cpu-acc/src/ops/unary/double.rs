//! Functions of one operand of f64, by those of the standard library.

use super::Function;
use super::words::{Clip, number_map, shrink_map};
use crate::elementary::Elementary;
use crate::ops::Kernel;
use crate::ops::element_types::refuse_type;
use crate::signature::Signature;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
use tenon_backend::Refusal;
use tenon_tensor::DataType;

/// The kernel of a function of f64.
pub(super) fn kernel(
    signature: &Signature<'_>,
    function: Function,
) -> Result<Box<dyn Kernel>, Refusal> {
    fn map(
        function: impl Fn(f64) -> f64 + Send + Sync + 'static,
    ) -> Result<Box<dyn Kernel>, Refusal> {
        number_map::<f64>(function)
    }
    let float = |name, default| signature.float(name, default).map(f64::from);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let to_unit = |x: f64| x.clamp(0.0, 1.0);
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    match signature.op.name {
        "Abs" => map(f64::abs),
        "Neg" => map(|x| -x),
        "Sqrt" => map(f64::sqrt),
        "Reciprocal" => map(f64::recip),
        "Round" => map(f64::round_ties_even),
        "Floor" => map(f64::floor),
        "Ceil" => map(f64::ceil),
        "Exp" => map(f64::exp),
        "Log" => map(f64::ln),
        "Sin" => map(f64::sin),
        "Cos" => map(f64::cos),
        "Tan" => map(f64::tan),
        "Asin" => map(f64::asin),
        "Acos" => map(f64::acos),
        "Atan" => map(f64::atan),
        "Sinh" => map(f64::sinh),
        "Cosh" => map(f64::cosh),
        // The `asinh` of std calls `hypot`, which programs link in a version of glibc 2.35.
        "Asinh" => map(libm::asinh),
        "Acosh" => map(f64::acosh),
        "Atanh" => map(f64::atanh),
        "Tanh" => map(f64::tanh),
        "Sigmoid" => map(sigmoid),
        "Softplus" => map(softplus),
        "Softsign" => map(|x| x / (1.0 + x.abs())),
        "Sign" => map(|x| {
            if x == 0.0 || x.is_nan() {
                x
            } else {
                1f64.copysign(x)
            }
        }),
        "Relu" => map(|x| if x < 0.0 { 0.0 } else { x }),
        "Clip" => Ok(Box::new(Clip {
            unbounded: [f64::NEG_INFINITY, f64::INFINITY],
        })),
        "LeakyRelu" => {
            let alpha = float("alpha", 0.01)?;
            map(move |x| if x < 0.0 { alpha * x } else { x })
        }
        "ThresholdedRelu" => {
            let alpha = float("alpha", 1.0)?;
            map(move |x| if x > alpha { x } else { 0.0 })
        }
        "Elu" => {
            let alpha = float("alpha", 1.0)?;
            map(move |x| if x < 0.0 { alpha * x.exp_m1() } else { x })
        }
        "Celu" => {
            let alpha = float("alpha", 1.0)?;
            map(move |x| {
                let below = alpha * (x / alpha).exp_m1();
                let positive = if x < 0.0 { 0.0 } else { x };
                positive + if below > 0.0 { 0.0 } else { below }
            })
        }
        "Gelu" if signature.string("approximate", "none")? == "none" => {
            map(|x| 0.5 * x * (1.0 + libm::erf(x * FRAC_1_SQRT_2)))
        }
        "Gelu" => map(|x| {
            let inner = FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }),
        "HardSigmoid" => {
            let (alpha, beta) = (float("alpha", 0.2)?, float("beta", 0.5)?);
            map(move |x| to_unit(alpha * x + beta))
        }
        "HardSwish" => map(move |x| x * to_unit(x / 6.0 + 0.5)),
        "Swish" => {
            let alpha = float("alpha", 1.0)?;
            map(move |x| x * sigmoid(alpha * x))
        }
        "Mish" => map(move |x| x * softplus(x).tanh()),
        "Erf" => map(libm::erf),
        _ => match function {
            Function::Loop(Elementary::Selu { alpha, gamma }) => {
                let (alpha, gamma) = (f64::from(alpha), f64::from(gamma));
                map(move |x| gamma * if x > 0.0 { x } else { alpha * x.exp_m1() })
            }
            Function::Loop(Elementary::Shrink { limit, bias }) => {
                shrink_map::<f64>(limit.into(), bias.into())
            }
            _ => Err(refuse_type(0, DataType::F64)),
        },
    }
}
