//! Random values by the counter-based generator of `tenon_graph::random`: element `n` is a function of `n`
//! and the seed alone, so that the values are those of `CpuRef` on any number of threads.

use super::element_types::floats;
use super::number::Number;
use super::{Kernel, UnpreparedWorkload, scratch};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use std::marker::PhantomData;
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Result, stop};
use tenon_graph::random::{BLOCK, Stream};
use tenon_tensor::{DataType, Element, match_type};

/// Elements of a chunk, a multiple of [`BLOCK`]; one thread is used for one chunk.
const CHUNK: usize = 1 << 12;

/// The kernel of an operator; `None` for any other operator.
pub(super) fn kernel(signature: &Signature<'_>) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    let build: fn(&Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> = match signature.op.name {
        "RandomNormal" | "RandomNormalLike" => normal,
        "RandomUniform" | "RandomUniformLike" => uniform,
        "Bernoulli" => bernoulli,
        "Multinomial" => multinomial,
        _ => return None,
    };
    Some(build(signature))
}

fn stream(signature: &Signature<'_>) -> Result<Stream, Refusal> {
    Ok(Stream::new(signature.float("seed", 0.0)?))
}

/// Calls `body` with chunks of an output, and the index of the first block of each.
fn for_each_block<T: Send>(to: &mut [T], body: impl Fn(u64, &mut [T]) + Sync) {
    let parallel = to.len() > CHUNK;
    for_each_chunk(to, CHUNK, parallel, |chunk, to| {
        for (nth, to) in to.chunks_mut(BLOCK).enumerate() {
            body((chunk * CHUNK / BLOCK + nth) as u64, to);
        }
    });
}

/// A distribution of the values `start + factor * x`.
#[derive(Clone, Copy)]
struct Distribution {
    /// Whether x is normally distributed, else uniformly in [0, 1).
    is_normal: bool,
    start: f64,
    factor: f64,
}

/// The kernel of values of a distribution.
struct Filled<T> {
    stream: Stream,
    distribution: Distribution,
    element: PhantomData<T>,
}

fn normal(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let distribution = Distribution {
        is_normal: true,
        start: signature.float("mean", 0.0)?.into(),
        factor: signature.float("scale", 1.0)?.into(),
    };
    filled(signature, distribution)
}

fn uniform(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let low = f64::from(signature.float("low", 0.0)?);
    let high = f64::from(signature.float("high", 1.0)?);
    let distribution = Distribution {
        is_normal: false,
        start: low,
        factor: high - low,
    };
    filled(signature, distribution)
}

fn filled(
    signature: &Signature<'_>,
    distribution: Distribution,
) -> Result<Box<dyn Kernel>, Refusal> {
    let stream = stream(signature)?;
    floats!(signature.output(0)?.dtype(), 0, T => Ok(Box::new(Filled::<T> {
        stream,
        distribution,
        element: PhantomData,
    })))
}

impl<T: Number> UnpreparedWorkload for Filled<T> {}

impl<T: Number> Workload for Filled<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let output = operands.split().1.slice::<T>(0)?;
        let Distribution {
            is_normal,
            start,
            factor,
        } = self.distribution;
        let write = |to: &mut [T], values: [f64; BLOCK]| {
            for (to, x) in to.iter_mut().zip(values) {
                *to = T::of_f64(start + factor * x);
            }
        };
        if is_normal {
            for_each_block(output, |at, to| write(to, self.stream.normal(at)));
        } else {
            for_each_block(output, |at, to| write(to, self.stream.uniform(at)));
        }
        Ok(())
    }
}

/// The kernel of Bernoulli: probabilities of type `T`, results that are words `U`.
struct Bernoulli<T, U> {
    stream: Stream,
    one: U,
    element: PhantomData<T>,
}

