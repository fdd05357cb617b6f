//! What a kernel of a package accesses, for planning the arena when sizes become known.

use crate::attributes::operator_attributes;
use crate::movement::{self, MovementCall};
use crate::workload::{self, Call, operator_of, specification};
use crate::{VariableId, Variables};
use tenon_backend::{BackendId, CpuLevel, Registry};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::Kernel;
use tenon_executor::KernelAttributes;
use tenon_plan::KernelOperands;

/// The variables that a kernel accesses, and the bytes of its scratch variable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannedKernel {
    /// The variables, and which outputs may be computed in place.
    pub operands: KernelOperands,
    /// The size of the scratch variable.
    pub scratch_bytes: usize,
}

/// The accesses of `kernel` for the types in `table`; of a workload as its backend plans it. `None` for kernels
/// without variables.
///
/// # Errors
/// Types that contradict the operator, backends that are unavailable or refuse these types, and a workload with
/// scratch memory but no variable for it.
pub fn planned_kernel(
    kernel: &Kernel,
    table: &Variables,
    backends: &Registry,
) -> Result<Option<PlannedKernel>> {
    let attributes = KernelAttributes::of(kernel);
    if kernel.name == movement::NAME {
        let call = MovementCall::read(attributes, table)?.call;
        return Ok(Some(PlannedKernel {
            operands: operands(&call),
            scratch_bytes: 0,
        }));
    }
    if kernel.name != workload::NAME {
        return Ok(None);
    }
    let call = Call::read(attributes)?;
    let planned = || -> Result<PlannedKernel> {
        let op = operator_of(&call)?;
        let spec = specification(table, &call, op, operator_attributes(op, attributes)?)?;
        workload::check(&spec)?;
        let id = BackendId::from(call.backend.to_owned());
        let backend = backends.find(&id).ok_or_else(|| {
            let reason = backends.unavailable(&id).unwrap_or("it is not installed");
            let text = format!("backend {id} is unavailable: {reason}");
            Error::new(ErrorKind::NotFound, text)
        })?;
        let constants_known = call.inputs.iter().flatten().all(|&id| !table.is_absent(id));
        let backend = if constants_known {
            workload::with_view(&spec, |node| {
                workload::supporting(backend, backends, table, node)
            })?
        } else {
            backend
        };
        let plan = backend.plan(&spec, CpuLevel::default())?;
        let mut operands = operands(&call);
        let pairs = plan.in_place.iter().map(|pair| (pair.input, pair.output));
        operands.in_place = pairs.collect();
        if plan.scratch_bytes > 0 && operands.scratch.is_none() {
            let text = "the workload has no variable for its scratch memory";
            return Err(Error::new(ErrorKind::InvalidProgram, text));
        }
        Ok(PlannedKernel {
            operands,
            scratch_bytes: plan.scratch_bytes,
        })
    };
    planned()
        .map(Some)
        .map_err(|error| error.at(Location::node(call.node)))
}

fn operands(call: &Call<'_>) -> KernelOperands {
    let ids = |list: &[Option<VariableId>]| list.iter().map(|id| id.map(|id| id.0)).collect();
    KernelOperands {
        inputs: ids(&call.inputs),
        outputs: ids(&call.outputs),
        in_place: Vec::new(),
        scratch: call.scratch().map(|id| id.0),
    }
}
