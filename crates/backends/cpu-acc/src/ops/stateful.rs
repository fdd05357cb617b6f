//! Operators with a state from one part of a sequence to the next.

mod causal_convolution;
mod linear_attention;

pub(super) use causal_convolution::causal_convolution;
pub(super) use linear_attention::linear_attention;

use tenon_backend::WorkloadPlan;

/// Operations below which one thread is used.
const PARALLEL_OPERATIONS: usize = 1 << 17;

/// Chunks of lines, or heads computed concurrently: each has a slot of scratch memory.
const SLOTS: usize = 16;

/// The plan of a workload with `slot` elements of scratch memory for each slot.
fn plan_of(slot: usize) -> WorkloadPlan {
    WorkloadPlan {
        scratch_bytes: slot.saturating_mul(SLOTS * size_of::<f32>()),
        ..WorkloadPlan::default()
    }
}
