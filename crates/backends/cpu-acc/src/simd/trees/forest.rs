//! The nodes of all trees, as walks read them.

#![allow(unsafe_code, reason = "vector instructions and disjoint slices")]

use super::{BLOCK, TOP_LEVELS, TOP_NODES, TreeElement};
use std::collections::VecDeque;
use std::ops::Range;
use tenon_base::stop;
use tenon_graph::trees::Child;

/// Steps of a walk between two checkpoints.
pub(super) const STEPS_BETWEEN_CHECKPOINTS: usize = 4096;

/// Most bytes of trees that are walked with all rows of a chunk, before the next ones: half of a usual second-level cache.
const BLOCK_BYTES: usize = 1 << 20;

/// Most bytes of complete parts, as a multiple of those of the nodes: small trees that share nodes have none.
const MOST_TOP: usize = 8;

/// The position of a node that has none yet.
const ABSENT: u32 = u32::MAX;

/// Whether a column is greater than a threshold; not if either is NaN.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decision<T> {
    pub(crate) column: usize,
    pub(crate) threshold: T,
    /// The second where the column is greater than the threshold, else the first: a decision before this one, or a leaf.
    pub(crate) children: [Child; 2],
}

/// What a forest is made of.
pub(crate) struct Plan<'a, T: TreeElement> {
    pub(crate) decisions: &'a [Decision<T>],
    pub(crate) roots: &'a [Child],
    /// Columns of the decisions.
    pub(crate) columns: usize,
    /// The word of each leaf.
    pub(crate) leaves: &'a [T::Word],
    /// Whether walks have vectors.
    pub(crate) vectors: bool,
}

/// A node: the bits of the word from the lowest are the column, then the position of the first child.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Node<T: TreeElement> {
    /// Of a leaf, its word.
    pub(super) threshold: T,
    link: T::Word,
}

/// A tree of a forest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tree {
    /// The position of its first node.
    pub(super) root: u32,
    /// The most decisions of a walk.
    pub(super) depth: u32,
}

/// The complete part of a tree, from node 1; the children of node `i` are `2 * i` and `2 * i + 1`.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "read by vectors alone")
)]
#[repr(C, align(64))]
pub(super) struct Top {
    pub(super) thresholds: [f32; TOP_NODES],
    /// [`BLOCK`] times the column.
    pub(super) columns: [u32; TOP_NODES],
    /// The positions of the next nodes, or the words of leaves where the tree is not deeper.
    pub(super) exits: [u32; TOP_NODES],
}

/// The trees. Column 0 is one of NaN.
///
/// Every root, child and exit is the position of a node, and every column is less than the number of columns.
#[derive(Debug)]
pub(crate) struct Forest<T: TreeElement> {
    nodes: Vec<Node<T>>,
    column_bits: u32,
    columns: usize,
    trees: Vec<Tree>,
    /// One for each tree, or none.
    tops: Vec<Top>,
    blocks: Vec<Range<usize>>,
}

impl<T: TreeElement> Forest<T> {
    /// The trees of a plan; `None` where positions do not fit into the words.
    pub(crate) fn new(plan: &Plan<'_, T>) -> Option<Self> {
        let columns = plan.columns.checked_add(1)?;
        let fitting = usize::BITS - plan.columns.leading_zeros();
        let column_bits = T::COLUMN_BITS.unwrap_or(fitting);
        let offsets_fit = columns.checked_mul(BLOCK)? <= i32::MAX as usize;
        if fitting > column_bits || plan.vectors && !offsets_fit {
            return None;
        }
        let mut forest = Self {
            nodes: Vec::new(),
            column_bits,
            columns,
            trees: Vec::with_capacity(plan.roots.len()),
            tops: Vec::new(),
            blocks: Vec::new(),
        };
        let mut builder = Builder {
            plan,
            positions: vec![ABSENT; plan.decisions.len()],
            queue: VecDeque::new(),
        };
        let depths = depths(plan.decisions);
        let mut ends = Vec::with_capacity(plan.roots.len());
        for &root in plan.roots {
            stop::checkpoint();
            let position = forest.place_tree(&mut builder, root)?;
            let depth = match root {
                Child::Node(node) => depths[node],
                Child::Leaf(_) => 0,
            };
            forest.trees.push(Tree {
                root: position,
                depth,
            });
            ends.push(forest.nodes.len());
        }
        let bytes = forest.nodes.len().saturating_mul(size_of::<Node<T>>());
        let tops = plan.roots.len().saturating_mul(size_of::<Top>());
        if plan.vectors && tops / MOST_TOP <= bytes {
            forest.place_tops(&builder);
        }
        forest.divide(&ends);
        Some(forest)
    }

