//! `Pow`: floats with vector instructions, integers by repeated multiplication, which wraps. The
//! exponents may have another type than the base.

use super::arithmetic::BinaryFunction;
use super::broadcast::{Broadcast, PART, Part, PartBuffer, for_each_chunk};
use super::element_types::{numeric, refuse_type};
use super::number::Number;
use super::{Kernel, UnpreparedWorkload};
use crate::signature::Signature;
use std::marker::PhantomData;
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, match_type};

/// A power whose exponents are converted to f64.
struct Power<T> {
    exponents: DataType,
    loops: Broadcast<2>,
    base: PhantomData<T>,
}

pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (base, exponents) = (signature.input(0)?, signature.input(1)?);
    let is_half = |dtype| matches!(dtype, DataType::F16 | DataType::BF16);
    let computes_in_f32 = base.dtype() == DataType::F32 || is_half(base.dtype());
    if computes_in_f32 && base.dtype() == exponents.dtype() {
        return super::binary::of_floats(signature, BinaryFunction::Pow);
    }
    for (input, ty) in [(0, base), (1, exponents)] {
        if is_half(ty.dtype()) {
            return Err(refuse_type(input, ty.dtype()));
        }
    }
    let output = signature.output(0)?.shape();
    let loops = Broadcast::new(output, [base.shape(), exponents.shape()])?;
    let exponents = exponents.dtype();
    numeric!(base.dtype(), 0, T => Ok(Box::new(Power::<T> {
        exponents,
        loops,
        base: PhantomData,
    })))
}

/// Converts the exponents of a part.
fn load<E: Number>(elements: &[E], loops: &Broadcast<2>, part: Part<2>, to: &mut [f64]) {
    let mut buffer = PartBuffer::new();
    let exponents = loops.elements(1, Some(elements), part, &[], &mut buffer);
    let pairs = to.iter_mut().zip(exponents);
    pairs.for_each(|(to, exponent)| *to = exponent.to_f64());
}

impl<T: Number> Power<T> {
    /// `load` writes the exponents of a part.
    fn run(
        &self,
        base: &[T::Word],
        load: &(dyn Fn(Part<2>, &mut [f64]) + Sync),
        output: &mut [T::Word],
    ) {
        for_each_chunk(output, |start, output| {
            let mut buffer = PartBuffer::new();
            let mut exponents = [0.0; PART];
            self.loops.for_each_part(start, output, |part, to| {
                let base = self.loops.elements(0, Some(base), part, &[], &mut buffer);
                let exponents = &mut exponents[..to.len()];
                load(part, exponents);
                for ((to, &base), &exponent) in to.iter_mut().zip(base).zip(&*exponents) {
                    *to = T::of(base).power(exponent).word();
                }
            });
        });
    }
}

impl<T: Number> UnpreparedWorkload for Power<T> {}

impl<T: Number> Workload for Power<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let base = inputs.slice::<T::Word>(0)?;
        let output = outputs.slice::<T::Word>(0)?;
        match_type!(self.exponents, E: numeric => {
            let exponents = inputs.slice::<E>(1)?;
            self.run(base, &|part, to| load(exponents, &self.loops, part, to), output);
            Ok(())
        }, found => {
            let text = "exponents of a type that is not numeric";
            Err(Error::new(ErrorKind::Internal, text).found(found))
        })
    }
}
