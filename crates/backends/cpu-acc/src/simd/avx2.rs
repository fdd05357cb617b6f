//! AVX2 with FMA: 8 lanes, 16 registers.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::math::{self, UnaryFunction};
use super::products::{
    Floats, Pairs, Product, ProductKind, Quads, SignedQuads, WidenedBf16, WidenedF16,
};
use super::terms::term_vectors;
use super::tile::{Kernel, Tile, compute};
use super::{Arithmetic, Simd, VectorOp};
use half::{bf16, f16};
use std::arch::asm;
use std::arch::x86_64::*;

/// A CPU with AVX2 and FMA; exists only on one.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

/// # Safety
/// The CPU has the instructions of [`CpuLevel::Avx2`](tenon_base::CpuLevel::Avx2).
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run<O: VectorOp>(op: O) -> O::Output {
    op.eval(Avx2(()))
}

/// # Safety
/// The CPU has the instructions of [`CpuLevel::Avx2`](tenon_base::CpuLevel::Avx2);
/// the tile is as [`compute`] requires.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile<P: Product<Avx2>, const ROWS: usize, const VECTORS: usize>(tile: &Tile<'_>) {
    // SAFETY: the caller guarantees the instructions and the tile.
    unsafe { compute::<Avx2, P, ROWS, VECTORS>(Avx2(()), tile) }
}

/// # Safety
/// As for [`tile`]; the CPU has AVX-VNNI besides.
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
unsafe fn tile_of_quads<P: Product<Avx2>, const ROWS: usize, const VECTORS: usize>(
    tile: &Tile<'_>,
) {
    // SAFETY: the caller guarantees the instructions and the tile.
    unsafe { compute::<Avx2, P, ROWS, VECTORS>(Avx2(()), tile) }
}

/// # Safety
/// The CPU has the instructions of [`CpuLevel::Avx2`](tenon_base::CpuLevel::Avx2);
/// the pointers are as [`math::map_unary`] requires.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn map_unary(function: UnaryFunction, from: *const f32, to: *mut f32, len: usize) {
    // SAFETY: the caller guarantees the instructions and the pointers.
    unsafe { math::map_unary(Avx2(()), function, from, to, len) }
}

macro_rules! kernels {
    ($($rows:literal)*) => {
        /// Kernels of each number of rows, of a panel's first half and of a panel.
        type Kernels = [[Kernel; 2]; [$($rows),*].len()];

        static FLOATS: Kernels = [$([tile::<Floats, $rows, 1>, tile::<Floats, $rows, 2>]),*];
        static PAIRS: Kernels = [$([tile::<Pairs, $rows, 1>, tile::<Pairs, $rows, 2>]),*];
        static WIDENED_BF16: Kernels =
            [$([tile::<WidenedBf16, $rows, 1>, tile::<WidenedBf16, $rows, 2>]),*];
        static WIDENED_F16: Kernels =
            [$([tile::<WidenedF16, $rows, 1>, tile::<WidenedF16, $rows, 2>]),*];
        static QUADS: Kernels =
            [$([tile_of_quads::<Quads, $rows, 1>, tile_of_quads::<Quads, $rows, 2>]),*];
        static SIGNED_QUADS: Kernels =
            [$([tile_of_quads::<SignedQuads, $rows, 1>, tile_of_quads::<SignedQuads, $rows, 2>]),*];
    };
}

kernels!(1 2 3 4 5 6);

