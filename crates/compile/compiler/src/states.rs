//! States: outputs that are inputs of the next execution.
//!
//! The cache of a decoder is a Concat of the former values and new ones along the positions. In the layout of the
//! model, [batch, heads, positions, width], each head has its positions, so that a longer cache has other offsets. The
//! dimension that grows becomes the outermost one with more than one element: then a session extends the cache in its
//! memory, and attention reads the layout of a projection.

use crate::rewrite::{operator_of, perm_attributes};
use tenon_base::Result;
use tenon_graph::{
    Attribute, Graph, Node, NodeId, StatePair, UniqueNames, ValueId, find_state_pairs,
    resolve_state_pairs,
};
use tenon_tensor::{DataType, Signature, TensorType};

/// Which outputs are states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StateSelection {
    /// None: the package does not declare states, and inputs and outputs keep the layout of the model.
    #[default]
    None,
    /// Those that are found by their names, types and shapes.
    Automatic,
    /// These; `*` matches the same text in both names.
    Pairs(Vec<StatePair>),
}

/// The states of the model. Those that a Concat extends get the layout in which they grow in place.
pub(crate) fn declare(graph: &mut Graph, selection: &StateSelection) -> Result<Vec<StatePair>> {
    let (inputs, outputs) = match selection {
        StateSelection::None => return Ok(Vec::new()),
        _ => (
            signatures(graph, &graph.inputs)?,
            signatures(graph, &graph.outputs)?,
        ),
    };
    let pairs = match selection {
        StateSelection::Pairs(pairs) => pairs.clone(),
        _ => find_state_pairs(&inputs, &outputs),
    };
    let found = resolve_state_pairs(&pairs, &inputs, &outputs)?;
    for &(output, input) in &found {
        lay_out(graph, graph.inputs[input], graph.outputs[output])?;
    }
    let pair = |(output, input): (usize, usize)| StatePair {
        output: outputs[output].name.clone(),
        input: inputs[input].name.clone(),
    };
    Ok(found.into_iter().map(pair).collect())
}

fn signatures(graph: &Graph, ids: &[ValueId]) -> Result<Vec<Signature>> {
    let signature = |&id: &ValueId| {
        let value = graph.value(id);
        let name = value.name.clone();
        match (&value.list, &value.extents, &value.ty) {
            (None, Some(extents), Some(ty)) => {
                Signature::symbolic(name, ty.dtype(), extents, &graph.symbols)
            }
            (None, None, Some(ty)) => Ok(Signature::fixed(name, ty.clone())),
            (list, _, _) => {
                // No tensor, thus no state.
                let ty = TensorType::new(DataType::Bool, [0])?;
                let mut signature = Signature::fixed(name, ty);
                if let Some(list) = list {
                    signature.kind = list.ty.kind;
                }
                Ok(signature)
            }
        }
    };
    ids.iter().map(signature).collect()
}

/// Changes the layout of a state if one Concat extends the input to the output, and if one dimension at most has to
/// move behind the one that grows: more would be transposed in each execution.
fn lay_out(graph: &mut Graph, input: ValueId, output: ValueId) -> Result<()> {
    let uses = graph
        .outputs
        .iter()
        .filter(|&&id| id == output || id == input);
    let Some(concat) = concat(graph, input, output).filter(|_| uses.count() == 1) else {
        return Ok(());
    };
    let node = graph.node(concat);
    let Some(extents) = &graph.value(output).extents else {
        return Ok(());
    };
    let rank = extents.len() as i64;
    let axis = node.attributes.int("axis", 0)?;
    let axis = if axis < 0 { axis + rank } else { axis };
    let Some(axis) = usize::try_from(axis)
        .ok()
        .filter(|&axis| axis < extents.len())
    else {
        return Ok(());
    };
    let is_single = |dim: &usize| extents[*dim].constant() == Some(1);
    let (single, moved): (Vec<usize>, Vec<usize>) = (0..axis).partition(is_single);
    if moved.len() != 1 {
        return Ok(());
    }
    let new_axis = single.len();
    let perm: Vec<usize> = [
        single,
        vec![axis],
        moved,
        (axis + 1..extents.len()).collect(),
    ]
    .concat();
    let mut back = vec![0; perm.len()];
    for (to, &from) in perm.iter().enumerate() {
        back[from] = to;
    }
    let mut names = UniqueNames::of(graph);
    let Some(new) = graph.node(concat).inputs[1] else {
        return Ok(());
    };
    let same: Vec<usize> = (0..perm.len()).collect();
    let old_output = transposed_value(graph, &mut names, output, &same)?;
    let old_input = transposed_value(graph, &mut names, input, &same)?;
    let new_values = transposed_value(graph, &mut names, new, &perm)?;
    for node in &mut graph.nodes {
        for id in node.inputs.iter_mut().flatten() {
            if *id == output {
                *id = old_output;
            } else if *id == input {
                *id = old_input;
            }
        }
    }
    permute(graph, input, &perm)?;
    permute(graph, output, &perm)?;
    let node = &mut graph.nodes[concat.index()];
    node.inputs = vec![Some(input), Some(new_values)];
    node.attributes.set("axis", Attribute::Int(new_axis as i64));
    // From the last one on, so that the ids of nodes before stay.
    let after = NodeId(concat.0 + 1);
    let mut insert = |graph: &mut Graph, at, from, to, perm: &[usize]| -> Result<()> {
        let name = names.node(&graph.value(to).name);
        graph.insert_node(
            at,
            Node {
                name,
                op: operator_of("Transpose")?,
                attributes: perm_attributes(perm),
                inputs: vec![Some(from)],
                outputs: vec![Some(to)],
            },
        );
        Ok(())
    };
    insert(graph, after, output, old_output, &back)?;
    insert(graph, concat, new, new_values, &perm)?;
    insert(graph, NodeId(0), input, old_input, &back)
}

/// The Concat of two operands that makes `output` of `input`.
fn concat(graph: &Graph, input: ValueId, output: ValueId) -> Option<NodeId> {
    let id = graph.producers()[output.index()]?;
    let node = graph.node(id);
    let extends =
        node.op.name == "Concat" && node.inputs.len() == 2 && node.inputs[0] == Some(input);
    extends.then_some(id)
}

/// A value with the type of another one, its dimensions permuted.
fn transposed_value(
    graph: &mut Graph,
    names: &mut UniqueNames,
    of: ValueId,
    perm: &[usize],
) -> Result<ValueId> {
    let value = graph.value(of);
    let name = names.value(&format!("{}.transposed", value.name));
    let (ty, extents) = (value.ty.clone(), value.extents.clone());
    let id = graph.add_value(name, ty);
    graph.value_mut(id).extents = extents;
    permute(graph, id, perm)?;
    Ok(id)
}

fn permute(graph: &mut Graph, id: ValueId, perm: &[usize]) -> Result<()> {
    let value = graph.value_mut(id);
    if let Some(ty) = &value.ty {
        let shape: Vec<usize> = perm.iter().map(|&dim| ty.shape()[dim]).collect();
        value.ty = Some(TensorType::new(ty.dtype(), shape)?);
    }
    if let Some(extents) = &value.extents {
        value.extents = Some(perm.iter().map(|&dim| extents[dim].clone()).collect());
    }
    Ok(())
}
