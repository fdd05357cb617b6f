//! Range: the terms of an arithmetic progression.

use super::chunk_of;
use crate::ops::element_types::numeric;
use crate::ops::number::Number;
use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::Signature;
use crate::simd::disjoint::for_each_chunk;
use half::{bf16, f16};
use std::marker::PhantomData;
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::Result;

/// The kernel.
struct Steps<T>(PhantomData<T>);

pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    numeric!(signature.input(0)?.dtype(), 0, T => Ok(Box::new(Steps::<T>(PhantomData))))
}

/// An element type with arithmetic progressions.
trait Progression: Number {
    /// `start + step * delta`, rounded once or wrapped.
    fn term(start: Self, delta: Self, step: usize) -> Self;
}

macro_rules! integers {
    ($($T:ty)*) => {$(
        impl Progression for $T {
            fn term(start: Self, delta: Self, step: usize) -> Self {
                start.wrapping_add(delta.wrapping_mul(step as $T))
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 u8 u16 u32 u64 }

macro_rules! floats {
    ($($T:ty)*) => {$(
        impl Progression for $T {
            fn term(start: Self, delta: Self, step: usize) -> Self {
                Self::of_f64(start.to_f64() + delta.to_f64() * step as f64)
            }
        }
    )*};
}

floats! { f32 f64 f16 bf16 }

impl<T: Progression> UnpreparedWorkload for Steps<T> {}

impl<T: Progression> Workload for Steps<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let first = |index| -> Result<T> {
            Ok(inputs
                .slice::<T>(index)?
                .first()
                .copied()
                .unwrap_or_default())
        };
        let (start, delta) = (first(0)?, first(2)?);
        let output = outputs.slice::<T>(0)?;
        let (chunk, parallel) = chunk_of(output.len(), 1);
        for_each_chunk(output, chunk, parallel, |nth, to| {
            for (to, step) in to.iter_mut().zip(nth * chunk..) {
                *to = T::term(start, delta, step);
            }
        });
        Ok(())
    }
}
