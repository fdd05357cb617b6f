//! How the weights of leaves become scores, in the order of the trees and in f64, as in the reference.

use super::decisions::Decisions;
use crate::simd::trees::{BLOCK, LeafSink, TreeElement};
use std::marker::PhantomData;
use tenon_graph::trees::{Aggregate, Child, TreeEnsemble};

/// The targets, and what a word of a leaf is.
#[derive(Debug)]
pub(super) struct Scoring {
    pub(super) targets: usize,
    words: Words,
    aggregate: Aggregate,
    trees: f64,
}

/// The words of leaves.
#[derive(Debug)]
enum Words {
    /// Weights, which are added: each leaf has one, and all leaves of a tree have the same target.
    Weights {
        /// The target of each tree.
        targets: Vec<usize>,
        /// Whether a target has weights.
        is_scored: Vec<bool>,
    },
    /// Indices of leaves: the target and weight of each entry, and the entries of each leaf.
    Leaves {
        starts: Vec<(usize, usize)>,
        entries: Vec<(usize, f64)>,
    },
}

/// The scores of a number of rows: those of target `t` of row `r` are element `stride * t + r`. Of
/// [`Words::Leaves`], as many elements behind them are 1 where there is a score.
pub(super) struct Scores<'a> {
    pub(super) elements: &'a mut [f64],
    pub(super) stride: usize,
}

impl Scoring {
    /// The scoring of trees.
    pub(super) fn of<T: TreeElement>(trees: &TreeEnsemble, decisions: &Decisions<T>) -> Self {
        let sums = matches!(trees.aggregate, Aggregate::Sum | Aggregate::Average);
        let targets = sums.then(|| tree_targets(trees, decisions)).flatten();
        let words = match targets {
            Some(found) => {
                let mut is_scored = vec![false; trees.targets];
                for &target in &found {
                    is_scored[target] = true;
                }
                Words::Weights {
                    targets: found,
                    is_scored,
                }
            }
            None => Words::Leaves {
                starts: trees.leaves.iter().map(|l| (l.start, l.end)).collect(),
                entries: trees.entries.clone(),
            },
        };
        Self {
            targets: trees.targets,
            words,
            aggregate: trees.aggregate,
            trees: trees.roots.len() as f64,
        }
    }

    /// The word of each leaf of trees; `None` where the index of a leaf does not fit.
    pub(super) fn leaf_words<T: TreeElement>(&self, trees: &TreeEnsemble) -> Option<Vec<T::Word>> {
        let leaves = trees.leaves.iter().enumerate();
        leaves
            .map(|(number, leaf)| match &self.words {
                Words::Weights { .. } => {
                    let entry = trees.entries.get(leaf.start);
                    let weight = entry.map_or(0.0, |entry| entry.1);
                    Some(T::of_f64(weight).to_word())
                }
                Words::Leaves { .. } => T::Word::try_from(number as u64).ok(),
            })
            .collect()
    }

    /// Elements of the scores of a row, for any scoring.
    pub(super) fn most_elements(targets: usize) -> usize {
        2 * targets
    }

    /// Clears scores.
    pub(super) fn start(&self, scores: &mut Scores<'_>) {
        // -0 plus a weight is the weight.
        let start = match self.words {
            Words::Weights { .. } => -0.0,
            Words::Leaves { .. } => 0.0,
        };
        scores.elements.fill(start);
    }

    /// Adds the leaf of each tree to the scores of a row, in order.
    pub(super) fn add_trees<T: TreeElement>(&self, words: &[T::Word], scores: &mut Scores<'_>) {
        match &self.words {
            Words::Weights { targets, .. } => {
                let mut words = words.iter();
                for same in targets.chunk_by(|a, b| a == b) {
                    let sum = &mut scores.elements[same[0] * scores.stride];
                    let weights = words.by_ref().take(same.len());
                    *sum = weights.fold(*sum, |sum, &word| sum + T::of_word(word).wide());
                }
            }
            Words::Leaves { .. } => {
                for &word in words {
                    self.add_entries(word.into(), 0, scores);
                }
            }
        }
    }

    /// Adds the entries of a leaf to the scores of a row.
    fn add_entries(&self, leaf: u64, row: usize, scores: &mut Scores<'_>) {
        let Words::Leaves { starts, entries } = &self.words else {
            return;
        };
        let (start, end) = starts[leaf as usize];
        let flags = self.targets * scores.stride;
        for &(target, weight) in &entries[start..end] {
            let at = target * scores.stride + row;
            let before = scores.elements[at];
            scores.elements[at] = if scores.elements[flags + at] == 0.0 {
                weight
            } else {
                self.aggregate.join(before, weight)
            };
            scores.elements[flags + at] = 1.0;
        }
    }

    /// The score of a target of a row.
    pub(super) fn score(&self, row: usize, target: usize, scores: &Scores<'_>) -> f64 {
        let at = target * scores.stride + row;
        let score = match &self.words {
            Words::Weights { is_scored, .. } if !is_scored[target] => 0.0,
            _ => scores.elements[at],
        };
        match self.aggregate {
            Aggregate::Average => score / self.trees,
            _ => score,
        }
    }
}

/// The target of each tree; `None` unless each leaf has one weight, and the leaves of each tree the same target.
fn tree_targets<T: TreeElement>(
    trees: &TreeEnsemble,
    decisions: &Decisions<T>,
) -> Option<Vec<usize>> {
    let of_leaf = |leaf: usize| {
        let entries = trees.leaves[leaf].clone();
        (entries.len() == 1).then(|| trees.entries[entries.start].0)
    };
    let mut found: Vec<Option<usize>> = Vec::with_capacity(decisions.nodes.len());
    for decision in &decisions.nodes {
        let [first, second] = decision.children.map(|child| match child {
            Child::Node(node) => found[node],
            Child::Leaf(leaf) => of_leaf(leaf),
        });
        found.push(first.filter(|_| first == second));
    }
    let roots = decisions.roots.iter();
    roots
        .map(|&root| match root {
            Child::Node(node) => found[node],
            Child::Leaf(leaf) => of_leaf(leaf),
        })
        .collect()
}

/// The scores of a block of rows, which leaves are added to.
pub(super) struct BlockScores<'a, T> {
    pub(super) scoring: &'a Scoring,
    pub(super) scores: Scores<'a>,
    pub(super) rows: usize,
    pub(super) elements: PhantomData<T>,
}

impl<T: TreeElement> LeafSink<T::Word> for BlockScores<'_, T> {
    #[inline(always)]
    fn add(&mut self, tree: usize, words: &[T::Word; BLOCK]) {
        if let Words::Weights { targets, .. } = &self.scoring.words {
            let sums = &mut self.scores.elements[targets[tree] * BLOCK..][..BLOCK];
            // All, also of rows that there are not: whole vectors.
            for (sum, &word) in sums.iter_mut().zip(words) {
                *sum += T::of_word(word).wide();
            }
            return;
        }
        for (row, &word) in words[..self.rows].iter().enumerate() {
            self.scoring.add_entries(word.into(), row, &mut self.scores);
        }
    }
}
