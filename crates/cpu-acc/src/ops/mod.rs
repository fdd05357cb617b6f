//! The kernels, one file a family.

mod conv;
mod depthwise;
mod matmul;
mod prepared;

use crate::signature::Signature;
use tenon_backend::{Reason, Refusal, Workload, WorkloadPlan, WorkloadSpec};
use tenon_base::Result;

/// An operator that was found to be supported, for certain types and attributes.
pub(crate) trait Kernel {
    /// What its workload needs.
    fn plan(&self, spec: &WorkloadSpec) -> Result<WorkloadPlan>;

    /// Makes the workload.
    fn bind(self: Box<Self>, spec: &WorkloadSpec) -> Result<Box<dyn Workload>>;
}

/// A workload that needs nothing of the constants is its own kernel.
pub(crate) trait Plain: Workload + Sized + 'static {
    /// What it needs: nothing, unless it says so.
    fn needs(&self) -> WorkloadPlan {
        WorkloadPlan::default()
    }
}

impl<T: Plain> Kernel for T {
    fn plan(&self, _spec: &WorkloadSpec) -> Result<WorkloadPlan> {
        Ok(self.needs())
    }

    fn bind(self: Box<Self>, _spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        Ok(self)
    }
}

/// The kernel of an operator, or why there is none.
pub(crate) fn kernel(signature: &Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> {
    match signature.op.name {
        "tenon.MatMul" => matmul::fused(signature),
        "MatMul" => matmul::plain(signature),
        "Gemm" => matmul::gemm(signature),
        "tenon.Conv" => conv::kernel(signature),
        _ => Err(Reason::UnknownOperator.into()),
    }
}
