//! Detection of equal constants.

use std::collections::HashMap;
use tenon_tensor::{Tensor, TensorType};

/// Constants of one type and sample that are kept; equal ones after them stay apart.
const MAX_CANDIDATES: usize = 16;

/// Sampled chunks of a constant, evenly spaced, and the bytes of each.
const CHUNKS: usize = 16;
const CHUNK: usize = 16;

/// A type and a sample.
type Key<'g> = (&'g TensorType, Vec<u8>);

/// The variables of constants, by their contents.
///
/// Weights are large, and hashing them costs more than the rest of the plan: the table's key is a
/// sample, and constants with the same key are compared.
#[derive(Default)]
pub(super) struct KnownConstants<'g> {
    by_sample: HashMap<Key<'g>, Vec<(&'g [u8], u32)>>,
}

impl<'g> KnownConstants<'g> {
    /// The variable of an equal constant.
    pub(super) fn equal(&self, tensor: &'g Tensor) -> Option<u32> {
        let candidates = self.by_sample.get(&key(tensor))?;
        let equal = candidates
            .iter()
            .find(|(bytes, _)| *bytes == tensor.bytes());
        equal.map(|&(_, variable)| variable)
    }

    pub(super) fn insert(&mut self, tensor: &'g Tensor, variable: u32) {
        let candidates = self.by_sample.entry(key(tensor)).or_default();
        if candidates.len() < MAX_CANDIDATES {
            candidates.push((tensor.bytes(), variable));
        }
    }
}

fn key(tensor: &Tensor) -> Key<'_> {
    let bytes = tensor.bytes();
    let step = bytes.len().div_ceil(CHUNKS).max(CHUNK);
    let chunks = bytes.chunks(step);
    let sample = chunks.flat_map(|chunk| &chunk[..chunk.len().min(CHUNK)]);
    (tensor.ty(), sample.copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_constants_have_one_variable() {
        let elements: Vec<f32> = (0..5000u16).map(f32::from).collect();
        let tensor =
            |elements: &[f32], shape: &[usize]| Tensor::from_slice(shape, elements).unwrap();
        let first = tensor(&elements, &[5000]);
        let same = tensor(&elements, &[5000]);
        let other_shape = tensor(&elements, &[50, 100]);
        let mut changed = elements.clone();
        changed[4999] = -1.0;
        let changed = tensor(&changed, &[5000]);
        let mut known = KnownConstants::default();
        assert_eq!(known.equal(&first), None);
        known.insert(&first, 7);
        assert_eq!(known.equal(&same), Some(7));
        assert_eq!(known.equal(&other_shape), None);
        assert_eq!(known.equal(&changed), None);
        known.insert(&changed, 8);
        assert_eq!(known.equal(&changed), Some(8));
        assert_eq!(known.equal(&same), Some(7));
        let empty = tensor(&[], &[0]);
        assert_eq!(known.equal(&empty), None);
        known.insert(&empty, 9);
        assert_eq!(known.equal(&empty), Some(9));
    }
}
