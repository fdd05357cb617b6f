//! Local response normalization (Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep
//! convolutional neural networks", 2012): across channels, for blocks of pixels.

use super::{Kernel, UnpreparedWorkload};
use crate::floats::{FloatType, Floats, FloatsMut, for_each_float_chunk};
use crate::signature::Signature;
use crate::simd::{Level, Simd, VectorOp};
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::{Result, pool, stop};

/// Elements read below which one thread is used.
const PARALLEL: usize = 1 << 14;

/// Elements of a block, whose sums stay in the first-level cache.
const BLOCK: usize = 1024;

/// Division by a power of the bias plus the scaled sum of squares over neighbouring channels.
struct LocalResponse {
    level: Level,
    float: FloatType,
    channels: usize,
    /// Contiguous elements of a channel.
    inner: usize,
    size: usize,
    /// The factor of the sum.
    alpha: f32,
    beta: f32,
    bias: f32,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let float = FloatType::of_input(input.dtype(), 0)?;
    signature.output(0)?;
    let shape = input.shape();
    let size = signature.int("size", 1)? as usize;
    Ok(Box::new(LocalResponse {
        level: signature.level,
        float,
        channels: shape[1],
        inner: shape[2..].iter().product(),
        size,
        alpha: (f64::from(signature.float("alpha", 1e-4)?) / size as f64) as f32,
        beta: signature.float("beta", 0.75)?,
        bias: signature.float("bias", 1.0)?,
    }))
}

impl UnpreparedWorkload for LocalResponse {}

impl Workload for LocalResponse {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let input = Floats::input(&inputs, 0, self.float)?;
        let output = FloatsMut::output(&mut outputs, 0, self.float)?;
        let parallel = output.len().saturating_mul(self.size.min(self.channels)) >= PARALLEL;
        let planes = output.len() / self.inner;
        let chunks = if parallel { 4 * pool::threads() } else { 1 };
        let chunk = planes.div_ceil(chunks);
        for_each_float_chunk(output, chunk * self.inner, parallel, |index, output| {
            self.level.run(Planes {
                norm: self,
                input,
                first: index * chunk,
                output,
            });
        });
        Ok(())
    }
}

/// The planes of some channels.
struct Planes<'a> {
    norm: &'a LocalResponse,
    input: Floats<'a>,
    first: usize,
    output: FloatsMut<'a>,
}

impl VectorOp for Planes<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(mut self, s: S) {
        let norm = self.norm;
        let (inner, level) = (norm.inner, norm.level);
        let mut sums = [0f32; BLOCK];
        let mut buffer = [0f32; BLOCK];
        let mut results = [0f32; BLOCK];
        for nth in 0..self.output.len() / inner {
            let plane = self.first + nth;
            let (image, channel) = (plane / norm.channels, plane % norm.channels);
            let before = (norm.size - 1) / 2;
            let end = channel.saturating_add(norm.size / 2 + 1).min(norm.channels);
            let channels = channel.saturating_sub(before)..end;
            for block in (0..inner).step_by(BLOCK) {
                let count = (inner - block).min(BLOCK);
                let at = |channel: usize| {
                    let start = (image * norm.channels + channel) * inner + block;
                    start..start + count
                };
                let (sums, results) = (&mut sums[..count], &mut results[..count]);
                sums.fill(0.0);
                for channel in channels.clone() {
                    stop::checkpoint();
                    let from = self.input.load(level, at(channel), &mut buffer);
                    for (sum, &x) in sums.iter_mut().zip(from) {
                        *sum += x * x;
                    }
                }
                let from = self.input.load(level, at(channel), &mut buffer);
                norm.divide(s, sums, from, results);
                let to = nth * inner + block;
                self.output.write(level, to..to + count, results);
            }
        }
    }
}

impl LocalResponse {
    /// Divides a block of elements by the powers of their sums.
    #[inline(always)]
    fn divide<S: Simd>(&self, s: S, sums: &[f32], from: &[f32], to: &mut [f32]) {
        let (alpha, bias) = (s.splat(self.alpha), s.splat(self.bias));
        // The powers of the published networks are square roots.
        let quarters = [0.25, 0.5, 0.75, 1.0]
            .iter()
            .position(|&beta| beta == self.beta);
        let Some(quarters) = quarters else {
            for ((to, &x), &sum) in to.iter_mut().zip(from).zip(sums) {
                *to = x / (self.bias + self.alpha * sum).powf(self.beta);
            }
            return;
        };
        let blocks = sums.chunks(S::LANES).zip(from.chunks(S::LANES));
        for ((sum, from), to) in blocks.zip(to.chunks_mut(S::LANES)) {
            let divisor = s.fma(s.load_part(sum), alpha, bias);
            let half = s.sqrt(divisor);
            let power = match quarters {
                0 => s.sqrt(half),
                1 => half,
                2 => s.mul(half, s.sqrt(half)),
                _ => divisor,
            };
            s.store_part(s.div(s.load_part(from), power), to);
        }
    }
}
