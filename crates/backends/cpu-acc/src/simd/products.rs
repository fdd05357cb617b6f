//! The types of matrix products. A and B are made of words of 32 bits: an element of f32, or two
//! elements of bf16 or four of 8 bits that are adjacent along the depth. Two rows of f16 are one row of words, one behind
//! the other. Sums have 32 bits.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::Simd;
use crate::panels::WIDTH;
use half::f16;

/// The product that a micro-kernel computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ProductKind {
    /// [`Floats`]
    #[default]
    Floats,
    /// [`Bf16Pairs`]
    Bf16Pairs,
    /// [`WidenedBf16`]
    WidenedBf16,
    /// [`WidenedF16`]
    WidenedF16,
    /// [`Quads`]
    Quads,
    /// [`SignedQuads`]
    SignedQuads,
    /// [`Pairs`]
    Pairs,
}

impl ProductKind {
    /// Elements of a word of B, of which there are as many in a packed row.
    pub(crate) fn elements_per_word(self) -> usize {
        match self {
            Self::Floats => 1,
            Self::Bf16Pairs | Self::WidenedBf16 | Self::WidenedF16 => 2,
            Self::Quads | Self::SignedQuads | Self::Pairs => 4,
        }
    }

    /// [`Product::ROW_WORDS`]
    pub(crate) fn row_words(self) -> usize {
        match self {
            Self::Floats | Self::Bf16Pairs | Self::Quads | Self::SignedQuads => 1,
            Self::WidenedBf16 | Self::WidenedF16 | Self::Pairs => 2,
        }
    }
}

/// How words of A and of B are multiplied. Vectors of words have the type of vectors of f32, whatever they hold.
pub(crate) trait Product<S: Simd> {
    /// Whether words and sums are f32; else sums are i32.
    const FLOATS: bool;
    /// Words of a row of A for each row of B in words.
    const ROW_WORDS: usize;

    /// What a word of a row of A is multiplied as.
    #[inline(always)]
    fn row(_: S, word: S::V) -> S::V {
        word
    }
    /// What word `nth` of a row of A is multiplied by: a vector from column `column` on of a panel's row of words.
    ///
    /// # Safety
    /// `row` is valid for reading [`WIDTH`] words, and `column` is the first of a vector in them.
    #[inline(always)]
    unsafe fn columns(s: S, row: *const f32, column: usize, _nth: usize) -> S::V {
        // SAFETY: as this function requires.
        unsafe { s.load_ptr(row.add(column)) }
    }
    /// `sum + row * columns`; `row` has the same word in all lanes.
    fn multiply_add(s: S, row: S::V, columns: S::V, sum: S::V) -> S::V;
    /// The sum of two sums.
    #[inline(always)]
    fn add(s: S, a: S::V, b: S::V) -> S::V {
        if Self::FLOATS {
            s.add(a, b)
        } else {
            s.add_integers(a, b)
        }
    }
}

/// f32 by f32.
pub(crate) enum Floats {}

impl<S: Simd> Product<S> for Floats {
    const FLOATS: bool = true;
    const ROW_WORDS: usize = 1;

    #[inline(always)]
    fn multiply_add(s: S, row: S::V, columns: S::V, sum: S::V) -> S::V {
        s.fma(row, columns, sum)
    }
}

/// bf16 by bf16, by an instruction that multiplies two, adds the products and takes subnormal elements for zero.
pub(crate) enum Bf16Pairs {}

impl<S: Simd> Product<S> for Bf16Pairs {
    const FLOATS: bool = true;
    const ROW_WORDS: usize = 1;

    #[inline(always)]
    fn multiply_add(s: S, row: S::V, columns: S::V, sum: S::V) -> S::V {
        // SAFETY: kernels of `Bf16Pairs` require a CPU with the instruction (`tile_of_bf16` of the level).
        unsafe { s.add_products_of_bf16(row, columns, sum) }
    }
}

/// f32 by bf16, of which a word of B has two: a row of A has as many words.
pub(crate) enum WidenedBf16 {}

impl<S: Simd> Product<S> for WidenedBf16 {
    const FLOATS: bool = true;
    const ROW_WORDS: usize = 2;

    #[inline(always)]
    unsafe fn columns(s: S, row: *const f32, column: usize, nth: usize) -> S::V {
        // SAFETY: as this function requires.
        s.bf16_of_pairs(unsafe { s.load_ptr(row.add(column)) }, nth)
    }

    #[inline(always)]
    fn multiply_add(s: S, row: S::V, columns: S::V, sum: S::V) -> S::V {
        s.fma(row, columns, sum)
    }
}

/// f32 by f16, likewise: the instruction that reads and converts a vector needs one that is adjacent.
pub(crate) enum WidenedF16 {}

impl<S: Simd> Product<S> for WidenedF16 {
    const FLOATS: bool = true;
    const ROW_WORDS: usize = 2;

    #[inline(always)]
    unsafe fn columns(s: S, row: *const f32, column: usize, nth: usize) -> S::V {
        // SAFETY: a row of words is two rows of as many f16.
        unsafe { s.widen_ptr(row.cast::<f16>().add(nth * WIDTH + column)) }
    }

    #[inline(always)]
    fn multiply_add(s: S, row: S::V, columns: S::V, sum: S::V) -> S::V {
        s.fma(row, columns, sum)
    }
}

/// u8 by i8, by an instruction that multiplies four and adds the products.
pub(crate) enum Quads {}

impl<S: Simd> Product<S> for Quads {
    const FLOATS: bool = false;
    const ROW_WORDS: usize = 1;

    #[inline(always)]
    fn multiply_add(s: S, row: S::V, columns: S::V, sum: S::V) -> S::V {
        // SAFETY: kernels of quads require a CPU with the instruction (`tile_of_quads` of each level).
        unsafe { s.add_products_of_quads(row, columns, sum) }
    }
}

/// i8 by i8, by the same instruction: the elements of A become u8, which are greater by 128, as they are read.
pub(crate) enum SignedQuads {}

impl<S: Simd> Product<S> for SignedQuads {
    const FLOATS: bool = false;
    const ROW_WORDS: usize = 1;

    #[inline(always)]
    fn row(s: S, word: S::V) -> S::V {
        s.invert(word, s.splat(f32::from_bits(0x8080_8080)))
    }

    #[inline(always)]
    fn multiply_add(s: S, row: S::V, columns: S::V, sum: S::V) -> S::V {
        Quads::multiply_add(s, row, columns, sum)
    }
}

/// u8 by i8, widened to pairs of i16, whose products are exact: the sum of two products of bytes can exceed 16 bits.
/// Of the four elements of a word of B, a row of A has two words: the elements at even positions, then the others.
pub(crate) enum Pairs {}

impl<S: Simd> Product<S> for Pairs {
    const FLOATS: bool = false;
    const ROW_WORDS: usize = 2;

    #[inline(always)]
    unsafe fn columns(s: S, row: *const f32, column: usize, nth: usize) -> S::V {
        // SAFETY: as this function requires.
        s.pairs_of_bytes(unsafe { s.load_ptr(row.add(column)) }, nth)
    }

    #[inline(always)]
    fn multiply_add(s: S, row: S::V, columns: S::V, sum: S::V) -> S::V {
        s.add_products_of_pairs(row, columns, sum)
    }
}
