//! The decoded form of a workload kernel, for analyses of a program.

use crate::attributes::operator_attributes;
use crate::workload::{self, Call, operator_of, specification};
use crate::{VariableId, Variables};
use tenon_backend::{BackendId, WorkloadSpec};
use tenon_base::{Location, Result};
use tenon_bef::Kernel;
use tenon_executor::KernelAttributes;

/// One operator applied to variables.
#[derive(Debug, Clone)]
pub struct WorkloadCall {
    /// The backend.
    pub backend: BackendId,
    /// The graph node.
    pub node: String,
    /// The operator, its attributes, operand types and constants; a constant whose plain form is
    /// absent from the package has its prepared form.
    pub spec: WorkloadSpec,
    /// The variables that it reads; `None` for an omitted operand.
    pub inputs: Vec<Option<VariableId>>,
    /// The variables that it writes; `None` for an unused output.
    pub outputs: Vec<Option<VariableId>>,
}

impl WorkloadCall {
    /// Checks the operand types by shape inference: backends rely on it, and a package is
    /// untrusted.
    pub fn check(&self) -> Result<()> {
        workload::check(&self.spec)
    }
}

/// The name of the backend of a workload kernel; `None` for other kernels.
pub fn workload_backend(kernel: &Kernel) -> Result<Option<&str>> {
    if kernel.name != workload::NAME {
        return Ok(None);
    }
    KernelAttributes::of(kernel).string("backend").map(Some)
}

/// The call of a workload kernel; `None` for other kernels.
pub fn workload_call(kernel: &Kernel, table: &Variables) -> Result<Option<WorkloadCall>> {
    if kernel.name != workload::NAME {
        return Ok(None);
    }
    let attributes = KernelAttributes::of(kernel);
    let call = Call::read(attributes)?;
    let read = || {
        let op = operator_of(&call)?;
        let mut spec = specification(table, &call, op, operator_attributes(op, attributes)?)?;
        for input in spec.inputs.iter_mut().flatten() {
            if input.constant.is_some() {
                input.prepared = None;
            }
        }
        Ok(spec)
    };
    let spec = read().map_err(|error: tenon_base::Error| error.at(Location::node(call.node)))?;
    Ok(Some(WorkloadCall {
        backend: BackendId::from(call.backend.to_owned()),
        node: call.node.to_owned(),
        spec,
        inputs: call.inputs,
        outputs: call.outputs,
    }))
}
