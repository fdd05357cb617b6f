//! `tenon.movement`: data movement whose descriptors depend on sizes that are known only when the model runs
//! (docs/package.md). The descriptors are made when the kernel is bound.

use crate::attributes::operator_attributes;
use crate::workload::{self, Call, operator_of, specification};
use crate::{Movements, Storage, Variables, dma};
use std::sync::Arc;
use tenon_backend::WorkloadSpec;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::Kernel as StoredKernel;
use tenon_dma::{Access, Descriptor, Operation, VariableId};
use tenon_executor::{Kernel, KernelAttributes, KernelDef, Signature, Site};
use tenon_plan::{MovementNode, MovementOperand};

/// The name of the kernel.
pub(crate) const NAME: &str = "tenon.movement";

pub(crate) fn definition() -> KernelDef {
    KernelDef::new(NAME, Signature::default(), bind)
}

/// A data movement and its operands, checked by shape inference.
pub(crate) struct MovementCall<'a> {
    pub(crate) call: Call<'a>,
    pub(crate) spec: WorkloadSpec,
}

impl<'a> MovementCall<'a> {
    pub(crate) fn read(attributes: KernelAttributes<'a>, table: &Variables) -> Result<Self> {
        let call = Call::read_movement(attributes)?;
        let read = || -> Result<WorkloadSpec> {
            let op = operator_of(&call)?;
            let spec = specification(table, &call, op, operator_attributes(op, attributes)?)?;
            workload::check(&spec)?;
            Ok(spec)
        };
        let spec = read().map_err(|error| error.at(Location::node(call.node)))?;
        Ok(Self { call, spec })
    }

    /// The descriptors, without those that write bytes where they are already; the reason why there are none as
    /// text.
    pub(crate) fn descriptors(&self, table: &Variables) -> Result<Vec<Descriptor>, String> {
        let Self { call, spec } = self;
        let inputs = spec.inputs.iter().zip(&call.inputs);
        let outputs = spec.outputs.iter().zip(&call.outputs);
        let mut descriptors = tenon_plan::descriptors(&MovementNode {
            op: spec.op,
            attributes: &spec.attributes,
            inputs: inputs
                .map(|(input, &variable)| {
                    let input = input.as_ref()?;
                    Some(MovementOperand {
                        variable,
                        ty: &input.ty,
                        constant: input.constant.as_ref(),
                    })
                })
                .collect(),
            outputs: outputs
                .map(|(ty, &variable)| {
                    let ty = ty.as_ref()?;
                    Some(MovementOperand {
                        variable,
                        ty,
                        constant: None,
                    })
                })
                .collect(),
        })?;
        descriptors.retain(|descriptor| !is_in_place(descriptor, table));
        Ok(descriptors)
    }
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
        if call.operator != "Concat" {
            return None;
        }
        let attributes = operator_attributes(operator_of(&call).ok()?, attributes).ok()?;
        Some(Self {
            first: call.inputs.first().copied().flatten()?,
            result: call.outputs.first().copied().flatten()?,
            axis: attributes.int("axis", 0).ok()?,
        })
    }
}

/// The variables that a kernel writes.
pub(crate) fn targets(attributes: KernelAttributes<'_>) -> Result<Vec<VariableId>> {
    Ok(Call::read_movement(attributes)?.outputs().collect())
}

/// The planned descriptors of a kernel, for the ranges that they access.
pub(crate) fn plans(
    attributes: KernelAttributes<'_>,
    table: &Arc<Variables>,
) -> Result<Vec<dma::BoundPlan>> {
    let movement = MovementCall::read(attributes, table)?;
    match movement.descriptors(table) {
        Ok(descriptors) => dma::plans(&descriptors, table, None),
        Err(text) => Err(Error::new(ErrorKind::Unsupported, text)),
    }
}

fn bind(site: &Site<'_>) -> Result<Box<dyn Kernel>> {
    let table: Arc<Variables> = site.service()?;
    let movement = MovementCall::read(site.attributes(), &table)?;
    let node = movement.call.node;
    let bound = || match movement.descriptors(&table) {
        Ok(descriptors) => {
            let movements = site.service::<Movements>()?;
            dma::bound(&descriptors, node, table.clone(), &movements)
        }
        // More descriptors than a loop in a workload is worth, for these sizes.
        Err(_) => workload::bound_on_reference(site, &movement.call, &movement.spec),
    };
    bound().map_err(|error| error.at(Location::node(node)))
}
