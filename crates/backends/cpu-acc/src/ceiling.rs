//! The peak rate of the CPU in multiply-adds, which benches are compared with: the compute bound of
//! the roofline model (Williams, Waterman and Patterson, "Roofline", 2009).

use crate::simd::{Level, Simd, VectorOp};
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tenon_backend::CpuLevel;
use tenon_base::pool;

/// Independent sums: more than the eight that two multiply-adds a cycle with a latency of four need.
const SUMS: usize = 12;
/// Rounds of one sample: a quarter of a millisecond, less than a time slice of the scheduler, so that
/// most samples are not preempted on a machine under load.
const ROUNDS: usize = 100_000;
/// Samples of each thread, of which the best is reported.
const SAMPLES: usize = 400;

/// GFLOP/s of f32 multiply-adds (two operations each) on registers, on up to `threads` threads
/// concurrently.
pub fn multiply_add_ceiling(threads: usize) -> f64 {
    let level = Level::detect(CpuLevel::Avx512);
    let operations = (ROUNDS * SUMS * 2 * lanes(level)) as f64;
    sum_of_best_rates(threads, |_| {
        (0..SAMPLES).map(move |_| {
            black_box(level.run(PeakMultiplyAdds));
            operations
        })
    }) / 1e9
}

/// The sum of the best rates of up to `threads` concurrent threads. `work` returns the samples of a
/// thread: each call of `next` does the work of one sample and returns its amount.
pub fn sum_of_best_rates<I>(threads: usize, work: impl Fn(usize) -> I + Sync) -> f64
where
    I: Iterator<Item = f64>,
{
    let threads = threads.clamp(1, pool::threads());
    let sum = Mutex::new(0.0);
    pool::for_each(threads, |thread| {
        let mut best = 0.0f64;
        let mut start = Instant::now();
        for amount in work(thread) {
            best = best.max(amount / start.elapsed().as_secs_f64().max(1e-9));
            start = Instant::now();
        }
        *sum.lock().unwrap_or_else(PoisonError::into_inner) += best;
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Elements of a vector of the level.
fn lanes(level: Level) -> usize {
    struct Lanes;
    impl VectorOp for Lanes {
        type Output = usize;

        #[inline(always)]
        fn eval<S: Simd>(self, _: S) -> usize {
            S::LANES
        }
    }
    level.run(Lanes)
}

struct PeakMultiplyAdds;

impl VectorOp for PeakMultiplyAdds {
    type Output = f32;

    #[inline(always)]
    fn eval<S: Simd>(self, simd: S) -> f32 {
        let (a, b) = (simd.splat(black_box(0.5)), simd.splat(black_box(0.25)));
        let mut sums = [simd.splat(0.0); SUMS];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                // sum = sum * 0.5 + 0.25 stays near 0.5: no overflow, no denormals.
                *sum = simd.fma(*sum, a, b);
            }
        }
        sums.into_iter().map(|sum| simd.sum(sum)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn load_on_the_machine_lowers_the_ceiling_by_less_than_half() {
        let quiet = multiply_add_ceiling(1);
        let done = AtomicBool::new(false);
        let loaded = std::thread::scope(|scope| {
            for _ in 0..4 * pool::threads() {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let loaded = multiply_add_ceiling(1);
            done.store(true, Ordering::Relaxed);
            loaded
        });
        assert!(loaded > 0.5 * quiet, "{loaded} under load, {quiet} without");
    }
}
