//! The backend interface: who computes, what it supports and why not, how constants are prepared
//! when compiling, and the workloads that run.
//!
//! A backend is stateless and short-lived; what it makes may outlive it (seed: Arm NN backend
//! guide, "The Backend interface").

mod evaluate;
mod memory;
mod registry;
mod workload;

pub use evaluate::evaluate;
pub use memory::{Inputs, MAX_OUTPUTS, Operands, Outputs, OwnedOperands, Pair, RawOperand};
pub use registry::Registry;
pub use workload::{
    Backend, BackendId, Capability, CapabilityValue, CpuLevel, InPlace, InputSpec, NodeView,
    Prepared, Reason, Refusal, Workload, WorkloadPlan, WorkloadSpec,
};
