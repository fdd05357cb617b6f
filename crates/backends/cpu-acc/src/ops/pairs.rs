//! Rows of f32 for products with weights of f16 or bf16, whose words are pairs: rounded to pairs of bf16 where the CPU
//! multiplies these, else pairs of f32, which rows of an even length are already.

use crate::simd::Level;
use crate::simd::disjoint::{MatrixMut, for_each_chunk};
use crate::simd::elements::RoundToPairs;
use crate::simd::gemm::{Gemm, multiply};
use crate::simd::products::ProductKind;
use crate::simd::rows::Matrix;

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

/// The product of rows of f32 and panels of 16 bits. `scratch` has [`paired_words`] for each row.
pub(super) fn multiply_by_pairs(
    level: Level,
    (a, depth): (&[f32], usize),
    gemm: &Gemm<'_>,
    scratch: &mut [f32],
    output: MatrixMut<'_>,
) {
    let product = level.product_of(gemm.panels.float());
    let (rows, words) = (output.rows(), depth.div_ceil(2));
    let scratch = &mut scratch[..rows * paired_words(depth)];
    if product == ProductKind::Bf16Pairs {
        let pairs = &mut scratch[..rows * words];
        write_pairs(level, product, a, depth, pairs);
        return multiply(level, &Matrix::new(pairs, rows, words, words), gemm, output);
    }
    let pairs = if depth.is_multiple_of(2) {
        a
    } else {
        write_pairs(level, product, a, depth, scratch);
        scratch
    };
    let pairs = pairs.as_chunks::<2>().0;
    multiply(level, &Matrix::new(pairs, rows, words, words), gemm, output);
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
