//! Walks with AVX-512.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::lanes::Lanes;
use super::{Forest, LeafSink, RowBlock, TOP_NODES, vectors};
use std::arch::x86_64::*;
use std::ops::Range;

/// Vectors of a CPU with AVX-512.
#[derive(Clone, Copy)]
struct Avx512Lanes(());

/// [`super::walk_rows`].
///
/// # Safety
/// The CPU has the instructions of [`CpuLevel::Avx512`](tenon_base::CpuLevel::Avx512); the block is as
/// [`vectors::walk_rows`] requires.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(super) unsafe fn walk_rows(
    forest: &Forest<f32>,
    trees: Range<usize>,
    block: RowBlock<'_, f32>,
    sink: &mut impl LeafSink<u32>,
) {
    // SAFETY: the caller guarantees the instructions and the block.
    unsafe { vectors::walk_rows(Avx512Lanes(()), forest, trees, block, sink) }
}

/// [`super::walk_trees`].
///
/// # Safety
/// The CPU has the instructions of [`CpuLevel::Avx512`](tenon_base::CpuLevel::Avx512); the row is as
/// [`vectors::walk_trees`] requires.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(super) unsafe fn walk_trees(
    forest: &Forest<f32>,
    first: usize,
    row: &[f32],
    words: &mut [u32],
) {
    // SAFETY: the caller guarantees the instructions and the row.
    unsafe { vectors::walk_trees(Avx512Lanes(()), forest, first, row, words) }
}

// SAFETY of all blocks: a value of `Avx512Lanes` exists only in functions for CPUs with the instructions. Pointers are valid
// as the trait requires; loads and stores are unaligned.
impl Lanes for Avx512Lanes {
    type Floats = __m512;
    type Words = __m512i;
    type Mask = __mmask16;
    const LANES: usize = 16;

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    fn splat_word(self, word: u32) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn iota(self) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) }
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    fn shift_left(self, words: __m512i, count: u32) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_sllv_epi32(words, _mm512_set1_epi32(count as i32)) }
    }

    #[inline(always)]
    fn shift_right(self, words: __m512i, count: u32) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_srlv_epi32(words, _mm512_set1_epi32(count as i32)) }
    }

    #[inline(always)]
    fn count(self, mask: __mmask16, words: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_mask_add_epi32(words, mask, words, _mm512_set1_epi32(1)) }
    }

    #[inline(always)]
    fn are_equal(self, a: __m512i, b: __m512i) -> bool {
        // SAFETY: see above.
        unsafe { _mm512_cmpneq_epi32_mask(a, b) == 0 }
    }

    #[inline(always)]
    fn greater(self, a: __m512, b: __m512) -> __mmask16 {
        // SAFETY: see above.
        unsafe { _mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b) }
    }

    #[inline(always)]
    fn select(self, mask: __mmask16, yes: __m512, no: __m512) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_mask_blend_ps(mask, no, yes) }
    }

    #[inline(always)]
    fn as_floats(self, words: __m512i) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_castsi512_ps(words) }
    }

    #[inline(always)]
    fn lookup16(self, table: &[u32; 16], at: __m512i) -> __m512i {
        // SAFETY: see above; the table has the words of a vector.
        unsafe { _mm512_permutexvar_epi32(at, _mm512_loadu_si512(table.as_ptr().cast())) }
    }

    #[inline(always)]
    fn lookup32(self, table: &[u32; 32], at: __m512i) -> __m512i {
        // SAFETY: see above; the table has the words of two vectors.
        unsafe {
            let low = _mm512_loadu_si512(table.as_ptr().cast());
            let high = _mm512_loadu_si512(table.as_ptr().add(16).cast());
            _mm512_permutex2var_epi32(low, at, high)
        }
    }

    #[inline(always)]
    fn lookup64(self, table: &[u32; TOP_NODES], at: __m512i) -> __m512i {
        let (halves, _) = table.as_chunks::<32>();
        let (low, high) = (self.lookup32(&halves[0], at), self.lookup32(&halves[1], at));
        // SAFETY: see above.
        unsafe {
            let is_high = _mm512_test_epi32_mask(at, _mm512_set1_epi32(32));
            _mm512_mask_blend_epi32(is_high, low, high)
        }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_words(self, from: *const u32) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_words(self, words: __m512i, to: *mut u32) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_si512(to.cast(), words) }
    }

    #[inline(always)]
    unsafe fn gather(self, from: *const f32, at: __m512i) -> __m512 {
        // SAFETY: see above.
        unsafe { _mm512_i32gather_ps::<4>(at, from.cast()) }
    }

    #[inline(always)]
    unsafe fn gather_first(self, from: *const [u32; 2], at: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_i32gather_epi32::<8>(at, from.cast()) }
    }

    #[inline(always)]
    unsafe fn gather_pairs(self, from: *const [u32; 2], at: __m512i) -> [__m512i; 2] {
        // SAFETY: see above.
        unsafe {
            let high = _mm512_extracti64x4_epi64::<1>(at);
            let low = _mm512_i32gather_epi64::<8>(_mm512_castsi512_si256(at), from.cast());
            let high = _mm512_i32gather_epi64::<8>(high, from.cast());
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
            [
                _mm512_permutex2var_epi32(low, even, high),
                _mm512_permutex2var_epi32(low, odd, high),
            ]
        }
    }
}
