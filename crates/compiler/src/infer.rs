//! The types of a node's outputs, from the operator table.

use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::{Graph, Inference, Node};
use tenon_tensor::{Tensor, TensorType};

/// The types of the outputs of `node`, of which it names `outputs`.
pub(crate) fn infer_node(graph: &Graph, node: &Node, outputs: usize) -> Result<Vec<TensorType>> {
    let values = || {
        node.inputs
            .iter()
            .map(|input| input.map(|id| graph.value(id)))
    };
    let inputs: Vec<Option<&TensorType>> = values()
        .map(|value| value.and_then(|value| value.ty.as_ref()))
        .collect();
    let constants: Vec<Option<&Tensor>> = values()
        .map(|value| value.and_then(|value| value.constant.as_ref()))
        .collect();
    let inference = Inference {
        attributes: &node.attributes,
        inputs: &inputs,
        constants: &constants,
        outputs,
    };
    let place = || Location::node(node.name.as_str());
    let types = (node.op.infer)(&inference).map_err(|error| error.at(place()))?;
    if types.len() < outputs {
        let text = format!("{} makes fewer outputs than the node names", node.op.name);
        return Err(Error::new(ErrorKind::InvalidModel, text)
            .expected(outputs)
            .found(types.len())
            .at(place()));
    }
    Ok(types)
}
