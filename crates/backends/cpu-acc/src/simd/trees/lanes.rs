//! The vectors of walks.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::TOP_NODES;

/// Vectors of f32 and u32 with gathers. A value exists only on a CPU that has them.
pub(super) trait Lanes: Copy {
    type Floats: Copy;
    type Words: Copy;
    type Mask: Copy;
    const LANES: usize;

    fn splat(self, value: f32) -> Self::Floats;
    fn splat_word(self, word: u32) -> Self::Words;
    /// 0, 1, 2 and so on.
    fn iota(self) -> Self::Words;
    fn add(self, a: Self::Words, b: Self::Words) -> Self::Words;
    fn and(self, a: Self::Words, b: Self::Words) -> Self::Words;
    fn shift_left(self, words: Self::Words, count: u32) -> Self::Words;
    fn shift_right(self, words: Self::Words, count: u32) -> Self::Words;
    /// `words`, plus 1 where the mask is true.
    fn count(self, mask: Self::Mask, words: Self::Words) -> Self::Words;
    /// Whether all words are equal.
    fn are_equal(self, a: Self::Words, b: Self::Words) -> bool;
    /// Whether `a` is greater than `b`; false for NaN.
    fn greater(self, a: Self::Floats, b: Self::Floats) -> Self::Mask;
    fn select(self, mask: Self::Mask, yes: Self::Floats, no: Self::Floats) -> Self::Floats;
    fn as_floats(self, words: Self::Words) -> Self::Floats;
    /// The words at the low 4 bits of `at`.
    fn lookup16(self, table: &[u32; 16], at: Self::Words) -> Self::Words;
    /// The words at the low 5 bits of `at`.
    fn lookup32(self, table: &[u32; 32], at: Self::Words) -> Self::Words;
    /// The words at the low 6 bits of `at`.
    fn lookup64(self, table: &[u32; TOP_NODES], at: Self::Words) -> Self::Words;

    /// # Safety
    /// `from` is valid for reading [`Lanes::LANES`] elements.
    unsafe fn load(self, from: *const f32) -> Self::Floats;
    /// # Safety
    /// `from` is valid for reading [`Lanes::LANES`] words.
    unsafe fn load_words(self, from: *const u32) -> Self::Words;
    /// # Safety
    /// `to` is valid for writing [`Lanes::LANES`] words.
    unsafe fn store_words(self, words: Self::Words, to: *mut u32);
    /// # Safety
    /// `from` is valid for reading the elements at `at`, which are at most `i32::MAX`.
    unsafe fn gather(self, from: *const f32, at: Self::Words) -> Self::Floats;
    /// The first words of pairs.
    ///
    /// # Safety
    /// `from` is valid for reading the pairs at `at`, which are at most `i32::MAX`.
    unsafe fn gather_first(self, from: *const [u32; 2], at: Self::Words) -> Self::Words;
    /// Both words of pairs.
    ///
    /// # Safety
    /// As for [`Lanes::gather_first`].
    unsafe fn gather_pairs(self, from: *const [u32; 2], at: Self::Words) -> [Self::Words; 2];
}
