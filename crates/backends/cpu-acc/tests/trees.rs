//! Tree ensembles: scores equal those of the reference, with the same bits at every level of instructions and for every number
//! of threads.

mod common;

use common::{Case, LEVELS, Random};
use tenon_base::pool;
use tenon_tensor::Element;

/// Thresholds and elements of X, many of them equal.
const VALUES: [f64; 12] = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.0,
    -2.0,
    1e-40,
    3e38,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    0.25,
];

/// Comparisons by <=, and NaN fails.
const LESS_OR_EQUAL: [u8; 1] = [0];

/// A threshold or an element of X.
fn value(random: &mut Random) -> f64 {
    match random.below(3) {
        0 => random.pick(&VALUES),
        _ => number(random),
    }
}

fn number(random: &mut Random) -> f64 {
    (random.below(4001) as f64 - 2000.0) / 512.0
}

/// The constants of a random ensemble.
struct Ensemble {
    random: Random,
    shape: Shape,
    features: Vec<i32>,
    thresholds: Vec<f64>,
    modes: Vec<u8>,
    children: Vec<i32>,
    roots: Vec<i32>,
    leaf_starts: Vec<i32>,
    targets: Vec<i32>,
    weights: Vec<f64>,
    members: Vec<f64>,
    member_starts: Vec<i32>,
}

/// What a random ensemble is like.
#[derive(Clone, Copy)]
struct Shape {
    trees: usize,
    depth: usize,
    features: usize,
    targets: usize,
    modes: &'static [u8],
    /// Most entries of a leaf; with 1, each has one of its tree's target.
    entries: usize,
    /// One of as many nodes is a leaf before the depth.
    early_leaf: usize,
}

const ALL_MODES: [u8; 14] = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14];

const PLAIN: Shape = Shape {
    trees: 20,
    depth: 6,
    features: 5,
    targets: 1,
    modes: &LESS_OR_EQUAL,
    entries: 1,
    early_leaf: 9,
};

impl Ensemble {
    fn new(shape: Shape, seed: u64) -> Self {
        let mut ensemble = Self {
            random: Random::new(seed),
            shape,
            features: vec![],
            thresholds: vec![],
            modes: vec![],
            children: vec![],
            roots: vec![],
            leaf_starts: vec![0],
            targets: vec![],
            weights: vec![],
            members: vec![],
            member_starts: vec![0],
        };
        for tree in 0..shape.trees {
            let root = ensemble.features.len() as i32;
            ensemble.roots.push(root);
            ensemble.grow(tree, shape.depth);
        }
        ensemble
    }

    fn grow(&mut self, tree: usize, depth: usize) -> i32 {
        let is_root = depth == self.shape.depth;
        if depth == 0 || !is_root && self.random.below(self.shape.early_leaf) == 0 {
            return self.leaf(tree);
        }
        let node = self.node();
        for side in 0..2 {
            self.children[2 * node + side] = self.grow(tree, depth - 1);
        }
        node as i32
    }

    fn node(&mut self) -> usize {
        let mode = self.random.pick(self.shape.modes);
        self.features
            .push(self.random.below(self.shape.features) as i32);
        let threshold = value(&mut self.random);
        self.thresholds.push(threshold);
        self.modes.push(mode);
        self.children.extend([0, 0]);
        if mode & 7 == 6 {
            for _ in 0..self.random.below(5) {
                let member = value(&mut self.random);
                self.members.push(member);
            }
            self.member_starts.push(self.members.len() as i32);
        }
        self.features.len() - 1
    }

    fn leaf(&mut self, tree: usize) -> i32 {
        let targets = self.shape.targets;
        let entries = match self.shape.entries {
            1 => 1,
            most => self.random.below(most + 1),
        };
        for _ in 0..entries {
            let target = match self.shape.entries {
                1 => tree % targets,
                _ => self.random.below(targets),
            };
            self.targets.push(target as i32);
            let weight = match self.random.below(20) {
                0 => -0.0,
                _ => number(&mut self.random),
            };
            self.weights.push(weight);
        }
        self.leaf_starts.push(self.targets.len() as i32);
        1 - self.leaf_starts.len() as i32
    }

    /// The node with a number of rows, in f32 or f64.
    fn case<T: Element>(&mut self, rows: usize, aggregate: &str, of: fn(f64) -> T) -> Case {
        let all = |values: &[f64]| values.iter().map(|&value| of(value)).collect::<Vec<T>>();
        let x: Vec<f64> = (0..rows * self.shape.features)
            .map(|_| value(&mut self.random))
            .collect();
        let nodes = self.features.len();
        let mut case = Case::new("tenon.TreeEnsemble")
            .input(&[rows, self.shape.features], &all(&x))
            .constant(&[nodes], &self.features)
            .constant(&[nodes], &all(&self.thresholds))
            .constant(&[nodes], &self.modes)
            .constant(&[nodes, 2], &self.children)
            .constant(&[self.roots.len()], &self.roots)
            .constant(&[self.leaf_starts.len()], &self.leaf_starts)
            .constant(&[self.targets.len()], &self.targets)
            .constant(&[self.weights.len()], &all(&self.weights));
        if !self.members.is_empty() {
            case = case
                .constant(&[self.members.len()], &all(&self.members))
                .constant(&[self.member_starts.len()], &self.member_starts);
        }
        case.int("targets", self.shape.targets as i64)
            .string("aggregate", aggregate)
            .outputs(1)
    }

