//! AVX-512 (F, BW, DQ, VL): 16 lanes, 32 registers.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::math::{self, UnaryFunction};
use super::products::{
    Bf16Pairs, Floats, Pairs, Product, ProductKind, Quads, SignedQuads, WidenedBf16, WidenedF16,
};
use super::terms::term_vectors;
use super::tile::{Kernel, Tile, compute};
use super::{Arithmetic, Simd, VectorOp};
use half::{bf16, f16};
use std::arch::asm;
use std::arch::x86_64::*;

/// A CPU with AVX-512; exists only on one.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

/// # Safety
/// The CPU has the instructions of [`CpuLevel::Avx512`](tenon_base::CpuLevel::Avx512).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(super) unsafe fn run<O: VectorOp>(op: O) -> O::Output {
    op.eval(Avx512(()))
}

/// # Safety
/// The CPU has the instructions of [`CpuLevel::Avx512`](tenon_base::CpuLevel::Avx512);
/// the tile is as [`compute`] requires.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn tile<P: Product<Avx512>, const ROWS: usize, const VECTORS: usize>(tile: &Tile<'_>) {
    // SAFETY: the caller guarantees the instructions and the tile.
    unsafe { compute::<Avx512, P, ROWS, VECTORS>(Avx512(()), tile) }
}

/// # Safety
/// As for [`tile`]; the CPU has AVX-512 VNNI besides.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
unsafe fn tile_of_quads<P: Product<Avx512>, const ROWS: usize, const VECTORS: usize>(
    tile: &Tile<'_>,
) {
    // SAFETY: the caller guarantees the instructions and the tile.
    unsafe { compute::<Avx512, P, ROWS, VECTORS>(Avx512(()), tile) }
}

/// # Safety
/// As for [`tile`]; the CPU has AVX512-BF16 besides.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn tile_of_bf16<const ROWS: usize, const VECTORS: usize>(tile: &Tile<'_>) {
    // SAFETY: the caller guarantees the instructions and the tile.
    unsafe { compute::<Avx512, Bf16Pairs, ROWS, VECTORS>(Avx512(()), tile) }
}

/// # Safety
/// The CPU has the instructions of [`CpuLevel::Avx512`](tenon_base::CpuLevel::Avx512);
/// the pointers are as [`math::map_unary`] requires.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn map_unary(function: UnaryFunction, from: *const f32, to: *mut f32, len: usize) {
    // SAFETY: the caller guarantees the instructions and the pointers.
    unsafe { math::map_unary(Avx512(()), function, from, to, len) }
}

macro_rules! kernels {
    ($($rows:literal)*) => {
        /// Kernels of each number of rows, of one panel and of two.
        type Kernels = [[Kernel; 2]; [$($rows),*].len()];

        static FLOATS: Kernels = [$([tile::<Floats, $rows, 1>, tile::<Floats, $rows, 2>]),*];
        static PAIRS: Kernels = [$([tile::<Pairs, $rows, 1>, tile::<Pairs, $rows, 2>]),*];
        static WIDENED_BF16: Kernels =
            [$([tile::<WidenedBf16, $rows, 1>, tile::<WidenedBf16, $rows, 2>]),*];
        static WIDENED_F16: Kernels =
            [$([tile::<WidenedF16, $rows, 1>, tile::<WidenedF16, $rows, 2>]),*];
        static BF16_PAIRS: Kernels = [$([tile_of_bf16::<$rows, 1>, tile_of_bf16::<$rows, 2>]),*];
        static QUADS: Kernels =
            [$([tile_of_quads::<Quads, $rows, 1>, tile_of_quads::<Quads, $rows, 2>]),*];
        static SIGNED_QUADS: Kernels =
            [$([tile_of_quads::<SignedQuads, $rows, 1>, tile_of_quads::<SignedQuads, $rows, 2>]),*];
    };
}

kernels!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);

/// The elements of `a`, then those of `b`, rounded to bf16. The intrinsic would be a call from functions without its
/// target feature.
///
/// # Safety
/// The CPU has AVX-512 and AVX512-BF16.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn round_to_bf16(a: __m512, b: __m512) -> __m512 {
    // SAFETY: the caller guarantees the instruction, which has no other effect.
    unsafe {
        let result;
        asm!(
            "vcvtne2ps2bf16 {result}, {b}, {a}",
            result = lateout(zmm_reg) result,
            a = in(zmm_reg) a,
            b = in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
        result
    }
}

/// The mask of the lanes below `count`.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    (1u32 << count).wrapping_sub(1) as __mmask16
}

