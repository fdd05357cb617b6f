//! QuantizeLinear and DequantizeLinear between f32 and integers of 8 or 16 bits, per tensor or per
//! channel, and DynamicQuantizeLinear. `mixed` has the other types and granularities.

mod mixed;

use super::quantized::ByteType;
use super::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use std::ops::BitXor;
use tenon_backend::{Inputs, Operands, Reason, Refusal, Workload};
use tenon_base::Result;
use tenon_tensor::{DataType, Element};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 16;

/// An integer type of quantised elements.
trait Quantized: Element + Default + BitXor<Output = Self> {
    const RANGE: [f32; 2];
    fn to_f32(self) -> f32;
    /// The low bits.
    fn truncating(value: i32) -> Self;
}

macro_rules! quantized {
    ($($integer:ty),*) => {$(
        impl Quantized for $integer {
            const RANGE: [f32; 2] = [<$integer>::MIN as f32, <$integer>::MAX as f32];

            #[inline(always)]
            fn to_f32(self) -> f32 {
                self.into()
            }

            #[inline(always)]
            fn truncating(value: i32) -> Self {
                value as $integer
            }
        }
    )*};
}

quantized!(u8, i8, u16, i16);

/// Quantisation or dequantisation of `[outer, channels, inner]`.
struct LinearQuantization {
    level: Level,
    quantize: bool,
    integer: DataType,
    zero_point: bool,
    channels: usize,
    inner: usize,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    linear(signature).or_else(|_| mixed::kernel(signature))
}

fn linear(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let quantize = signature.op.name == "QuantizeLinear";
    let x = signature.input(0)?;
    let scale = signature.f32_shape(1)?;
    let integer = if quantize {
        signature.f32_shape(0)?;
        signature.output(0)?.dtype()
    } else {
        signature.only_output()?;
        x.dtype()
    };
    match integer {
        DataType::I8 | DataType::U8 | DataType::I16 | DataType::U16 => {}
        found if quantize => {
            return Err(refuse(format!("no kernel for an output of type {found}")));
        }
        found => return Err(Reason::InputType { input: 0, found }.into()),
    }
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
    if signature.output(0)?.shape() != shape || zero.is_some_and(|zero| zero.dtype() != integer) {
        return Err(refuse("the types do not fit"));
    }
    let (channels, inner) = if scale.elements() == 1 {
        (1, x.elements())
    } else {
        let axis = signature.axis("axis", 1, shape.len())?;
        (shape[axis], shape[axis + 1..].iter().product())
    };
    if scale.elements() != channels || zero.is_some_and(|zero| zero.elements() != channels) {
        return Err(refuse(
            "no kernel for scales that are neither per tensor nor per channel",
        ));
    }
    let zero_point = zero.is_some();
    let level = signature.level;
    Ok(Box::new(LinearQuantization {
        level,
        quantize,
        integer,
        zero_point,
        channels,
        inner,
    }))
}

impl UnpreparedWorkload for LinearQuantization {}

impl Workload for LinearQuantization {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        match self.integer {
            DataType::I8 => self.run::<i8>(operands),
            DataType::I16 => self.run::<i16>(operands),
            DataType::U16 => self.run::<u16>(operands),
            _ => self.run::<u8>(operands),
        }
    }
}

impl LinearQuantization {
    fn run<T: Quantized>(&self, operands: &mut Operands<'_>) -> Result<()> {
        if self.quantize {
            self.quantize::<T>(operands)
        } else {
            self.dequantize::<T>(operands)
        }
    }

    fn quantize<T: Quantized>(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let parameters = Parameters::<T>::of(self, &inputs)?;
        let from = inputs.slice::<f32>(0)?;
        self.each_run(outputs.slice::<T>(0)?, |channel, start, to| {
            let (scale, zero) = parameters.at(channel);
            self.level.run(Quantize {
                from: &from[start..][..to.len()],
                scale,
                zero,
                range: T::RANGE,
                to,
            });
        });
        Ok(())
    }

    fn dequantize<T: Quantized>(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let parameters = Parameters::<T>::of(self, &inputs)?;
        let from = inputs.slice::<T>(0)?;
        self.each_run(outputs.slice::<f32>(0)?, |channel, start, to| {
            let (scale, zero) = parameters.at(channel);
            self.level.run(Dequantize {
                from: &from[start..][..to.len()],
                flipped: T::default(),
                scale,
                zero,
                to,
            });
        });
        Ok(())
    }

    /// Calls `body` with the channel, the offset and the elements of each run of one channel; with equal
    /// chunks when there is one channel.
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

/// The kernel of DynamicQuantizeLinear.
pub(super) fn dynamic(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    signature.f32_shape(0)?;
    let level = signature.level;
    Ok(Box::new(DynamicQuantization { level }))
}

/// Quantisation to u8 by the range of the elements, which includes 0.
struct DynamicQuantization {
    level: Level,
}

/// Most chunks whose ranges are found concurrently.
const RANGES: usize = 32;

impl UnpreparedWorkload for DynamicQuantization {}

impl Workload for DynamicQuantization {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let from = inputs.slice::<f32>(0)?;
        let parallel = from.len() >= PARALLEL;
        let chunk = from.len().div_ceil(RANGES).max(1);
        let mut ranges = [[0f32; 2]; RANGES];
        let ranges = &mut ranges[..from.len().div_ceil(chunk)];
        for_each_chunk(ranges, 1, parallel, |index, range| {
            let end = from.len().min((index + 1) * chunk);
            range[0] = self.level.run(Bounds(&from[index * chunk..end]));
        });
        let least = ranges.iter().map(|range| range[0]).fold(0.0, f32::min);
        let greatest = ranges.iter().map(|range| range[1]).fold(0.0, f32::max);
        // All elements are 0: the scale is arbitrary.
        let scale = if greatest == least {
            1.0
        } else {
            (greatest - least) / 255.0
        };
        let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
        if let Some(to) = outputs.optional::<u8>(0)? {
            let chunk = PARALLEL / 4;
            for_each_chunk(to, chunk, parallel, |index, to| {
                self.level.run(Quantize {
                    from: &from[index * chunk..][..to.len()],
                    scale,
                    zero,
                    range: u8::RANGE,
                    to,
                });
            });
        }
        if let Some(to) = outputs.optional::<f32>(1)? {
            to.fill(scale);
        }
        if let Some(to) = outputs.optional::<u8>(2)? {
            to.fill(zero as u8);
        }
        Ok(())
    }
}

