//! EyeLike: ones on a diagonal.

use super::chunk_of;
use crate::ops::element_types::numeric;
use crate::ops::number::Number;
use crate::ops::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use crate::simd::disjoint::for_each_chunk;
use tenon_backend::{Operands, Refusal, Workload};
use tenon_base::Result;
use tenon_tensor::{DataType, Element};

/// The kernel, of elements that are words `W`.
struct Diagonal<W> {
    columns: usize,
    diagonal: i64,
    one: W,
}

pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let output = signature.output(0)?;
    let [_, columns] = **output.shape() else {
        return Err(refuse("no kernel for an output that is not a matrix"));
    };
    let diagonal = signature.int("k", 0)?;
    if output.dtype() == DataType::Bool {
        return Ok(Box::new(Diagonal {
            columns,
            diagonal,
            one: 1u8,
        }));
    }
    numeric!(output.dtype(), 0, T => Ok(Box::new(Diagonal {
        columns,
        diagonal,
        one: T::of_f64(1.0).word(),
    })))
}

impl<W: Element + Default> UnpreparedWorkload for Diagonal<W> {}

impl<W: Element + Default> Workload for Diagonal<W> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let output = operands.split().1.slice::<W>(0)?;
        let (chunk, parallel) = chunk_of(output.len(), self.columns);
        for_each_chunk(output, chunk * self.columns, parallel, |nth, to| {
            for (row, to) in (nth * chunk..).zip(to.chunks_exact_mut(self.columns)) {
                to.fill(W::default());
                let column = self.diagonal.saturating_add_unsigned(row as u64);
                if let Some(to) = usize::try_from(column).ok().and_then(|at| to.get_mut(at)) {
                    *to = self.one;
                }
            }
        });
        Ok(())
    }
}
