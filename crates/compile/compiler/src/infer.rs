//! Shape inference for a node that is not in the graph (yet).

use tenon_base::{Location, Result};
use tenon_graph::{Graph, Node, Tensor, TensorType, Value, infer};

/// The types of the first `outputs` outputs of `node`. Errors name the node.
pub(crate) fn infer_node(graph: &Graph, node: &Node, outputs: usize) -> Result<Vec<TensorType>> {
    let values = || {
        node.inputs
            .iter()
            .map(|input| input.map(|id| graph.value(id)))
    };
    let inputs: Vec<Option<&TensorType>> = values()
        .map(|value| value.and_then(|value| value.ty.as_ref()))
        .collect();
    let constants: Vec<Option<&Tensor>> =
        values().map(|value| value.and_then(Value::known)).collect();
    infer(node.op, &node.attributes, &inputs, &constants, outputs)
        .map_err(|error| error.at(Location::node(node.name.as_str())))
}
