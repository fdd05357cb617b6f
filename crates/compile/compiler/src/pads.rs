//! The fill value of a Pad as a constant, because descriptors read it from memory.

use tenon_base::Result;
use tenon_graph::{Graph, NodeId};
use tenon_tensor::{BufferMut, DataType, Tensor, TensorType};

/// Adds the default fill value, zero, to every Pad of mode constant without one.
pub(crate) fn add_default_fill(graph: &mut Graph) -> Result<()> {
    for index in 0..graph.nodes.len() {
        let Some(dtype) = type_without_fill(graph, NodeId(index as u32))? else {
            continue;
        };
        let ty = TensorType::new(dtype, [0usize; 0])?;
        let zero = Tensor::new(ty.clone(), BufferMut::zeroed(ty.bytes())?.freeze())?;
        let name = format!("{}.fill", graph.nodes[index].name);
        let fill = graph.add_constant(name, zero);
        let inputs = &mut graph.nodes[index].inputs;
        inputs.resize(inputs.len().max(3), None);
        inputs[2] = Some(fill);
    }
    Ok(())
}

/// The element type of a Pad of mode constant without a fill value.
fn type_without_fill(graph: &Graph, id: NodeId) -> Result<Option<DataType>> {
    let node = graph.node(id);
    if node.op.name != "Pad" || node.inputs.get(2).copied().flatten().is_some() {
        return Ok(None);
    }
    let is_constant = node.attributes.string("mode", "constant")? == "constant";
    let data = node.inputs.first().copied().flatten();
    let ty = data.and_then(|data| graph.value(data).ty.as_ref());
    let dtype = ty.map(TensorType::dtype);
    Ok(dtype.filter(|dtype| is_constant && dtype.bits() >= 8))
}
