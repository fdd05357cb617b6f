//! NEON: 4 lanes, 32 registers.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::math::{self, UnaryFunction};
use super::products::{Floats, Pairs, Product, ProductKind, WidenedBf16, WidenedF16};
use super::terms::plain_term_vectors;
use super::tile::{Kernel, Tile, compute};
use super::{Arithmetic, Simd, VectorOp};
use std::arch::aarch64::*;

/// A CPU with NEON; exists only on one.
#[derive(Clone, Copy)]
pub(super) struct Neon(());

/// # Safety
/// The CPU has NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn run<O: VectorOp>(op: O) -> O::Output {
    op.eval(Neon(()))
}

/// # Safety
/// The CPU has NEON; the tile is as [`compute`] requires.
#[target_feature(enable = "neon")]
unsafe fn tile<P: Product<Neon>, const ROWS: usize>(tile: &Tile<'_>) {
    // SAFETY: the caller guarantees the instructions and the tile.
    unsafe { compute::<Neon, P, ROWS, 4>(Neon(()), tile) }
}

/// # Safety
/// The CPU has NEON; the pointers are as [`math::map_unary`] requires.
#[target_feature(enable = "neon")]
unsafe fn map_unary(function: UnaryFunction, from: *const f32, to: *mut f32, len: usize) {
    // SAFETY: the caller guarantees the instructions and the pointers.
    unsafe { math::map_unary(Neon(()), function, from, to, len) }
}

macro_rules! kernels {
    ($product:ident: $($rows:literal)*) => { [$(tile::<$product, $rows>),*] };
}

/// Indexed by rows less one: one panel, four vectors wide.
static FLOATS: [Kernel; 6] = kernels!(Floats: 1 2 3 4 5 6);
static PAIRS: [Kernel; 6] = kernels!(Pairs: 1 2 3 4 5 6);
static WIDENED_BF16: [Kernel; 6] = kernels!(WidenedBf16: 1 2 3 4 5 6);
static WIDENED_F16: [Kernel; 6] = kernels!(WidenedF16: 1 2 3 4 5 6);

// SAFETY of every block below: a value of `Neon` exists only on a CPU with the instructions, and
// the caller of a function with pointers guarantees them as the trait requires.
#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all, above"
)]
impl Arithmetic for Neon {
    type V = float32x4_t;
    type Mask = uint32x4_t;
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(self, value: f32) -> float32x4_t {
        unsafe { vdupq_n_f32(value) }
    }

    #[inline(always)]
    unsafe fn load_ptr(self, from: *const f32) -> float32x4_t {
        unsafe { vld1q_f32(from) }
    }

    #[inline(always)]
    unsafe fn store_ptr(self, v: float32x4_t, to: *mut f32) {
        unsafe { vst1q_f32(to, v) }
    }

    #[inline(always)]
    fn add(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vaddq_f32(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vsubq_f32(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vmulq_f32(a, b) }
    }

    #[inline(always)]
    fn div(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vdivq_f32(a, b) }
    }

    #[inline(always)]
    fn sqrt(self, a: float32x4_t) -> float32x4_t {
        unsafe { vsqrtq_f32(a) }
    }

    #[inline(always)]
    fn fma(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        unsafe { vfmaq_f32(c, a, b) }
    }

    #[inline(always)]
    fn min(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vbslq_f32(vcltq_f32(a, b), a, b) }
    }

    #[inline(always)]
    fn max(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vbslq_f32(vcgtq_f32(a, b), a, b) }
    }

    #[inline(always)]
    fn round(self, a: float32x4_t) -> float32x4_t {
        unsafe { vrndnq_f32(a) }
    }

    #[inline(always)]
    fn scale2(self, a: float32x4_t, n: float32x4_t) -> float32x4_t {
        // Two powers of half the exponent each, so that subnormal and infinite results are right.
        unsafe {
            let n = vcvtq_s32_f32(n);
            let half = vshrq_n_s32::<1>(n);
            let power =
                |n| vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(n, vdupq_n_s32(127))));
            vmulq_f32(vmulq_f32(a, power(half)), power(vsubq_s32(n, half)))
        }
    }

    #[inline(always)]
    fn power2(self, n: float32x4_t) -> float32x4_t {
        unsafe {
            let biased = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased))
        }
    }

    #[inline(always)]
    fn less(self, a: float32x4_t, b: float32x4_t) -> uint32x4_t {
        unsafe { vcltq_f32(a, b) }
    }

    #[inline(always)]
    fn select(self, mask: uint32x4_t, yes: float32x4_t, no: float32x4_t) -> float32x4_t {
        unsafe { vbslq_f32(mask, yes, no) }
    }

    #[inline(always)]
    fn abs(self, a: float32x4_t) -> float32x4_t {
        unsafe { vabsq_f32(a) }
    }

    #[inline(always)]
    fn copysign(self, a: float32x4_t, sign: float32x4_t) -> float32x4_t {
        unsafe { vbslq_f32(vdupq_n_u32(1 << 31), sign, a) }
    }
}