fn bernoulli(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    fn of<T: Number>(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
        fn boxed<T: Number, U: Element + Default>(stream: Stream, one: U) -> Box<dyn Kernel> {
            Box::new(Bernoulli {
                stream,
                one,
                element: PhantomData::<T>,
            })
        }
        let stream = stream(signature)?;
        match signature.output(0)?.dtype() {
            DataType::Bool => Ok(boxed::<T, u8>(stream, 1)),
            dtype => match_type!(dtype, U: numeric => {
                Ok(boxed::<T, _>(stream, U::of_f64(1.0).word()))
            }, found => Err(refuse(format!("no kernel for an output of type {found}")))),
        }
    }
    floats!(signature.input(0)?.dtype(), 0, T => of::<T>(signature))
}

impl<T: Number, U: Element + Default> UnpreparedWorkload for Bernoulli<T, U> {}

impl<T: Number, U: Element + Default> Workload for Bernoulli<T, U> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<U>(0)?);
        for_each_block(to, |at, to| {
            let from = &from[at as usize * BLOCK..][..to.len()];
            for ((to, p), x) in to.iter_mut().zip(from).zip(self.stream.uniform(at)) {
                *to = if x < p.to_f64() {
                    self.one
                } else {
                    U::default()
                };
            }
        });
        Ok(())
    }
}

/// The kernel of Multinomial: inverse transform sampling.
struct Multinomial<T> {
    stream: Stream,
    classes: usize,
    samples: usize,
    is_wide: bool,
    element: PhantomData<T>,
}

fn multinomial(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (input, output) = (signature.input(0)?, signature.output(0)?);
    let (classes, samples) = (input.shape()[1], output.shape()[1]);
    if classes > isize::MAX as usize / 8 {
        return Err(refuse("the input is too large"));
    }
    let stream = stream(signature)?;
    floats!(input.dtype(), 0, T => Ok(Box::new(Multinomial::<T> {
        stream,
        classes,
        samples,
        is_wide: output.dtype() == DataType::I64,
        element: PhantomData,
    })))
}

impl<T: Number> UnpreparedWorkload for Multinomial<T> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan {
            scratch_bytes: 8 * self.classes,
            ..WorkloadPlan::default()
        }
    }
}

impl<T: Number> Multinomial<T> {
    /// Draws the samples of a row; `cumulative` is its memory for cumulative probabilities.
    fn row<I>(
        &self,
        row: usize,
        from: &[T],
        cumulative: &mut [f64],
        to: &mut [I],
        index: impl Fn(usize) -> I,
    ) {
        let greatest = from
            .iter()
            .map(|x| x.to_f64())
            .fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        for (to, x) in cumulative.iter_mut().zip(from) {
            sum += (x.to_f64() - greatest).exp();
            *to = sum;
        }
        let (mut block, mut values) = (u64::MAX, [0.0; BLOCK]);
        for (to, nth) in to.iter_mut().zip((row * self.samples) as u64..) {
            stop::checkpoint();
            if nth / BLOCK as u64 != block {
                block = nth / BLOCK as u64;
                values = self.stream.uniform(block);
            }
            let x = values[nth as usize % BLOCK] * sum;
            let class = cumulative.partition_point(|&end| end <= x);
            *to = index(class.min(self.classes - 1));
        }
    }
}

impl<T: Number> Multinomial<T> {
    fn execute_as<I: Element>(
        &self,
        operands: &mut Operands<'_>,
        index: fn(usize) -> I,
    ) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let cumulative = scratch(&mut outputs, self.classes)?;
        let from = inputs.slice::<T>(0)?.chunks_exact(self.classes);
        let to = outputs.slice::<I>(0)?.chunks_exact_mut(self.samples);
        for (row, (from, to)) in from.zip(to).enumerate() {
            self.row(row, from, cumulative, to, index);
        }
        Ok(())
    }
}

impl<T: Number> Workload for Multinomial<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        if self.is_wide {
            self.execute_as::<i64>(operands, |class| class as i64)
        } else {
            self.execute_as::<i32>(operands, |class| class as i32)
        }
    }
}