/// Four vectors, whose values the compiler does not know; no instruction.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn opaque([mut a, mut b, mut c, mut d]: [__m256; 4]) -> [__m256; 4] {
    // SAFETY: the assembly is a comment.
    unsafe {
        asm!(
            "# {a} {b} {c} {d}",
            a = inout(ymm_reg) a,
            b = inout(ymm_reg) b,
            c = inout(ymm_reg) c,
            d = inout(ymm_reg) d,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    [a, b, c, d]
}

/// The sum of integers of 32 bits, by an instruction that the compiler does not know: it would add products to each
/// other before the sums, which takes more registers than there are.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_in_order(mut sum: __m256i, products: __m256i) -> __m256i {
    // SAFETY: the instruction computes with registers alone.
    unsafe {
        asm!(
            "vpaddd {sum}, {sum}, {products}",
            sum = inout(ymm_reg) sum,
            products = in(ymm_reg) products,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// All bits set in the lanes below `count`, for masked loads and stores.
#[inline(always)]
fn first(count: usize) -> __m256i {
    const ONES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    let from = &ONES[8 - count.min(8)..];
    // SAFETY: `from` starts at most at element 8 of 16, so that 8 remain; only methods of `Avx2` call
    // this, on a CPU that has AVX.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

// SAFETY of every block below: a value of `Avx2` exists only on a CPU with the instructions, and
// the caller of a function with pointers guarantees them as the trait requires.
#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all, above"
)]
impl Arithmetic for Avx2 {
    type V = __m256;
    type Mask = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(self, value: f32) -> __m256 {
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load_ptr(self, from: *const f32) -> __m256 {
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store_ptr(self, v: __m256, to: *mut f32) {
        unsafe { _mm256_storeu_ps(to, v) }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_div_ps(a, b) }
    }

    #[inline(always)]
    fn sqrt(self, a: __m256) -> __m256 {
        unsafe { _mm256_sqrt_ps(a) }
    }

    #[inline(always)]
    fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_min_ps(a, b) }
    }

    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    fn round(self, a: __m256) -> __m256 {
        unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }

    #[inline(always)]
    fn scale2(self, a: __m256, n: __m256) -> __m256 {
        // Two powers of half the exponent each, so that subnormal and infinite results are right.
        unsafe {
            let n = _mm256_cvtps_epi32(n);
            let half = _mm256_srai_epi32::<1>(n);
            let bias = _mm256_set1_epi32(127);
            let power = |n| _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, bias)));
            let rest = _mm256_sub_epi32(n, half);
            _mm256_mul_ps(_mm256_mul_ps(a, power(half)), power(rest))
        }
    }

    #[inline(always)]
    fn power2(self, n: __m256) -> __m256 {
        unsafe {
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
        }
    }

    #[inline(always)]
    fn less(self, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) }
    }

    #[inline(always)]
    fn select(self, mask: __m256, yes: __m256, no: __m256) -> __m256 {
        unsafe { _mm256_blendv_ps(no, yes, mask) }
    }

    #[inline(always)]
    fn abs(self, a: __m256) -> __m256 {
        unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), a) }
    }

    #[inline(always)]
    fn copysign(self, a: __m256, sign: __m256) -> __m256 {
        unsafe {
            let bit = _mm256_set1_ps(-0.0);
            _mm256_or_ps(_mm256_andnot_ps(bit, a), _mm256_and_ps(bit, sign))
        }
    }

    #[inline(always)]
    fn join<const COUNT: usize>(self, mut vectors: [__m256; COUNT]) -> [__m256; COUNT] {
        if let Some(four) = vectors.first_chunk_mut::<4>() {
            *four = unsafe { opaque(*four) };
        }
        vectors
    }
}

#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all, above"
)]
impl Simd for Avx2 {
    const CONVERTS_F16: bool = true;
    const FUSED: bool = true;
    const TILE_ROWS: usize = 6;
    const TILE_PANELS: usize = 1;

    #[inline(always)]
    fn tile(product: ProductKind, rows: usize, columns: usize) -> Kernel {
        let kernels = match product {
            ProductKind::Floats => &FLOATS,
            // This level has no instruction for pairs of bf16.
            ProductKind::Bf16Pairs | ProductKind::WidenedBf16 => &WIDENED_BF16,
            ProductKind::WidenedF16 => &WIDENED_F16,
            ProductKind::Quads => &QUADS,
            ProductKind::SignedQuads => &SIGNED_QUADS,
            ProductKind::Pairs => &PAIRS,
        };
        kernels[rows - 1][columns.div_ceil(8) - 1]
    }

    #[inline(always)]
    unsafe fn add_products_of_quads(self, a: __m256, b: __m256, sum: __m256) -> __m256 {
        let [a, b, sum] = [a, b, sum].map(|v| unsafe { _mm256_castps_si256(v) });
        unsafe { _mm256_castsi256_ps(_mm256_dpbusd_avx_epi32(sum, a, b)) }
    }