#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "one reason for all, above"
)]
impl Simd for Neon {
    const FUSED: bool = true;
    const TILE_ROWS: usize = 6;
    const TILE_PANELS: usize = 1;

    #[inline(always)]
    fn tile(product: ProductKind, rows: usize, _columns: usize) -> Kernel {
        let kernels = match product {
            ProductKind::Floats => &FLOATS,
            // This level has no instruction for quads or for pairs of bf16.
            ProductKind::Bf16Pairs | ProductKind::WidenedBf16 => &WIDENED_BF16,
            ProductKind::WidenedF16 => &WIDENED_F16,
            ProductKind::Quads | ProductKind::SignedQuads | ProductKind::Pairs => &PAIRS,
        };
        kernels[rows - 1]
    }

    #[inline(always)]
    fn add_products_of_pairs(
        self,
        a: float32x4_t,
        b: float32x4_t,
        sum: float32x4_t,
    ) -> float32x4_t {
        unsafe {
            let (a, b) = (vreinterpretq_s16_f32(a), vreinterpretq_s16_f32(b));
            let low = vmull_s16(vget_low_s16(a), vget_low_s16(b));
            let products = vpaddq_s32(low, vmull_high_s16(a, b));
            vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(sum), products))
        }
    }

    #[inline(always)]
    fn bf16_of_pairs(self, words: float32x4_t, nth: usize) -> float32x4_t {
        unsafe {
            let words = vreinterpretq_u32_f32(words);
            vreinterpretq_f32_u32(if nth == 0 {
                vshlq_n_u32::<16>(words)
            } else {
                vandq_u32(words, vdupq_n_u32(0xFFFF_0000))
            })
        }
    }

    #[inline(always)]
    fn pairs_of_bytes(self, words: float32x4_t, nth: usize) -> float32x4_t {
        unsafe {
            let words = vreinterpretq_s16_f32(words);
            let high = if nth == 0 {
                vshlq_n_s16::<8>(words)
            } else {
                words
            };
            vreinterpretq_f32_s16(vshrq_n_s16::<8>(high))
        }
    }

    #[inline(always)]
    fn add_integers(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe {
            let sum = vaddq_s32(vreinterpretq_s32_f32(a), vreinterpretq_s32_f32(b));
            vreinterpretq_f32_s32(sum)
        }
    }

    #[inline(always)]
    fn integers_to_floats(self, words: float32x4_t) -> float32x4_t {
        unsafe { vcvtq_f32_s32(vreinterpretq_s32_f32(words)) }
    }

    #[inline(always)]
    fn signed_fields<const BITS: u32>(self, words: float32x4_t, nth: u32) -> float32x4_t {
        unsafe {
            let up = vdupq_n_s32((32 - BITS * (nth + 1)) as i32);
            let down = vdupq_n_s32(BITS as i32 - 32);
            // A shift by a negative count is one to the right.
            let fields = vshlq_s32(vshlq_s32(vreinterpretq_s32_f32(words), up), down);
            vcvtq_f32_s32(fields)
        }
    }

    #[inline(always)]
    unsafe fn map_unary(self, function: UnaryFunction, from: *const f32, to: *mut f32, len: usize) {
        unsafe { map_unary(function, from, to, len) }
    }

    #[inline(always)]
    unsafe fn load_part_ptr(self, from: *const f32, count: usize) -> float32x4_t {
        let mut lanes = [0.0; 4];
        for (lane, number) in lanes.iter_mut().enumerate().take(count) {
            *number = unsafe { *from.add(lane) };
        }
        unsafe { vld1q_f32(lanes.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn store_part_ptr(self, v: float32x4_t, to: *mut f32, count: usize) {
        let mut lanes = [0.0; 4];
        unsafe { vst1q_f32(lanes.as_mut_ptr(), v) };
        for (lane, number) in lanes.into_iter().enumerate().take(count) {
            unsafe { *to.add(lane) = number };
        }
    }

    #[inline(always)]
    fn nan_max(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // FMAX returns NaN when either is NaN.
        unsafe { vmaxq_f32(a, b) }
    }

    #[inline(always)]
    fn evens(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vuzp1q_f32(a, b) }
    }

    #[inline(always)]
    fn sum(self, a: float32x4_t) -> f32 {
        unsafe { vaddvq_f32(a) }
    }

    #[inline(always)]
    fn largest(self, a: float32x4_t) -> f32 {
        unsafe { vmaxvq_f32(a) }
    }
}

plain_term_vectors!(Neon);
