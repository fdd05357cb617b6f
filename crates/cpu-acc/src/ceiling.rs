//! What the CPU can do at most: the figure that benches are judged by.

use crate::simd::{Level, Simd, VectorOp};
use std::hint::black_box;
use std::time::Instant;
use tenon_backend::CpuLevel;
use tenon_base::pool;

/// Sums kept at once: more than two multiply-adds a cycle with a latency of four need.
const SUMS: usize = 12;
/// Rounds of one measurement: some 20 ms.
const ROUNDS: usize = 10_000_000;
/// Measurements, of which the best counts.
const TRIES: usize = 5;

/// GFLOP/s of f32 multiply-adds (two operations each) on up to `threads` threads at once: registers
/// only, no memory.
pub fn multiply_add_ceiling(threads: usize) -> f64 {
    let level = Level::detect(CpuLevel::Avx512);
    let threads = threads.clamp(1, pool::threads());
    let mut best = 0.0f64;
    for _ in 0..TRIES {
        let start = Instant::now();
        pool::for_each(threads, |_| {
            black_box(level.run(Burn));
        });
        let operations = (threads * ROUNDS * SUMS * 2 * lanes(level)) as f64;
        best = best.max(operations / start.elapsed().as_secs_f64() / 1e9);
    }
    best
}

/// Numbers in a vector of the level.
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

struct Burn;

impl VectorOp for Burn {
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
