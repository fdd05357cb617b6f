//! Normalisation along the last dimensions (LayerNormalization, RMSNormalization), and the batch
//! normalisation that no convolution took up.

use super::{Kernel, Plain};
use crate::panels::WIDTH;
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{InPlace, Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, pool};

/// Numbers below which a second thread is not worth it.
const PARALLEL: usize = 1 << 14;

/// Rows brought to mean 0 (unless `rms`) and variance 1, then scaled and shifted.
struct LayerNorm {
    level: Level,
    rms: bool,
    length: usize,
    epsilon: f32,
    bias: bool,
}

/// The kernel of LayerNormalization and RMSNormalization.
pub(super) fn layer(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let shape = signature.same_shape()?;
    let axis = signature.axis("axis", -1, shape.len())?;
    let length = shape[axis..].iter().product();
    let fits = |index: usize| -> Result<bool, Refusal> {
        Ok(signature
            .optional_numbers(index)?
            .is_none_or(|shape| shape.elements() == length))
    };
    let rms = signature.op.name == "RMSNormalization";
    let bias = !rms && signature.optional(2).is_some();
    if signature.numbers(1)?.elements() != length || (bias && !fits(2)?) {
        return Err(refuse("no kernel for a scale or bias that broadcasts"));
    }
    let epsilon = signature.float("epsilon", 1e-5)?;
    Ok(Box::new(LayerNorm {
        level: signature.level,
        rms,
        length,
        epsilon,
        bias,
    }))
}

impl Plain for LayerNorm {
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

impl Workload for LayerNorm {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let from = if inputs.is_replaced(0) {
            None
        } else {
            Some(inputs.slice::<f32>(0)?)
        };
        let scale = inputs.slice::<f32>(1)?;
        let bias = if self.bias {
            Some(inputs.slice::<f32>(2)?)
        } else {
            None
        };
        let to = outputs.slice::<f32>(0)?;
        let length = self.length.max(1);
        let parallel = to.len() >= PARALLEL;
        let pieces = if parallel { 4 * pool::threads() } else { 1 };
        let chunk = (to.len() / length).div_ceil(pieces).max(1) * length;
        for_each_chunk(to, chunk, parallel, |index, to| {
            if let Some(from) = from {
                to.copy_from_slice(&from[index * chunk..][..to.len()]);
            }
            self.level.run(Rows {
                norm: self,
                scale,
                bias,
                rows: to,
            });
        });
        Ok(())
    }
}

/// Some rows, replaced by the result.
struct Rows<'a> {
    norm: &'a LayerNorm,
    scale: &'a [f32],
    bias: Option<&'a [f32]>,
    rows: &'a mut [f32],
}

impl VectorOp for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        let length = self.norm.length.max(1);
        for row in self.rows.chunks_exact_mut(length) {
            let count = length as f32;
            let mean = if self.norm.rms {
                0.0
            } else {
                sum_of(s, row, 0.0, |x| x) / count
            };
            let center = s.splat(mean);
            // Of the differences, not of the squares, which would cancel.
            let squares = sum_of(s, row, mean, |x| {
                let difference = s.sub(x, center);
                s.mul(difference, difference)
            });
            let factor = 1.0 / (squares / count + self.norm.epsilon).sqrt();
            match self.bias {
                Some(bias) => {
                    for ((x, &scale), &bias) in row.iter_mut().zip(self.scale).zip(bias) {
                        *x = (*x - mean) * factor * scale + bias;
                    }
                }
                None => {
                    for (x, &scale) in row.iter_mut().zip(self.scale) {
                        *x = (*x - mean) * factor * scale;
                    }
                }
            }
        }
    }
}

/// The sum of `f` over a row, in four chains; `f` of `neutral` is 0.
#[inline(always)]
fn sum_of<S: Simd>(s: S, row: &[f32], neutral: f32, f: impl Fn(S::V) -> S::V) -> f32 {
    let mut sums = [s.splat(0.0); 4];
    for group in row.chunks(4 * S::LANES) {
        for (chunk, sum) in group.chunks(S::LANES).zip(&mut sums) {
            let mut last = [neutral; WIDTH];
            let numbers = if chunk.len() < S::LANES {
                last[..chunk.len()].copy_from_slice(chunk);
                s.load(&last)
            } else {
                s.load(chunk)
            };
            *sum = s.add(*sum, f(numbers));
        }
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}

/// A factor and an offset for each channel, dimension 1.
struct BatchNorm {
    level: Level,
    factors: Vec<f32>,
    offsets: Vec<f32>,
    /// Numbers of a channel that lie together.
    inner: usize,
}

/// The kernel of BatchNormalization with constant parameters.
pub(super) fn batch(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let shape = signature.same_shape()?;
    let channels = shape.get(1).copied().unwrap_or(1);
    let epsilon = signature.float("epsilon", 1e-5)?;
    let parameter = |index: usize| -> Result<&[f32], Refusal> {
        let numbers = signature.constant_numbers(index)?.unwrap_or(&[]);
        let fits = numbers.len() == channels;
        fits.then_some(numbers)
            .ok_or_else(|| refuse("the parameters have not one number a channel"))
    };
    let (scale, bias, mean, variance) =
        (parameter(1)?, parameter(2)?, parameter(3)?, parameter(4)?);
    let factors: Vec<f32> = scale
        .iter()
        .zip(variance)
        .map(|(scale, v)| scale / (v + epsilon).sqrt())
        .collect();
    let offsets = bias
        .iter()
        .zip(mean)
        .zip(&factors)
        .map(|((b, m), f)| b - m * f)
        .collect();
    let inner = shape.iter().skip(2).product();
    Ok(Box::new(BatchNorm {
        level: signature.level,
        factors,
        offsets,
        inner,
    }))
}

impl Plain for BatchNorm {
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

impl Workload for BatchNorm {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let from = if inputs.is_replaced(0) {
            None
        } else {
            Some(inputs.slice::<f32>(0)?)
        };
        let to = outputs.slice::<f32>(0)?;
        let image = self.inner * self.factors.len();
        let parallel = to.len() >= PARALLEL;
        // A plane at a time, or an image where planes are single numbers.
        let chunk = if self.inner > 1 { self.inner } else { image };
        for_each_chunk(to, chunk, parallel, |index, to| {
            if let Some(from) = from {
                to.copy_from_slice(&from[index * chunk..][..to.len()]);
            }
            self.level.run(Planes {
                norm: self,
                index,
                numbers: to,
            });
        });
        Ok(())
    }
}

/// A plane of one channel, or an image of single numbers.
struct Planes<'a> {
    norm: &'a BatchNorm,
    index: usize,
    numbers: &'a mut [f32],
}

impl VectorOp for Planes<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) {
        let BatchNorm {
            factors,
            offsets,
            inner,
            ..
        } = self.norm;
        if *inner > 1 {
            let channel = self.index % factors.len();
            let (factor, offset) = (factors[channel], offsets[channel]);
            self.numbers
                .iter_mut()
                .for_each(|x| *x = *x * factor + offset);
        } else {
            for ((x, factor), offset) in self.numbers.iter_mut().zip(factors).zip(offsets) {
                *x = *x * factor + offset;
            }
        }
    }
}
