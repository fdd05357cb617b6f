//! Rows of f32 for products with weights of f16 or bf16, whose words are pairs: rounded to pairs of bf16 where the CPU
//! multiplies these, else pairs of f32, which rows of an even length are already.

use crate::simd::Level;
use crate::simd::disjoint::{MatrixMut, for_each_chunk};
use crate::simd::elements::RoundToPairs;
use crate::simd::gemm::{Gemm, RowWords, multiply};
use crate::simd::products::ProductKind;
use crate::simd::rows::{Matrix, RowSource};
use std::ops::Range;

/// Words that a thread writes at a time.
const CHUNK: usize = 1 << 13;

/// Words from which on several threads write.
const PARALLEL: usize = 1 << 16;

/// Words of scratch memory for a row in pairs, at any level: of bf16, or of f32 where these are not read in place.
pub(super) fn paired_words(depth: usize) -> usize {
    let is_even = depth.is_multiple_of(2);
    depth
        .div_ceil(2)
        .saturating_mul(if is_even { 1 } else { 2 })
}

/// Rows of f32 in pairs, for products by panels of 16 bits.
#[derive(Clone, Copy)]
pub(super) enum PairedRows<'a> {
    Bf16(&'a [f32]),
    Floats(&'a [[f32; 2]]),
}

impl<'a> PairedRows<'a> {
    /// `a` has rows of `depth` elements, `scratch` [`paired_words`] for each of them.
    pub(super) fn new(
        level: Level,
        product: ProductKind,
        (a, depth): (&'a [f32], usize),
        scratch: &'a mut [f32],
    ) -> Self {
        let rows = a.len().checked_div(depth).unwrap_or(0);
        if product == ProductKind::Bf16Pairs {
            let pairs = &mut scratch[..rows * depth.div_ceil(2)];
            write_pairs(level, product, a, depth, pairs);
            Self::Bf16(pairs)
        } else if depth.is_multiple_of(2) {
            Self::Floats(a.as_chunks().0)
        } else {
            let pairs = &mut scratch[..rows * paired_words(depth)];
            write_pairs(level, product, a, depth, pairs);
            Self::Floats(pairs.as_chunks().0)
        }
    }

    /// The product of some rows, each of `words` pairs, and packed weights.
    pub(super) fn multiply(
        self,
        level: Level,
        (rows, words): (Range<usize>, usize),
        gemm: &Gemm<'_>,
        output: MatrixMut<'_>,
    ) {
        match self {
            Self::Bf16(pairs) => multiply_rows(level, pairs, (rows, words), gemm, output),
            Self::Floats(pairs) => multiply_rows(level, pairs, (rows, words), gemm, output),
        }
    }
}

fn multiply_rows<E: RowWords>(
    level: Level,
    pairs: &[E],
    (rows, words): (Range<usize>, usize),
    gemm: &Gemm<'_>,
    output: MatrixMut<'_>,
) {
    let pairs = &pairs[rows.start * words..rows.end * words];
    let a: &dyn RowSource<Element = E> = &Matrix::new(pairs, rows.len(), words, words);
    multiply(level, a, gemm, output);
}

/// Writes rows of `depth` elements in pairs to all of `to`.
pub(super) fn write_pairs(
    level: Level,
    product: ProductKind,
    from: &[f32],
    depth: usize,
    to: &mut [f32],
) {
    let row = depth.div_ceil(2)
        * if product == ProductKind::Bf16Pairs {
            1
        } else {
            2
        };
    if row == 0 {
        return;
    }
    let rows = (CHUNK / row).max(1);
    let parallel = to.len() >= PARALLEL;
    for_each_chunk(to, rows * row, parallel, |chunk, to| {
        let first = chunk * rows * depth;
        let from = &from[first..][..to.len() / row * depth];
        write_some_pairs(level, product, from, depth, to);
    });
}

/// The same on one thread.
pub(super) fn write_some_pairs(
    level: Level,
    product: ProductKind,
    from: &[f32],
    depth: usize,
    to: &mut [f32],
) {
    if product == ProductKind::Bf16Pairs {
        let row = depth;
        return level.run(RoundToPairs {
            from,
            row,
            to,
            level,
        });
    }
    let row = depth.next_multiple_of(2);
    for (from, to) in from
        .chunks_exact(depth.max(1))
        .zip(to.chunks_exact_mut(row.max(1)))
    {
        to[..depth].copy_from_slice(from);
        to[depth..].fill(0.0);
    }
}
