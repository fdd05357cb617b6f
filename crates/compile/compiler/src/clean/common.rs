//! Common subexpression elimination.

use std::collections::HashMap;
use tenon_graph::{Attribute, Graph, Node, Tensor, ValueId};

/// Constants up to this size are compared by content.
const MAX_COMPARED_BYTES: usize = 4096;

/// Replaces the outputs of every node that equals an earlier one (operator, attributes, inputs) by
/// its outputs. Returns the replaced values, each with the other one.
pub(crate) fn merge_equal(graph: &mut Graph) -> Vec<(ValueId, ValueId)> {
    let mut canonical: Vec<ValueId> = (0..graph.values.len() as u32).map(ValueId).collect();
    merge_constants(graph, &mut canonical);
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut merged = Vec::new();
    for index in 0..graph.nodes.len() {
        for input in graph.nodes[index].inputs.iter_mut().flatten() {
            *input = canonical[input.index()];
        }
        let Some(key) = key(&graph.nodes[index]) else {
            continue;
        };
        let first = *seen.entry(key).or_insert(index);
        if first == index {
            continue;
        }
        let pairs: Vec<_> = graph.nodes[index]
            .outputs
            .iter()
            .zip(&graph.nodes[first].outputs)
            .collect();
        if pairs
            .iter()
            .all(|(output, by)| by.is_some() || output.is_none())
        {
            for (output, by) in pairs {
                if let (Some(output), Some(by)) = (output, by) {
                    canonical[output.index()] = *by;
                    merged.push((*output, *by));
                }
            }
        }
    }
    for output in &mut graph.outputs {
        *output = canonical[output.index()];
    }
    merged
}

fn merge_constants(graph: &Graph, canonical: &mut [ValueId]) {
    let mut seen: HashMap<(String, &[u8]), ValueId> = HashMap::new();
    for (index, value) in graph.values.iter().enumerate() {
        let small = |tensor: &&Tensor| tensor.bytes().len() <= MAX_COMPARED_BYTES;
        if let Some(tensor) = value.constant.as_ref().filter(small) {
            let id = ValueId(index as u32);
            let key = (tensor.ty().to_string(), tensor.bytes());
            canonical[index] = *seen.entry(key).or_insert(id);
        }
    }
}

/// A text that is equal for equal computations; `None` for nodes with tensor attributes.
fn key(node: &Node) -> Option<String> {
    if node
        .attributes
        .iter()
        .any(|(_, value)| matches!(value, Attribute::Tensor(_)))
    {
        return None;
    }
    // Debug prints a float as the shortest text that parses back to the same value.
    Some(format!(
        "{} {:?} {:?} {}",
        node.op.name,
        node.inputs,
        node.attributes,
        node.outputs.len()
    ))
}
