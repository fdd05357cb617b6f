//! Properties of this machine's CPU, queried and measured.

use std::sync::{Mutex, PoisonError};
use tenon_base::pool;

/// The number of threads that an execution uses by default.
pub fn threads() -> usize {
    pool::threads()
}

/// The measured peak of f32 multiply-adds on up to `threads` threads, in GFLOP/s.
pub fn multiply_add_ceiling(threads: usize) -> f64 {
    tenon_builtin::multiply_add_ceiling(threads)
}

/// Bytes that are copied to measure the bandwidth of memory: far more than the caches hold.
const COPIED: usize = 64 << 20;

/// Words that one sample copies: more than the L2 cache of a core holds.
const CHUNK: usize = (4 << 20) / size_of::<u64>();

/// Times that each thread copies its memory.
const COPIES: usize = 4;

/// The measured peaks of this machine: the ceilings of a roofline model (Williams, Waterman, Patterson,
/// 2009).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceiling {
    /// Arithmetic of f32 multiply-adds, in GFLOP/s.
    pub gflops: f64,
    /// Bytes read and written by copies of uncached memory, in GB/s.
    pub gigabytes: f64,
}

impl Ceiling {
    /// Measures on up to `threads` threads; takes some tenths of a second.
    pub fn measure(threads: usize) -> Self {
        Self {
            gflops: tenon_builtin::multiply_add_ceiling(threads),
            gigabytes: copied_gigabytes(threads),
        }
    }

    /// The least seconds for operations and bytes: the slower of both.
    pub(crate) fn least_seconds(&self, flops: u64, bytes: u64) -> f64 {
        let computing = flops as f64 / (self.gflops * 1e9);
        computing.max(bytes as f64 / (self.gigabytes * 1e9))
    }
}

/// Each thread copies its own memory in chunks.
fn copied_gigabytes(threads: usize) -> f64 {
    let threads = threads.clamp(1, pool::threads());
    let words = COPIED / size_of::<u64>();
    let from: Vec<u64> = (0..words as u64).collect();
    let mut to = vec![0u64; words];
    let part = words.div_ceil(threads);
    let pairs = from.chunks(part).zip(to.chunks_mut(part));
    let pairs: Vec<_> = pairs.map(|pair| Mutex::new(Some(pair))).collect();
    tenon_builtin::sum_of_best_rates(pairs.len(), |thread| {
        let pair = pairs[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let (from, to) = pair.unwrap_or_default();
        let chunks = from.len() / CHUNK;
        let mut sample = 0;
        std::iter::from_fn(move || {
            let chunk = sample % chunks.max(1) * CHUNK..sample % chunks.max(1) * CHUNK + CHUNK;
            sample += 1;
            let (from, to) = (from.get(chunk.clone())?, to.get_mut(chunk)?);
            to.copy_from_slice(from);
            std::hint::black_box(to);
            (sample <= COPIES * chunks).then_some(2.0 * (CHUNK * size_of::<u64>()) as f64)
        })
    }) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_of_memory_is_measured() {
        assert!(copied_gigabytes(1) > 0.01);
    }
}
