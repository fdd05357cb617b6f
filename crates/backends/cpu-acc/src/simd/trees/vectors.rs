//! Walks with vectors.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::forest::{STEPS_BETWEEN_CHECKPOINTS, Top};
use super::lanes::Lanes;
use super::{BLOCK, Forest, LeafSink, RowBlock, TOP_LEVELS};
use crate::simd::bits_of;
use std::ops::Range;
use tenon_base::stop;

/// Vectors that are walked at a time, so that their loads overlap.
const VECTORS: usize = 4;

/// Levels whose columns are loaded; those after them are gathered.
const LOADED_LEVELS: u32 = 3;

/// The columns that walks read: element `c` of a walk is `elements[starts + (c << shift)]`.
#[derive(Clone, Copy)]
struct Columns<L: Lanes, const N: usize> {
    elements: *const f32,
    starts: [L::Words; N],
    shift: u32,
}

/// [`super::walk_rows`].
///
/// # Safety
/// The block has all columns of the forest and at most [`BLOCK`] rows.
#[inline(always)]
pub(super) unsafe fn walk_rows<L: Lanes>(
    l: L,
    forest: &Forest<f32>,
    trees: Range<usize>,
    block: RowBlock<'_, f32>,
    sink: &mut impl LeafSink<u32>,
) {
    let mut words = [0; BLOCK];
    let vectors = block.rows.div_ceil(L::LANES);
    for tree in trees {
        stop::checkpoint();
        let mut vector = 0;
        while vector < vectors {
            let first = vector * L::LANES;
            // SAFETY: the vectors are inside the block, whose size is a multiple of theirs.
            unsafe {
                let elements = block.elements.as_ptr().add(first);
                let to = words.as_mut_ptr().add(first);
                if vector + VECTORS <= vectors {
                    walk_tree::<L, VECTORS>(l, forest, tree, elements, to);
                    vector += VECTORS;
                } else {
                    walk_tree::<L, 1>(l, forest, tree, elements, to);
                    vector += 1;
                }
            }
        }
        sink.add(tree, &words);
    }
}

/// Walks a tree with `N` vectors of rows.
///
/// # Safety
/// `elements` has columns of [`BLOCK`] elements, of which those of `N` vectors are read; `to` is valid for writing them.
#[inline(always)]
unsafe fn walk_tree<L: Lanes, const N: usize>(
    l: L,
    forest: &Forest<f32>,
    tree: usize,
    elements: *const f32,
    to: *mut u32,
) {
    let shape = forest.trees()[tree];
    let mut starts = [l.iota(); N];
    for (vector, start) in starts.iter_mut().enumerate() {
        *start = l.add(*start, l.splat_word((vector * L::LANES) as u32));
    }
    let columns = Columns {
        elements,
        starts,
        shift: BLOCK.trailing_zeros(),
    };
    let mut at = [l.splat_word(shape.root); N];
    // SAFETY: the caller guarantees the columns; `Forest` the positions.
    unsafe {
        if let Some(top) = forest.top(tree) {
            at = walk_top(l, top, shape.depth, &columns);
        }
        let walked = forest.top(tree).map_or(0, |_| TOP_LEVELS);
        if walked == 0 || shape.depth > walked {
            descend(l, forest, &mut at, &columns, shape.depth - walked);
            for at in &mut at {
                *at = l.gather_first(forest.nodes().cast(), *at);
            }
        }
        for (vector, &word) in at.iter().enumerate() {
            l.store_words(word, to.add(vector * L::LANES));
        }
    }
}

/// The exits of the complete part of a tree.
///
/// # Safety
/// The columns are those of the forest, of `N` vectors of rows of a block.
#[inline(always)]
unsafe fn walk_top<L: Lanes, const N: usize>(
    l: L,
    top: &Top,
    depth: u32,
    columns: &Columns<L, N>,
) -> [L::Words; N] {
    let mut at = [l.splat_word(0); N];
    for (vector, at) in at.iter_mut().enumerate() {
        // SAFETY: as the caller guarantees.
        *at = unsafe { walk_loaded(l, top, columns.elements.add(vector * L::LANES)) };
    }
    let thresholds: &[u32] = bits_of(&top.thresholds);
    if depth > LOADED_LEVELS {
        let (tables, _) = thresholds.as_chunks::<16>();
        let (offsets, _) = top.columns.as_chunks::<16>();
        for (table, offsets) in tables.iter().zip(offsets).take(2) {
            for (vector, at) in at.iter_mut().enumerate() {
                let node = [l.lookup16(table, *at), l.lookup16(offsets, *at)];
                // SAFETY: as the caller guarantees; `Forest` guarantees the column.
                *at = unsafe { step(l, node, *at, columns, vector) };
            }
        }
        let (tables, _) = thresholds.as_chunks::<32>();
        let (offsets, _) = top.columns.as_chunks::<32>();
        for (vector, at) in at.iter_mut().enumerate() {
            let node = [l.lookup32(&tables[1], *at), l.lookup32(&offsets[1], *at)];
            // SAFETY: as above.
            *at = unsafe { step(l, node, *at, columns, vector) };
        }
    } else {
        for at in &mut at {
            *at = l.shift_left(*at, TOP_LEVELS - LOADED_LEVELS);
        }
    }
    for at in &mut at {
        *at = l.lookup64(&top.exits, *at);
    }
    at
}

