//! Inputs of a model that determine shapes: their elements must be known at compile time.

use std::collections::BTreeSet;
use tenon_graph::{Graph, NodeId, ValueId};

/// Operators whose result depends on types alone: the search ends at them.
const OF_TYPES: [&str; 2] = ["Shape", "Size"];

/// The names of the inputs on which a shape-determining operand depends (the target of a Reshape, the
/// ends of a Slice), in the model's order.
pub fn shape_inputs(graph: &Graph) -> Vec<String> {
    let producers = graph.producers();
    let mut open: Vec<ValueId> = graph
        .nodes
        .iter()
        .flat_map(|node| {
            // A variadic operand repeats the last row of the table.
            let row = move |index: usize| node.op.inputs.get(index).or(node.op.inputs.last());
            let is_compile_time =
                move |index: &usize| row(*index).is_some_and(|row| row.compile_time);
            let inputs = node.inputs.iter().enumerate();
            inputs
                .filter(move |(index, _)| is_compile_time(index))
                .filter_map(|(_, input)| *input)
        })
        .collect();
    let mut seen: BTreeSet<ValueId> = open.iter().copied().collect();
    while let Some(value) = open.pop() {
        let Some(NodeId(node)) = producers[value.index()] else {
            continue;
        };
        let node = &graph.nodes[node as usize];
        if !OF_TYPES.contains(&node.op.name) {
            open.extend(
                node.inputs
                    .iter()
                    .flatten()
                    .filter(|input| seen.insert(**input)),
            );
        }
    }
    let determining = graph.inputs.iter().filter(|input| seen.contains(input));
    determining
        .map(|&input| graph.value(input).name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_graph::operator::operator;
    use tenon_graph::{Attributes, Node};
    use tenon_tensor::{DataType, TensorType};

    #[test]
    fn inputs_of_which_only_the_shape_is_read_are_not_listed() {
        let mut graph = Graph::new("g");
        let ty = |dtype, n: usize| TensorType::new(dtype, [n]).unwrap();
        let x = graph.add_input("x", ty(DataType::F32, 6));
        let shape = graph.add_input("shape", ty(DataType::I64, 2));
        let like = graph.add_input("like", ty(DataType::F32, 6));
        let mut node = |name: &str, op: &str, inputs: &[ValueId]| {
            let output = graph.add_value(name, None);
            graph.nodes.push(Node {
                name: name.into(),
                op: operator(op).unwrap(),
                attributes: Attributes::new(),
                inputs: inputs.iter().copied().map(Some).collect(),
                outputs: vec![Some(output)],
            });
            output
        };
        let twice = node("twice", "Identity", &[shape]);
        let y = node("y", "Reshape", &[x, twice]);
        let of_like = node("of_like", "Shape", &[like]);
        let z = node("z", "Reshape", &[y, of_like]);
        graph.outputs = vec![z];
        assert_eq!(shape_inputs(&graph), ["shape"]);
    }
}
