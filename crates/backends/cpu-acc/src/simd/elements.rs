//! Elements of f32, f16 and bf16 in memory as vectors of f32.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::products::ProductKind;
use super::row_elements::halves_mut;
use super::{Level, MAX_LANES, Simd, VectorOp};
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

/// Rounds each row of some elements of f32 to bf16 in pairs, on a level that [has](Level::has) [`ProductKind::Bf16Pairs`];
/// behind rows of an odd length comes a zero.
pub(crate) struct RoundToPairs<'a> {
    pub(crate) from: &'a [f32],
    pub(crate) row: usize,
    pub(crate) to: &'a mut [f32],
    pub(crate) level: Level,
}

impl VectorOp for RoundToPairs<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<S: Simd>(self, s: S) {
        assert!(self.level.has(ProductKind::Bf16Pairs));
        let to = halves_mut(self.to);
        if self.row.is_multiple_of(2) {
            return round_to_bf16(s, self.from, &mut to[..self.from.len()]);
        }
        let rows = self.from.chunks_exact(self.row);
        for (from, to) in rows.zip(to.chunks_exact_mut(self.row + 1)) {
            let (to, last) = to.split_at_mut(self.row);
            round_to_bf16(s, from, to);
            last.fill(0);
        }
    }
}

#[inline(always)]
fn round_to_bf16<S: Simd>(s: S, from: &[f32], to: &mut [u16]) {
    assert!(from.len() == to.len());
    let mut at = 0;
    while at + 2 * S::LANES <= from.len() {
        let [a, b] = [at, at + S::LANES].map(|at| s.load(&from[at..]));
        // SAFETY: `RoundToPairs` checked that the level has the product. `2 * LANES` halves from `at` on are inside.
        unsafe { s.store_ptr(s.round_to_bf16(a, b), to.as_mut_ptr().add(at).cast()) };
        at += 2 * S::LANES;
    }
    let rest = &from[at..];
    if !rest.is_empty() {
        let (a, b) = rest.split_at(rest.len().min(S::LANES));
        let mut words = [0.0; MAX_LANES];
        // SAFETY: as above.
        let rounded = unsafe { s.round_to_bf16(s.load_part(a), s.load_part(b)) };
        s.store(rounded, &mut words);
        to[at..].copy_from_slice(&halves_mut(&mut words)[..rest.len()]);
    }
}
