//! Gather: rows of a table by index, as in an embedding, for every type whose elements are whole bytes.

use super::{Kernel, UnpreparedWorkload};
use crate::signature::{Signature, refuse};
use tenon_backend::{Operands, Reason, Refusal, Workload};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::DataType;

/// `output[outer][i] = data[outer][index[i]]`, where an element is a slice of bytes.
struct Gather {
    outer: usize,
    extent: usize,
    /// Bytes of a slice.
    slice: usize,
    /// Whether indices are of 64 bits, else of 32.
    wide: bool,
}

/// The kernel.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let data = signature.input(0)?;
    let dtype = data.dtype();
    if dtype.bits() < 8 {
        return Err(Reason::InputType {
            input: 0,
            found: dtype,
        }
        .into());
    }
    let indices = signature.input(1)?.dtype();
    let wide = match indices {
        DataType::I64 => true,
        DataType::I32 => false,
        found => return Err(Reason::InputType { input: 1, found }.into()),
    };
    let shape = data.shape();
    let axis = signature.axis("axis", 0, shape.len())?;
    let inner = shape[axis + 1..].iter().product();
    let slice = dtype
        .bytes(inner)
        .ok_or_else(|| refuse("the data is too large"))?;
    let outer: usize = shape[..axis].iter().product();
    let output = signature.output(0)?;
    let taken = signature.input(1)?.elements();
    let expected = outer
        .checked_mul(taken)
        .and_then(|rows| rows.checked_mul(inner));
    if output.dtype() != dtype || Some(output.elements()) != expected {
        return Err(refuse("the shapes do not fit"));
    }
    Ok(Box::new(Gather {
        outer,
        extent: shape[axis],
        slice,
        wide,
    }))
}

impl UnpreparedWorkload for Gather {}

impl Workload for Gather {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let (inputs, mut outputs) = operands.split();
        let output = outputs.slice::<u8>(0)?;
        if output.is_empty() {
            return Ok(());
        }
        let data = inputs.slice::<u8>(0)?;
        if self.wide {
            self.gather(data, inputs.slice::<i64>(1)?.iter().copied(), output)
        } else {
            self.gather(
                data,
                inputs.slice::<i32>(1)?.iter().map(|&index| index.into()),
                output,
            )
        }
    }
}

impl Gather {
    fn gather(
        &self,
        data: &[u8],
        indices: impl Iterator<Item = i64> + Clone,
        output: &mut [u8],
    ) -> Result<()> {
        let mut slices = output.chunks_exact_mut(self.slice.max(1));
        for outer in 0..self.outer {
            let data = &data[outer * self.extent * self.slice..][..self.extent * self.slice];
            for (index, to) in indices.clone().zip(&mut slices) {
                let row = self.row(index)?;
                to.copy_from_slice(&data[row * self.slice..][..self.slice]);
            }
        }
        Ok(())
    }

    /// The row of an index; negative indices count from the end.
    fn row(&self, index: i64) -> Result<usize> {
        let positive = if index < 0 {
            index.saturating_add_unsigned(self.extent as u64)
        } else {
            index
        };
        usize::try_from(positive)
            .ok()
            .filter(|&row| row < self.extent)
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::OutOfBounds,
                    "an index is out of the bounds of the data",
                )
                .expected(format_args!("-{0} to {0} - 1", self.extent))
                .found(index)
            })
    }
}
