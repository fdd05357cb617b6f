//! CausalConvWithState: the convolution of each channel with the elements before the current one.

use super::{PARALLEL_OPERATIONS, SLOTS, plan_of};
use crate::floats::{FloatElement, FloatType};
use crate::ops::element_types::of_float;
use crate::ops::{Kernel, UnpreparedWorkload, scratch};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk2;
use crate::simd::math::{UnaryFunction, map_in_place};
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, stop};

/// The causal convolution of each channel.
struct CausalConv {
    level: Level,
    float: FloatType,
    /// Pairs of batch and channel.
    lines: usize,
    channels: usize,
    length: usize,
    kernel: usize,
    /// Whether the result x becomes `x * sigmoid(x)`.
    swish: bool,
    bias: bool,
    past: bool,
}

/// The kernel of CausalConvWithState.
pub(in crate::ops) fn causal_convolution(
    signature: &Signature<'_>,
) -> Result<Box<dyn Kernel>, Refusal> {
    let float = FloatType::of_input(signature.input(0)?.dtype(), 0)?;
    let weight = signature.float_shape(1, float)?;
    let (&[batch, channels, length], &[_, _, kernel]) =
        (&signature.input(0)?.shape()[..], &weight[..])
    else {
        return Err(refuse(
            "no kernel for operands of other than three dimensions",
        ));
    };
    // The past and the present of a kernel of one element are empty.
    if signature.input(0)?.elements() == 0 || weight.elements() == 0 {
        return Err(refuse("no kernel for empty tensors"));
    }
    Ok(Box::new(CausalConv {
        level: signature.level,
        float,
        lines: batch * channels,
        channels,
        length,
        kernel,
        swish: signature.string("activation", "none")? != "none",
        bias: signature.optional(2).is_some(),
        past: signature.optional(3).is_some(),
    }))
}

impl CausalConv {
    /// Elements of scratch memory for a chunk: a line with the past before it, its results and weights.
    fn slot(&self) -> usize {
        let line = self.length.saturating_add(self.kernel - 1);
        line.saturating_add(self.length).saturating_add(self.kernel)
    }

    fn execute_as<T: FloatElement>(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (input, weight) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?);
        let given =
            |is_given: bool, input: usize| is_given.then(|| inputs.slice::<T>(input)).transpose();
        let (bias, past) = (given(self.bias, 2)?, given(self.past, 3)?);
        let (length, before) = (self.length, self.kernel - 1);
        let slot = self.slot();
        let scratch = scratch(&mut outputs, slot.saturating_mul(SLOTS))?;
        if let Some(present) = outputs.optional::<T>(1)? {
            // The last elements of the past and the input.
            let kept = before.saturating_sub(length);
            for (line, to) in present.chunks_exact_mut(before.max(1)).enumerate() {
                let (old, new) = to.split_at_mut(kept);
                match past {
                    Some(past) => {
                        let past = &past[line * before..(line + 1) * before];
                        old.copy_from_slice(&past[before - kept..]);
                    }
                    None => {
                        scratch[..kept].fill(0.0);
                        T::floats_mut(old).write(self.level, 0..kept, &scratch[..kept]);
                    }
                }
                let input = &input[line * length..(line + 1) * length];
                new.copy_from_slice(&input[length - new.len()..]);
            }
        }
        let to = outputs.slice::<T>(0)?;
        let chunk_lines = self.lines.div_ceil(SLOTS);
        let parallel = to.len().saturating_mul(self.kernel) >= PARALLEL_OPERATIONS;
        for_each_chunk2(
            (to, chunk_lines * length),
            (scratch, slot),
            parallel,
            |chunk, to, scratch| {
                let (line, rest) = scratch.split_at_mut(length + before);
                let (result, weights) = rest.split_at_mut(length);
                for (nth, to) in to.chunks_exact_mut(length).enumerate() {
                    stop::checkpoint();
                    let at = chunk * chunk_lines + nth;
                    let channel = at % self.channels;
                    let copy = |from: &[T], index: usize, to: &mut [f32]| {
                        let own = index * to.len()..(index + 1) * to.len();
                        T::floats(from).copy(self.level, own, to);
                    };
                    match past {
                        Some(past) => copy(past, at, &mut line[..before]),
                        None => line[..before].fill(0.0),
                    }
                    copy(input, at, &mut line[before..]);
                    copy(weight, channel, weights);
                    self.level.run(LineConv {
                        line,
                        weights,
                        bias: bias.map_or(0.0, |bias| T::floats(bias).get(channel)),
                        swish: self.swish,
                        to: result,
                    });
                    T::floats_mut(to).write(self.level, 0..length, result);
                }
            },
        );
        Ok(())
    }
}

impl UnpreparedWorkload for CausalConv {
    fn workload_plan(&self) -> WorkloadPlan {
        plan_of(self.slot())
    }
}

impl Workload for CausalConv {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        of_float!(self.float, T => self.execute_as::<T>(operands))
    }
}

/// The convolution of a line.
struct LineConv<'a> {
    line: &'a [f32],
    weights: &'a [f32],
    bias: f32,
    swish: bool,
    to: &'a mut [f32],
}

impl VectorOp for LineConv<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        for (block, to) in self.to.chunks_mut(S::LANES).enumerate() {
            let mut sum = s.splat(self.bias);
            let line = &self.line[block * S::LANES..];
            for (position, &weight) in self.weights.iter().enumerate() {
                let elements = s.load_part(&line[position..][..to.len()]);
                sum = s.fma(s.splat(weight), elements, sum);
            }
            s.store_part(sum, to);
        }
        if self.swish {
            map_in_place(s, UnaryFunction::Swish { alpha: 1.0 }, self.to);
        }
    }
}
