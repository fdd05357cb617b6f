//! `tenon.movement`: data movement whose descriptors depend on sizes that are known only when the model runs
//! (docs/package.md). The descriptors are made when the kernel is bound.

use crate::attributes::operator_attributes;
use crate::call::{Call, OperatorCall};
use crate::dma::BoundDma;
use crate::sized::{SizedKernel, SizedSlot};
use crate::workload::SizedWorkload;
use crate::{Movements, Storage, Variables, dma};
use std::sync::Arc;
use tenon_backend::{Registry, WorkloadSpec};
use tenon_base::Result;
use tenon_bef::Kernel as StoredKernel;
use tenon_dma::{Access, Descriptor, Operation, VariableId};
use tenon_executor::{Kernel, KernelAttributes, KernelDef, Signature, Site};
use tenon_plan::{MovementNode, MovementOperand};

/// The name of the kernel.
pub(crate) const NAME: &str = "tenon.movement";

/// The name of data movements among those of backends.
pub(crate) const BACKEND: &str = "dma";

pub(crate) fn definition() -> KernelDef {
    KernelDef::new(NAME, Signature::default(), bind)
}

/// The descriptors of a data movement for the types of its operands, before they have memory.
pub(crate) struct SizedMovement {
    descriptors: Vec<Descriptor>,
}

impl SizedMovement {
    /// The kernel that moves the data for the types in `table`: with descriptors, or where their number is above the
    /// limit with a workload of the reference implementation.
    pub(crate) fn planned(
        operator: &OperatorCall,
        table: &Variables,
        backends: &Registry,
    ) -> Result<SizedKernel> {
        let spec = operator.checked_specification(table)?;
        let call = &operator.call;
        Ok(match descriptors(call, &spec) {
            Ok(descriptors) => SizedKernel::Movement(Arc::new(Self { descriptors })),
            Err(_) => {
                let workload = SizedWorkload::on_reference(&spec, backends)?;
                SizedKernel::Workload(Arc::new(workload))
            }
        })
    }

    /// The kernel that runs the descriptors, without those that write bytes where they are already.
    pub(crate) fn bind(
        &self,
        call: &Call,
        table: &Arc<Variables>,
        movements: &Movements,
    ) -> Result<BoundDma> {
        let all = self.descriptors.iter();
        let moving = all.filter(|descriptor| !is_in_place(descriptor, table));
        dma::bound(moving, &call.node, table.clone(), movements)
    }
}

/// The descriptors of a movement; the reason why there are none as text.
fn descriptors(call: &Call, spec: &WorkloadSpec) -> Result<Vec<Descriptor>, String> {
    let inputs = spec.inputs.iter().zip(&call.inputs);
    let inputs = inputs.map(|(input, &variable)| {
        let input = input.as_ref()?;
        Some(MovementOperand {
            variable,
            ty: &input.ty,
            constant: input.constant.as_ref(),
        })
    });
    let outputs = spec.outputs.iter().zip(&call.outputs);
    let outputs = outputs.map(|(ty, &variable)| {
        let ty = ty.as_ref()?;
        Some(MovementOperand {
            variable,
            ty,
            constant: None,
        })
    });
    tenon_plan::descriptors(&MovementNode {
        op: spec.op,
        attributes: &spec.attributes,
        inputs: inputs.collect(),
        outputs: outputs.collect(),
    })
}

/// Whether a descriptor copies the beginning of an output to itself.
fn is_in_place(descriptor: &Descriptor, table: &Variables) -> bool {
    let (Some(from), to) = (descriptor.from.first(), &descriptor.to) else {
        return false;
    };
    let storage = table
        .variable(from.variable)
        .map(|variable| &variable.storage);
    matches!(storage, Ok(Storage::Prefix(of)) if *of == to.variable)
        && descriptor.operation == Operation::Copy
        && from.offset == to.offset
        && is_contiguous(from)
        && is_contiguous(to)
        && from.volume() == to.volume()
}

/// Whether the bytes of an access follow each other.
fn is_contiguous(access: &Access) -> bool {
    let mut bytes = 1;
    let pairs = access.sizes.iter().zip(&access.steps);
    pairs.into_iter().all(|(&size, &step)| {
        let follows = size == 1 || u64::try_from(step) == Ok(bytes);
        bytes = bytes.saturating_mul(size);
        follows
    })
}

/// A Concat: its first operand, its result, and the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConcatOperands {
    /// The first operand.
    pub first: VariableId,
    /// The result.
    pub result: VariableId,
    /// The axis as the node has it, negative from the last one.
    pub axis: i64,
}

impl ConcatOperands {
    /// The operands of `kernel`, if it is a Concat of a package with symbols.
    pub fn of(kernel: &StoredKernel) -> Option<Self> {
        if kernel.name != NAME {
            return None;
        }
        let attributes = KernelAttributes::of(kernel);
        let call = Call::read_movement(attributes).ok()?;
        if call.op.name != "Concat" {
            return None;
        }
        let attributes = operator_attributes(call.op, attributes).ok()?;
        Some(Self {
            first: call.inputs.first().copied().flatten()?,
            result: call.outputs.first().copied().flatten()?,
            axis: attributes.int("axis", 0).ok()?,
        })
    }
}

/// The variables that a kernel writes.
pub(crate) fn targets(attributes: KernelAttributes<'_>) -> Result<Vec<VariableId>> {
    Ok(Call::read_movement(attributes)?.written().collect())
}

fn bind(site: &Site<'_>) -> Result<Box<dyn Kernel>> {
    let operator = OperatorCall::movement(site.attributes())?;
    let make = SizedMovement::planned;
    Ok(Box::new(SizedSlot::new(
        site.service()?,
        operator,
        site,
        make,
    )))
}