/// The least and the greatest element that is not NaN, and 0.
struct Bounds<'a>(&'a [f32]);

impl VectorOp for Bounds<'_> {
    type Output = [f32; 2];

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) -> [f32; 2] {
        let (mut least, mut greatest) = ([s.splat(0.0); 4], [s.splat(0.0); 4]);
        for block in self.0.chunks(4 * S::LANES) {
            for (index, part) in block.chunks(S::LANES).enumerate() {
                // The second operand where the first is NaN; zeros fill a part.
                let part = s.load_part(part);
                least[index] = s.min(part, least[index]);
                greatest[index] = s.max(part, greatest[index]);
            }
        }
        let [a, b, c, d] = least;
        let least = s.min(s.min(a, b), s.min(c, d));
        let [a, b, c, d] = greatest;
        let greatest = s.max(s.max(a, b), s.max(c, d));
        [-s.largest(s.sub(s.splat(0.0), least)), s.largest(greatest)]
    }
}

/// Scales and zero points.
struct Parameters<'a, T> {
    scales: &'a [f32],
    zeros: Option<&'a [T]>,
}

impl<'a, T: Quantized> Parameters<'a, T> {
    fn of(linear: &LinearQuantization, inputs: &Inputs<'a>) -> Result<Self> {
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
        let zero = self.zeros.map_or(0.0, |zeros| zeros[channel].to_f32());
        (self.scales[channel], zero)
    }
}

/// The scale and the zero point of elements of 8 bits.
#[derive(Clone, Copy)]
pub(super) struct ByteScale {
    pub(super) ty: ByteType,
    pub(super) scale: f32,
    pub(super) zero: u8,
}

/// Quantizes elements to bytes.
pub(super) fn quantize_bytes(level: Level, from: &[f32], to_type: ByteScale, to: &mut [u8]) {
    let ByteScale { ty, scale, zero } = to_type;
    let (range, moved_by) = match ty.is_signed() {
        true => (i8::RANGE, 128),
        false => (u8::RANGE, 0),
    };
    // The low bits of an integer are the same in both types.
    level.run(Quantize {
        from,
        scale,
        zero: (ty.moved(zero) - moved_by) as f32,
        range,
        to,
    });
}

/// The values of bytes.
pub(super) fn dequantize_bytes(level: Level, from: &[u8], of_type: ByteScale, to: &mut [f32]) {
    let ByteScale { ty, scale, zero } = of_type;
    level.run(Dequantize {
        from,
        flipped: ty.flip(),
        scale,
        zero: ty.moved(zero) as f32,
        to,
    });
}

struct Quantize<'a, T> {
    from: &'a [f32],
    scale: f32,
    zero: f32,
    range: [f32; 2],
    to: &'a mut [T],
}

impl<T: Quantized> VectorOp for Quantize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let (scale, zero) = (s.splat(self.scale), s.splat(self.zero));
        // Beyond these bounds every type saturates, and the sum below is exact.
        let (low, high) = (s.splat(-131_072.0), s.splat(131_072.0));
        let [least, greatest] = self.range.map(|bound| s.splat(bound));
        let unbounded = s.splat(f32::INFINITY);
        // The low 22 bits of 1.5 * 2^23 plus an integer are those of the integer.
        let magic = s.splat(12_582_912.0);
        let mut block = [0.0f32; BLOCK];
        for (to, from) in self.to.chunks_mut(BLOCK).zip(self.from.chunks(BLOCK)) {
            let parts = block.chunks_mut(S::LANES).zip(from.chunks(S::LANES));
            for (block, from) in parts {
                // The second operand of min and max where it is NaN, which becomes 0.
                let quotient = s.div(s.load_part(from), scale);
                let nearest = s.round(s.min(high, s.max(low, quotient)));
                let value = s.min(greatest, s.max(least, s.add(nearest, zero)));
                let value = s.select(s.less(value, unbounded), value, s.splat(0.0));
                s.store(s.add(value, magic), block);
            }
            // The saturating conversion of Rust is one element at a time; this one is vectorised.
            for (to, value) in to.iter_mut().zip(&block) {
                *to = T::truncating(value.to_bits() as i32);
            }
        }
    }
}

/// Elements that are computed before they are narrowed.
const BLOCK: usize = 512;

struct Dequantize<'a, T> {
    from: &'a [T],
    /// Bits that are flipped before.
    flipped: T,
    scale: f32,
    zero: f32,
    to: &'a mut [f32],
}

impl<T: Quantized> VectorOp for Dequantize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        for (to, from) in self.to.iter_mut().zip(self.from) {
            *to = ((*from ^ self.flipped).to_f32() - self.zero) * self.scale;
        }
    }
}
