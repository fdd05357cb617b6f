//! Vector instructions: one trait, [`Simd`], implemented for each level of the CPU; the micro-kernels
//! of GEMM and of depthwise convolution; and slices that threads write concurrently, in disjoint
//! parts. The only modules of this crate with unsafe code.
//!
//! An algorithm is a type that implements [`VectorOp`]: its `eval` is generic over the vectors and is
//! compiled once for each level, inside a function that has the level's instructions enabled.
//! A value of a `Simd` type exists only on a CPU that has them, so its arithmetic is safe to call.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod complex;
pub(crate) mod depthwise;
pub(crate) mod disjoint;
mod division;
pub(crate) mod elements;
pub(crate) mod gemm;
mod k_blocks;
mod level;
pub(crate) mod math;
#[cfg(target_arch = "aarch64")]
mod neon;
mod packed_rows;
mod portable;
pub(crate) mod products;
pub(crate) mod row_elements;
pub(crate) mod rows;
mod schedule;
pub(crate) mod terms;
pub(crate) mod tile;
pub(crate) mod transpose;
pub(crate) mod trees;
pub(crate) mod typed_gemm;
pub(crate) mod unrolled;

pub(crate) use level::Level;
pub(crate) use portable::Portable;

use half::{bf16, f16};
use products::ProductKind;
use terms::TermVectors;

/// Most elements of a vector, for sizes that do not depend on the level.
pub(crate) const MAX_LANES: usize = 16;

/// Arithmetic on vectors of f32.
///
/// Minimum, maximum and the clamps made of them return a NaN of their second operand.
pub(crate) trait Arithmetic: Copy {
    /// A vector of [`Arithmetic::LANES`] elements.
    type V: Copy;

    /// A comparison result for each lane.
    type Mask: Copy;

    /// Elements of a vector; of a level's, a divisor of [`crate::panels::WIDTH`].
    const LANES: usize;

    fn splat(self, value: f32) -> Self::V;

    /// # Safety
    /// `from` is valid for reading [`Arithmetic::LANES`] elements.
    unsafe fn load_ptr(self, from: *const f32) -> Self::V;

    /// # Safety
    /// `to` is valid for writing [`Arithmetic::LANES`] elements.
    unsafe fn store_ptr(self, v: Self::V, to: *mut f32);

    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    fn sqrt(self, a: Self::V) -> Self::V;

    /// `a * b + c`, rounded once where the CPU can.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;

    /// The lesser; `b` when either is NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;

    /// The greater; `b` when either is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;

    /// To the nearest integer, halves to even. For magnitudes below 2^23.
    fn round(self, a: Self::V) -> Self::V;

    /// `a * 2^n`, for integers `n` in -252..=252.
    fn scale2(self, a: Self::V, n: Self::V) -> Self::V;

    /// `2^n`, for integers `n` in -127..=127; of -127 it may be 0. Unspecified outside, and of NaN.
    fn power2(self, n: Self::V) -> Self::V;

    fn less(self, a: Self::V, b: Self::V) -> Self::Mask;

    /// Lanes of `yes` where the mask is true, else of `no`.
    fn select(self, mask: Self::Mask, yes: Self::V, no: Self::V) -> Self::V;

    fn abs(self, a: Self::V) -> Self::V;

    /// The magnitude of `a` with the sign of `sign`.
    fn copysign(self, a: Self::V, sign: Self::V) -> Self::V;

    /// The first [`Arithmetic::LANES`] elements of `from`.
    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::V {
        assert!(from.len() >= Self::LANES);
        // SAFETY: the slice has at least `LANES` elements, checked above.
        unsafe { self.load_ptr(from.as_ptr()) }
    }

    /// Writes the first [`Arithmetic::LANES`] elements of `to`.
    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32]) {
        assert!(to.len() >= Self::LANES);
        // SAFETY: the slice has at least `LANES` elements, checked above.
        unsafe { self.store_ptr(v, to.as_mut_ptr()) }
    }

    /// `a` at the end of a stage of a function on several vectors: see [`Arithmetic::join`].
    #[inline(always)]
    fn staged(self, a: Self::V) -> Self::V {
        a
    }

    /// `vectors`, all of which are computed before what depends on any of them, where that is known to be faster.
    /// The compiler, which minimises live registers, would compute one vector after the other.
    #[inline(always)]
    fn join<const COUNT: usize>(self, vectors: [Self::V; COUNT]) -> [Self::V; COUNT] {
        vectors
    }
}

