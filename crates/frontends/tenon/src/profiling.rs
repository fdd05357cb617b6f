//! Profiles beside what the machine could do.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tenon_base::pool;
use tenon_runtime::{KernelProfile, Profile};

/// Bytes that a copy moves when the speed of memory is measured: far more than caches hold.
const COPIED: usize = 64 << 20;

/// Words that one sample copies: more than the second cache of a core holds.
const PIECE: usize = (4 << 20) / size_of::<u64>();

/// How often each thread copies its memory.
const COPIES: usize = 4;

/// What this machine does at most, measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceiling {
    /// Arithmetic operations of f32 multiply-adds, in 10^9 a second.
    pub gflops: f64,
    /// Bytes read and written by copies between memory that no cache holds, in 10^9 a second.
    pub gigabytes: f64,
}

impl Ceiling {
    /// Measures it on up to `threads` threads; takes some tenths of a second.
    pub fn measure(threads: usize) -> Self {
        Self {
            gflops: tenon_builtin::multiply_add_ceiling(threads),
            gigabytes: copied_gigabytes(threads),
        }
    }

    /// The least time that operations and bytes take, whichever of both is slower.
    fn least(&self, flops: u64, bytes: u64) -> f64 {
        let computing = flops as f64 / (self.gflops * 1e9);
        computing.max(bytes as f64 / (self.gigabytes * 1e9))
    }
}

/// One row: a kernel of the model, in one execution.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileRow {
    /// The graph node.
    pub node: String,
    /// The operator; empty for data movement.
    pub operator: String,
    /// Who computes.
    pub backend: String,
    /// Mean time of an execution.
    pub time: Duration,
    /// Part of the time of all rows.
    pub share: f64,
    /// Arithmetic operations.
    pub flops: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Operations in 10^9 a second.
    pub gflops: f64,
    /// Bytes in 10^9 a second.
    pub gigabytes: f64,
    /// The least time that the [`Ceiling`] allows, divided by the time; above 1 where data came from
    /// caches. `None` where the package does not tell what the kernel does.
    pub of_ceiling: Option<f64>,
}

/// The rows of a profile, in the program's order.
pub fn profile_rows(profile: &Profile, ceiling: &Ceiling) -> Vec<ProfileRow> {
    let executions = profile.executions.max(1) as f64;
    let total = profile.total().as_secs_f64().max(f64::MIN_POSITIVE);
    let row = |kernel: &KernelProfile| {
        let all = kernel.time.as_secs_f64();
        let seconds = (all / executions).max(1e-9);
        let bytes = kernel.read.saturating_add(kernel.bytes);
        let told = kernel.read > 0 || kernel.flops > 0;
        ProfileRow {
            node: kernel.node.clone(),
            operator: kernel.operator.clone(),
            backend: kernel.backend.clone(),
            time: Duration::from_secs_f64(all / executions),
            share: all / total,
            flops: kernel.flops,
            bytes,
            gflops: kernel.flops as f64 / seconds / 1e9,
            gigabytes: bytes as f64 / seconds / 1e9,
            of_ceiling: told.then(|| ceiling.least(kernel.flops, bytes) / seconds),
        }
    };
    profile.kernels.iter().map(row).collect()
}

/// Each thread copies its own memory, piece by piece.
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
        let pieces = from.len() / PIECE;
        let mut sample = 0;
        std::iter::from_fn(move || {
            let piece = sample % pieces.max(1) * PIECE..sample % pieces.max(1) * PIECE + PIECE;
            sample += 1;
            let (from, to) = (from.get(piece.clone())?, to.get_mut(piece)?);
            to.copy_from_slice(from);
            std::hint::black_box(to);
            (sample <= COPIES * pieces).then_some(2.0 * (PIECE * size_of::<u64>()) as f64)
        })
    }) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_tell_rates_of_one_execution() {
        let kernel = |node: &str, flops, read, millis| KernelProfile {
            kernel: "tenon.workload".into(),
            node: node.into(),
            operator: "MatMul".into(),
            backend: "CpuAcc".into(),
            bytes: 1_000_000,
            read,
            flops,
            time: Duration::from_millis(millis),
        };
        let profile = Profile {
            kernels: vec![kernel("a", 40_000_000, 3_000_000, 6), kernel("b", 0, 0, 2)],
            executions: 2,
            elapsed: Duration::from_millis(9),
            ..Profile::default()
        };
        let ceiling = Ceiling {
            gflops: 20.0,
            gigabytes: 8.0,
        };
        let rows = profile_rows(&profile, &ceiling);
        // 3 ms an execution: 40 million operations, 4 million bytes; the ceiling allows 2 ms.
        assert_eq!(rows[0].time, Duration::from_millis(3));
        let close =
            |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found}");
        close(rows[0].share, 0.75);
        close(rows[0].gflops, 40.0 / 3.0);
        close(rows[0].gigabytes, 4.0 / 3.0);
        close(rows[0].of_ceiling.unwrap(), 2.0 / 3.0);
        assert_eq!(rows[1].of_ceiling, None);
        // Where memory is the limit: 4 million bytes take 0.5 ms.
        close(ceiling.least(1000, 4_000_000), 0.0005);
    }

    #[test]
    fn memory_has_a_speed() {
        assert!(copied_gigabytes(1) > 0.01);
    }
}
