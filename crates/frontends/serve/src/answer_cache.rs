//! Answers that are kept for equal requests.

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::Arc;
use tenon::tensor::BufferMut;
use tenon::{DataType, Result, Tensor};

/// The outputs of a model by the digest of its inputs. The least useful ones are dropped when their bytes exceed a
/// limit (S3-FIFO).
pub struct AnswerCache {
    answers: Cache<[u8; 32], Arc<Vec<Tensor>>, OutputBytes>,
}

#[derive(Debug, Clone)]
struct OutputBytes;

/// What an answer takes beside its elements.
const OVERHEAD: usize = 256;

/// What an answer is expected to take, for the size of the table.
const USUAL_BYTES: u64 = 4096;

impl Weighter<[u8; 32], Arc<Vec<Tensor>>> for OutputBytes {
    fn weight(&self, _key: &[u8; 32], outputs: &Arc<Vec<Tensor>>) -> u64 {
        let bytes = outputs.iter().map(|output| output.bytes().len() + OVERHEAD);
        bytes.sum::<usize>() as u64
    }
}

impl AnswerCache {
    /// A cache of this many bytes.
    pub fn new(bytes: u64) -> Self {
        let count = usize::try_from(bytes / USUAL_BYTES).unwrap_or(usize::MAX);
        Self {
            answers: Cache::with_weighter(count.clamp(16, 1 << 20), bytes, OutputBytes),
        }
    }

    /// The key of inputs in the order of the model: a digest of their types, shapes and elements.
    pub fn key(inputs: &[Tensor]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let number = |hasher: &mut blake3::Hasher, number: usize| {
            hasher.update(&(number as u64).to_le_bytes());
        };
        for input in inputs {
            number(&mut hasher, input.dtype() as usize);
            number(&mut hasher, input.shape().len());
            for &extent in input.shape().iter() {
                number(&mut hasher, extent);
            }
            number(&mut hasher, input.bytes().len());
            hasher.update(input.bytes());
        }
        *hasher.finalize().as_bytes()
    }

    /// The outputs of equal inputs.
    pub fn find(&self, key: &[u8; 32]) -> Option<Arc<Vec<Tensor>>> {
        self.answers.get(key)
    }

    /// Keeps outputs. They are copied: those of a joined execution are parts of larger buffers.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn keep(&self, key: [u8; 32], outputs: &[Tensor]) -> Result<()> {
        let copies = outputs.iter().map(|output| {
            // Strings are not parts of other buffers.
            if output.dtype() == DataType::String {
                return Ok(output.clone());
            }
            let copy = BufferMut::copy_of(output.bytes())?.freeze();
            Tensor::new(output.ty().clone(), copy)
        });
        let copies = copies.collect::<Result<Vec<Tensor>>>()?;
        self.answers.insert(key, Arc::new(copies));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    fn tensor(elements: &[f32]) -> Tensor {
        Tensor::from_slice([elements.len()], elements).unwrap()
    }

    #[test]
    fn keys_depend_on_types_shapes_and_elements() {
        let one = tensor(&[1.0, 2.0]);
        let key = |inputs: &[Tensor]| AnswerCache::key(inputs);
        assert_eq!(key(from_ref(&one)), key(&[tensor(&[1.0, 2.0])]));
        let others = [
            vec![tensor(&[1.0, 3.0])],
            vec![one.reshaped([2, 1]).unwrap()],
            vec![Tensor::from_slice([2], &[0x3f80_0000_i32, 0x4000_0000]).unwrap()],
            vec![tensor(&[1.0]), tensor(&[2.0])],
            vec![],
        ];
        for (at, other) in others.iter().enumerate() {
            assert_ne!(key(from_ref(&one)), key(other), "{at}");
        }
        let texts = |texts: &[&str]| Tensor::from_strings([texts.len()], texts).unwrap();
        assert_ne!(key(&[texts(&["ab", "c"])]), key(&[texts(&["a", "bc"])]));
    }

    #[test]
    fn bytes_are_bounded() {
        let cache = AnswerCache::new(64 << 10);
        let large = tensor(&vec![0.5; 1 << 10]);
        for at in 0..100 {
            let key = AnswerCache::key(&[tensor(&[at as f32])]);
            cache.keep(key, from_ref(&large)).unwrap();
        }
        assert!(cache.answers.weight() <= 64 << 10);
        assert!(!cache.answers.is_empty());
        // Greater than the cache: not kept.
        let huge = tensor(&vec![0.5; 1 << 16]);
        let key = AnswerCache::key(&[tensor(&[-1.0])]);
        cache.keep(key, &[huge]).unwrap();
        assert!(cache.find(&key).is_none());
    }
}
