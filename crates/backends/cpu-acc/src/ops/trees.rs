//! `tenon.TreeEnsemble`: rows in blocks, trees in blocks that fit into the second-level cache, both in vectors
//! ([`crate::simd::trees`]); few rows with vectors of trees. Scores equal those of the reference; every
//! level and number of threads gives the same bits.

mod decisions;
mod scoring;

use super::element_types::refuse_type;
use super::{Kernel, scratch};
use crate::signature::{Signature, refuse, refuse_attribute};
use crate::simd::Level;
use crate::simd::disjoint::{for_each_chunk, for_each_chunk2};
use crate::simd::trees::{
    BLOCK, Forest, Plan, RowBlock, TreeElement, elements_of, walk_rows, walk_trees, words_of,
};
use decisions::{Column, Decisions};
use scoring::{BlockScores, Scores, Scoring};
use std::collections::HashSet;
use std::marker::PhantomData;
use tenon_backend::{Operands, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::{Error, ErrorKind, Result, pool};
use tenon_graph::trees::{TREE_INPUTS, TreeEnsemble};
use tenon_tensor::DataType;

/// Most rows that are walked one by one, with vectors of trees.
const FEW_ROWS: usize = 6;

/// Most rows in scratch memory: longer inputs are computed in parts.
const PART_ROWS: usize = 4096;

/// Most targets: scores are in scratch memory for whole blocks of rows.
const MOST_TARGETS: usize = 1 << 16;

/// Decisions that take longer than another thread needs to start.
const PARALLEL_DECISIONS: usize = 10_000;

/// The sizes of a workload.
#[derive(Debug, Clone, Copy)]
struct Extents {
    rows: usize,
    features: usize,
    targets: usize,
    trees: usize,
    /// At least the columns of a forest.
    columns: usize,
}

/// The kernel.
struct TreeKernel {
    extents: Extents,
    dtype: DataType,
    level: Level,
}

/// The kernel of a node.
pub(super) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    let dtype = signature.input(0)?.dtype();
    if !matches!(dtype, DataType::F32 | DataType::F64) {
        return Err(refuse_type(0, dtype));
    }
    // Shape inference, which has been checked, allows no other rank.
    let shape = signature.input(0)?.shape();
    let (rows, features) = (shape[0], shape[1]);
    let targets = signature.int("targets", 0)?;
    let most = usize::try_from(targets).ok().filter(|&t| t <= MOST_TARGETS);
    let targets = most.ok_or_else(|| refuse_attribute("targets", targets))?;
    let used = signature.constant_ints(1)?;
    let used = used.ok_or_else(|| refuse("the features are not constant"))?;
    let used: HashSet<i64> = used.into_iter().collect();
    let trees = signature.input(5)?.elements();
    Ok(Box::new(TreeKernel {
        extents: Extents {
            rows,
            features,
            targets,
            trees,
            columns: 1 + 2 * used.len(),
        },
        dtype,
        level: signature.level,
    }))
}

impl Extents {
    /// Elements of f64 of scratch memory for a block of rows.
    fn block_scratch(&self) -> usize {
        let elements = self.columns + Scoring::most_elements(self.targets);
        elements.saturating_mul(BLOCK)
    }

    /// Elements of f64 of scratch memory.
    fn scratch(&self) -> usize {
        if self.rows <= FEW_ROWS {
            return self.columns + Scoring::most_elements(self.targets) + self.trees;
        }
        let blocks = self.rows.min(PART_ROWS).div_ceil(BLOCK);
        self.block_scratch().saturating_mul(blocks)
    }
}

impl Kernel for TreeKernel {
    fn plan(&self, _spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        Ok(WorkloadPlan {
            scratch_bytes: self.extents.scratch().saturating_mul(size_of::<f64>()),
            ..WorkloadPlan::default()
        })
    }

