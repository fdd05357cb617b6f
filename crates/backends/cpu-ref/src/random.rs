//! Random values by the counter-based generator of `tenon_graph::random`.

use crate::kernel::{BuildError, BuildKernel, Kernel, Node, floats, indices, numeric, scratch};
use crate::number::Number;
use tenon_base::{Result, stop};
use tenon_graph::random::{BLOCK, Stream};
use tenon_tensor::DataType;

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("RandomNormal", normal),
    ("RandomNormalLike", normal),
    ("RandomUniform", uniform),
    ("RandomUniformLike", uniform),
    ("Bernoulli", bernoulli),
    ("Multinomial", multinomial),
];

/// Calls `body` with blocks of a slice, and the index of each.
fn for_each_block<T>(all: &mut [T], mut body: impl FnMut(u64, &mut [T])) {
    for (block, index) in all.chunks_mut(BLOCK).zip(0..) {
        stop::checkpoint();
        body(index, block);
    }
}

fn stream(node: &Node<'_>) -> Result<Stream> {
    Ok(Stream::new(node.attributes.float("seed", 0.0)?))
}

fn normal(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let mean = f64::from(node.attributes.float("mean", 0.0)?);
    let scale = f64::from(node.attributes.float("scale", 1.0)?);
    let stream = stream(node)?;
    filled(node, move |index| {
        stream.normal(index).map(|x| mean + scale * x)
    })
}

fn uniform(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let low = f64::from(node.attributes.float("low", 0.0)?);
    let high = f64::from(node.attributes.float("high", 1.0)?);
    let stream = stream(node)?;
    filled(node, move |index| {
        stream.uniform(index).map(|x| low + (high - low) * x)
    })
}

fn filled(
    node: &Node<'_>,
    block: impl Fn(u64) -> [f64; BLOCK] + Send + Sync + 'static,
) -> Result<Kernel, BuildError> {
    floats!(node.output(0)?.dtype(), 0, T => Ok(Kernel::new(move |operands| {
        for_each_block(operands.split().1.slice::<T>(0)?, |index, to| {
            to.iter_mut().zip(block(index)).for_each(|(to, x)| *to = T::of_f64(x));
        });
        Ok(())
    })))
}

fn bernoulli(node: &Node<'_>) -> Result<Kernel, BuildError> {
    fn kernel<T: Number, U: Number>(stream: Stream) -> Kernel {
        Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<U>(0)?);
            for_each_block(to, |index, to| {
                let from = &from[index as usize * BLOCK..][..to.len()];
                for ((to, &p), x) in to.iter_mut().zip(from).zip(stream.uniform(index)) {
                    *to = U::of_f64(f64::from(u8::from(x < p.to_f64())));
                }
            });
            Ok(())
        })
    }
    let stream = stream(node)?;
    floats!(node.dtype(0)?, 0, T => match node.output(0)?.dtype() {
        DataType::Bool => Ok(kernel::<T, u8>(stream)),
        dtype => numeric!(dtype, 0, U => Ok(kernel::<T, U>(stream))),
    })
}

/// Inverse transform sampling. The scratch memory holds the cumulative probabilities of a row.
fn multinomial(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let classes = node.shape(0)?[1];
    let samples = node.output(0)?.shape()[1];
    let stream = stream(node)?;
    floats!(node.dtype(0)?, 0, T => indices!(node.output(0)?.dtype(), 0, I => {
        Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<I>(0)?);
            let cumulative = scratch::<f64>(&mut outputs, classes)?;
            for (row, to) in to.chunks_exact_mut(samples).enumerate() {
                let from = &from[row * classes..][..classes];
                let greatest = from.iter().map(|x| x.to_f64()).fold(f64::NEG_INFINITY, f64::max);
                let mut sum = 0.0;
                for (to, x) in cumulative.iter_mut().zip(from) {
                    sum += (x.to_f64() - greatest).exp();
                    *to = sum;
                }
                for (to, nth) in to.iter_mut().zip((row * samples) as u64..) {
                    stop::checkpoint();
                    let x = stream.uniform(nth / BLOCK as u64)[nth as usize % BLOCK] * sum;
                    let class = cumulative.partition_point(|&end| end <= x);
                    *to = I::of_f64(class.min(classes - 1) as f64);
                }
            }
            Ok(())
        })
        .with_scratch(classes)
    }))
}
