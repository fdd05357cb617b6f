//! `Pow`: floats with vector instructions, integers by repeated multiplication, which wraps. The
//! exponents may have another type than the base.

use super::arithmetic::{BinaryFunction, Number, with_integer};
use super::broadcast::{Broadcast, PART, Part, PartBuffer, for_each_chunk};
use super::{Kernel, UnpreparedWorkload};
use crate::signature::Signature;
use std::marker::PhantomData;
use tenon_backend::{Inputs, Operands, Reason, Refusal, Workload};
use tenon_base::Result;
use tenon_tensor::DataType;

/// A power whose exponents are converted to f64.
struct Power<T> {
    exponents: DataType,
    loops: Broadcast<2>,
    base: PhantomData<T>,
}

pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (base, exponents) = (signature.input(0)?, signature.input(1)?);
    let output = signature.typed_output(base.dtype())?;
    let is_single = matches!(base.dtype(), DataType::F32 | DataType::F16 | DataType::BF16);
    if is_single && base.dtype() == exponents.dtype() {
        return super::binary::of_floats(signature, BinaryFunction::Pow);
    }
    let unsupported = |input, found| -> Refusal { Reason::InputType { input, found }.into() };
    match exponents.dtype() {
        DataType::F32 | DataType::F64 => {}
        found if found.is_integer() => {}
        found => return Err(unsupported(1, found)),
    }
    let loops = Broadcast::new(output, [base.shape(), exponents.shape()])?;
    let exponents = exponents.dtype();
    match base.dtype() {
        DataType::F32 => Ok(Power::<f32>::boxed(exponents, loops)),
        DataType::F64 => Ok(Power::<f64>::boxed(exponents, loops)),
        found => with_integer!(
            found,
            T => Ok(Power::<T>::boxed(exponents, loops)),
            Err(unsupported(0, found))
        ),
    }
}

impl<T: Number + Send + Sync> Power<T> {
    fn boxed(exponents: DataType, loops: Broadcast<2>) -> Box<dyn Kernel> {
        Box::new(Self {
            exponents,
            loops,
            base: PhantomData,
        })
    }
}

/// The exponents, by their type.
#[derive(Clone, Copy)]
enum Exponents<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
}

impl<'a> Exponents<'a> {
    fn of(inputs: &Inputs<'a>, dtype: DataType) -> Result<Self> {
        Ok(match dtype {
            DataType::F32 => Self::F32(inputs.slice(1)?),
            DataType::I8 => Self::I8(inputs.slice(1)?),
            DataType::I16 => Self::I16(inputs.slice(1)?),
            DataType::I32 => Self::I32(inputs.slice(1)?),
            DataType::I64 => Self::I64(inputs.slice(1)?),
            DataType::U8 => Self::U8(inputs.slice(1)?),
            DataType::U16 => Self::U16(inputs.slice(1)?),
            DataType::U32 => Self::U32(inputs.slice(1)?),
            DataType::U64 => Self::U64(inputs.slice(1)?),
            _ => Self::F64(inputs.slice(1)?),
        })
    }

    /// Converts those of a part.
    fn load(self, loops: &Broadcast<2>, part: Part<2>, to: &mut [f64]) {
        fn load<T: Number + Default>(
            elements: &[T],
            loops: &Broadcast<2>,
            part: Part<2>,
            to: &mut [f64],
        ) {
            let mut buffer = PartBuffer::new();
            let exponents = loops.elements(1, Some(elements), part, &[], &mut buffer);
            to.iter_mut()
                .zip(exponents)
                .for_each(|(to, exponent)| *to = exponent.to_f64());
        }
        match self {
            Self::F32(elements) => load(elements, loops, part, to),
            Self::F64(elements) => load(elements, loops, part, to),
            Self::I8(elements) => load(elements, loops, part, to),
            Self::I16(elements) => load(elements, loops, part, to),
            Self::I32(elements) => load(elements, loops, part, to),
            Self::I64(elements) => load(elements, loops, part, to),
            Self::U8(elements) => load(elements, loops, part, to),
            Self::U16(elements) => load(elements, loops, part, to),
            Self::U32(elements) => load(elements, loops, part, to),
            Self::U64(elements) => load(elements, loops, part, to),
        }
    }
}

impl<T: Number + Send + Sync> UnpreparedWorkload for Power<T> {}

impl<T: Number + Send + Sync> Workload for Power<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let base = inputs.slice::<T::Word>(0)?;
        let exponents = Exponents::of(&inputs, self.exponents)?;
        let output = outputs.slice::<T::Word>(0)?;
        for_each_chunk(output, |start, output| {
            let mut buffer = PartBuffer::new();
            let mut loaded = [0.0; PART];
            self.loops.for_each_part(start, output, |part, to| {
                let base = self.loops.elements(0, Some(base), part, &[], &mut buffer);
                let loaded = &mut loaded[..to.len()];
                exponents.load(&self.loops, part, loaded);
                for ((to, &base), &exponent) in to.iter_mut().zip(base).zip(&*loaded) {
                    *to = T::of(base).power(exponent).word();
                }
            });
        });
        Ok(())
    }
}