    /// Compares f32 and f64 with the reference, and the bits of all levels and thread counts.
    fn check(&mut self, rows: usize, aggregate: &str) {
        let narrow = self.case(rows, aggregate, |value| value as f32);
        let wide = self.case(rows, aggregate, |value| value);
        for case in [narrow, wide] {
            case.agrees_with_reference(0.0);
            let mut first = None;
            for level in LEVELS {
                for threads in [1, 2, 3] {
                    let mut bound = case.bind(level);
                    pool::with_thread_limit(threads, || bound.execute());
                    let bytes = bound.bytes();
                    assert!(
                        *first.get_or_insert_with(|| bytes.clone()) == bytes,
                        "{level:?} with {threads} threads has other bits"
                    );
                }
            }
        }
    }
}

#[test]
fn trees_of_every_depth() {
    for depth in 1..=12 {
        let trees = if depth > 8 { 5 } else { 40 };
        let shape = Shape {
            trees,
            depth,
            ..PLAIN
        };
        for rows in [1, 5, 7, 16, 33, 64, 100, 200] {
            Ensemble::new(shape, depth as u64 * 7 + rows as u64).check(rows, "SUM");
        }
    }
}

#[test]
fn every_comparison() {
    for (seed, &mode) in ALL_MODES.iter().enumerate() {
        let modes = &ALL_MODES[ALL_MODES.iter().position(|&m| m == mode).unwrap()..][..1];
        for depth in [1, 4, 8] {
            let shape = Shape {
                depth,
                modes,
                ..PLAIN
            };
            Ensemble::new(shape, seed as u64).check(70, "SUM");
        }
    }
    for seed in 0..20 {
        let shape = Shape {
            modes: &ALL_MODES,
            depth: 1 + seed as usize % 9,
            ..PLAIN
        };
        Ensemble::new(shape, seed).check(3, "SUM");
        Ensemble::new(shape, seed + 100).check(130, "AVERAGE");
    }
}

#[test]
fn every_aggregate_and_several_targets() {
    for (seed, aggregate) in ["SUM", "AVERAGE", "MIN", "MAX"].into_iter().enumerate() {
        for (targets, entries) in [(1, 1), (3, 1), (40, 1), (1, 3), (4, 5), (30, 3)] {
            let shape = Shape {
                targets,
                entries,
                modes: &ALL_MODES,
                ..PLAIN
            };
            for rows in [1, 4, 9, 80] {
                Ensemble::new(shape, seed as u64 + 10).check(rows, aggregate);
            }
        }
    }
}

#[test]
fn many_rows_and_trees() {
    let shape = Shape {
        trees: 400,
        depth: 10,
        early_leaf: 20,
        ..PLAIN
    };
    Ensemble::new(shape, 1).check(300, "SUM");
    Ensemble::new(shape, 2).check(1, "SUM");
    let shape = Shape {
        trees: 3000,
        depth: 1,
        ..PLAIN
    };
    Ensemble::new(shape, 3).check(1, "SUM");
    Ensemble::new(shape, 4).check(4200, "SUM");
}

/// A tree that is a chain of 10,000 nodes, and trees that start inside of it.
#[test]
fn chains_and_shared_nodes() {
    let shape = Shape { trees: 0, ..PLAIN };
    let mut ensemble = Ensemble::new(shape, 5);
    for at in 0..10_000i32 {
        let node = ensemble.node();
        ensemble.thresholds[node] = f64::from(at - 5000) / 1024.0;
        let leaf = ensemble.leaf(0);
        let end = if at == 9_999 { leaf } else { at + 1 };
        ensemble.children[2 * node..].copy_from_slice(&[leaf, end]);
    }
    ensemble.roots = vec![0, 0, 9_999, 5_000];
    ensemble.check(1, "SUM");
    ensemble.check(70, "SUM");
    // Many trees of one node.
    ensemble.roots = vec![9_998; 2_000];
    ensemble.check(70, "SUM");
    ensemble.check(2, "MAX");
}

/// Nodes whose children are the same leaf.
#[test]
fn trees_of_one_leaf() {
    let shape = Shape {
        trees: 0,
        targets: 2,
        modes: &ALL_MODES,
        ..PLAIN
    };
    let mut ensemble = Ensemble::new(shape, 6);
    for tree in 0..30 {
        let node = ensemble.node();
        let leaf = ensemble.leaf(tree);
        ensemble.children[2 * node..].copy_from_slice(&[leaf, leaf]);
        ensemble.roots.push(node as i32);
    }
    ensemble.check(1, "SUM");
    ensemble.check(90, "SUM");
    ensemble.check(90, "MIN");
}

/// More columns and nodes than fit into words of 32 bits together.
#[test]
fn words_that_are_too_short() {
    let shape = Shape {
        trees: 40,
        depth: 12,
        features: 300_000,
        early_leaf: 1000,
        ..PLAIN
    };
    let mut ensemble = Ensemble::new(shape, 7);
    for (at, feature) in ensemble.features.iter_mut().enumerate() {
        *feature = at as i32;
    }
    ensemble.check(9, "SUM");
}
