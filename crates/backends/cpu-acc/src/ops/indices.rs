//! Indices that are read at run time: checked and normalised in blocks that stay in the first-level
//! cache.

use super::element_types::refuse_type;
use crate::signature::Signature;
use crate::simd::{Level, Simd, VectorOp};
use std::sync::Mutex;
use tenon_backend::{Inputs, Refusal};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::DataType;

/// Indices of a block.
pub(super) const BLOCK: usize = 256;

/// The type of an input of indices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum IndexType {
    I32,
    I64,
}

impl IndexType {
    pub(super) fn of(signature: &Signature<'_>, input: usize) -> Result<Self, Refusal> {
        match signature.input(input)?.dtype() {
            DataType::I64 => Ok(Self::I64),
            DataType::I32 => Ok(Self::I32),
            found => Err(refuse_type(input, found)),
        }
    }
}

/// The indices of an input.
#[derive(Debug, Clone, Copy)]
pub(super) enum Indices<'a> {
    I32(&'a [i32]),
    I64(&'a [i64]),
}

impl<'a> Indices<'a> {
    pub(super) fn new(inputs: &Inputs<'a>, input: usize, ty: IndexType) -> Result<Self> {
        Ok(match ty {
            IndexType::I32 => Self::I32(inputs.slice(input)?),
            IndexType::I64 => Self::I64(inputs.slice(input)?),
        })
    }

    /// Writes the positions in a dimension of `extent` of the indices from `start` on; negative indices
    /// count from the end. An error when an index is out of bounds.
    pub(super) fn positions(
        self,
        level: Level,
        start: usize,
        extent: usize,
        to: &mut [usize],
    ) -> Result<()> {
        let count = to.len();
        let outside = match self {
            Self::I32(all) => level.run(Normalize {
                from: &all[start..][..count],
                extent,
                to,
            }),
            Self::I64(all) => level.run(Normalize {
                from: &all[start..][..count],
                extent,
                to,
            }),
        };
        if !outside {
            return Ok(());
        }
        (start..start + count).try_for_each(|at| position(self.at(at), extent).map(drop))
    }

    /// Writes the flat positions, in dimensions of `extents`, of tuples of indices from tuple `start` on.
    pub(super) fn tuples(
        self,
        level: Level,
        start: usize,
        extents: &[usize],
        to: &mut [usize],
    ) -> Result<()> {
        if let [extent] = *extents {
            return self.positions(level, start, extent, to);
        }
        let width = extents.len();
        for (to, tuple) in to.iter_mut().zip(start..) {
            *to = 0;
            for (&extent, at) in extents.iter().zip(tuple * width..) {
                *to = *to * extent + position(self.at(at), extent)?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn at(self, at: usize) -> i64 {
        match self {
            Self::I32(all) => all[at].into(),
            Self::I64(all) => all[at],
        }
    }
}

/// The position of an index, counted from the end when negative, in a dimension of `extent`.
#[inline]
pub(super) fn position(index: i64, extent: usize) -> Result<usize> {
    let position = normalized(index, extent);
    if position < extent {
        Ok(position)
    } else {
        Err(out_of_bounds(index, extent))
    }
}

#[cold]
fn out_of_bounds(index: i64, extent: usize) -> Error {
    Error::new(
        ErrorKind::OutOfBounds,
        "an index is out of the bounds of its dimension",
    )
    .expected(format_args!("-{extent} to {extent} - 1"))
    .found(index)
}

/// At least `extent` when the index is out of bounds.
#[inline(always)]
fn normalized(index: i64, extent: usize) -> usize {
    index.wrapping_add((index >> 63) & extent as i64) as usize
}

/// Normalises indices; whether one is out of bounds.
struct Normalize<'a, I> {
    from: &'a [I],
    extent: usize,
    to: &'a mut [usize],
}

impl<I: Copy + Into<i64>> VectorOp for Normalize<'_, I> {
    type Output = bool;

    #[inline(always)]
    fn eval<S: Simd>(self, _: S) -> bool {
        let mut outside = false;
        for (to, &index) in self.to.iter_mut().zip(self.from) {
            *to = normalized(index.into(), self.extent);
            outside |= *to >= self.extent;
        }
        outside
    }
}

/// The first error of the iterations of a parallel loop.
#[derive(Default)]
pub(super) struct FirstError(Mutex<Option<Error>>);

impl FirstError {
    pub(super) fn record(&self, result: Result<()>) {
        if let Err(error) = result
            && let Ok(mut first) = self.0.lock()
        {
            first.get_or_insert(error);
        }
    }

    pub(super) fn into_result(self) -> Result<()> {
        match self.0.into_inner() {
            Ok(Some(error)) => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_backend::CpuLevel;

    #[test]
    fn indices_are_normalised_and_checked() {
        let level = Level::detect(CpuLevel::Avx512);
        let mut to = [0; 4];
        let all = [-3i64, -1, 0, 2, 3, -4, i64::MIN, i64::MAX];
        Indices::I64(&all).positions(level, 0, 3, &mut to).unwrap();
        assert_eq!(to, [0, 2, 0, 2]);
        for at in 4..8 {
            let result = Indices::I64(&all).positions(level, at, 3, &mut to[..1]);
            assert_eq!(result.unwrap_err().kind(), ErrorKind::OutOfBounds);
        }
        Indices::I32(&[1, -1, 0, 0])
            .tuples(level, 0, &[2, 5], &mut to[..2])
            .unwrap();
        assert_eq!(to[..2], [9, 0]);
    }
}
