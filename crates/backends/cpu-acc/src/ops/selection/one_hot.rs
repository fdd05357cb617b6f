//! OneHot: one of two values along a new dimension, by an index that is read at run time.

use super::chunk_of;
use crate::ops::element_types::sized;
use crate::ops::number::Number;
use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::Signature;
use crate::simd::disjoint::for_each_chunk;
use std::marker::PhantomData;
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::{DataType, Element, match_type};

/// The kernel: the output is `[outer, depth, inner]`.
struct OneHot<T> {
    index: DataType,
    depth: usize,
    inner: usize,
    element: PhantomData<T>,
}

pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let shape = signature.output(0)?.shape();
    let axis = signature.axis("axis", -1, shape.len())?;
    let index = signature.input(0)?.dtype();
    sized!(signature.input(2)?.dtype(), 2, T => Ok(Box::new(OneHot::<T> {
        index,
        depth: shape[axis],
        inner: shape[axis + 1..].iter().product(),
        element: PhantomData,
    })))
}

impl<T: Element> UnpreparedWorkload for OneHot<T> {}

impl<T: Element> Workload for OneHot<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let &[off, on] = inputs.slice::<T>(2)? else {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                "input 'values' must have two elements",
            ));
        };
        let output = outputs.slice::<T>(0)?;
        match_type!(self.index, I: numeric => {
            let indices = inputs.slice::<I>(0)?;
            let block = self.depth * self.inner;
            let (chunk, parallel) = chunk_of(output.len(), block);
            for_each_chunk(output, chunk * block, parallel, |nth, to| {
                for (outer, to) in (nth * chunk..).zip(to.chunks_exact_mut(block)) {
                    to.fill(off);
                    self.mark(&indices[outer * self.inner..][..self.inner], on, to);
                }
            });
            Ok(())
        }, found => {
            let text = "indices of a type that is not numeric";
            Err(Error::new(ErrorKind::Internal, text).found(found))
        })
    }
}

impl<T: Element> OneHot<T> {
    /// Writes `on` for the indices, but for those out of the depth.
    fn mark<I: Number>(&self, indices: &[I], on: T, to: &mut [T]) {
        for (nth, index) in indices.iter().enumerate() {
            // Exact for indices in bounds, as the depth is below 2^53.
            if let Some(at) = normalized(index.to_f64() as i64, self.depth) {
                to[at * self.inner + nth] = on;
            }
        }
    }
}

/// The position of an index, counted from the end when negative; `None` out of bounds.
fn normalized(index: i64, extent: usize) -> Option<usize> {
    let at = if index < 0 {
        index.saturating_add_unsigned(extent as u64)
    } else {
        index
    };
    usize::try_from(at).ok().filter(|&at| at < extent)
}
