//! Decision trees, tables of keys and probabilities of classes.

use crate::kernel::{BuildError, BuildKernel, Kernel, Node, numeric, sized, unsupported_type};
use half::{bf16, f16};
use std::collections::HashMap;
use std::hash::Hash;
use tenon_base::{bounded, stop};
use tenon_graph::trees::{Aggregate, TreeEnsemble};
use tenon_tensor::{DataType, Element};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("tenon.TreeEnsemble", tree_ensemble),
    ("tenon.LookUp", look_up),
    ("tenon.CoupleProbabilities", couple),
];

fn tree_ensemble(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let features = node.shape(0)?.last().copied().unwrap_or(0);
    let constants = node.constants.get(1..).unwrap_or_default();
    let trees = TreeEnsemble::new(node.attributes, features, constants)?;
    match node.dtype(0)? {
        DataType::F32 => scores::<f32>(trees, features, |value| value as f32),
        DataType::F64 => scores::<f64>(trees, features, |value| value),
        found => Err(unsupported_type(0, found)),
    }
}

fn scores<T: Element + Into<f64>>(
    trees: TreeEnsemble,
    features: usize,
    narrow: fn(f64) -> T,
) -> Result<Kernel, BuildError> {
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, y) = (inputs.slice::<T>(0)?, outputs.slice::<T>(0)?);
        let mut found: Vec<Option<f64>> =
            bounded::collect("scores", (0..trees.targets).map(|_| None))?;
        for (at, to) in y.chunks_exact_mut(trees.targets).enumerate() {
            let row = &x[at * features..][..features];
            found.fill(None);
            for &root in &trees.roots {
                stop::checkpoint();
                let leaf = trees.leaf(root, |feature| row[feature].into());
                for &(target, weight) in &trees.entries[trees.leaves[leaf].clone()] {
                    let before = &mut found[target];
                    *before = Some(match *before {
                        None => weight,
                        Some(before) => trees.aggregate.join(before, weight),
                    });
                }
            }
            for (to, found) in to.iter_mut().zip(&found) {
                let value = found.unwrap_or(0.0);
                *to = narrow(match trees.aggregate {
                    Aggregate::Average => value / trees.roots.len() as f64,
                    _ => value,
                });
            }
        }
        Ok(())
    }))
}

/// An element as a key of a map: equal elements have equal keys, and so have all NaN.
trait Key: Element {
    type Form: Hash + Eq + Send + Sync + 'static;
    fn form(self) -> Self::Form;
}

macro_rules! integer_keys {
    ($($T:ty),*) => {$(
        impl Key for $T {
            type Form = $T;
            fn form(self) -> $T {
                self
            }
        }
    )*};
}

macro_rules! float_keys {
    ($($T:ty),*) => {$(
        impl Key for $T {
            type Form = u64;
            fn form(self) -> u64 {
                let wide = f64::from(self);
                if wide.is_nan() { f64::NAN.to_bits() } else { (wide + 0.0).to_bits() }
            }
        }
    )*};
}

integer_keys!(i8, i16, i32, i64, u8, u16, u32, u64);
float_keys!(f16, bf16, f32, f64);

fn look_up(node: &Node<'_>) -> Result<Kernel, BuildError> {
    numeric!(node.dtype(0)?, 0, K => look_up_keys::<K>(node))
}

fn look_up_keys<K: Key>(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let keys = node.constants.get(1).copied().flatten();
    let keys = keys
        .and_then(|keys| keys.as_slice::<K>())
        .unwrap_or_default();
    let mut positions = HashMap::with_capacity(keys.len());
    for (at, key) in keys.iter().enumerate() {
        positions.entry(key.form()).or_insert(at);
    }
    sized!(node.dtype(2)?, 2, V => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, values) = (inputs.slice::<K>(0)?, inputs.slice::<V>(2)?);
        let default = inputs.slice::<V>(3)?;
        for (x, to) in x.iter().zip(outputs.slice::<V>(0)?) {
            let value = positions.get(&x.form()).and_then(|&at| values.get(at));
            if let Some(value) = value.or(default.first()) {
                *to = *value;
            }
        }
        Ok(())
    })))
}

fn couple(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let pairs = node.shape(0)?.last().copied().unwrap_or(0);
    let classes = node.attributes.int("classes", 0)?;
    let classes = usize::try_from(classes).unwrap_or(0);
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (p, y) = (inputs.slice::<f32>(0)?, outputs.slice::<f32>(0)?);
        let mut coupling = Coupling::new(classes)?;
        for (row, to) in p.chunks_exact(pairs).zip(y.chunks_exact_mut(classes)) {
            stop::checkpoint();
            coupling.solve(row, to);
        }
        Ok(())
    }))
}

/// Finds the probabilities p of classes that minimise p Q p, where their sum is 1.
struct Coupling {
    /// Q: for classes s and t the product of the probabilities of each against the other, negative; on the diagonal the sum of
    /// the squares of those of the other classes against t.
    matrix: Vec<f32>,
    /// Q p.
    products: Vec<f32>,
}

impl Coupling {
    fn new(classes: usize) -> tenon_base::Result<Self> {
        let zeros = |count: usize| bounded::collect("pairs of classes", (0..count).map(|_| 0.0));
        Ok(Self {
            matrix: zeros(classes.saturating_mul(classes))?,
            products: zeros(classes)?,
        })
    }

    fn solve(&mut self, pairs: &[f32], p: &mut [f32]) {
        let classes = p.len();
        self.fill(pairs);
        p.fill(1.0 / classes as f32);
        let least_error = 0.005 / classes as f32;
        for _ in 0..classes.max(100) {
            let rows = self.matrix.chunks_exact(classes);
            for (row, product) in rows.zip(&mut self.products) {
                *product = row.iter().zip(p.iter()).map(|(q, p)| q * p).sum();
            }
            let mut value: f32 = p.iter().zip(&self.products).map(|(p, q)| p * q).sum();
            let errors = self.products.iter().map(|product| (product - value).abs());
            if errors.fold(0.0, f32::max) < least_error {
                return;
            }
            for class in 0..classes {
                value = self.step(class, value, p);
            }
        }
    }

    fn fill(&mut self, pairs: &[f32]) {
        let classes = self.products.len();
        self.matrix.fill(0.0);
        let positions = (0..classes).flat_map(|i| (i + 1..classes).map(move |j| (i, j)));
        for ((i, j), &first) in positions.zip(pairs) {
            let second = 1.0 - first;
            self.matrix[i * classes + i] += second * second;
            self.matrix[j * classes + j] += first * first;
            self.matrix[i * classes + j] = -first * second;
            self.matrix[j * classes + i] = -first * second;
        }
    }

    /// Moves the probability of one class to the minimum, divides all by their sum, and returns the new p Q p.
    fn step(&mut self, class: usize, value: f32, p: &mut [f32]) -> f32 {
        let row = &self.matrix[class * p.len()..][..p.len()];
        let product = self.products[class];
        let change = (value - product) / row[class];
        let sum = 1.0 + change;
        p[class] += change;
        for ((p, product), q) in p.iter_mut().zip(&mut self.products).zip(row) {
            *p /= sum;
            *product = (*product + change * q) / sum;
        }
        (value + change * (change * row[class] + 2.0 * product)) / (sum * sum)
    }
}
