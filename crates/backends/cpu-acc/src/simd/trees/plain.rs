//! Walks without vectors: several rows or trees at a time, so that their loads overlap.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::forest::STEPS_BETWEEN_CHECKPOINTS;
use super::{BLOCK, Forest, LeafSink, RowBlock, TreeElement};
use std::ops::Range;
use tenon_base::stop;

/// Walks at a time.
const WALKS: usize = 8;

/// Walks to leaves from the nodes `at`. Element `c` of walk `w` is `x[starts[w] + stride * c]`.
///
/// # Safety
/// `x` has the elements of all columns of the forest, and `at` are nodes of it.
#[inline(always)]
unsafe fn descend<T: TreeElement>(
    forest: &Forest<T>,
    at: &mut [usize; WALKS],
    x: &[T],
    starts: [usize; WALKS],
    stride: usize,
) {
    for step in 1usize.. {
        let before = *at;
        for (at, start) in at.iter_mut().zip(starts) {
            // SAFETY: positions of nodes are those of the forest, by the caller and by `Forest`.
            let node = unsafe { forest.node(*at) };
            let (column, next) = forest.link(node);
            // SAFETY: columns are those of the forest, whose elements the caller guarantees.
            let element = unsafe { *x.get_unchecked(start + stride * column) };
            *at = next + usize::from(element > node.threshold);
        }
        if *at == before {
            return;
        }
        if step.is_multiple_of(STEPS_BETWEEN_CHECKPOINTS) {
            stop::checkpoint();
        }
    }
}

/// [`super::walk_rows`].
///
/// # Safety
/// The block has all columns of the forest and at most [`BLOCK`] rows.
#[inline(always)]
pub(super) unsafe fn walk_rows<T: TreeElement>(
    forest: &Forest<T>,
    trees: Range<usize>,
    block: RowBlock<'_, T>,
    sink: &mut impl LeafSink<T::Word>,
) {
    let mut words = [T::Word::default(); BLOCK];
    for tree in trees {
        stop::checkpoint();
        let root = forest.trees()[tree].root as usize;
        for first in (0..block.rows).step_by(WALKS) {
            let mut at = [root; WALKS];
            let starts = std::array::from_fn(|walk| first + walk);
            // SAFETY: the block has all columns, and the root is a node.
            unsafe { descend(forest, &mut at, block.elements, starts, BLOCK) };
            for (word, at) in words[first..].iter_mut().zip(at) {
                // SAFETY: walks end at nodes.
                *word = unsafe { forest.word(at) };
            }
        }
        sink.add(tree, &words);
    }
}

/// [`super::walk_trees`].
///
/// # Safety
/// The row has all columns of the forest, and the forest has the trees.
#[inline(always)]
pub(super) unsafe fn walk_trees<T: TreeElement>(
    forest: &Forest<T>,
    first: usize,
    row: &[T],
    words: &mut [T::Word],
) {
    let trees = &forest.trees()[first..][..words.len()];
    for (words, trees) in words.chunks_mut(WALKS).zip(trees.chunks(WALKS)) {
        stop::checkpoint();
        let mut at = [trees[0].root as usize; WALKS];
        for (at, tree) in at.iter_mut().zip(trees) {
            *at = tree.root as usize;
        }
        // SAFETY: the row has all columns, and roots are nodes.
        unsafe { descend(forest, &mut at, row, [0; WALKS], 1) };
        for (word, at) in words.iter_mut().zip(at) {
            // SAFETY: walks end at nodes.
            *word = unsafe { forest.word(at) };
        }
    }
}
