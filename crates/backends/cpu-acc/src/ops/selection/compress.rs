//! Compress: runs of slices that are known when compiling.

use super::PARALLEL;
use crate::ops::element_types::sized;
use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use std::marker::PhantomData;
use std::ops::Range;
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::{Result, bounded};
use tenon_tensor::Element;

/// The kernel, of a tensor `[outer, extent, inner]`.
struct Compress<T> {
    /// Ranges of elements of `[extent, inner]`, and their sum.
    runs: Vec<Range<usize>>,
    kept: usize,
    /// Elements of `[extent, inner]`.
    block: usize,
    element: PhantomData<T>,
}

pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let condition = signature.constant_ints(1)?.unwrap_or_default();
    let (extent, inner) = if signature.has("axis") {
        let shape = input.shape();
        let axis = signature.axis("axis", 0, shape.len())?;
        (shape[axis], shape[axis + 1..].iter().product())
    } else {
        (input.elements(), 1)
    };
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, _) in condition.iter().enumerate().filter(|(_, flag)| **flag != 0) {
        let next = at * inner..(at + 1) * inner;
        match runs.last_mut() {
            Some(run) if run.end == next.start => run.end = next.end,
            _ => {
                bounded::reserve("runs of selected elements", &mut runs, 1)
                    .map_err(|error| refuse(error.to_string()))?;
                runs.push(next);
            }
        }
    }
    let kept = runs.iter().map(ExactSizeIterator::len).sum();
    sized!(input.dtype(), 0, T => Ok(Box::new(Compress::<T> {
        runs,
        kept,
        block: extent * inner,
        element: PhantomData,
    })))
}

impl<T: Element> UnpreparedWorkload for Compress<T> {}

impl<T: Element> Workload for Compress<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let parallel = to.len() >= PARALLEL;
        for_each_chunk(to, self.kept, parallel, |nth, mut to| {
            let from = &from[nth * self.block..][..self.block];
            for run in &self.runs {
                let (part, rest) = to.split_at_mut(run.len());
                part.copy_from_slice(&from[run.clone()]);
                to = rest;
            }
        });
        Ok(())
    }
}
