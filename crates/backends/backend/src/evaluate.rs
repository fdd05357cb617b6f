//! Evaluation of one operator on tensors, for constant folding and tests.

use crate::{Backend, CpuLevel, InputSpec, NodeView, OwnedOperands, Refusal, WorkloadSpec};
use tenon_base::Result;
use tenon_graph::{Attributes, OperatorDef};
use tenon_tensor::{Tensor, TensorType};

/// Whether `backend` supports `op` on `inputs` as applied by [`evaluate`].
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
        ranges: None,
    })
}

/// Applies `op` to `inputs` on `backend` and returns the outputs, of the given types (`None` for
/// those not requested). All inputs are passed as constants.
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
        ranges: None,
    };
    let plan = backend.plan(&spec, CpuLevel::Baseline)?;
    let workload = backend.workload(&spec)?;
    let mut operands = OwnedOperands::of(backend, inputs, outputs, plan.scratch_bytes)?;
    operands.execute(&*workload)?;
    operands.into_outputs()
}
