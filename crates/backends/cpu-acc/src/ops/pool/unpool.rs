//! MaxUnpool: elements move to their indices.

use super::geometry::kernel_shape;
use crate::ops::reduction::{Loop, offset};
use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::{Error, ErrorKind, Result, stop};
use tenon_graph::geometry::Window;
use tenon_tensor::Element;

/// MaxUnpool: elements move to their indices, other elements are zero.
struct Unpool {
    bits: usize,
    /// The dimensions that the indices refer to, with the strides of the output.
    loops: Vec<Loop>,
    count: usize,
}

/// The kernel of MaxUnpool.
pub(in crate::ops) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let (x, output) = (signature.input(0)?, signature.output(0)?);
    let kernel = kernel_shape(signature)?;
    let window = Window::transposed(signature.attributes(), &x.shape()[2..], &kernel)
        .map_err(|error| refuse(error.to_string()))?;
    let pooled: Vec<usize> = x.shape()[..2]
        .iter()
        .chain(&window.output)
        .copied()
        .collect();
    if pooled.iter().zip(&**output.shape()).any(|(a, b)| a > b) {
        return Err(refuse(
            "input 'output_shape' is smaller than the pooled tensor",
        ));
    }
    let loops = if pooled[..] == output.shape()[..] {
        vec![(output.elements(), 1)]
    } else {
        pooled
            .iter()
            .copied()
            .zip(output.shape().strides())
            .collect()
    };
    Ok(Box::new(Unpool {
        bits: x.dtype().bits(),
        loops,
        count: pooled.iter().product(),
    }))
}

impl UnpreparedWorkload for Unpool {}

impl Workload for Unpool {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        match self.bits {
            16 => self.run::<u16>(operands),
            32 => self.run::<u32>(operands),
            _ => self.run::<u64>(operands),
        }
    }
}

impl Unpool {
    fn run<T: Element + Default>(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (from, indices) = (inputs.slice::<T>(0)?, inputs.slice::<i64>(1)?);
        let to = outputs.slice::<T>(0)?;
        to.fill(T::default());
        for (from, indices) in from.chunks(1 << 16).zip(indices.chunks(1 << 16)) {
            stop::checkpoint();
            for (&value, &index) in from.iter().zip(indices) {
                let at = usize::try_from(index).ok().filter(|&at| at < self.count);
                let at = at.ok_or_else(|| {
                    Error::new(
                        ErrorKind::OutOfBounds,
                        "an index is out of the bounds of the output",
                    )
                    .expected(format_args!("0 to {}", self.count as i64 - 1))
                    .found(index)
                })?;
                to[offset(&self.loops, at)] = value;
            }
        }
        Ok(())
    }
}