/// The vector instructions of a CPU, on f32, and for matrix products on other types.
pub(crate) trait Simd:
    Arithmetic
    + TermVectors<f32>
    + TermVectors<f64>
    + TermVectors<i32>
    + TermVectors<i64>
    + Send
    + Sync
    + 'static
{
    /// Whether f16 is converted by vector instructions.
    const CONVERTS_F16: bool = false;

    /// Whether [`Arithmetic::fma`] rounds once.
    const FUSED: bool;

    /// Most rows of a micro-kernel's tile (MR of BLIS).
    const TILE_ROWS: usize;

    /// Most panels of B of a micro-kernel's tile (NR of BLIS, in panels).
    const TILE_PANELS: usize;

    /// The micro-kernel for tiles of `rows` rows and `columns` columns, both at least 1. One of a product that the
    /// level may not have is for CPUs that [have](Level::has) it alone.
    fn tile(product: ProductKind, rows: usize, columns: usize) -> tile::Kernel;

    /// `sum` and the products of two bf16 of `a` and two of `b` in each word.
    ///
    /// # Safety
    /// [`Level::has`] [`ProductKind::Bf16Pairs`].
    #[inline(always)]
    unsafe fn add_products_of_bf16(self, a: Self::V, b: Self::V, sum: Self::V) -> Self::V {
        let [low, high] = [0, 1].map(|nth| [a, b].map(|words| self.bf16_of_pairs(words, nth)));
        self.fma(low[0], low[1], self.fma(high[0], high[1], sum))
    }

    /// The elements of `a`, then those of `b`, rounded to bf16, to nearest with ties to even.
    ///
    /// # Safety
    /// [`Level::has`] [`ProductKind::Bf16Pairs`].
    #[inline(always)]
    unsafe fn round_to_bf16(self, a: Self::V, b: Self::V) -> Self::V {
        let mut lanes = [0.0; 2 * MAX_LANES];
        self.store(a, &mut lanes);
        self.store(b, &mut lanes[Self::LANES..]);
        let mut words = [0.0; MAX_LANES];
        for (word, &[low, high]) in words.iter_mut().zip(lanes.as_chunks().0) {
            let [low, high] = [low, high].map(|lane| u32::from(bf16::from_f32(lane).to_bits()));
            *word = f32::from_bits(low | high << 16);
        }
        self.load(&words)
    }

    /// The first bf16 of each word in f32, or the second if `nth` is 1.
    #[inline(always)]
    fn bf16_of_pairs(self, words: Self::V, nth: usize) -> Self::V {
        map_words(self, [words; 3], |[word, ..]| {
            if nth == 0 {
                word << 16
            } else {
                word & 0xFFFF_0000
            }
        })
    }

    /// `sum` and the products of four u8 of `a` and four i8 of `b` in each word.
    ///
    /// # Safety
    /// [`Level::has`] [`ProductKind::Quads`].
    #[inline(always)]
    unsafe fn add_products_of_quads(self, a: Self::V, b: Self::V, sum: Self::V) -> Self::V {
        map_words(self, [a, b, sum], |[a, b, sum]| {
            let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
            products.fold(sum, |sum, (a, b)| {
                sum.wrapping_add_signed(i32::from(a) * i32::from(b as i8))
            })
        })
    }

    /// `sum` and the products of two i16 of `a` and two of `b` in each word.
    #[inline(always)]
    fn add_products_of_pairs(self, a: Self::V, b: Self::V, sum: Self::V) -> Self::V {
        map_words(self, [a, b, sum], |[a, b, sum]| {
            let low = i32::from(a as i16) * i32::from(b as i16);
            let high = i32::from((a >> 16) as i16) * i32::from((b >> 16) as i16);
            sum.wrapping_add_signed(low.wrapping_add(high))
        })
    }

    /// The i8 at even positions of each word as two i16, or those at odd positions if `nth` is 1.
    #[inline(always)]
    fn pairs_of_bytes(self, words: Self::V, nth: usize) -> Self::V {
        map_words(self, [words; 3], |[word, ..]| {
            let wide = |byte: u8| u32::from(i16::from(byte as i8) as u16);
            let bytes = word.to_le_bytes();
            wide(bytes[nth]) | wide(bytes[nth + 2]) << 16
        })
    }

    /// Words with the bits of `mask` inverted.
    #[inline(always)]
    fn invert(self, words: Self::V, mask: Self::V) -> Self::V {
        map_words(self, [words, mask, mask], |[word, mask, _]| word ^ mask)
    }

    /// The sum of words of i32.
    #[inline(always)]
    fn add_integers(self, a: Self::V, b: Self::V) -> Self::V {
        map_words(self, [a, b, b], |[a, b, _]| a.wrapping_add(b))
    }

    /// Words of i32 less the product of `factor` and other words.
    #[inline(always)]
    fn subtract_product(self, words: Self::V, factor: i32, others: Self::V) -> Self::V {
        map_words(self, [words, others, others], |[word, other, _]| {
            word.wrapping_sub((other as i32).wrapping_mul(factor) as u32)
        })
    }

    /// Words of i32 in f32.
    #[inline(always)]
    fn integers_to_floats(self, words: Self::V) -> Self::V {
        map_words(self, [words; 3], |[word, ..]| {
            (word as i32 as f32).to_bits()
        })
    }

    /// Signed integers of `BITS` bits (4 or 8) in f32: that at bit `nth * BITS` of each word.
    #[inline(always)]
    fn signed_fields<const BITS: u32>(self, words: Self::V, nth: u32) -> Self::V {
        map_words(self, [words; 3], |[word, ..]| {
            let field = (word << (32 - BITS * (nth + 1))) as i32 >> (32 - BITS);
            (field as f32).to_bits()
        })
    }

    /// The bytes of `from`, at most [`Arithmetic::LANES`], with the bits of `flip` inverted, in f32; other lanes are
    /// unspecified.
    #[inline(always)]
    fn load_bytes(self, from: &[u8], flip: u8) -> Self::V {
        let mut lanes = [0.0; MAX_LANES];
        for (lane, &byte) in lanes[..Self::LANES].iter_mut().zip(from) {
            *lane = f32::from(byte ^ flip);
        }
        self.load(&lanes)
    }

    /// The low bytes of words to the first elements of `to`.
    #[inline(always)]
    fn store_low_bytes(self, words: Self::V, to: &mut [u8]) {
        let mut lanes = [0.0; MAX_LANES];
        self.store(words, &mut lanes);
        for (to, lane) in to.iter_mut().zip(&lanes[..Self::LANES]) {
            *to = lane.to_bits() as u8;
        }
    }

    /// Applies `function` to `len` elements at `from` and writes the results to `to`.
    /// # Safety
    /// `from` is valid for reading and `to` for writing `len` elements; they are equal or do not
    /// overlap.
    unsafe fn map_unary(
        self,
        function: math::UnaryFunction,
        from: *const f32,
        to: *mut f32,
        len: usize,
    );

    /// The first `count` elements; the other lanes are zero.
    /// # Safety
    /// `from` is valid for reading `count` elements, at most [`Arithmetic::LANES`].
    unsafe fn load_part_ptr(self, from: *const f32, count: usize) -> Self::V;

    /// A non-temporal store, where the CPU has one: bypasses the caches, for outputs larger than they
    /// are. [`Simd::store_fence`] follows the last one.
    ///
    /// # Safety
    /// `to` is valid for writing [`Arithmetic::LANES`] elements and aligned to the vector.
    #[inline(always)]
    unsafe fn stream_ptr(self, v: Self::V, to: *mut f32) {
        // SAFETY: the caller guarantees `LANES` writable elements at `to`.
        unsafe { self.store_ptr(v, to) }
    }

    /// Orders non-temporal stores before later stores, so that other threads observe them.
    #[inline(always)]
    fn store_fence(self) {}

    /// # Safety
    /// `to` is valid for writing `count` elements, at most [`Arithmetic::LANES`].
    unsafe fn store_part_ptr(self, v: Self::V, to: *mut f32, count: usize);

    /// [`Arithmetic::LANES`] elements of f16 in f32, which is exact.
    ///
    /// # Safety
    /// `from` is valid for reading [`Arithmetic::LANES`] elements.
    #[inline(always)]
    unsafe fn widen_ptr(self, from: *const f16) -> Self::V {
        let mut lanes = [0.0; MAX_LANES];
        for (index, lane) in lanes[..Self::LANES].iter_mut().enumerate() {
            // SAFETY: the caller guarantees `LANES` elements.
            *lane = widened(unsafe { *from.add(index) });
        }
        self.load(&lanes)
    }

    /// [`Arithmetic::LANES`] elements of bf16 in f32, which is exact.
    ///
    /// # Safety
    /// `from` is valid for reading [`Arithmetic::LANES`] elements.
    #[inline(always)]
    unsafe fn widen_bf16_ptr(self, from: *const bf16) -> Self::V {
        let mut lanes = [0.0; MAX_LANES];
        for (index, lane) in lanes[..Self::LANES].iter_mut().enumerate() {
            // SAFETY: the caller guarantees `LANES` elements.
            let bits = unsafe { *from.add(index) }.to_bits();
            *lane = f32::from_bits(u32::from(bits) << 16);
        }
        self.load(&lanes)
    }

    /// Rounds to f16, to nearest with ties to even.
    ///
    /// # Safety
    /// `to` is valid for writing [`Arithmetic::LANES`] elements.
    #[inline(always)]
    unsafe fn narrow_ptr(self, v: Self::V, to: *mut f16) {
        let mut lanes = [0.0; MAX_LANES];
        self.store(v, &mut lanes);
        for (index, &lane) in lanes[..Self::LANES].iter().enumerate() {
            // SAFETY: the caller guarantees `LANES` elements.
            unsafe { *to.add(index) = f16::from_f32(lane) };
        }
    }

    /// The greater; NaN when either is NaN.
    fn nan_max(self, a: Self::V, b: Self::V) -> Self::V;

    /// Whether an element is NaN.
    #[inline(always)]
    fn has_nan(self, a: Self::V) -> bool {
        let mut lanes = [0.0; MAX_LANES];
        self.store(a, &mut lanes);
        lanes.iter().any(|lane| lane.is_nan())
    }

    fn sum(self, a: Self::V) -> f32;
    fn largest(self, a: Self::V) -> f32;

    /// The lanes of `a` at even positions, then those of `b`.
    #[inline(always)]
    fn evens(self, a: Self::V, b: Self::V) -> Self::V {
        let mut lanes = [0.0; 2 * MAX_LANES];
        let (first, rest) = lanes.split_at_mut(Self::LANES);
        self.store(a, first);
        self.store(b, rest);
        for lane in 1..Self::LANES {
            lanes[lane] = lanes[2 * lane];
        }
        self.load(&lanes)
    }

    /// The elements of `from`, at most [`Arithmetic::LANES`], then zeros.
    #[inline(always)]
    fn load_part(self, from: &[f32]) -> Self::V {
        // Masked loads and stores of a whole vector are slow on some CPUs.
        if from.len() >= Self::LANES {
            return self.load(from);
        }
        // SAFETY: the count is the slice's length.
        unsafe { self.load_part_ptr(from.as_ptr(), from.len()) }
    }

    /// The elements of `from`, at most 2^31 - 1, at the first [`Arithmetic::LANES`] of `positions`; 0 where there is
    /// none.
    #[inline(always)]
    fn gather(self, from: &[f32], positions: &[u32]) -> Self::V {
        let mut lanes = [0.0; crate::panels::WIDTH];
        for (lane, &at) in lanes.iter_mut().zip(&positions[..Self::LANES]) {
            *lane = from.get(at as usize).copied().unwrap_or(0.0);
        }
        self.load(&lanes)
    }

    /// The first [`Arithmetic::LANES`] elements of `from` in f32.
    #[inline(always)]
    fn widen(self, from: &[f16]) -> Self::V {
        assert!(from.len() >= Self::LANES);
        // SAFETY: the slice has the elements.
        unsafe { self.widen_ptr(from.as_ptr()) }
    }

    /// Writes the first [`Arithmetic::LANES`] elements of `to`, rounded to f16.
    #[inline(always)]
    fn narrow(self, v: Self::V, to: &mut [f16]) {
        assert!(to.len() >= Self::LANES);
        // SAFETY: the slice has the elements.
        unsafe { self.narrow_ptr(v, to.as_mut_ptr()) }
    }

    /// Writes as many elements as `to` has, at most [`Arithmetic::LANES`].
    #[inline(always)]
    fn store_part(self, v: Self::V, to: &mut [f32]) {
        if to.len() >= Self::LANES {
            return self.store(v, to);
        }
        // SAFETY: the count is the slice's length.
        unsafe { self.store_part_ptr(v, to.as_mut_ptr(), to.len()) }
    }
}

