//! QuantizeLinear and DequantizeLinear between f32 and bytes, one scale for all or one a channel.

use super::{Kernel, Plain};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Inputs, Operands, Reason, Refusal, Workload};
use tenon_base::Result;
use tenon_tensor::{DataType, Element};

/// Numbers below which a second thread is not worth it.
const PARALLEL: usize = 1 << 16;

/// A byte that stands for a number.
trait Byte: Element + Default {
    fn to_number(self) -> f32;
    /// The byte of an integer, the nearest one when there is none.
    fn of_number(number: f32) -> Self;
}

impl Byte for u8 {
    #[inline(always)]
    fn to_number(self) -> f32 {
        self.into()
    }

    #[inline(always)]
    fn of_number(number: f32) -> Self {
        number as u8
    }
}

impl Byte for i8 {
    #[inline(always)]
    fn to_number(self) -> f32 {
        self.into()
    }

    #[inline(always)]
    fn of_number(number: f32) -> Self {
        number as i8
    }
}

/// Either direction, over `[outer, channels, inner]`.
struct Linear {
    level: Level,
    quantize: bool,
    signed: bool,
    zero_point: bool,
    channels: usize,
    inner: usize,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let quantize = signature.op.name == "QuantizeLinear";
    let x = signature.input(0)?;
    let scale = signature.numbers(1)?;
    let bytes = if quantize {
        signature.numbers(0)?;
        signature.output(0)?.dtype()
    } else {
        signature.only_output()?;
        x.dtype()
    };
    let signed = match bytes {
        DataType::I8 => true,
        DataType::U8 => false,
        found if quantize => {
            return Err(refuse(format!("no kernel for an output of type {found}")));
        }
        found => return Err(Reason::InputType { input: 0, found }.into()),
    };
    let block = signature.int("block_size", 0)?;
    if block != 0 {
        return Err(refuse_attribute("block_size", block));
    }
    if signature.has("precision") {
        return Err(refuse_attribute(
            "precision",
            signature.string("precision", "")?,
        ));
    }
    let shape = x.shape();
    let zero = signature.optional(2);
    if signature.output(0)?.shape() != shape || zero.is_some_and(|zero| zero.dtype() != bytes) {
        return Err(refuse("the types do not fit"));
    }
    let (channels, inner) = if scale.elements() == 1 {
        (1, x.elements())
    } else {
        let axis = signature.axis("axis", 1, shape.len())?;
        (shape[axis], shape[axis + 1..].iter().product())
    };
    if scale.elements() != channels || zero.is_some_and(|zero| zero.elements() != channels) {
        return Err(refuse("no kernel for scales of that shape"));
    }
    let zero_point = zero.is_some();
    let level = signature.level;
    Ok(Box::new(Linear {
        level,
        quantize,
        signed,
        zero_point,
        channels,
        inner,
    }))
}

impl Plain for Linear {}

impl Workload for Linear {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        match (self.quantize, self.signed) {
            (true, true) => self.quantize::<i8>(operands),
            (true, false) => self.quantize::<u8>(operands),
            (false, true) => self.dequantize::<i8>(operands),
            (false, false) => self.dequantize::<u8>(operands),
        }
    }
}

impl Linear {
    fn quantize<T: Byte>(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let parameters = Parameters::<T>::of(self, &inputs)?;
        let from = inputs.slice::<f32>(0)?;
        self.each_run(outputs.slice::<T>(0)?, |channel, start, to| {
            let (scale, zero) = parameters.at(channel);
            self.level.run(Quantize {
                from: &from[start..][..to.len()],
                scale,
                zero,
                to,
            });
        });
        Ok(())
    }

    fn dequantize<T: Byte>(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let parameters = Parameters::<T>::of(self, &inputs)?;
        let from = inputs.slice::<T>(0)?;
        self.each_run(outputs.slice::<f32>(0)?, |channel, start, to| {
            let (scale, zero) = parameters.at(channel);
            self.level.run(Dequantize {
                from: &from[start..][..to.len()],
                scale,
                zero,
                to,
            });
        });
        Ok(())
    }

    /// Calls `body` with the channel, the place and the memory of each run of one channel; of equal
    /// parts of it when there is but one.
    fn each_run<T: Send>(&self, to: &mut [T], body: impl Fn(usize, usize, &mut [T]) + Sync) {
        let parallel = to.len() >= PARALLEL;
        let length = if self.channels == 1 {
            PARALLEL / 4
        } else {
            self.inner
        };
        for_each_chunk(to, length, parallel, |index, to| {
            let channel = if self.channels == 1 {
                0
            } else {
                index % self.channels
            };
            body(channel, index * length, to);
        });
    }
}

/// Scales and zero points.
struct Parameters<'a, T> {
    scales: &'a [f32],
    zeros: Option<&'a [T]>,
}

impl<'a, T: Byte> Parameters<'a, T> {
    fn of(linear: &Linear, inputs: &Inputs<'a>) -> Result<Self> {
        let zeros = if linear.zero_point {
            Some(inputs.slice(2)?)
        } else {
            None
        };
        Ok(Self {
            scales: inputs.slice(1)?,
            zeros,
        })
    }

    fn at(&self, channel: usize) -> (f32, f32) {
        let zero = self.zeros.map_or(0.0, |zeros| zeros[channel].to_number());
        (self.scales[channel], zero)
    }
}

struct Quantize<'a, T> {
    from: &'a [f32],
    scale: f32,
    zero: f32,
    to: &'a mut [T],
}

impl<T: Byte> VectorOp for Quantize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let (scale, zero) = (s.splat(self.scale), s.splat(self.zero));
        // Beyond these all bytes are the same, and the sum below stays exact.
        let (low, high) = (s.splat(-1024.0), s.splat(1024.0));
        for (to, from) in self.to.chunks_mut(S::LANES).zip(self.from.chunks(S::LANES)) {
            let quotient = s.div(s.load_part(from), scale);
            let nearest = s.round(s.min(high, s.max(low, quotient)));
            let mut lanes = [0.0; 16];
            s.store(s.add(nearest, zero), &mut lanes);
            for (to, &number) in to.iter_mut().zip(&lanes) {
                *to = T::of_number(number);
            }
        }
    }
}

struct Dequantize<'a, T> {
    from: &'a [T],
    scale: f32,
    zero: f32,
    to: &'a mut [f32],
}

impl<T: Byte> VectorOp for Dequantize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = (from.to_number() - self.zero) * self.scale;
        }
    }
}
