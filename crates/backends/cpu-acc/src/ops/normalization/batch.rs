//! Batch normalization that was not fused into a convolution: the statistics of each channel are inputs.

use super::mapped::Mapped;
use super::{PARALLEL, first_input, unless_replaced};
use crate::floats::{FloatType, Floats, FloatsMut, for_each_float_chunk};
use crate::ops::blocks::{BLOCK, Buffers, blocks};
use crate::ops::{Kernel, UnpreparedWorkload, scratch};
use crate::signature::Signature;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, pool, stop};

/// Batch normalization: the statistics of each channel are inputs.
struct BatchNorm {
    level: Level,
    float: FloatType,
    /// The types of scale, bias, mean and variance.
    parameters: [FloatType; 4],
    channels: usize,
    /// Contiguous elements of a channel.
    inner: usize,
    epsilon: f32,
}

/// The kernel of BatchNormalization.
pub(in crate::ops) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (shape, float) = first_input(signature)?;
    // A vector is a batch of one channel.
    let (channels, inner) = match shape[..] {
        [_, channels, ref rest @ ..] => (channels, rest.iter().product()),
        _ => (1, shape.elements()),
    };
    let mut parameters = [float; 4];
    for (index, parameter) in parameters.iter_mut().enumerate() {
        *parameter = FloatType::of_input(signature.input(index + 1)?.dtype(), index + 1)?;
    }
    Ok(Box::new(BatchNorm {
        level: signature.level,
        float,
        parameters,
        channels,
        inner,
        epsilon: signature.float("epsilon", 1e-5)?,
    }))
}

impl UnpreparedWorkload for BatchNorm {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan {
            scratch_bytes: self.channels.saturating_mul(4 * size_of::<f32>()),
            ..WorkloadPlan::in_place([0])
        }
    }
}

impl Workload for BatchNorm {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let level = self.level;
        let from = unless_replaced(&inputs, self.float)?;
        // Factors in place of scales, then biases, means and variances.
        let memory = scratch(&mut outputs, 4 * self.channels)?;
        for (index, to) in memory.chunks_exact_mut(self.channels).enumerate() {
            let elements = Floats::input(&inputs, index + 1, self.parameters[index])?;
            elements.copy(level, 0..self.channels, to);
        }
        let (factors, rest) = memory.split_at_mut(self.channels);
        let (biases, rest) = rest.split_at(self.channels);
        let (means, variances) = rest.split_at(self.channels);
        for (factor, variance) in factors.iter_mut().zip(variances) {
            *factor /= (variance + self.epsilon).sqrt();
        }
        let factors = &*factors;
        let to = FloatsMut::output(&mut outputs, 0, self.float)?;
        let parallel = to.len() >= PARALLEL;
        let image = self.inner * self.channels;
        let images = to.len() / image;
        // Whole images, or planes of one image.
        let planes = if self.inner == 1 {
            images
        } else {
            images * self.channels
        };
        let unit = if self.inner == 1 { image } else { self.inner };
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let count = planes.div_ceil(chunks);
        for_each_float_chunk(to, count * unit, parallel, |index, to| {
            let start = index * count * unit;
            let elements = Mapped {
                level,
                from: from.map(|from| from.range(start..start + to.len())),
                to,
            };
            level.run(BatchNormPlanes {
                norm: self,
                parameters: [factors, biases, means],
                first: index * count,
                unit,
                elements,
            });
        });
        Ok(())
    }
}

/// Planes of one channel each, or images of one element per channel.
struct BatchNormPlanes<'a> {
    norm: &'a BatchNorm,
    /// Factors, biases and means.
    parameters: [&'a [f32]; 3],
    first: usize,
    /// Elements of a plane or of an image.
    unit: usize,
    elements: Mapped<'a>,
}

impl VectorOp for BatchNormPlanes<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(mut self, _: S) {
        let [factors, biases, means] = self.parameters;
        let mut buffers = Buffers::new();
        for index in 0..self.elements.to.len() / self.unit {
            stop::checkpoint();
            let range = index * self.unit..(index + 1) * self.unit;
            if self.norm.inner > 1 {
                let channel = (self.first + index) % self.norm.channels;
                let (factor, bias, mean) = (factors[channel], biases[channel], means[channel]);
                self.elements
                    .map(range, &mut buffers, |x| (x - mean) * factor + bias);
                continue;
            }
            for block in blocks(range.clone()) {
                let lists = block.start - range.start..block.end - range.start;
                let mut centred = [0f32; BLOCK];
                let centred = &mut centred[..block.len()];
                let input = self.elements.input();
                let from = input.load(self.elements.level, block.clone(), &mut buffers.from);
                for ((to, &x), &mean) in centred.iter_mut().zip(from).zip(&means[lists.clone()]) {
                    *to = x - mean;
                }
                let factors = factors[lists.clone()].iter().zip(&biases[lists]);
                for (x, (&factor, &bias)) in centred.iter_mut().zip(factors) {
                    *x = *x * factor + bias;
                }
                self.elements.to.write(self.elements.level, block, centred);
            }
        }
    }
}