// SAFETY of every block below: a value of `Avx512` exists only on a CPU with the instructions, and
// the caller of a function with pointers guarantees them as the trait requires.
#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all, above"
)]
impl Arithmetic for Avx512 {
    type V = __m512;
    type Mask = __mmask16;
    const LANES: usize = 16;

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load_ptr(self, from: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store_ptr(self, v: __m512, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, v) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_div_ps(a, b) }
    }

    #[inline(always)]
    fn sqrt(self, a: __m512) -> __m512 {
        unsafe { _mm512_sqrt_ps(a) }
    }

    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_min_ps(a, b) }
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }

    #[inline(always)]
    fn scale2(self, a: __m512, n: __m512) -> __m512 {
        unsafe { _mm512_scalef_ps(a, n) }
    }

    #[inline(always)]
    fn power2(self, n: __m512) -> __m512 {
        unsafe {
            let biased = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
        }
    }

    #[inline(always)]
    fn less(self, a: __m512, b: __m512) -> __mmask16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) }
    }

    #[inline(always)]
    fn select(self, mask: __mmask16, yes: __m512, no: __m512) -> __m512 {
        unsafe { _mm512_mask_blend_ps(mask, no, yes) }
    }

    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        unsafe { _mm512_abs_ps(a) }
    }

    #[inline(always)]
    fn copysign(self, a: __m512, sign: __m512) -> __m512 {
        unsafe {
            let bit = _mm512_set1_ps(-0.0);
            _mm512_or_ps(_mm512_andnot_ps(bit, a), _mm512_and_ps(bit, sign))
        }
    }
}

#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all, above"
)]
impl Simd for Avx512 {
    const CONVERTS_F16: bool = true;
    const FUSED: bool = true;
    const TILE_ROWS: usize = 14;
    const TILE_PANELS: usize = 2;

    #[inline(always)]
    fn tile(product: ProductKind, rows: usize, columns: usize) -> Kernel {
        let kernels = match product {
            ProductKind::Floats => &FLOATS,
            ProductKind::Bf16Pairs => &BF16_PAIRS,
            ProductKind::WidenedBf16 => &WIDENED_BF16,
            ProductKind::WidenedF16 => &WIDENED_F16,
            ProductKind::Quads => &QUADS,
            ProductKind::SignedQuads => &SIGNED_QUADS,
            ProductKind::Pairs => &PAIRS,
        };
        kernels[rows - 1][columns.div_ceil(16) - 1]
    }

    #[inline(always)]
    unsafe fn add_products_of_quads(self, a: __m512, b: __m512, sum: __m512) -> __m512 {
        let [a, b, sum] = [a, b, sum].map(|v| unsafe { _mm512_castps_si512(v) });
        unsafe { _mm512_castsi512_ps(_mm512_dpbusd_epi32(sum, a, b)) }
    }

    #[inline(always)]
    unsafe fn add_products_of_bf16(self, a: __m512, b: __m512, sum: __m512) -> __m512 {
        // SAFETY: the caller guarantees the instruction; both types are 512 bits, any of which are valid.
        unsafe {
            let [a, b] = [a, b].map(|v| std::mem::transmute::<__m512, __m512bh>(v));
            _mm512_dpbf16_ps(sum, a, b)
        }
    }

    #[inline(always)]
    unsafe fn round_to_bf16(self, a: __m512, b: __m512) -> __m512 {
        unsafe { round_to_bf16(a, b) }
    }

    #[inline(always)]
    fn bf16_of_pairs(self, words: __m512, nth: usize) -> __m512 {
        unsafe {
            let words = _mm512_castps_si512(words);
            _mm512_castsi512_ps(if nth == 0 {
                _mm512_slli_epi32::<16>(words)
            } else {
                _mm512_and_si512(words, _mm512_set1_epi32(0xFFFF_0000_u32 as i32))
            })
        }
    }

    #[inline(always)]
    fn add_products_of_pairs(self, a: __m512, b: __m512, sum: __m512) -> __m512 {
        let [a, b, sum] = [a, b, sum].map(|v| unsafe { _mm512_castps_si512(v) });
        unsafe { _mm512_castsi512_ps(_mm512_add_epi32(sum, _mm512_madd_epi16(a, b))) }
    }

    #[inline(always)]
    fn pairs_of_bytes(self, words: __m512, nth: usize) -> __m512 {
        unsafe {
            let words = _mm512_castps_si512(words);
            let high = if nth == 0 {
                _mm512_slli_epi16::<8>(words)
            } else {
                words
            };
            _mm512_castsi512_ps(_mm512_srai_epi16::<8>(high))
        }
    }

    #[inline(always)]
    fn invert(self, words: __m512, mask: __m512) -> __m512 {
        unsafe { _mm512_xor_ps(words, mask) }
    }

