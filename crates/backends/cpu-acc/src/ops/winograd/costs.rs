//! What the steps of Winograd's algorithm take at each level, measured by the test `costs_of_this_machine`.
//!
//! The cost of weights at AVX-512 is near the upper end of 2 to 14 that were measured: with less, a ResNet-50 transforms
//! 90 MB of weights instead of 30.

use tenon_backend::CpuLevel;

/// Times of one element, in multiply-adds of the micro-kernel of the same level.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    /// Of the transformed input.
    pub(super) input: f32,
    /// Of the products, which are transformed to the output.
    pub(super) output: f32,
    /// Of the transformed weights, which are read from memory.
    pub(super) weights: f32,
}

impl Costs {
    /// The costs at a level.
    pub(super) fn of(level: CpuLevel) -> Self {
        let [input, output, weights] = match level {
            CpuLevel::Avx512 => [6.0, 3.0, 12.0],
            CpuLevel::Avx2 => [3.5, 3.0, 1.5],
            CpuLevel::Baseline => [5.0, 4.0, 1.0],
        };
        Self {
            input,
            output,
            weights,
        }
    }
}