    fn bind(self: Box<Self>, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        let constants = spec.inputs.iter().skip(1);
        let mut constants: Vec<_> = constants
            .map(|input| input.as_ref().and_then(|input| input.constant.as_ref()))
            .collect();
        constants.resize(TREE_INPUTS.len(), None);
        let trees = TreeEnsemble::new(&spec.attributes, self.extents.features, &constants)?;
        if self.dtype == DataType::F64 {
            return self.bound::<f64, f64>(trees);
        }
        match self.walkable::<f32>(&trees) {
            Some(bound) => Ok(Box::new(BoundTrees::<f32, f32>::new(&self, bound))),
            None => self.bound::<f32, f64>(trees),
        }
    }
}

/// Trees in the form that is walked.
struct Walkable<T: TreeElement> {
    forest: Forest<T>,
    columns: Vec<Column>,
    scoring: Scoring,
}

impl TreeKernel {
    fn bound<X: TreeElement, T: TreeElement>(
        &self,
        trees: TreeEnsemble,
    ) -> Result<Box<dyn Workload>> {
        let walkable = self
            .walkable::<T>(&trees)
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, "the ensemble has too many nodes"))?;
        Ok(Box::new(BoundTrees::<X, T>::new(self, walkable)))
    }

    /// The trees; `None` where the nodes do not fit into the words of `T`.
    fn walkable<T: TreeElement>(&self, trees: &TreeEnsemble) -> Option<Walkable<T>> {
        let decisions = Decisions::<T>::of(trees);
        let scoring = Scoring::of(trees, &decisions);
        let leaves = scoring.leaf_words::<T>(trees)?;
        let forest = Forest::new(&Plan {
            decisions: &decisions.nodes,
            roots: &decisions.roots,
            columns: decisions.columns.len(),
            leaves: &leaves,
            vectors: T::has_vectors(self.level),
        })?;
        Some(Walkable {
            forest,
            columns: decisions.columns,
            scoring,
        })
    }
}

/// Trees with thresholds of `T` for X of `X`.
struct BoundTrees<X, T: TreeElement> {
    extents: Extents,
    level: Level,
    trees: Walkable<T>,
    x: PhantomData<X>,
}

impl<X: TreeElement, T: TreeElement> BoundTrees<X, T> {
    fn new(kernel: &TreeKernel, trees: Walkable<T>) -> Self {
        Self {
            extents: kernel.extents,
            level: kernel.level,
            trees,
            x: PhantomData,
        }
    }

    /// Whether walks of a number of rows are worth several threads.
    fn is_parallel(&self, rows: usize) -> bool {
        let decisions = self.trees.forest.decisions();
        rows.saturating_mul(decisions) >= PARALLEL_DECISIONS && pool::threads() > 1
    }

    /// The columns of rows: column `c` of row `r` is element `stride * c + r`.
    fn transpose(&self, x: &[X], stride: usize, to: &mut [T]) {
        let (first, rest) = to.split_at_mut(stride);
        first.fill(T::NAN);
        for (column, to) in self.trees.columns.iter().zip(rest.chunks_exact_mut(stride)) {
            let elements = x.iter().skip(column.feature).step_by(self.extents.features);
            for (to, &element) in to.iter_mut().zip(elements) {
                let element = T::of_f64(element.wide());
                *to = if column.negated {
                    element.negative()
                } else {
                    element
                };
            }
        }
    }

    /// The scores of few rows, one by one.
    fn few_rows(&self, x: &[X], y: &mut [X], scratch: &mut [f64]) {
        let extents = &self.extents;
        let (columns, rest) = scratch.split_at_mut(extents.columns);
        let (sums, words) = rest.split_at_mut(Scoring::most_elements(extents.targets));
        let columns = elements_of::<T>(columns);
        let words = &mut words_of::<T>(words)[..extents.trees];
        let mut scores = Scores {
            elements: sums,
            stride: 1,
        };
        let rows = x.chunks_exact(extents.features);
        for (row, y) in rows.zip(y.chunks_exact_mut(extents.targets)) {
            self.transpose(row, 1, columns);
            let parallel = self.is_parallel(1);
            let threads = if parallel { pool::threads() } else { 1 };
            let chunk = extents.trees.div_ceil(threads).next_multiple_of(BLOCK);
            let columns = &*columns;
            for_each_chunk(words, chunk, parallel, |index, words| {
                walk_trees(
                    self.level,
                    &self.trees.forest,
                    index * chunk,
                    columns,
                    words,
                );
            });
            let scoring = &self.trees.scoring;
            scoring.start(&mut scores);
            scoring.add_trees::<T>(words, &mut scores);
            for (target, y) in y.iter_mut().enumerate() {
                *y = X::of_f64(scoring.score(0, target, &scores));
            }
        }
    }

