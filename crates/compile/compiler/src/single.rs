//! Packages of one operator: minimal reproductions of differences between backends.

use crate::compile::{Compiled, Options, finish};
use crate::optimise::Optimised;
use crate::{outputs, specialise};
use tenon_backend::WorkloadSpec;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Graph, Node, ValueId};
use tenon_tensor::TensorType;

/// One operator with the names of its operands.
#[derive(Debug, Clone)]
pub struct SingleNode<'a> {
    /// The node's name.
    pub name: &'a str,
    /// The operator, its attributes and operands. Inputs with elements become constants.
    pub spec: &'a WorkloadSpec,
    /// The names of the inputs; equal names are one value. `None` where one is left out.
    pub inputs: &'a [Option<String>],
    /// The names of the outputs.
    pub outputs: &'a [Option<String>],
}

/// Compiles a graph of one node without optimising it.
///
/// # Errors
/// Operands without a name, and those of [`crate::compile`].
pub fn compile_single(node: &SingleNode<'_>, options: &Options<'_>) -> Result<Compiled> {
    let mut graph = Graph::new(node.name);
    let mut inputs = Vec::new();
    for (input, name) in node.spec.inputs.iter().zip(node.inputs) {
        let (Some(input), Some(name)) = (input, name) else {
            inputs.push(None);
            continue;
        };
        let known = graph.values.iter().position(|value| value.name == *name);
        inputs.push(Some(match (known, &input.constant) {
            (Some(known), _) => ValueId(known as u32),
            (None, Some(tensor)) => graph.add_constant(name.clone(), tensor.clone()),
            (None, None) => graph.add_input(name.clone(), input.ty.clone()),
        }));
    }
    let mut outputs = Vec::new();
    let mut output = |(ty, name): (&Option<TensorType>, &Option<String>)| match (ty, name) {
        (Some(ty), Some(name)) => Some(graph.add_value(name.clone(), Some(ty.clone()))),
        _ => None,
    };
    outputs.extend(node.spec.outputs.iter().zip(node.outputs).map(&mut output));
    graph.outputs = outputs.iter().flatten().copied().collect();
    if inputs.len() < node.spec.inputs.len() || graph.outputs.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "an operand of the node has no name",
        ));
    }
    graph.add_node(Node {
        name: node.name.to_owned(),
        op: node.spec.op,
        attributes: node.spec.attributes.clone(),
        inputs,
        outputs,
    });
    specialise::name_nodes(&mut graph);
    let names = outputs::names(&graph);
    finish(graph, &names, Optimised::default(), options)
}