/// An f16 in f32, without a branch, so that the compiler can convert vectors.
#[inline(always)]
fn widened(half: f16) -> f32 {
    /// Between the exponents of the types.
    const BIAS: u32 = (127 - 15) << 23;
    /// The exponent of subnormal elements of f16.
    const LEAST: u32 = BIAS + (1 << 23);
    let bits = u32::from(half.to_bits());
    let magnitude = (bits & 0x7FFF) << 13;
    let normal = magnitude + BIAS;
    let subnormal = (f32::from_bits(magnitude + LEAST) - f32::from_bits(LEAST)).to_bits();
    let finite = if magnitude < 1 << 23 {
        subnormal
    } else {
        normal
    };
    // Infinity and NaN.
    let magnitude = if magnitude >= 0x1F << 23 {
        finite | 0xFF << 23
    } else {
        finite
    };
    f32::from_bits(magnitude | (bits & 0x8000) << 16)
}

/// Applies `function` to the words of each lane.
#[inline(always)]
fn map_words<S: Simd>(s: S, vectors: [S::V; 3], function: impl Fn([u32; 3]) -> u32) -> S::V {
    let words = vectors.map(|vector| {
        let mut words = [0.0; MAX_LANES];
        s.store(vector, &mut words);
        words.map(f32::to_bits)
    });
    let lanes: [f32; MAX_LANES] = std::array::from_fn(|lane| {
        f32::from_bits(function([words[0][lane], words[1][lane], words[2][lane]]))
    });
    s.load(&lanes)
}

