//! Vectors of four elements in plain Rust, which the compiler vectorises for the target's baseline.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::math::{self, UnaryFunction};
use super::products::{Floats, Pairs, Product, ProductKind, WidenedBf16, WidenedF16};
use super::terms::plain_term_vectors;
use super::tile::{Kernel, Tile, compute};
use super::{Arithmetic, Simd};

/// Any CPU.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

const LANES: usize = 4;

/// # Safety
/// The tile is as [`compute`] requires.
unsafe fn tile<P: Product<Portable>, const ROWS: usize>(tile: &Tile<'_>) {
    // SAFETY: the caller guarantees the tile.
    unsafe { compute::<Portable, P, ROWS, 4>(Portable, tile) }
}

/// # Safety
/// The pointers are as [`math::map_unary`] requires.
unsafe fn map_unary(function: UnaryFunction, from: *const f32, to: *mut f32, len: usize) {
    // SAFETY: the caller guarantees the pointers.
    unsafe { math::map_unary(Portable, function, from, to, len) }
}

/// Indexed by rows less one: one panel, four vectors wide.
static FLOATS: [Kernel; 3] = [tile::<Floats, 1>, tile::<Floats, 2>, tile::<Floats, 3>];
static PAIRS: [Kernel; 3] = [tile::<Pairs, 1>, tile::<Pairs, 2>, tile::<Pairs, 3>];
static WIDENED_BF16: [Kernel; 3] = [
    tile::<WidenedBf16, 1>,
    tile::<WidenedBf16, 2>,
    tile::<WidenedBf16, 3>,
];
static WIDENED_F16: [Kernel; 3] = [
    tile::<WidenedF16, 1>,
    tile::<WidenedF16, 2>,
    tile::<WidenedF16, 3>,
];

#[inline(always)]
fn map(a: [f32; LANES], f: impl Fn(f32) -> f32) -> [f32; LANES] {
    [f(a[0]), f(a[1]), f(a[2]), f(a[3])]
}

#[inline(always)]
fn zip(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    [f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])]
}

/// 2^n for integers in -126..=127.
#[inline(always)]
fn power2(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

impl Arithmetic for Portable {
    type V = [f32; LANES];
    type Mask = [bool; LANES];
    const LANES: usize = LANES;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        [value; LANES]
    }

    #[inline(always)]
    unsafe fn load_ptr(self, from: *const f32) -> Self::V {
        // SAFETY: the caller guarantees `LANES` readable elements; the read is unaligned.
        unsafe { from.cast::<[f32; LANES]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store_ptr(self, v: Self::V, to: *mut f32) {
        // SAFETY: the caller guarantees `LANES` writable elements; the write is unaligned.
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(v) }
    }

    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn sqrt(self, a: Self::V) -> Self::V {
        map(a, f32::sqrt)
    }

    #[inline(always)]
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // Two roundings: without the instruction one rounding is a slow library call.
        self.add(self.mul(a, b), c)
    }

    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn round(self, a: Self::V) -> Self::V {
        // Adding 2^23 leaves no bits for a fraction.
        const SHIFT: f32 = 8_388_608.0;
        map(a, |a| ((a.abs() + SHIFT) - SHIFT).copysign(a))
    }

    #[inline(always)]
    fn scale2(self, a: Self::V, n: Self::V) -> Self::V {
        zip(a, n, |a, n| {
            // The integer of a NaN is 0; the NaN is still in `a`.
            let n = (n as i32).clamp(-252, 252);
            let half = n >> 1;
            a * power2(half) * power2(n - half)
        })
    }

    #[inline(always)]
    fn power2(self, n: Self::V) -> Self::V {
        map(n, |n| power2((n as i32).clamp(-127, 127)))
    }

    #[inline(always)]
    fn less(self, a: Self::V, b: Self::V) -> Self::Mask {
        [a[0] < b[0], a[1] < b[1], a[2] < b[2], a[3] < b[3]]
    }

    #[inline(always)]
    fn select(self, mask: Self::Mask, yes: Self::V, no: Self::V) -> Self::V {
        let pick = |lane: usize| if mask[lane] { yes[lane] } else { no[lane] };
        [pick(0), pick(1), pick(2), pick(3)]
    }

    #[inline(always)]
    fn abs(self, a: Self::V) -> Self::V {
        map(a, f32::abs)
    }

    #[inline(always)]
    fn copysign(self, a: Self::V, sign: Self::V) -> Self::V {
        zip(a, sign, f32::copysign)
    }
}

impl Simd for Portable {
    const FUSED: bool = false;
    const TILE_ROWS: usize = 3;
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
    unsafe fn map_unary(self, function: UnaryFunction, from: *const f32, to: *mut f32, len: usize) {
        // SAFETY: the caller guarantees the pointers.
        unsafe { map_unary(function, from, to, len) }
    }

    #[inline(always)]
    unsafe fn load_part_ptr(self, from: *const f32, count: usize) -> Self::V {
        let mut v = [0.0; LANES];
        for (lane, v) in v.iter_mut().enumerate().take(count) {
            // SAFETY: the caller guarantees `count` readable elements, and `lane` is below.
            *v = unsafe { *from.add(lane) };
        }
        v
    }

    #[inline(always)]
    unsafe fn store_part_ptr(self, v: Self::V, to: *mut f32, count: usize) {
        for (lane, v) in v.into_iter().enumerate().take(count) {
            // SAFETY: the caller guarantees `count` writable elements, and `lane` is below.
            unsafe { *to.add(lane) = v };
        }
    }

    #[inline(always)]
    fn nan_max(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if b > a || b.is_nan() { b } else { a })
    }

    #[inline(always)]
    fn sum(self, a: Self::V) -> f32 {
        (a[0] + a[2]) + (a[1] + a[3])
    }

    #[inline(always)]
    fn largest(self, a: Self::V) -> f32 {
        a[0].max(a[1]).max(a[2].max(a[3]))
    }
}

plain_term_vectors!(Portable);
