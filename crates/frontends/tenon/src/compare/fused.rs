//! A fused node, computed node by node on a backend without the fused operator.

use super::OperandTensors;
use std::collections::HashMap;
use tenon_backend::{Backend, evaluate, supports};
use tenon_base::Result;
use tenon_graph::{Graph, Node, infer};
use tenon_tensor::{Tensor, TensorType};

/// The outputs of those names that `backend` computes, or the reason why it cannot.
pub(super) fn execute(
    backend: &dyn Backend,
    graph: &Graph,
    inputs: &OperandTensors,
    outputs: &OperandTensors,
) -> Result<std::result::Result<Vec<Option<Tensor>>, String>> {
    let given: HashMap<&str, &Tensor> = inputs
        .iter()
        .flatten()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    let values = graph.values.iter();
    let mut known: Vec<Option<Tensor>> = values
        .map(|value| {
            let given = given.get(value.name.as_str()).copied();
            value.constant.as_ref().or(given).cloned()
        })
        .collect();
    for node in &graph.nodes {
        if let Err(reason) = step(backend, node, &mut known)? {
            return Ok(Err(format!("{}: {reason}", node.op.name)));
        }
    }
    let computed = |name: &str| {
        let index = graph.values.iter().position(|value| value.name == name);
        index.and_then(|index| known[index].clone())
    };
    let outputs = outputs.iter();
    Ok(Ok(outputs
        .map(|output| computed(&output.as_ref()?.0))
        .collect()))
}

/// Computes one node; its outputs become known.
fn step(
    backend: &dyn Backend,
    node: &Node,
    known: &mut [Option<Tensor>],
) -> Result<std::result::Result<(), String>> {
    let inputs: Vec<Option<&Tensor>> = node
        .inputs
        .iter()
        .map(|id| id.and_then(|id| known[id.index()].as_ref()))
        .collect();
    let missing = |(id, tensor): (&Option<_>, &Option<_>)| id.is_some() && tensor.is_none();
    if node.inputs.iter().zip(&inputs).any(missing) {
        return Ok(Err(
            "an input is not a separate variable of the package".into()
        ));
    }
    // The types in the graph may be those of other sizes.
    let input_types: Vec<Option<&TensorType>> =
        inputs.iter().map(|input| input.map(Tensor::ty)).collect();
    let count = node.outputs.len();
    let inferred = infer(node.op, &node.attributes, &input_types, &inputs, count)?;
    let types = node.outputs.iter().zip(inferred);
    let types: Vec<Option<TensorType>> = types.map(|(id, ty)| id.map(|_| ty)).collect();
    if let Err(refusal) = supports(backend, node.op, &node.attributes, &inputs, &types) {
        return Ok(Err(refusal.to_string()));
    }
    let computed = evaluate(backend, node.op, &node.attributes, &inputs, &types)?;
    for (id, tensor) in node.outputs.iter().zip(computed) {
        if let Some(id) = id {
            known[id.index()] = tensor;
        }
    }
    Ok(Ok(()))
}