/// The bits of the elements.
pub(crate) fn bits_of(elements: &[f32]) -> &[u32] {
    // SAFETY: u32 has the size and the alignment of f32, and every bit pattern is one; the result
    // borrows the same `len` elements.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), elements.len()) }
}

/// An algorithm written over vectors of any width.
pub(crate) trait VectorOp {
    /// The result.
    type Output;

    /// Runs the algorithm. Implementations are `#[inline(always)]`, so that they are compiled inside a
    /// function that has the instructions of `S`.
    fn eval<S: Simd>(self, simd: S) -> Self::Output;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_backend::CpuLevel;

    struct Arithmetic;

    impl VectorOp for Arithmetic {
        type Output = ();

        #[inline(always)]
        fn eval<S: Simd>(self, s: S) {
            let input: Vec<f32> = (0..S::LANES).map(|i| i as f32 - 3.25).collect();
            let lanes = |v: S::V| {
                let mut out = vec![0.0; S::LANES];
                s.store(v, &mut out);
                out
            };
            let v = s.load(&input);
            let map = |f: &dyn Fn(f32) -> f32| input.iter().map(|&x| f(x)).collect::<Vec<_>>();
            assert_eq!(lanes(s.round(v)), map(&f32::round_ties_even));
            assert_eq!(lanes(s.abs(v)), map(&f32::abs));
            assert_eq!(
                lanes(s.copysign(s.splat(2.0), v)),
                map(&|x| 2f32.copysign(x))
            );
            assert_eq!(
                lanes(s.scale2(v, s.splat(-130.0))),
                map(&|x| x * 2f32.powi(-65) * 2f32.powi(-65))
            );
            assert_eq!(lanes(s.min(v, s.splat(0.5))), map(&|x| x.min(0.5)));
            assert_eq!(lanes(s.max(v, s.splat(0.5))), map(&|x| x.max(0.5)));
            let below = s.less(v, s.splat(0.0));
            assert_eq!(
                lanes(s.select(below, s.splat(1.0), v)),
                map(&|x| if x < 0.0 { 1.0 } else { x })
            );
            assert!(lanes(s.max(s.splat(0.0), s.splat(f32::NAN)))[0].is_nan());
            assert!(lanes(s.nan_max(s.splat(0.0), s.splat(f32::NAN)))[0].is_nan());
            assert!(lanes(s.nan_max(s.splat(f32::NAN), s.splat(0.0)))[0].is_nan());
            assert_eq!(lanes(s.nan_max(v, s.splat(0.5))), map(&|x| x.max(0.5)));
            assert!(lanes(s.min(s.splat(0.0), s.splat(f32::NAN)))[0].is_nan());
            assert_eq!(s.sum(v), input.iter().sum::<f32>());
            assert_eq!(s.largest(v), input[S::LANES - 1]);
            for n in [-126.0, -1.0, 0.0, 127.0] {
                assert_eq!(lanes(s.power2(s.splat(n)))[0], 2f32.powf(n));
            }
            assert!(lanes(s.power2(s.splat(-127.0)))[0] <= f32::MIN_POSITIVE);
            assert!(!s.has_nan(s.splat(f32::INFINITY)));
            for lane in 0..S::LANES {
                let mut with_nan = input.clone();
                with_nan[lane] = f32::NAN;
                assert!(s.has_nan(s.load(&with_nan)));
            }
            for x in [
                0.0,
                -1e-6,
                -0.3,
                -17.0,
                -87.0,
                -87.6,
                -88.0,
                -1e9,
                f32::NEG_INFINITY,
            ] {
                let found = lanes(math::exp_nonpositive(s, s.splat(x)))[0];
                let (found, exact) = (f64::from(found), f64::from(x).exp());
                let error = (found - exact).abs();
                assert!(
                    error <= exact * 3e-7 || error <= f32::MIN_POSITIVE.into(),
                    "{x}: {found}"
                );
            }
            let infinite = s.splat(f32::NEG_INFINITY);
            assert_eq!(lanes(math::exp_nonpositive(s, infinite))[0], 0.0);
            assert!(s.has_nan(math::exp_nonpositive(s, s.splat(f32::NAN))));
            let positions: Vec<u32> = [2, u32::MAX, 0, 1 << 31, 3, i32::MAX as u32]
                .into_iter()
                .cycle()
                .take(S::LANES)
                .collect();
            let gathered = positions.iter().map(|&at| input[..3].get(at as usize));
            let gathered: Vec<f32> = gathered.map(|x| x.copied().unwrap_or(0.0)).collect();
            assert_eq!(lanes(s.gather(&input[..3], &positions)), gathered);
            for count in 0..=S::LANES {
                let mut expected = vec![0.0; S::LANES];
                expected[..count].copy_from_slice(&input[..count]);
                assert_eq!(lanes(s.load_part(&input[..count])), expected);
                let mut out = vec![9.0; S::LANES + 1];
                s.store_part(v, &mut out[..count]);
                assert_eq!(out[..count], input[..count]);
                assert!(out[count..].iter().all(|&x| x == 9.0));
            }
        }
    }

    #[test]
    fn every_f16_is_widened() {
        for bits in 0..=u16::MAX {
            let (half, found) = (f16::from_bits(bits), widened(f16::from_bits(bits)));
            let same = found.to_bits() == half.to_f32().to_bits();
            assert!(
                same || half.is_nan() && found.is_nan(),
                "{half} ({bits:#x}): {found}"
            );
        }
    }

    #[test]
    fn vector_arithmetic_equals_scalar_arithmetic() {
        Arithmetic.eval(Portable);
        for limit in CpuLevel::ALL {
            Level::detect(limit).run(Arithmetic);
        }
    }
}
