//! The backend: which operators it supports, and their workloads.

use crate::ops;
use crate::signature::Signature;
use crate::simd::Level;
use std::borrow::Cow;
use tenon_backend::{
    Backend, BackendId, Capability, CpuLevel, NodeView, PropertyValue, Refusal, Workload,
    WorkloadPlan, WorkloadSpec,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_tensor::Tensor;

/// The fast backend for CPUs.
///
/// ```
/// use tenon_backend::Backend;
/// assert_eq!(tenon_cpu_acc::CpuAcc::new().id().as_str(), "CpuAcc");
/// ```
#[derive(Debug, Clone)]
pub struct CpuAcc {
    level: Level,
}

impl CpuAcc {
    /// A backend with the highest CPU level that the process uses ([`CpuLevel::in_use`]).
    pub fn new() -> Self {
        Self::at_most(CpuLevel::Avx512)
    }

    /// A backend with the vector instructions of this CPU up to `limit`, to compare levels.
    pub fn at_most(limit: CpuLevel) -> Self {
        Self {
            level: Level::detect(limit),
        }
    }

    fn kernel(&self, spec: &WorkloadSpec) -> Result<Box<dyn ops::Kernel>> {
        kernel_of(&Signature::of_spec(spec, self.level))
    }
}

fn kernel_of(signature: &Signature<'_>) -> Result<Box<dyn ops::Kernel>> {
    ops::kernel(signature).map_err(|refusal| {
        let text = format!("CpuAcc does not take {}: {refusal}", signature.op.name);
        Error::new(ErrorKind::Unsupported, text)
    })
}

impl Default for CpuAcc {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for CpuAcc {
    fn id(&self) -> BackendId {
        BackendId::new("CpuAcc")
    }

    fn description(&self) -> String {
        format!("fast kernels on the CPU, with {}", self.level.name())
    }

    fn capabilities(&self) -> Vec<Capability> {
        vec![
            Capability::new(
                "PreferredLayout",
                PropertyValue::String(Cow::Borrowed("NHWC")),
            ),
            // What instructions that multiply bytes take as the left operand.
            Capability::new(
                "PreferredByteType",
                PropertyValue::String(Cow::Borrowed("u8")),
            ),
            Capability::new(tenon_backend::DYNAMIC_SHAPES, PropertyValue::Bool(true)),
        ]
    }

    fn supports(&self, node: &NodeView<'_>) -> Result<(), Refusal> {
        ops::kernel(&Signature::of_node(node, self.level)).map(drop)
    }

    /// Prepared constants have the same layout on every CPU, so that `cpu` is not used.
    fn plan(&self, spec: &WorkloadSpec, _cpu: CpuLevel) -> Result<WorkloadPlan> {
        self.kernel(spec)?.plan(spec)
    }

    fn plain(&self, spec: &WorkloadSpec, input: usize) -> Result<Option<Tensor>> {
        self.kernel(spec)?.plain(spec, input)
    }

    fn workload(&self, spec: &WorkloadSpec) -> Result<Box<dyn Workload>> {
        self.kernel(spec)?.bind(spec)
    }

    fn planned_workload(&self, spec: &WorkloadSpec) -> Result<(WorkloadPlan, Box<dyn Workload>)> {
        let kernel = kernel_of(&Signature::of_spec(spec, self.level).inferred())?;
        Ok((kernel.plan(spec)?, kernel.bind(spec)?))
    }
}
