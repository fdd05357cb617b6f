//! Elementwise operators of one input.

use super::{Kernel, Plain};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::math::{Curve, curve_in_place, curve_into};
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{InPlace, OperandPair, Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;

/// Numbers that one thread takes at a time; fewer are not worth a second thread.
const CHUNK: usize = 1 << 14;

/// A curve applied to every number.
struct Unary {
    level: Level,
    curve: Curve,
}

/// The kernel of an elementwise operator; `None` when it is none.
pub(super) fn kernel(signature: &Signature<'_>) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    let curve = match signature.op.name {
        "Abs" => Ok(Curve::Abs),
        "Neg" => Ok(Curve::Neg),
        "Sqrt" => Ok(Curve::Sqrt),
        "Reciprocal" => Ok(Curve::Reciprocal),
        "Round" => Ok(Curve::Round),
        "Floor" => Ok(Curve::Floor),
        "Ceil" => Ok(Curve::Ceil),
        "Exp" => Ok(Curve::Exp),
        "Erf" => Ok(Curve::Erf),
        "Tanh" => Ok(Curve::Tanh),
        "Sigmoid" => Ok(Curve::Sigmoid),
        "HardSwish" => Ok(Curve::HardSwish),
        "Mish" => Ok(Curve::Mish),
        "Pow" => power(signature),
        "Relu" => Ok(Curve::Clamp {
            low: 0.0,
            high: f32::INFINITY,
        }),
        "Clip" => clip(signature),
        "LeakyRelu" => signature
            .float("alpha", 0.01)
            .map(|alpha| Curve::LeakyRelu { alpha }),
        "Elu" => signature
            .float("alpha", 1.0)
            .map(|alpha| Curve::Elu { alpha }),
        "Swish" => signature
            .float("alpha", 1.0)
            .map(|alpha| Curve::Swish { alpha }),
        "HardSigmoid" => hard_sigmoid(signature),
        "Gelu" => gelu(signature),
        _ => return None,
    };
    Some(curve.and_then(|curve| {
        signature.same_shape()?;
        Ok(Box::new(Unary {
            level: signature.level,
            curve,
        }) as Box<dyn Kernel>)
    }))
}

/// Squares are the powers that models have.
fn power(signature: &Signature<'_>) -> Result<Curve, Refusal> {
    match signature.constant_numbers(1)? {
        Some([2.0]) => Ok(Curve::Square),
        _ => Err(refuse("no kernel for powers other than 2")),
    }
}

fn clip(signature: &Signature<'_>) -> Result<Curve, Refusal> {
    let bound = |index: usize, default: f32| -> Result<f32, Refusal> {
        let numbers = signature.constant_numbers(index)?;
        Ok(numbers
            .and_then(|numbers| numbers.first().copied())
            .unwrap_or(default))
    };
    Ok(Curve::Clamp {
        low: bound(1, f32::NEG_INFINITY)?,
        high: bound(2, f32::INFINITY)?,
    })
}

fn hard_sigmoid(signature: &Signature<'_>) -> Result<Curve, Refusal> {
    let (alpha, beta) = (
        signature.float("alpha", 0.2)?,
        signature.float("beta", 0.5)?,
    );
    Ok(Curve::HardSigmoid { alpha, beta })
}

fn gelu(signature: &Signature<'_>) -> Result<Curve, Refusal> {
    match signature.string("approximate", "none")? {
        "none" => Ok(Curve::Gelu),
        "tanh" => Ok(Curve::GeluTanh),
        other => Err(refuse_attribute("approximate", other)),
    }
}

impl Plain for Unary {
    fn needs(&self) -> WorkloadPlan {
        WorkloadPlan {
            in_place: vec![InPlace {
                input: 0,
                output: 0,
            }],
            ..WorkloadPlan::default()
        }
    }
}

impl Workload for Unary {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let Self { level, curve } = *self;
        match operands.pair::<f32>(0, 0)? {
            OperandPair::InPlace(numbers) => {
                let parallel = numbers.len() > 2 * CHUNK;
                for_each_chunk(numbers, CHUNK, parallel, |_, to| {
                    level.run(Bend {
                        curve,
                        from: None,
                        to,
                    });
                });
            }
            OperandPair::Apart(from, to) => {
                let parallel = to.len() > 2 * CHUNK;
                for_each_chunk(to, CHUNK, parallel, |index, to| {
                    let from = &from[index * CHUNK..][..to.len()];
                    level.run(Bend {
                        curve,
                        from: Some(from),
                        to,
                    });
                });
            }
        }
        Ok(())
    }
}

/// A curve over some numbers.
struct Bend<'a> {
    curve: Curve,
    /// Where they are, when not in `to`.
    from: Option<&'a [f32]>,
    to: &'a mut [f32],
}

impl VectorOp for Bend<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        match self.from {
            Some(from) => curve_into(simd, self.curve, from, self.to),
            None => curve_in_place(simd, self.curve, self.to),
        }
    }
}