    #[inline(always)]
    fn bf16_of_pairs(self, words: __m256, nth: usize) -> __m256 {
        unsafe {
            let words = _mm256_castps_si256(words);
            _mm256_castsi256_ps(if nth == 0 {
                _mm256_slli_epi32::<16>(words)
            } else {
                _mm256_and_si256(words, _mm256_set1_epi32(0xFFFF_0000_u32 as i32))
            })
        }
    }

    #[inline(always)]
    fn add_products_of_pairs(self, a: __m256, b: __m256, sum: __m256) -> __m256 {
        let [a, b, sum] = [a, b, sum].map(|v| unsafe { _mm256_castps_si256(v) });
        unsafe { _mm256_castsi256_ps(add_in_order(sum, _mm256_madd_epi16(a, b))) }
    }

    #[inline(always)]
    fn pairs_of_bytes(self, words: __m256, nth: usize) -> __m256 {
        unsafe {
            let words = _mm256_castps_si256(words);
            let high = if nth == 0 {
                _mm256_slli_epi16::<8>(words)
            } else {
                words
            };
            _mm256_castsi256_ps(_mm256_srai_epi16::<8>(high))
        }
    }

    #[inline(always)]
    fn invert(self, words: __m256, mask: __m256) -> __m256 {
        unsafe { _mm256_xor_ps(words, mask) }
    }

