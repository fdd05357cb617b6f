//! The types of thresholds.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::{Forest, LeafSink, RowBlock, plain};
use crate::simd::Level;
use std::ops::Range;
#[cfg(target_arch = "x86_64")]
use tenon_backend::CpuLevel;
use tenon_tensor::Element;

#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};

/// A type of thresholds: f32 or f64.
pub(crate) trait TreeElement: Element + PartialOrd + Default {
    /// The unsigned integer of its size.
    type Word: Element + Default + std::fmt::Debug + Into<u64> + TryFrom<u64>;

    const INFINITY: Self;
    const NAN: Self;

    /// Bits of the column in the word of a node; `None` where as many as the columns need, and the next node has the rest.
    const COLUMN_BITS: Option<u32>;

    fn of_f64(value: f64) -> Self;
    fn wide(self) -> f64;
    fn next_greater(self) -> Self;
    fn negative(self) -> Self;
    fn of_word(word: Self::Word) -> Self;
    fn to_word(self) -> Self::Word;

    /// Whether walks of this type have vectors at a level.
    fn has_vectors(level: Level) -> bool;

    /// [`super::walk_rows`] of a block that is large enough.
    fn walk_rows(
        level: Level,
        forest: &Forest<Self>,
        trees: Range<usize>,
        block: RowBlock<'_, Self>,
        sink: &mut impl LeafSink<Self::Word>,
    );

    /// [`super::walk_trees`] of a row that is large enough.
    fn walk_trees(
        level: Level,
        forest: &Forest<Self>,
        first: usize,
        row: &[Self],
        words: &mut [Self::Word],
    );
}

macro_rules! float_functions {
    ($T:ty) => {
        const INFINITY: Self = <$T>::INFINITY;
        const NAN: Self = <$T>::NAN;

        #[inline(always)]
        fn of_f64(value: f64) -> Self {
            value as $T
        }

        #[inline(always)]
        fn wide(self) -> f64 {
            self.into()
        }

        fn next_greater(self) -> Self {
            self.next_up()
        }

        #[inline(always)]
        fn negative(self) -> Self {
            -self
        }

        #[inline(always)]
        fn of_word(word: Self::Word) -> Self {
            <$T>::from_bits(word)
        }

        #[inline(always)]
        fn to_word(self) -> Self::Word {
            self.to_bits()
        }
    };
}

impl TreeElement for f32 {
    type Word = u32;
    const COLUMN_BITS: Option<u32> = None;
    float_functions!(f32);

    fn has_vectors(level: Level) -> bool {
        cfg!(target_arch = "x86_64") && !level.is_baseline()
    }

    fn walk_rows(
        level: Level,
        forest: &Forest<f32>,
        trees: Range<usize>,
        block: RowBlock<'_, f32>,
        sink: &mut impl LeafSink<u32>,
    ) {
        match level.cpu() {
            // SAFETY: a `Level` has the instructions of its CPU; the caller checks the block.
            #[cfg(target_arch = "x86_64")]
            CpuLevel::Avx512 => unsafe { avx512::walk_rows(forest, trees, block, sink) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            CpuLevel::Avx2 => unsafe { avx2::walk_rows(forest, trees, block, sink) },
            // SAFETY: the caller checks the block.
            _ => unsafe { plain::walk_rows(forest, trees, block, sink) },
        }
    }

    fn walk_trees(
        level: Level,
        forest: &Forest<f32>,
        first: usize,
        row: &[f32],
        words: &mut [u32],
    ) {
        match level.cpu() {
            // SAFETY: a `Level` has the instructions of its CPU; the caller checks the row and the trees.
            #[cfg(target_arch = "x86_64")]
            CpuLevel::Avx512 => unsafe { avx512::walk_trees(forest, first, row, words) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            CpuLevel::Avx2 => unsafe { avx2::walk_trees(forest, first, row, words) },
            // SAFETY: the caller checks the row and the trees.
            _ => unsafe { plain::walk_trees(forest, first, row, words) },
        }
    }
}

impl TreeElement for f64 {
    type Word = u64;
    const COLUMN_BITS: Option<u32> = Some(32);
    float_functions!(f64);

    fn has_vectors(_: Level) -> bool {
        false
    }

    fn walk_rows(
        _: Level,
        forest: &Forest<f64>,
        trees: Range<usize>,
        block: RowBlock<'_, f64>,
        sink: &mut impl LeafSink<u64>,
    ) {
        // SAFETY: the caller checks the block.
        unsafe { plain::walk_rows(forest, trees, block, sink) }
    }

    fn walk_trees(_: Level, forest: &Forest<f64>, first: usize, row: &[f64], words: &mut [u64]) {
        // SAFETY: the caller checks the row and the trees.
        unsafe { plain::walk_trees(forest, first, row, words) }
    }
}
