//! The types of matrix products. A and B are made of words of 32 bits: an element of f32, or four
//! elements of 8 bits that are adjacent along the depth. Sums have 32 bits.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::Simd;

/// How words of A and of B are multiplied. Vectors of words have the type of vectors of f32, whatever they hold.
pub(crate) trait Product<S: Simd> {
    /// Whether words and sums are f32; else sums are i32.
    const FLOATS: bool;
    /// Words of a row of A for each row of B in words.
    const ROW_WORDS: usize;

    /// What word `nth` of a row of A is multiplied by, of words of B.
    fn columns(s: S, words: S::V, nth: usize) -> S::V;
    /// `sum + row * columns`; `row` has the same word in all lanes.
    fn multiply_add(s: S, row: S::V, columns: S::V, sum: S::V) -> S::V;
    /// The sum of two sums.
    fn add(s: S, a: S::V, b: S::V) -> S::V;
}

/// f32 by f32.
pub(crate) enum Floats {}

impl<S: Simd> Product<S> for Floats {
    const FLOATS: bool = true;
    const ROW_WORDS: usize = 1;

    #[inline(always)]
    fn columns(_: S, words: S::V, _: usize) -> S::V {
        words
    }

    #[inline(always)]
    fn multiply_add(s: S, row: S::V, columns: S::V, sum: S::V) -> S::V {
        s.fma(row, columns, sum)
    }

    #[inline(always)]
    fn add(s: S, a: S::V, b: S::V) -> S::V {
        s.add(a, b)
    }
}

/// u8 by i8, by an instruction that multiplies four and adds the products.
pub(crate) enum Quads {}

impl<S: Simd> Product<S> for Quads {
    const FLOATS: bool = false;
    const ROW_WORDS: usize = 1;

    #[inline(always)]
    fn columns(_: S, words: S::V, _: usize) -> S::V {
        words
    }

    #[inline(always)]
    fn multiply_add(s: S, row: S::V, columns: S::V, sum: S::V) -> S::V {
        // SAFETY: kernels of `Quads` require a CPU with the instruction (`tile_of_quads` of each level).
        unsafe { s.add_products_of_quads(row, columns, sum) }
    }

    #[inline(always)]
    fn add(s: S, a: S::V, b: S::V) -> S::V {
        s.add_integers(a, b)
    }
}

/// u8 by i8, widened to pairs of i16, whose products are exact: the sum of two products of bytes can exceed 16 bits.
/// Of the four elements of a word of B, a row of A has two words: the elements at even positions, then the others.
pub(crate) enum Pairs {}

impl<S: Simd> Product<S> for Pairs {
    const FLOATS: bool = false;
    const ROW_WORDS: usize = 2;

    #[inline(always)]
    fn columns(s: S, words: S::V, nth: usize) -> S::V {
        s.pairs_of_bytes(words, nth)
    }

    #[inline(always)]
    fn multiply_add(s: S, row: S::V, columns: S::V, sum: S::V) -> S::V {
        s.add_products_of_pairs(row, columns, sum)
    }

    #[inline(always)]
    fn add(s: S, a: S::V, b: S::V) -> S::V {
        s.add_integers(a, b)
    }
}
