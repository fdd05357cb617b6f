//! Decision trees and tables of keys.

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
