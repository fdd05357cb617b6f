//! Elements of f32, f16 and bf16 in memory as vectors of f32.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::{MAX_LANES, Simd, VectorOp};
use crate::floats::{FloatElement, NarrowBf16, NarrowF16, WidenBf16, WidenF16};
use half::{bf16, f16};

/// A type of elements that vectors of f32 are loaded from.
pub(crate) trait VectorElement: FloatElement + Default {
    const IS_F32: bool = false;

    /// # Safety
    /// `from` is valid for reading [`super::Arithmetic::LANES`] elements.
    unsafe fn load<S: Simd>(s: S, from: *const Self) -> S::V;

    /// The first `count` elements; the other lanes are 0.
    ///
    /// # Safety
    /// `from` is valid for reading `count` elements, at most [`super::Arithmetic::LANES`].
    #[inline(always)]
    unsafe fn load_part<S: Simd>(s: S, from: *const Self, count: usize) -> S::V {
        let mut lanes = [Self::default(); MAX_LANES];
        // SAFETY: the caller guarantees `count` elements, and there are as many lanes.
        unsafe {
            std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count.min(MAX_LANES));
            Self::load(s, lanes.as_ptr())
        }
    }

    /// All elements, at most [`super::Arithmetic::LANES`], then zeros.
    #[inline(always)]
    fn load_slice<S: Simd>(s: S, from: &[Self]) -> S::V {
        // SAFETY: the slice has the elements that are read.
        unsafe {
            if from.len() >= S::LANES {
                Self::load(s, from.as_ptr())
            } else {
                Self::load_part(s, from.as_ptr(), from.len())
            }
        }
    }

    /// Converts all elements to f32.
    fn widen<S: Simd>(s: S, from: &[Self], to: &mut [f32]);

    /// Rounds all elements, to nearest with ties to even.
    fn narrow<S: Simd>(s: S, from: &[f32], to: &mut [Self]);
}

impl VectorElement for f32 {
    const IS_F32: bool = true;

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, from: *const f32) -> S::V {
        // SAFETY: the same requirement.
        unsafe { s.load_ptr(from) }
    }

    #[inline(always)]
    unsafe fn load_part<S: Simd>(s: S, from: *const f32, count: usize) -> S::V {
        // SAFETY: the same requirement.
        unsafe { s.load_part_ptr(from, count) }
    }

    #[inline(always)]
    fn widen<S: Simd>(_: S, from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }

    #[inline(always)]
    fn narrow<S: Simd>(_: S, from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
}

macro_rules! halves {
    ($($T:ident: $load:ident, $widen:ident, $narrow:ident;)*) => {$(
        impl VectorElement for $T {
            #[inline(always)]
            unsafe fn load<S: Simd>(s: S, from: *const $T) -> S::V {
                // SAFETY: the same requirement.
                unsafe { s.$load(from) }
            }

            #[inline(always)]
            fn widen<S: Simd>(s: S, from: &[$T], to: &mut [f32]) {
                $widen(from, to).eval(s);
            }

            #[inline(always)]
            fn narrow<S: Simd>(s: S, from: &[f32], to: &mut [$T]) {
                $narrow(from, to).eval(s);
            }
        }
    )*};
}

halves! {
    f16: widen_ptr, WidenF16, NarrowF16;
    bf16: widen_bf16_ptr, WidenBf16, NarrowBf16;
}

/// Adds elements to sums, which are then clamped.
#[inline(always)]
pub(crate) fn add_and_clamp<T: VectorElement, S: Simd>(
    s: S,
    addend: &[T],
    limits: [f32; 2],
    sums: &mut [f32],
) {
    let [low, high] = limits.map(|limit| s.splat(limit));
    let addend = addend.chunks(S::LANES);
    for (sums, addend) in sums.chunks_mut(S::LANES).zip(addend) {
        let addend = T::load_slice(s, &addend[..sums.len()]);
        let sum = s.add(s.load_part(sums), addend);
        s.store_part(s.min(high, s.max(low, sum)), sums);
    }
}
