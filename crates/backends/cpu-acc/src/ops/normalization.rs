//! Normalisation along the last dimensions (LayerNormalization, RMSNormalization; two-pass variance), and
//! batch normalisation that was not fused into a convolution.

use super::{Kernel, UnpreparedWorkload};
use crate::panels::WIDTH;
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, pool};

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 14;

/// Normalisation of rows to mean 0 (unless `rms`) and variance 1, with a scale and a bias.
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
            .optional_f32_shape(index)?
            .is_none_or(|shape| shape.elements() == length))
    };
    let rms = signature.op.name == "RMSNormalization";
    let bias = !rms && signature.optional(2).is_some();
    if signature.f32_shape(1)?.elements() != length || (bias && !fits(2)?) {
        return Err(refuse("no kernel for a scale or bias that is broadcast"));
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

impl UnpreparedWorkload for LayerNorm {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
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
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let chunk = (to.len() / length).div_ceil(chunks).max(1) * length;
        for_each_chunk(to, chunk, parallel, |index, to| {
            if let Some(from) = from {
                to.copy_from_slice(&from[index * chunk..][..to.len()]);
            }
            self.level.run(LayerNormRows {
                norm: self,
                scale,
                bias,
                rows: to,
            });
        });
        Ok(())
    }
}

/// Some rows, computed in place.
struct LayerNormRows<'a> {
    norm: &'a LayerNorm,
    scale: &'a [f32],
    bias: Option<&'a [f32]>,
    rows: &'a mut [f32],
}

impl VectorOp for LayerNormRows<'_> {
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
            // From the differences: the mean of the squares less the squared mean would cancel.
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

/// The sum of `f` over a row, in four independent chains; `f(neutral)` is 0.
#[inline(always)]
fn sum_of<S: Simd>(s: S, row: &[f32], neutral: f32, f: impl Fn(S::V) -> S::V) -> f32 {
    let mut sums = [s.splat(0.0); 4];
    for group in row.chunks(4 * S::LANES) {
        for (chunk, sum) in group.chunks(S::LANES).zip(&mut sums) {
            let mut last = [neutral; WIDTH];
            let elements = if chunk.len() < S::LANES {
                last[..chunk.len()].copy_from_slice(chunk);
                s.load(&last)
            } else {
                s.load(chunk)
            };
            *sum = s.add(*sum, f(elements));
        }
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}

/// One factor and one offset for each channel (dimension 1).
struct BatchNorm {
    level: Level,
    factors: Vec<f32>,
    offsets: Vec<f32>,
    /// Contiguous elements of a channel.
    inner: usize,
}

/// The kernel of BatchNormalization with constant parameters.
pub(super) fn batch(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let shape = signature.same_shape()?;
    let channels = shape.get(1).copied().unwrap_or(1);
    let epsilon = signature.float("epsilon", 1e-5)?;
    let parameter = |index: usize| -> Result<&[f32], Refusal> {
        let elements = signature.constant_f32s(index)?.unwrap_or(&[]);
        let fits = elements.len() == channels;
        fits.then_some(elements)
            .ok_or_else(|| refuse("the parameters require one element per channel"))
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

impl UnpreparedWorkload for BatchNorm {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
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
        // Chunks are planes, or images where a plane is one element.
        let chunk = if self.inner > 1 { self.inner } else { image };
        for_each_chunk(to, chunk, parallel, |index, to| {
            if let Some(from) = from {
                to.copy_from_slice(&from[index * chunk..][..to.len()]);
            }
            self.level.run(BatchNormPlanes {
                norm: self,
                index,
                elements: to,
            });
        });
        Ok(())
    }
}

/// A plane of one channel, or an image of one element per channel.
struct BatchNormPlanes<'a> {
    norm: &'a BatchNorm,
    index: usize,
    elements: &'a mut [f32],
}

impl VectorOp for BatchNormPlanes<'_> {
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
            self.elements
                .iter_mut()
                .for_each(|x| *x = *x * factor + offset);
        } else {
            for ((x, factor), offset) in self.elements.iter_mut().zip(factors).zip(offsets) {
                *x = *x * factor + offset;
            }
        }
    }
}
