//! Counts of n-grams, found in a trie (Fredkin, "Trie memory", 1960).

use crate::kernel::{BuildError, BuildKernel, Kernel, Node, unsupported_type, unsupported_value};
use std::collections::HashMap;
use tenon_base::stop;
use tenon_graph::geometry::NgramPool;
use tenon_tensor::match_type;

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[("TfIdfVectorizer", tf_idf)];

/// The n-grams of a pool by their items.
struct NgramTrie {
    children: HashMap<(usize, i64), usize>,
    /// The column of the n-gram that ends at each node. The root is node 0.
    columns: Vec<Option<usize>>,
}

impl NgramTrie {
    fn new(pool: &NgramPool, items: &[i64]) -> Self {
        let mut trie = Self {
            children: HashMap::new(),
            columns: vec![None],
        };
        let groups = pool.groups.iter();
        for group in groups.filter(|group| pool.lengths.contains(&group.length)) {
            let grams = items[group.items.clone()].chunks_exact(group.length);
            for (gram, &column) in grams.zip(&group.columns) {
                let mut node = 0;
                for &item in gram {
                    let next = trie.columns.len();
                    node = *trie.children.entry((node, item)).or_insert(next);
                    if node == next {
                        trie.columns.push(None);
                    }
                }
                trie.columns[node] = Some(column);
            }
        }
        trie
    }

    /// Counts the n-grams of a row.
    fn count<T: Copy + Into<i64>>(&self, pool: &NgramPool, row: &[T], counts: &mut [u32]) {
        let (mut least, most) = (*pool.lengths.start(), *pool.lengths.end());
        // Items further apart than the row is long are in no n-gram.
        let distances = pool.skips.min(row.len()) + 1;
        for distance in 1..=distances {
            for start in 0..row.len() {
                stop::checkpoint();
                if distance.saturating_mul(least - 1) >= row.len() - start {
                    break;
                }
                let mut node = 0;
                let gram = row[start..].iter().step_by(distance).take(most);
                for (length, &item) in (1..).zip(gram) {
                    match self.children.get(&(node, item.into())) {
                        Some(&next) => node = next,
                        None => break,
                    }
                    if let Some(column) = self.columns[node].filter(|_| length >= least) {
                        counts[column] = counts[column].saturating_add(1);
                    }
                }
            }
            // N-grams of one item are the same at every distance.
            if least == 1 {
                least = 2;
                if most < least {
                    break;
                }
            }
        }
    }
}

fn tf_idf(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (dtype, attributes) = (node.dtype(0)?, node.attributes);
    let width = node.shape(0)?.last().copied().unwrap_or(1);
    let items = attributes.ints("pool_int64s")?.unwrap_or_default();
    let pool = NgramPool::new(attributes, items.len())?;
    let trie = NgramTrie::new(&pool, items);
    let weights = attributes.floats("weights")?.unwrap_or_default();
    let columns = pool.groups.iter().flat_map(|group| &group.columns);
    let weights: HashMap<usize, f32> = columns.copied().zip(weights.iter().copied()).collect();
    let mode = match attributes.string("mode", "")? {
        "TF" => Weighting::Counts,
        "IDF" => Weighting::Weights,
        "TFIDF" => Weighting::Products,
        found => return Err(unsupported_value("mode", found)),
    };
    match_type!(dtype, T: index => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let x = inputs.slice::<T>(0)?;
        // Counted in the output, whose elements have the same size.
        let to = outputs.slice::<u32>(0)?;
        to.fill(0);
        if width > 0 {
            for (row, counts) in x.chunks_exact(width).zip(to.chunks_exact_mut(pool.columns)) {
                trie.count(&pool, row, counts);
            }
        }
        for (at, to) in to.iter_mut().enumerate() {
            let weight = weights.get(&(at % pool.columns)).copied().unwrap_or(1.0);
            let value = match mode {
                Weighting::Counts => *to as f32,
                Weighting::Weights if *to > 0 => weight,
                Weighting::Weights => 0.0,
                Weighting::Products => (f64::from(weight) * f64::from(*to)) as f32,
            };
            *to = value.to_bits();
        }
        Ok(())
    })), found => Err(unsupported_type(0, found)))
}

/// What a column gets for its count.
#[derive(Debug, Clone, Copy)]
enum Weighting {
    Counts,
    Weights,
    Products,
}