/// The node of level 3 of a complete part that each row reaches: all columns of the levels before it are read.
///
/// # Safety
/// `elements` has columns of [`BLOCK`] elements, of which those of a vector are read.
#[inline(always)]
unsafe fn walk_loaded<L: Lanes>(l: L, top: &Top, elements: *const f32) -> L::Words {
    let mut loaded = [l.splat(0.0); 8];
    for (node, loaded) in loaded.iter_mut().enumerate().skip(1) {
        // SAFETY: `Forest` guarantees the column, the caller its elements.
        *loaded = unsafe { l.load(elements.add(top.columns[node] as usize)) };
    }
    let mut thresholds = [l.splat(0.0); 8];
    for (node, threshold) in thresholds.iter_mut().enumerate().skip(1) {
        *threshold = l.splat(top.thresholds[node]);
    }
    let first = l.greater(loaded[1], thresholds[1]);
    let second = l.greater(
        l.select(first, loaded[3], loaded[2]),
        l.select(first, thresholds[3], thresholds[2]),
    );
    let third = l.greater(
        of_third(l, first, second, &loaded),
        of_third(l, first, second, &thresholds),
    );
    let mut at = l.count(first, l.splat_word(2));
    for passes in [second, third] {
        at = l.count(passes, l.add(at, at));
    }
    at
}

/// The values of the nodes of level 2 that rows reach.
#[inline(always)]
fn of_third<L: Lanes>(l: L, first: L::Mask, second: L::Mask, nodes: &[L::Floats; 8]) -> L::Floats {
    let low = l.select(first, nodes[6], nodes[4]);
    l.select(second, l.select(first, nodes[7], nodes[5]), low)
}

/// The next nodes of a complete part, from the thresholds and columns of the nodes `at`.
///
/// # Safety
/// The columns are those of the forest.
#[inline(always)]
unsafe fn step<L: Lanes, const N: usize>(
    l: L,
    [threshold, column]: [L::Words; 2],
    at: L::Words,
    columns: &Columns<L, N>,
    vector: usize,
) -> L::Words {
    let offset = l.add(column, columns.starts[vector]);
    // SAFETY: as the caller guarantees.
    let element = unsafe { l.gather(columns.elements, offset) };
    let passes = l.greater(element, l.as_floats(threshold));
    l.count(passes, l.add(at, at))
}

/// Walks to leaves from the nodes `at`, which take at most `steps` steps.
///
/// # Safety
/// `at` are positions of nodes, and the columns are those of the forest.
#[inline(always)]
unsafe fn descend<L: Lanes, const N: usize>(
    l: L,
    forest: &Forest<f32>,
    at: &mut [L::Words; N],
    columns: &Columns<L, N>,
    steps: u32,
) {
    let bits = forest.column_bits();
    let column_of = l.splat_word((1 << bits) - 1);
    for step in 1..=steps as usize {
        let mut is_last = true;
        for (at, &start) in at.iter_mut().zip(&columns.starts) {
            // SAFETY: `Forest` guarantees positions and columns, the caller the elements of these.
            let (threshold, link, element) = unsafe {
                let [threshold, link] = l.gather_pairs(forest.nodes().cast(), *at);
                let column = l.and(link, column_of);
                let offset = l.add(l.shift_left(column, columns.shift), start);
                (threshold, link, l.gather(columns.elements, offset))
            };
            let passes = l.greater(element, l.as_floats(threshold));
            let next = l.count(passes, l.shift_right(link, bits));
            is_last &= l.are_equal(next, *at);
            *at = next;
        }
        if is_last {
            return;
        }
        if step.is_multiple_of(STEPS_BETWEEN_CHECKPOINTS) {
            stop::checkpoint();
        }
    }
}

/// [`super::walk_trees`].
///
/// # Safety
/// The row has all columns of the forest, and the forest has the trees.
#[inline(always)]
pub(super) unsafe fn walk_trees<L: Lanes>(
    l: L,
    forest: &Forest<f32>,
    first: usize,
    row: &[f32],
    words: &mut [u32],
) {
    let columns = Columns {
        elements: row.as_ptr(),
        starts: [l.splat_word(0); VECTORS],
        shift: 0,
    };
    let trees = &forest.trees()[first..][..words.len()];
    let walks = VECTORS * L::LANES;
    for (words, trees) in words.chunks_mut(walks).zip(trees.chunks(walks)) {
        stop::checkpoint();
        let mut positions = [trees[0].root; BLOCK];
        let mut steps = 0;
        for (position, tree) in positions.iter_mut().zip(trees) {
            *position = tree.root;
            steps = steps.max(tree.depth);
        }
        // SAFETY: there are at least as many positions as walks; the caller guarantees the columns.
        unsafe {
            let mut at = [l.splat_word(0); VECTORS];
            for (vector, at) in at.iter_mut().enumerate() {
                *at = l.load_words(positions.as_ptr().add(vector * L::LANES));
            }
            descend(l, forest, &mut at, &columns, steps);
            for (vector, &at) in at.iter().enumerate() {
                let word = l.gather_first(forest.nodes().cast(), at);
                l.store_words(word, positions.as_mut_ptr().add(vector * L::LANES));
            }
        }
        words.copy_from_slice(&positions[..words.len()]);
    }
}