    /// Adds the nodes of a tree that are not of an earlier one, in breadth order, and returns the position of its root.
    fn place_tree(&mut self, builder: &mut Builder<'_, T>, root: Child) -> Option<u32> {
        let position = self.reserve(1)?;
        self.place(builder, root, position)?;
        while let Some(node) = builder.queue.pop_front() {
            let first = builder.positions[node];
            for (position, child) in (first..).zip(builder.plan.decisions[node].children) {
                self.place(builder, child, position)?;
            }
        }
        Some(position)
    }

    fn reserve(&mut self, count: usize) -> Option<u32> {
        let position = u32::try_from(self.nodes.len()).ok()?;
        let last = u64::from(position) + count as u64;
        let bits = 8 * size_of::<T::Word>() as u32 - self.column_bits;
        // Gathers take positions as i32.
        if last >= 1u64.checked_shl(bits).unwrap_or(u64::MAX) || last > i32::MAX as u64 {
            return None;
        }
        let node = Node {
            threshold: T::NAN,
            link: T::Word::default(),
        };
        self.nodes.extend(std::iter::repeat_n(node, count));
        Some(position)
    }

    fn place(&mut self, builder: &mut Builder<'_, T>, child: Child, position: u32) -> Option<()> {
        let (threshold, column, next) = match child {
            Child::Leaf(leaf) => (T::of_word(builder.plan.leaves[leaf]), 0, position),
            Child::Node(node) => {
                if builder.positions[node] == ABSENT {
                    builder.positions[node] = self.reserve(2)?;
                    builder.queue.push_back(node);
                }
                let decision = builder.plan.decisions[node];
                (
                    decision.threshold,
                    decision.column + 1,
                    builder.positions[node],
                )
            }
        };
        let link = u64::from(next) << self.column_bits | column as u64;
        let link = T::Word::try_from(link).ok()?;
        self.nodes[position as usize] = Node { threshold, link };
        Some(())
    }

    fn place_tops(&mut self, builder: &Builder<'_, T>) {
        let mut tops = Vec::with_capacity(self.trees.len());
        for (tree, &root) in self.trees.iter().zip(builder.plan.roots) {
            stop::checkpoint();
            let mut top = Top {
                thresholds: [f32::NAN; TOP_NODES],
                columns: [0; TOP_NODES],
                exits: [0; TOP_NODES],
            };
            self.fill(builder, &mut top, (root, tree.root), *tree, 1);
            tops.push(top);
        }
        self.tops = tops;
    }

    /// Fills node `at` of a complete part and those below it: `child`, whose position is `position`.
    fn fill(
        &self,
        builder: &Builder<'_, T>,
        top: &mut Top,
        (child, position): (Child, u32),
        tree: Tree,
        at: usize,
    ) {
        if at >= TOP_NODES {
            let is_last = tree.depth <= TOP_LEVELS;
            top.exits[at - TOP_NODES] = match child {
                Child::Leaf(leaf) if is_last => {
                    let word: u64 = builder.plan.leaves[leaf].into();
                    word as u32
                }
                _ => position,
            };
            return;
        }
        let next = match child {
            // Compared with NaN, to the first.
            Child::Leaf(_) => [(child, position); 2],
            Child::Node(node) => {
                let decision = &builder.plan.decisions[node];
                top.thresholds[at] = decision.threshold.wide() as f32;
                top.columns[at] = ((decision.column + 1) * BLOCK) as u32;
                let [first, second] = decision.children;
                let position = builder.positions[node];
                [(first, position), (second, position + 1)]
            }
        };
        for (side, next) in next.into_iter().enumerate() {
            self.fill(builder, top, next, tree, 2 * at + side);
        }
    }

