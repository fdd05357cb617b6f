//! What a workload kernel calls, for those who look at a program besides running it.

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
    /// Who computes.
    pub backend: BackendId,
    /// The graph node.
    pub node: String,
    /// The operator, its attributes, the types of operands, and the constants among them; of those
    /// whose plain form is left out of the package, the prepared form.
    pub spec: WorkloadSpec,
    /// The variables that it reads; `None` where one is left out.
    pub inputs: Vec<Option<VariableId>>,
    /// The variables that it writes; `None` where one is not wanted.
    pub outputs: Vec<Option<VariableId>>,
}

impl WorkloadCall {
    /// Checks the operands against the operator table: backends rely on what shape inference says, and
    /// a package may say anything.
    pub fn check(&self) -> Result<()> {
        workload::check(&self.spec)
    }
}

/// The name of the backend that `kernel` is a workload of; `None` when it is no workload.
pub fn workload_backend(kernel: &Kernel) -> Result<Option<&str>> {
    match kernel.name == workload::NAME {
        true => KernelAttributes::of(kernel).string("backend").map(Some),
        false => Ok(None),
    }
}

/// What `kernel` calls; `None` when it is no workload.
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
