//! Elementwise (unary) operators.

use super::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::math::{UnaryFunction, map_in_place, map_into};
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{OperandPair, Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;

/// Elements of a chunk; one thread is used for at most two.
const CHUNK: usize = 1 << 14;

/// A function applied to every element.
struct Unary {
    level: Level,
    function: UnaryFunction,
}

/// The kernel of an elementwise operator; `None` for any other operator.
pub(super) fn kernel(signature: &Signature<'_>) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    let function = match signature.op.name {
        "Abs" => Ok(UnaryFunction::Abs),
        "Neg" => Ok(UnaryFunction::Neg),
        "Sqrt" => Ok(UnaryFunction::Sqrt),
        "Reciprocal" => Ok(UnaryFunction::Reciprocal),
        "Round" => Ok(UnaryFunction::Round),
        "Floor" => Ok(UnaryFunction::Floor),
        "Ceil" => Ok(UnaryFunction::Ceil),
        "Exp" => Ok(UnaryFunction::Exp),
        "Erf" => Ok(UnaryFunction::Erf),
        "Tanh" => Ok(UnaryFunction::Tanh),
        "Sigmoid" => Ok(UnaryFunction::Sigmoid),
        "HardSwish" => Ok(UnaryFunction::HardSwish),
        "Mish" => Ok(UnaryFunction::Mish),
        "Pow" => power(signature),
        "Relu" => Ok(UnaryFunction::Clamp {
            low: 0.0,
            high: f32::INFINITY,
        }),
        "Clip" => clip(signature),
        "LeakyRelu" => signature
            .float("alpha", 0.01)
            .map(|alpha| UnaryFunction::LeakyRelu { alpha }),
        "Elu" => signature
            .float("alpha", 1.0)
            .map(|alpha| UnaryFunction::Elu { alpha }),
        "Swish" => signature
            .float("alpha", 1.0)
            .map(|alpha| UnaryFunction::Swish { alpha }),
        "HardSigmoid" => hard_sigmoid(signature),
        "Gelu" => gelu(signature),
        _ => return None,
    };
    Some(function.and_then(|function| {
        signature.same_shape()?;
        Ok(Box::new(Unary {
            level: signature.level,
            function,
        }) as Box<dyn Kernel>)
    }))
}

/// The square, the only power that is common in models.
fn power(signature: &Signature<'_>) -> Result<UnaryFunction, Refusal> {
    match signature.constant_f32s(1)? {
        Some([2.0]) => Ok(UnaryFunction::Square),
        _ => Err(refuse("no kernel for powers other than 2")),
    }
}

fn clip(signature: &Signature<'_>) -> Result<UnaryFunction, Refusal> {
    let bound = |index: usize, default: f32| -> Result<f32, Refusal> {
        let elements = signature.constant_f32s(index)?;
        Ok(elements
            .and_then(|elements| elements.first().copied())
            .unwrap_or(default))
    };
    Ok(UnaryFunction::Clamp {
        low: bound(1, f32::NEG_INFINITY)?,
        high: bound(2, f32::INFINITY)?,
    })
}

fn hard_sigmoid(signature: &Signature<'_>) -> Result<UnaryFunction, Refusal> {
    let (alpha, beta) = (
        signature.float("alpha", 0.2)?,
        signature.float("beta", 0.5)?,
    );
    Ok(UnaryFunction::HardSigmoid { alpha, beta })
}

fn gelu(signature: &Signature<'_>) -> Result<UnaryFunction, Refusal> {
    match signature.string("approximate", "none")? {
        "none" => Ok(UnaryFunction::Gelu),
        "tanh" => Ok(UnaryFunction::GeluTanh),
        other => Err(refuse_attribute("approximate", other)),
    }
}

impl UnpreparedWorkload for Unary {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl Workload for Unary {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let Self { level, function } = *self;
        match operands.pair::<f32>(0, 0)? {
            OperandPair::InPlace(elements) => {
                let parallel = elements.len() > 2 * CHUNK;
                for_each_chunk(elements, CHUNK, parallel, |_, to| {
                    level.run(UnaryMap {
                        function,
                        from: None,
                        to,
                    });
                });
            }
            OperandPair::Apart(from, to) => {
                let parallel = to.len() > 2 * CHUNK;
                for_each_chunk(to, CHUNK, parallel, |index, to| {
                    let from = &from[index * CHUNK..][..to.len()];
                    level.run(UnaryMap {
                        function,
                        from: Some(from),
                        to,
                    });
                });
            }
        }
        Ok(())
    }
}

/// An elementwise function of a chunk.
struct UnaryMap<'a> {
    function: UnaryFunction,
    /// The operand; `to` itself when `None`.
    from: Option<&'a [f32]>,
    to: &'a mut [f32],
}

impl VectorOp for UnaryMap<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        match self.from {
            Some(from) => map_into(simd, self.function, from, self.to),
            None => map_in_place(simd, self.function, self.to),
        }
    }
}
