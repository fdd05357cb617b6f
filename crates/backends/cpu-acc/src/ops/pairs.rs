//! Rows of f32 for products with weights of f16 or bf16, whose words are pairs: rounded to pairs of bf16 where the CPU
//! multiplies these, else pairs of f32, which rows of an even length are already.

use crate::simd::Level;
use crate::simd::disjoint::for_each_chunk;
use crate::simd::elements::RoundToPairs;
use crate::simd::products::ProductKind;

/// Words that a thread writes at a time.
const CHUNK: usize = 1 << 13;

/// Words from which on several threads write.
const PARALLEL: usize = 1 << 16;

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
