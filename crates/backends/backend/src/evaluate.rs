//! One operator on tensors: how constants are folded, and how tests call a backend.

use crate::{Backend, CpuLevel, InputSpec, NodeView, OwnedOperands, Refusal, WorkloadSpec};
use tenon_base::Result;
use tenon_graph::{Attributes, OperatorDef};
use tenon_tensor::{Tensor, TensorType};

/// Whether `backend` takes `op` on `inputs`, as [`evaluate`] would apply it.
pub fn supports(
    backend: &dyn Backend,
    op: &'static OperatorDef,
    attributes: &Attributes,
    inputs: &[Option<&Tensor>],
    outputs: &[Option<TensorType>],
) -> std::result::Result<(), Refusal> {
    let types: Vec<Option<&TensorType>> =
        inputs.iter().map(|input| input.map(Tensor::ty)).collect();
    let outputs: Vec<Option<&TensorType>> = outputs.iter().map(Option::as_ref).collect();
    backend.supports(&NodeView {
        op,
        attributes,
        inputs: &types,
        constants: inputs,
        outputs: &outputs,
    })
}

/// Applies `op` to `inputs` on `backend` and answers the outputs, of the given types (`None` where
/// one is not wanted, in the answer too). All inputs are constants to the backend.
pub fn evaluate(
    backend: &dyn Backend,
    op: &'static OperatorDef,
    attributes: &Attributes,
    inputs: &[Option<&Tensor>],
    outputs: &[Option<TensorType>],
) -> Result<Vec<Option<Tensor>>> {
    let input = |tensor: &Tensor| InputSpec {
        ty: tensor.ty().clone(),
        constant: Some(tensor.clone()),
        prepared: None,
    };
    let spec = WorkloadSpec {
        op,
        attributes: attributes.clone(),
        inputs: inputs.iter().map(|tensor| tensor.map(input)).collect(),
        outputs: outputs.to_vec(),
    };
    let plan = backend.plan(&spec, CpuLevel::Baseline)?;
    let workload = backend.workload(&spec)?;
    let mut operands = OwnedOperands::of(backend, inputs, outputs, plan.scratch_bytes)?;
    operands.execute(&*workload)?;
    operands.into_outputs()
}
