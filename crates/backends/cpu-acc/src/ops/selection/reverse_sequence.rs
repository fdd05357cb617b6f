//! ReverseSequence: the first steps of each sequence in reverse order, by lengths that are read at run
//! time.

use super::chunk_of;
use crate::ops::element_types::sized;
use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use std::marker::PhantomData;
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::{Error, ErrorKind, Result, stop};
use tenon_tensor::Element;

/// The kernel on `[first, second, inner]`, one of which is the sequence.
struct ReverseSequence<T> {
    /// Whether the batch is the first dimension.
    batch_first: bool,
    first: usize,
    second: usize,
    inner: usize,
    element: PhantomData<T>,
}

pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let [first, second, ref inner @ ..] = **input.shape() else {
        return Err(refuse("no kernel for tensors of less than two dimensions"));
    };
    let rank = input.shape().len();
    let batch = signature.axis("batch_axis", 1, rank)?;
    let inner = inner.iter().product();
    sized!(input.dtype(), 0, T => Ok(Box::new(ReverseSequence::<T> {
        batch_first: batch == 0,
        first,
        second,
        inner,
        element: PhantomData,
    })))
}

impl<T: Element> UnpreparedWorkload for ReverseSequence<T> {}

impl<T: Element> Workload for ReverseSequence<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let lengths = inputs.slice::<i64>(1)?;
        let steps = if self.batch_first {
            self.second
        } else {
            self.first
        };
        let length = |batch: usize| lengths.get(batch).copied().unwrap_or(0);
        let outside = |&length: &i64| !(0..=steps as i64).contains(&length);
        if let Some(found) = lengths.iter().copied().find(outside) {
            return Err(
                Error::new(ErrorKind::OutOfBounds, "a length is out of range")
                    .expected(format_args!("0 to {steps}"))
                    .found(found),
            );
        }
        let (chunk, parallel) = chunk_of(to.len(), self.inner);
        for_each_chunk(to, chunk * self.inner, parallel, |nth, to| {
            stop::checkpoint();
            for (row, to) in (nth * chunk..).zip(to.chunks_exact_mut(self.inner)) {
                let (first, second) = (row / self.second, row % self.second);
                let source = |step: usize, batch: usize| {
                    let length = length(batch) as usize;
                    if step < length {
                        length - 1 - step
                    } else {
                        step
                    }
                };
                let row = if self.batch_first {
                    first * self.second + source(second, first)
                } else {
                    source(first, second) * self.second + second
                };
                to.copy_from_slice(&from[row * self.inner..][..self.inner]);
            }
        });
        Ok(())
    }
}
