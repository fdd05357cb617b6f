//! Walks with AVX2.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::lanes::Lanes;
use super::{Forest, LeafSink, RowBlock, TOP_NODES, vectors};
use std::arch::x86_64::*;
use std::ops::Range;

/// Vectors of a CPU with AVX2.
#[derive(Clone, Copy)]
struct Avx2Lanes(());

/// [`super::walk_rows`].
///
/// # Safety
/// The CPU has the instructions of [`CpuLevel::Avx2`](tenon_base::CpuLevel::Avx2); the block is as
/// [`vectors::walk_rows`] requires.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn walk_rows(
    forest: &Forest<f32>,
    trees: Range<usize>,
    block: RowBlock<'_, f32>,
    sink: &mut impl LeafSink<u32>,
) {
    // SAFETY: the caller guarantees the instructions and the block.
    unsafe { vectors::walk_rows(Avx2Lanes(()), forest, trees, block, sink) }
}

/// [`super::walk_trees`].
///
/// # Safety
/// The CPU has the instructions of [`CpuLevel::Avx2`](tenon_base::CpuLevel::Avx2); the row is as
/// [`vectors::walk_trees`] requires.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn walk_trees(
    forest: &Forest<f32>,
    first: usize,
    row: &[f32],
    words: &mut [u32],
) {
    // SAFETY: the caller guarantees the instructions and the row.
    unsafe { vectors::walk_trees(Avx2Lanes(()), forest, first, row, words) }
}

// SAFETY of all blocks: a value of `Avx2Lanes` exists only in functions for CPUs with the instructions. Pointers are valid
// as the trait requires; loads and stores are unaligned.
impl Lanes for Avx2Lanes {
    type Floats = __m256;
    type Words = __m256i;
    type Mask = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(self, value: f32) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    fn splat_word(self, word: u32) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn iota(self) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7) }
    }

    #[inline(always)]
    fn add(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_add_epi32(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn shift_left(self, words: __m256i, count: u32) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_sllv_epi32(words, _mm256_set1_epi32(count as i32)) }
    }

    #[inline(always)]
    fn shift_right(self, words: __m256i, count: u32) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_srlv_epi32(words, _mm256_set1_epi32(count as i32)) }
    }

    #[inline(always)]
    fn count(self, mask: __m256, words: __m256i) -> __m256i {
        // SAFETY: see above. True is -1.
        unsafe { _mm256_sub_epi32(words, _mm256_castps_si256(mask)) }
    }

    #[inline(always)]
    fn are_equal(self, a: __m256i, b: __m256i) -> bool {
        // SAFETY: see above.
        unsafe { _mm256_movemask_epi8(_mm256_cmpeq_epi32(a, b)) == -1 }
    }

    #[inline(always)]
    fn greater(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_cmp_ps::<_CMP_GT_OQ>(a, b) }
    }

    #[inline(always)]
    fn select(self, mask: __m256, yes: __m256, no: __m256) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_blendv_ps(no, yes, mask) }
    }

    #[inline(always)]
    fn as_floats(self, words: __m256i) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_castsi256_ps(words) }
    }

    #[inline(always)]
    fn lookup16(self, table: &[u32; 16], at: __m256i) -> __m256i {
        // SAFETY: see above; the table has the words of two vectors. The blend takes the highest bit.
        unsafe {
            let low = _mm256_loadu_si256(table.as_ptr().cast());
            let high = _mm256_loadu_si256(table.as_ptr().add(8).cast());
            let low = self.as_floats(_mm256_permutevar8x32_epi32(low, at));
            let high = self.as_floats(_mm256_permutevar8x32_epi32(high, at));
            let is_high = self.as_floats(_mm256_slli_epi32::<28>(at));
            _mm256_castps_si256(_mm256_blendv_ps(low, high, is_high))
        }
    }

    #[inline(always)]
    fn lookup32(self, table: &[u32; 32], at: __m256i) -> __m256i {
        let at = self.and(at, self.splat_word(31));
        // SAFETY: see above; positions are in the table.
        unsafe { _mm256_i32gather_epi32::<4>(table.as_ptr().cast(), at) }
    }

    #[inline(always)]
    fn lookup64(self, table: &[u32; TOP_NODES], at: __m256i) -> __m256i {
        let at = self.and(at, self.splat_word(TOP_NODES as u32 - 1));
        // SAFETY: see above; positions are in the table.
        unsafe { _mm256_i32gather_epi32::<4>(table.as_ptr().cast(), at) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_words(self, from: *const u32) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_words(self, words: __m256i, to: *mut u32) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(to.cast(), words) }
    }

    #[inline(always)]
    unsafe fn gather(self, from: *const f32, at: __m256i) -> __m256 {
        // SAFETY: see above.
        unsafe { _mm256_i32gather_ps::<4>(from, at) }
    }

    #[inline(always)]
    unsafe fn gather_first(self, from: *const [u32; 2], at: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_i32gather_epi32::<8>(from.cast(), at) }
    }

    #[inline(always)]
    unsafe fn gather_pairs(self, from: *const [u32; 2], at: __m256i) -> [__m256i; 2] {
        // SAFETY: see above.
        unsafe {
            let first = _mm256_i32gather_epi32::<8>(from.cast(), at);
            let second = _mm256_i32gather_epi32::<8>(from.cast::<u32>().add(1).cast(), at);
            [first, second]
        }
    }
}
