//! Functions of one operand of f32, with vector instructions, and of f16 and bf16, computed in f32.

use super::Function;
use super::words::{bound, for_each_part, map_words};
use crate::floats::{FloatElement, Half};
use crate::ops::UnpreparedWorkload;
use crate::ops::broadcast::PART;
use crate::simd::math::{UnaryFunction, map_in_place, map_into};
use crate::simd::{Level, Simd, VectorOp};
use std::marker::PhantomData;
use tenon_backend::{OperandPair, Operands, Workload, WorkloadPlan};
use tenon_base::Result;

/// A function of f32 that is applied to every element.
pub(super) struct F32Unary {
    pub(super) level: Level,
    pub(super) function: Function,
}

impl UnpreparedWorkload for F32Unary {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl Workload for F32Unary {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (level, function) = (self.level, self.function.with_bounds::<f32>(operands)?);
        let (from, to) = match operands.pair::<f32>(0, 0)? {
            OperandPair::InPlace(elements) => (None, elements),
            OperandPair::Apart(from, to) => (Some(from), to),
        };
        for_each_part(from, to, |from, elements| match (from, function) {
            (Some(from), Function::Vector(function)) if !stores_alias(from, elements) => {
                level.run(UnaryMapInto {
                    function,
                    from,
                    to: elements,
                });
            }
            _ => {
                if let Some(from) = from {
                    elements.copy_from_slice(from);
                }
                level.run(UnaryMap { function, elements });
            }
        });
        Ok(())
    }
}

/// Whether loads of a loop from `from` to `to` wait for its stores shortly before: those to addresses that
/// are equal modulo 4096.
fn stores_alias(from: &[f32], to: &[f32]) -> bool {
    const PAGE: usize = 4096;
    let ahead = (to.as_ptr() as usize).wrapping_sub(from.as_ptr() as usize) % PAGE;
    (1..PAGE / 2).contains(&ahead)
}

impl Function {
    /// The function, with the bounds of `Clip`, which are of type `T`.
    fn with_bounds<T: FloatElement>(self, operands: &Operands<'_>) -> Result<Self> {
        if self != Function::Clip {
            return Ok(self);
        }
        let bound = |input, default| -> Result<f32> {
            Ok(bound::<T>(operands, input)?.map_or(default, Into::into))
        };
        let (low, high) = (bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?);
        Ok(Function::Vector(UnaryFunction::Clamp { low, high }))
    }
}

/// An elementwise function of a part, in place.
pub(in crate::ops) struct UnaryMap<'a> {
    pub(in crate::ops) function: Function,
    pub(in crate::ops) elements: &'a mut [f32],
}

impl VectorOp for UnaryMap<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        match self.function {
            Function::Vector(function) => map_in_place(simd, function, self.elements),
            Function::Loop(function) => function.apply(simd, self.elements),
            // Replaced by a clamp when executing; not of floats.
            Function::Clip | Function::OfIntegers => {}
        }
    }
}

/// A vector function of a part, from one memory to another.
struct UnaryMapInto<'a> {
    function: UnaryFunction,
    from: &'a [f32],
    to: &'a mut [f32],
}

impl VectorOp for UnaryMapInto<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) {
        map_into(simd, self.function, self.from, self.to);
    }
}

/// A function of f16 or bf16, computed in f32.
pub(super) struct HalfUnary<H> {
    level: Level,
    function: Function,
    element: PhantomData<H>,
}

impl<H> HalfUnary<H> {
    pub(super) fn new(level: Level, function: Function) -> Self {
        Self {
            level,
            function,
            element: PhantomData,
        }
    }
}

impl<H: Half> UnpreparedWorkload for HalfUnary<H> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl<H: Half> Workload for HalfUnary<H> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (level, function) = (self.level, self.function.with_bounds::<H>(operands)?);
        map_words(operands, &|elements: &mut [H]| {
            let mut wide = [0.0; PART];
            let len = elements.len();
            let wide = &mut wide[..len];
            H::floats(elements).copy(level, 0..len, wide);
            level.run(UnaryMap {
                function,
                elements: wide,
            });
            H::floats_mut(elements).write(level, 0..len, wide);
        })
    }
}