    /// Divides the trees into blocks of at most [`BLOCK_BYTES`]; `ends` are the node counts up to the end of
    /// each tree.
    fn divide(&mut self, ends: &[usize]) {
        let (mut first, mut bytes, mut start) = (0, 0usize, 0);
        for (tree, (&end, shape)) in ends.iter().zip(&self.trees).enumerate() {
            let nodes = if !self.tops.is_empty() && shape.depth <= TOP_LEVELS {
                0
            } else {
                (end - start).saturating_mul(size_of::<Node<T>>())
            };
            let own = nodes
                + if self.tops.is_empty() {
                    0
                } else {
                    size_of::<Top>()
                };
            if tree > first && bytes.saturating_add(own) > BLOCK_BYTES {
                self.blocks.push(first..tree);
                (first, bytes) = (tree, 0);
            }
            bytes = bytes.saturating_add(own);
            start = end;
        }
        if first < ends.len() {
            self.blocks.push(first..ends.len());
        }
    }

    /// Columns of a block of rows, with the first, which is NaN.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// The most decisions for one row.
    pub(crate) fn decisions(&self) -> usize {
        let depths = self.trees.iter().map(|tree| tree.depth as usize);
        depths.fold(0, usize::saturating_add)
    }

    /// Ranges of trees that fit into the second-level cache.
    pub(crate) fn blocks(&self) -> &[Range<usize>] {
        &self.blocks
    }

    #[cfg(target_arch = "x86_64")]
    pub(super) fn top(&self, tree: usize) -> Option<&Top> {
        self.tops.get(tree)
    }

    #[cfg(target_arch = "x86_64")]
    pub(super) fn nodes(&self) -> *const Node<T> {
        self.nodes.as_ptr()
    }

    #[cfg(target_arch = "x86_64")]
    pub(super) fn column_bits(&self) -> u32 {
        self.column_bits
    }

    /// # Safety
    /// `at` is the position of a node.
    #[inline(always)]
    pub(super) unsafe fn node(&self, at: usize) -> &Node<T> {
        // SAFETY: the caller guarantees the position.
        unsafe { self.nodes.get_unchecked(at) }
    }

    /// The word of a leaf.
    ///
    /// # Safety
    /// `at` is the position of a node.
    #[inline(always)]
    pub(super) unsafe fn word(&self, at: usize) -> T::Word {
        // SAFETY: the caller guarantees the position.
        unsafe { self.node(at) }.threshold.to_word()
    }

    /// The column of a node and the position of its first child.
    #[inline(always)]
    pub(super) fn link(&self, node: &Node<T>) -> (usize, usize) {
        let link: u64 = node.link.into();
        let column = link & ((1 << self.column_bits) - 1);
        (column as usize, (link >> self.column_bits) as usize)
    }
}

/// The state while nodes are placed.
struct Builder<'a, T: TreeElement> {
    plan: &'a Plan<'a, T>,
    /// The position of the first child of each decision.
    positions: Vec<u32>,
    /// Decisions whose children are not placed.
    queue: VecDeque<usize>,
}

/// The most decisions of a walk from each decision.
fn depths<T>(decisions: &[Decision<T>]) -> Vec<u32> {
    let mut depths: Vec<u32> = Vec::with_capacity(decisions.len());
    for decision in decisions {
        let below = decision.children.map(|child| match child {
            Child::Node(node) => depths[node],
            Child::Leaf(_) => 0,
        });
        depths.push(below[0].max(below[1]).saturating_add(1));
    }
    depths
}