    /// The scores of a part of the rows.
    fn part(&self, x: &[X], y: &mut [X], scratch: &mut [f64]) {
        let extents = &self.extents;
        let rows = y.len() / extents.targets;
        let parallel = self.is_parallel(rows);
        let chunks = if parallel { 2 * pool::threads() } else { 1 };
        let blocks = rows.div_ceil(BLOCK).div_ceil(chunks);
        let chunk_rows = blocks * BLOCK;
        for_each_chunk2(
            (y, chunk_rows * extents.targets),
            (scratch, blocks * extents.block_scratch()),
            parallel,
            |index, y, scratch| {
                let first = index * chunk_rows * extents.features;
                self.chunk(&x[first..], y, scratch);
            },
        );
    }

    /// The scores of the first rows of `x`, as many as `y` has.
    fn chunk(&self, x: &[X], y: &mut [X], scratch: &mut [f64]) {
        let extents = &self.extents;
        let (block, scoring) = (extents.block_scratch(), &self.trees.scoring);
        let rows = y.len() / extents.targets;
        let rows_of = |block: usize| BLOCK.min(rows - block * BLOCK);
        let scratch = &mut scratch[..rows.div_ceil(BLOCK) * block];
        for (nth, scratch) in scratch.chunks_exact_mut(block).enumerate() {
            let (columns, sums) = scratch.split_at_mut(extents.columns * BLOCK);
            let first = nth * BLOCK * extents.features;
            let x = &x[first..][..rows_of(nth) * extents.features];
            self.transpose(x, BLOCK, elements_of(columns));
            scoring.start(&mut Scores {
                elements: sums,
                stride: BLOCK,
            });
        }
        for trees in self.trees.forest.blocks() {
            for (nth, scratch) in scratch.chunks_exact_mut(block).enumerate() {
                let (columns, sums) = scratch.split_at_mut(extents.columns * BLOCK);
                let mut sink = BlockScores::<T> {
                    scoring,
                    scores: Scores {
                        elements: sums,
                        stride: BLOCK,
                    },
                    rows: rows_of(nth),
                    elements: PhantomData,
                };
                let block = RowBlock {
                    elements: &*elements_of::<T>(columns),
                    rows: rows_of(nth),
                };
                walk_rows(
                    self.level,
                    &self.trees.forest,
                    trees.clone(),
                    block,
                    &mut sink,
                );
            }
        }
        let parts = scratch.chunks_exact_mut(block);
        for (scratch, y) in parts.zip(y.chunks_mut(BLOCK * extents.targets)) {
            let scores = Scores {
                elements: &mut scratch[extents.columns * BLOCK..],
                stride: BLOCK,
            };
            for (row, y) in y.chunks_exact_mut(extents.targets).enumerate() {
                for (target, y) in y.iter_mut().enumerate() {
                    *y = X::of_f64(scoring.score(row, target, &scores));
                }
            }
        }
    }
}

impl<X: TreeElement, T: TreeElement> Workload for BoundTrees<X, T> {
    fn execute(&self, operands: &mut Operands<'_>) -> Result<()> {
        let extents = &self.extents;
        let (inputs, mut outputs) = operands.split();
        let (x, y) = (inputs.slice::<X>(0)?, outputs.slice::<X>(0)?);
        let scratch = scratch::<f64>(&mut outputs, extents.scratch())?;
        if extents.rows <= FEW_ROWS {
            self.few_rows(x, y, scratch);
            return Ok(());
        }
        let parts = x.chunks(PART_ROWS * extents.features);
        for (x, y) in parts.zip(y.chunks_mut(PART_ROWS * extents.targets)) {
            self.part(x, y, scratch);
        }
        Ok(())
    }
}