    #[inline(always)]
    fn add_integers(self, a: __m256, b: __m256) -> __m256 {
        unsafe {
            let sum = _mm256_add_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b));
            _mm256_castsi256_ps(sum)
        }
    }

    #[inline(always)]
    fn subtract_product(self, words: __m256, factor: i32, others: __m256) -> __m256 {
        unsafe {
            let product =
                _mm256_mullo_epi32(_mm256_castps_si256(others), _mm256_set1_epi32(factor));
            _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_castps_si256(words), product))
        }
    }

    #[inline(always)]
    fn integers_to_floats(self, words: __m256) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(_mm256_castps_si256(words)) }
    }

    #[inline(always)]
    fn signed_fields<const BITS: u32>(self, words: __m256, nth: u32) -> __m256 {
        unsafe {
            let up = _mm256_set1_epi32((32 - BITS * (nth + 1)) as i32);
            let down = _mm256_set1_epi32((32 - BITS) as i32);
            let words = _mm256_castps_si256(words);
            let fields = _mm256_srav_epi32(_mm256_sllv_epi32(words, up), down);
            _mm256_cvtepi32_ps(fields)
        }
    }

    #[inline(always)]
    fn load_bytes(self, from: &[u8], flip: u8) -> __m256 {
        // Of a whole vector the length is known: a copy of another length is a call.
        let eight = from.first_chunk().copied().unwrap_or_else(|| {
            let mut eight = [0; 8];
            eight[..from.len()].copy_from_slice(from);
            eight
        });
        unsafe {
            let bytes = _mm_cvtsi64_si128(i64::from_le_bytes(eight));
            let bytes = _mm_xor_si128(bytes, _mm_set1_epi8(flip as i8));
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes))
        }
    }

    #[inline(always)]
    fn store_low_bytes(self, words: __m256, to: &mut [u8]) {
        unsafe {
            // The low byte of each word, in the low words of both halves.
            let bytes = _mm256_set1_epi32(0x0C08_0400);
            let packed = _mm256_shuffle_epi8(_mm256_castps_si256(words), bytes);
            let halves =
                _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 0, 0, 0, 0, 0, 0));
            let eight = _mm_cvtsi128_si64(_mm256_castsi256_si128(halves)).to_le_bytes();
            match to.first_chunk_mut() {
                Some(to) => *to = eight,
                None => to.copy_from_slice(&eight[..to.len()]),
            }
        }
    }

    #[inline(always)]
    unsafe fn map_unary(self, function: UnaryFunction, from: *const f32, to: *mut f32, len: usize) {
        // SAFETY: a value of `Self` exists only on a CPU with the instructions; the caller guarantees
        // the pointers.
        unsafe { map_unary(function, from, to, len) }
    }

    #[inline(always)]
    unsafe fn load_part_ptr(self, from: *const f32, count: usize) -> __m256 {
        unsafe { _mm256_maskload_ps(from, first(count)) }
    }

    #[inline(always)]
    fn gather(self, from: &[f32], positions: &[u32]) -> __m256 {
        let positions = &positions[..8];
        // The instruction's indices are signed.
        let len = from.len().min(i32::MAX as usize);
        debug_assert!(len == from.len());
        // SAFETY: 8 positions are read; elements are read at those from 0 on below the length alone.
        unsafe {
            let at = _mm256_loadu_si256(positions.as_ptr().cast());
            let below = _mm256_cmpgt_epi32(_mm256_set1_epi32(len as i32), at);
            let inside = _mm256_andnot_si256(_mm256_srai_epi32::<31>(at), below);
            let (zero, inside) = (_mm256_setzero_ps(), _mm256_castsi256_ps(inside));
            _mm256_mask_i32gather_ps::<4>(zero, from.as_ptr(), at, inside)
        }
    }

    #[inline(always)]
    unsafe fn stream_ptr(self, v: __m256, to: *mut f32) {
        unsafe { _mm256_stream_ps(to, v) }
    }

    #[inline(always)]
    fn store_fence(self) {
        // SAFETY: SSE is part of x86-64.
        unsafe { _mm_sfence() }
    }

    #[inline(always)]
    unsafe fn store_part_ptr(self, v: __m256, to: *mut f32, count: usize) {
        unsafe { _mm256_maskstore_ps(to, first(count), v) }
    }

    #[inline(always)]
    unsafe fn widen_ptr(self, from: *const f16) -> __m256 {
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn widen_bf16_ptr(self, from: *const bf16) -> __m256 {
        unsafe {
            let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
        }
    }

    #[inline(always)]
    unsafe fn narrow_ptr(self, v: __m256, to: *mut f16) {
        unsafe { _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) }
    }

    #[inline(always)]
    fn nan_max(self, a: __m256, b: __m256) -> __m256 {
        // The maximum is b where either is NaN.
        unsafe { _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a)) }
    }

    #[inline(always)]
    fn evens(self, a: __m256, b: __m256) -> __m256 {
        unsafe {
            // Within halves of 128 bits: those of a and b in turn.
            let mixed = _mm256_castps_pd(_mm256_shuffle_ps::<0b10_00_10_00>(a, b));
            _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(mixed))
        }
    }

    #[inline(always)]
    fn sum(self, a: __m256) -> f32 {
        unsafe {
            let half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)))
        }
    }

    #[inline(always)]
    fn has_nan(self, a: __m256) -> bool {
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(a, a)) != 0 }
    }

    #[inline(always)]
    fn largest(self, a: __m256) -> f32 {
        unsafe {
            let half = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let quarter = _mm_max_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_max_ss(quarter, _mm_movehdup_ps(quarter)))
        }
    }
}

term_vectors! { Avx2:
    f32, __m256, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_add_ps, _mm256_fmadd_ps;
    f64, __m256d, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_add_pd, _mm256_fmadd_pd;
    i32, __m256i, _mm256_set1_epi32, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_add_epi32,
        plus_product_i32;
    i64, __m256i, _mm256_set1_epi64x, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_add_epi64,
        plus_product_i64;
}

/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn plus_product_i32(a: __m256i, b: __m256i, sum: __m256i) -> __m256i {
    // SAFETY: the caller guarantees the instructions.
    unsafe { _mm256_add_epi32(sum, _mm256_mullo_epi32(a, b)) }
}

/// `sum + a * b` in 64 bits, of products of 32 bits: only the low halves contribute to the low half.
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn plus_product_i64(a: __m256i, b: __m256i, sum: __m256i) -> __m256i {
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let crossed = _mm256_mullo_epi32(a, _mm256_shuffle_epi32::<0b10_11_00_01>(b));
        let high = _mm256_add_epi32(crossed, _mm256_slli_epi64::<32>(crossed));
        let high = _mm256_and_si256(high, _mm256_set1_epi64x(!0 << 32));
        _mm256_add_epi64(_mm256_add_epi64(sum, high), _mm256_mul_epu32(a, b))
    }
}
