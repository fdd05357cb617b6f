//! Random values by the counter-based generator of `tenon_graph::random`: element `n` is a function of `n`
//! and the seed alone, so that the values are those of `CpuRef` on any number of threads.

use super::element_types::refuse_type;
use super::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use half::{bf16, f16};
use std::marker::PhantomData;
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::{Error, ErrorKind, Result, stop};
use tenon_graph::random::{BLOCK, Stream};
use tenon_tensor::{DataType, Element};

/// Elements of a chunk, a multiple of [`BLOCK`]; one thread is used for one chunk.
const CHUNK: usize = 1 << 12;

/// The kernel of an operator; `None` for any other operator.
pub(super) fn kernel(signature: &Signature<'_>) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    let build: fn(&Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> = match signature.op.name {
        "RandomNormal" | "RandomNormalLike" => |signature| filled(signature, ["mean", "scale"]),
        "RandomUniform" | "RandomUniformLike" => |signature| filled(signature, ["low", "high"]),
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

/// An element type of random values.
trait Rounded: Element + Default {
    fn rounded(value: f64) -> Self;
    fn real(self) -> f64;
}

macro_rules! rounded {
    ($($T:ty: $from:expr, $to:expr;)*) => {$(
        impl Rounded for $T {
            fn rounded(value: f64) -> Self {
                $from(value)
            }
            fn real(self) -> f64 {
                $to(self)
            }
        }
    )*};
}

rounded! {
    f32: |x| x as f32, f64::from;
    f64: |x| x, |x| x;
    f16: f16::from_f64, f16::to_f64;
    bf16: bf16::from_f64, bf16::to_f64;
}

/// Evaluates `$body` with `$T` as a floating-point type.
macro_rules! floats {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DataType::F32 => {
                type $T = f32;
                $body
            }
            DataType::F64 => {
                type $T = f64;
                $body
            }
            DataType::F16 => {
                type $T = f16;
                $body
            }
            DataType::BF16 => {
                type $T = bf16;
                $body
            }
            found => Err(refuse_type(0, found)),
        }
    };
}

/// Values `start + factor * x`, where x is normally or uniformly distributed.
struct Filled<T> {
    stream: Stream,
    is_normal: bool,
    start: f64,
    factor: f64,
    element: PhantomData<T>,
}

fn filled(
    signature: &Signature<'_>,
    [first, second]: [&'static str; 2],
) -> Result<Box<dyn Kernel>, Refusal> {
    let start = f64::from(signature.float(first, 0.0)?);
    let second = f64::from(signature.float(second, 1.0)?);
    let is_normal = first == "mean";
    let factor = if is_normal { second } else { second - start };
    let stream = stream(signature)?;
    floats!(signature.output(0)?.dtype(), T => Ok(Box::new(Filled::<T> {
        stream,
        is_normal,
        start,
        factor,
        element: PhantomData,
    })))
}

impl<T: Rounded> UnpreparedWorkload for Filled<T> {}

impl<T: Rounded> Workload for Filled<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let output = operands.split().1.slice::<T>(0)?;
        let write = |to: &mut [T], values: [f64; BLOCK]| {
            for (to, x) in to.iter_mut().zip(values) {
                *to = T::rounded(self.start + self.factor * x);
            }
        };
        if self.is_normal {
            for_each_block(output, |at, to| write(to, self.stream.normal(at)));
        } else {
            for_each_block(output, |at, to| write(to, self.stream.uniform(at)));
        }
        Ok(())
    }
}

/// The kernel of Bernoulli: probabilities of type `T`, results of type `U`.
struct Bernoulli<T, U> {
    stream: Stream,
    one: U,
    element: PhantomData<T>,
}

fn bernoulli(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    fn of<T: Rounded>(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
        let stream = stream(signature)?;
        let element = PhantomData::<T>;
        let dtype = signature.output(0)?.dtype();
        Ok(match dtype {
            DataType::Bool => Box::new(Bernoulli {
                stream,
                one: 1u8,
                element,
            }),
            DataType::F32 => Box::new(Bernoulli {
                stream,
                one: 1f32,
                element,
            }),
            DataType::F64 => Box::new(Bernoulli {
                stream,
                one: 1f64,
                element,
            }),
            DataType::F16 => Box::new(Bernoulli {
                stream,
                one: f16::ONE,
                element,
            }),
            DataType::BF16 => Box::new(Bernoulli {
                stream,
                one: bf16::ONE,
                element,
            }),
            dtype => match dtype.bits() {
                8 => Box::new(Bernoulli {
                    stream,
                    one: 1u8,
                    element,
                }),
                16 => Box::new(Bernoulli {
                    stream,
                    one: 1u16,
                    element,
                }),
                32 => Box::new(Bernoulli {
                    stream,
                    one: 1u32,
                    element,
                }),
                64 => Box::new(Bernoulli {
                    stream,
                    one: 1u64,
                    element,
                }),
                _ => return Err(refuse(format!("no kernel for an output of type {dtype}"))),
            },
        })
    }
    floats!(signature.input(0)?.dtype(), T => of::<T>(signature))
}

impl<T: Rounded, U: Element + Default> UnpreparedWorkload for Bernoulli<T, U> {}

impl<T: Rounded, U: Element + Default> Workload for Bernoulli<T, U> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<U>(0)?);
        for_each_block(to, |at, to| {
            let from = &from[at as usize * BLOCK..][..to.len()];
            for ((to, p), x) in to.iter_mut().zip(from).zip(self.stream.uniform(at)) {
                *to = if x < p.real() { self.one } else { U::default() };
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
    let (&[_, classes], &[_, samples]) = (&input.shape()[..], &output.shape()[..]) else {
        return Err(refuse("the shapes do not fit"));
    };
    if classes > isize::MAX as usize / 8 {
        return Err(refuse("the input is too large"));
    }
    let stream = stream(signature)?;
    floats!(input.dtype(), T => Ok(Box::new(Multinomial::<T> {
        stream,
        classes,
        samples,
        is_wide: output.dtype() == DataType::I64,
        element: PhantomData,
    })))
}

impl<T: Rounded> UnpreparedWorkload for Multinomial<T> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan {
            scratch_bytes: 8 * self.classes,
            ..WorkloadPlan::default()
        }
    }
}

impl<T: Rounded> Multinomial<T> {
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
            .map(|x| x.real())
            .fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        for (to, x) in cumulative.iter_mut().zip(from) {
            sum += (x.real() - greatest).exp();
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

impl<T: Rounded> Workload for Multinomial<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let from = inputs.slice::<T>(0)?.chunks_exact(self.classes);
        let cumulative = outputs.scratch::<f64>()?.get_mut(..self.classes);
        let cumulative = cumulative.ok_or_else(|| {
            Error::new(ErrorKind::InvalidPackage, "the scratch memory is too short")
        })?;
        if self.is_wide {
            let to = outputs.slice::<i64>(0)?.chunks_exact_mut(self.samples);
            for (row, (from, to)) in from.zip(to).enumerate() {
                self.row(row, from, cumulative, to, |class| class as i64);
            }
        } else {
            let to = outputs.slice::<i32>(0)?.chunks_exact_mut(self.samples);
            for (row, (from, to)) in from.zip(to).enumerate() {
                self.row(row, from, cumulative, to, |class| class as i32);
            }
        }
        Ok(())
    }
}