    #[inline(always)]
    fn add_integers(self, a: __m512, b: __m512) -> __m512 {
        unsafe {
            let sum = _mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b));
            _mm512_castsi512_ps(sum)
        }
    }

    #[inline(always)]
    fn subtract_product(self, words: __m512, factor: i32, others: __m512) -> __m512 {
        unsafe {
            let product =
                _mm512_mullo_epi32(_mm512_castps_si512(others), _mm512_set1_epi32(factor));
            _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_castps_si512(words), product))
        }
    }

    #[inline(always)]
    fn integers_to_floats(self, words: __m512) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(_mm512_castps_si512(words)) }
    }

    #[inline(always)]
    fn signed_fields<const BITS: u32>(self, words: __m512, nth: u32) -> __m512 {
        unsafe {
            let words = _mm512_castps_si512(words);
            if BITS == 4 {
                // The permutation ignores higher bits of the indices.
                let table = _mm512_setr_ps(
                    0., 1., 2., 3., 4., 5., 6., 7., -8., -7., -6., -5., -4., -3., -2., -1.,
                );
                let low = _mm512_srlv_epi32(words, _mm512_set1_epi32((nth * BITS) as i32));
                return _mm512_permutexvar_ps(low, table);
            }
            let up = _mm512_set1_epi32((32 - BITS * (nth + 1)) as i32);
            let down = _mm512_set1_epi32((32 - BITS) as i32);
            let fields = _mm512_srav_epi32(_mm512_sllv_epi32(words, up), down);
            _mm512_cvtepi32_ps(fields)
        }
    }

    #[inline(always)]
    fn load_bytes(self, from: &[u8], flip: u8) -> __m512 {
        unsafe {
            let bytes = if from.len() >= 16 {
                _mm_loadu_si128(from.as_ptr().cast())
            } else {
                _mm_maskz_loadu_epi8(first(from.len()), from.as_ptr().cast())
            };
            let bytes = _mm_xor_si128(bytes, _mm_set1_epi8(flip as i8));
            _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))
        }
    }

    #[inline(always)]
    fn store_low_bytes(self, words: __m512, to: &mut [u8]) {
        unsafe {
            let integers = _mm512_castps_si512(words);
            if to.len() >= 16 {
                _mm_storeu_si128(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(integers));
            } else {
                let mask = first(to.len());
                _mm512_mask_cvtepi32_storeu_epi8(to.as_mut_ptr().cast(), mask, integers);
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
    unsafe fn load_part_ptr(self, from: *const f32, count: usize) -> __m512 {
        unsafe { _mm512_maskz_loadu_ps(first(count), from) }
    }

    #[inline(always)]
    fn gather(self, from: &[f32], positions: &[u32]) -> __m512 {
        let positions = &positions[..16];
        // The instruction's indices are signed.
        let len = from.len().min(i32::MAX as usize);
        debug_assert!(len == from.len());
        // SAFETY: 16 positions are read; elements are read at those below the length alone.
        unsafe {
            let at = _mm512_loadu_si512(positions.as_ptr().cast());
            let inside = _mm512_cmplt_epu32_mask(at, _mm512_set1_epi32(len as i32));
            _mm512_mask_i32gather_ps::<4>(_mm512_setzero_ps(), inside, at, from.as_ptr().cast())
        }
    }

    #[inline(always)]
    unsafe fn stream_ptr(self, v: __m512, to: *mut f32) {
        unsafe { _mm512_stream_ps(to, v) }
    }

    #[inline(always)]
    fn store_fence(self) {
        // SAFETY: SSE is part of x86-64.
        unsafe { _mm_sfence() }
    }

    #[inline(always)]
    unsafe fn store_part_ptr(self, v: __m512, to: *mut f32, count: usize) {
        unsafe { _mm512_mask_storeu_ps(to, first(count), v) }
    }

    #[inline(always)]
    unsafe fn widen_ptr(self, from: *const f16) -> __m512 {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn widen_bf16_ptr(self, from: *const bf16) -> __m512 {
        unsafe {
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
        }
    }

    #[inline(always)]
    unsafe fn narrow_ptr(self, v: __m512, to: *mut f16) {
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) }
    }

    #[inline(always)]
    fn nan_max(self, a: __m512, b: __m512) -> __m512 {
        // The maximum is b where either is NaN.
        unsafe {
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a);
            _mm512_mask_mov_ps(_mm512_max_ps(a, b), nan, a)
        }
    }

    #[inline(always)]
    fn evens(self, a: __m512, b: __m512) -> __m512 {
        unsafe {
            let positions =
                _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            _mm512_permutex2var_ps(a, positions, b)
        }
    }

    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        unsafe { _mm512_reduce_add_ps(a) }
    }

    #[inline(always)]
    fn has_nan(self, a: __m512) -> bool {
        unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a) != 0 }
    }

    #[inline(always)]
    fn largest(self, a: __m512) -> f32 {
        unsafe { _mm512_reduce_max_ps(a) }
    }
}

term_vectors! { Avx512:
    f32, __m512, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps, _mm512_fmadd_ps;
    f64, __m512d, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_add_pd, _mm512_fmadd_pd;
    i32, __m512i, _mm512_set1_epi32, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_add_epi32,
        plus_product_i32;
    i64, __m512i, _mm512_set1_epi64, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_add_epi64,
        plus_product_i64;
}

/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn plus_product_i32(a: __m512i, b: __m512i, sum: __m512i) -> __m512i {
    // SAFETY: the caller guarantees the instructions.
    unsafe { _mm512_add_epi32(sum, _mm512_mullo_epi32(a, b)) }
}

/// # Safety
/// The CPU has AVX-512.
#[inline(always)]
unsafe fn plus_product_i64(a: __m512i, b: __m512i, sum: __m512i) -> __m512i {
    // SAFETY: the caller guarantees the instructions.
    unsafe { _mm512_add_epi64(sum, _mm512_mullo_epi64(a, b)) }
}
