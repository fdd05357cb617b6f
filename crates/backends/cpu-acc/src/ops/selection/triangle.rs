//! Trilu: zeros on one side of a diagonal that is read at run time.

use super::chunk_of;
use crate::ops::element_types::sized;
use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use std::marker::PhantomData;
use std::ops::Range;
use tenon_backend::{OperandPair, Operands, Refusal, Workload, WorkloadPlan};
use tenon_base::Result;
use tenon_tensor::Element;

/// The kernel.
struct Triangle<T> {
    rows: usize,
    columns: usize,
    upper: bool,
    element: PhantomData<T>,
}

pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let input = signature.input(0)?;
    let [.., rows, columns] = **input.shape() else {
        return Err(refuse("no kernel for tensors of less than two dimensions"));
    };
    let upper = signature.flag("upper", true)?;
    sized!(input.dtype(), 0, T => Ok(Box::new(Triangle::<T> {
        rows,
        columns,
        upper,
        element: PhantomData,
    })))
}

impl<T: Element + Default> UnpreparedWorkload for Triangle<T> {
    fn workload_plan(&self) -> WorkloadPlan {
        WorkloadPlan::in_place([0])
    }
}

impl<T: Element + Default> Workload for Triangle<T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let diagonal = operands.split().0.optional::<i64>(1)?;
        let diagonal = diagonal.and_then(|k| k.first().copied()).unwrap_or(0);
        let (from, to) = match operands.pair::<T>(0, 0)? {
            OperandPair::InPlace(to) => (None, to),
            OperandPair::Apart(from, to) => (Some(from), to),
        };
        let (chunk, parallel) = chunk_of(to.len(), self.columns);
        for_each_chunk(to, chunk * self.columns, parallel, |nth, to| {
            for (row, to) in (nth * chunk..).zip(to.chunks_exact_mut(self.columns)) {
                let kept = self.kept(row % self.rows, diagonal);
                if let Some(from) = from {
                    let from = &from[row * self.columns..][..self.columns];
                    to[kept.clone()].copy_from_slice(&from[kept.clone()]);
                }
                to[..kept.start].fill(T::default());
                to[kept.end..].fill(T::default());
            }
        });
        Ok(())
    }
}

impl<T> Triangle<T> {
    /// The columns of a row that are kept.
    fn kept(&self, row: usize, diagonal: i64) -> Range<usize> {
        let column = |at: i64| usize::try_from(at).unwrap_or(0).min(self.columns);
        let first = diagonal.saturating_add_unsigned(row as u64);
        if self.upper {
            column(first)..self.columns
        } else {
            0..column(first.saturating_add(1))
        }
    }
}
