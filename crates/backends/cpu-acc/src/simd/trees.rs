//! Walks of decision trees, by predication and with vectors (VPred: Asadi, Lin and de Vries, "Runtime Optimizations for
//! Prediction with Tree-Based Models", 2014, <https://arxiv.org/abs/1212.2287>).
//!
//! Nodes are in breadth order, both children of a node side by side, so that the next node is `next + (x > threshold)`. A leaf
//! is a node whose comparison is false and whose next node is itself. The first [`TOP_LEVELS`] levels of a tree are a
//! complete binary tree besides, with thresholds and columns apart: level by level, they are in registers, where
//! [`lanes::Lanes`] looks them up.
//!
//! A vector has rows of one tree, or trees of one row where there are few rows.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod element;
mod forest;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod plain;
#[cfg(target_arch = "x86_64")]
mod vectors;

pub(crate) use element::TreeElement;
pub(crate) use forest::{Decision, Forest, Plan};

use super::Level;
use std::ops::Range;

/// Rows that are walked together.
pub(crate) const BLOCK: usize = 64;

/// Levels that are in the complete part of a tree.
const TOP_LEVELS: u32 = 6;

/// Nodes of the complete part, counted from 1; its exits are as many.
const TOP_NODES: usize = 1 << TOP_LEVELS;

/// The columns of a block of rows, `BLOCK` elements each: column `c` of row `r` is element `BLOCK * c + r`.
/// The first `rows` rows are walked.
#[derive(Clone, Copy)]
pub(crate) struct RowBlock<'a, T> {
    pub(crate) elements: &'a [T],
    pub(crate) rows: usize,
}

/// What is done with the words of the leaves that the rows of a block reach.
pub(crate) trait LeafSink<W> {
    fn add(&mut self, tree: usize, words: &[W; BLOCK]);
}

/// Walks trees with a block of rows, in order.
///
/// # Panics
/// When the block has fewer columns than the forest.
pub(crate) fn walk_rows<T: TreeElement>(
    level: Level,
    forest: &Forest<T>,
    trees: Range<usize>,
    block: RowBlock<'_, T>,
    sink: &mut impl LeafSink<T::Word>,
) {
    assert!(block.rows <= BLOCK && block.elements.len() >= forest.columns() * BLOCK);
    T::walk_rows(level, forest, trees, block, sink);
}

/// Walks the trees from `first` on with the columns of one row; writes the word of a leaf for each tree.
///
/// # Panics
/// When the row has fewer columns than the forest, or there are fewer trees.
pub(crate) fn walk_trees<T: TreeElement>(
    level: Level,
    forest: &Forest<T>,
    first: usize,
    row: &[T],
    words: &mut [T::Word],
) {
    assert!(row.len() >= forest.columns() && first + words.len() <= forest.trees().len());
    T::walk_trees(level, forest, first, row, words);
}

/// `scratch` as elements of another type, as many as fit.
pub(crate) fn elements_of<T: TreeElement>(scratch: &mut [f64]) -> &mut [T] {
    // SAFETY: `TreeElement` is implemented for f32 and f64 alone, of which every bit pattern is a value.
    unsafe { scratch.align_to_mut().1 }
}

/// `scratch` as words, as many as fit.
pub(crate) fn words_of<T: TreeElement>(scratch: &mut [f64]) -> &mut [T::Word] {
    // SAFETY: the words of `TreeElement` are u32 and u64, of which every bit pattern is a value.
    unsafe { scratch.align_to_mut().1 }
}
