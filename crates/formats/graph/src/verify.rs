//! The verifier: the invariants that every pass relies on.

use crate::check::{infer_node, unknown_value};
use crate::{Graph, NodeId, Value, ValueId};
use std::collections::HashSet;
use tenon_base::{Error, ErrorKind, Location, Result};

/// Checks that
///
/// * every id refers to a value, and every value but inputs and constants has exactly one producer;
/// * nodes are in topological order, so that there is no cycle;
/// * inputs are not constants and have no producer; outputs are inputs, constants or have a producer;
/// * names of values are unique and not empty, names of nodes are unique;
/// * nodes match their operator definitions, and types are the inferred ones.
///
/// All problems are reported together, each with its node where there is one.
pub fn verify(graph: &Graph) -> Result<()> {
    let mut verifier = Verifier {
        graph,
        errors: Vec::new(),
    };
    verifier.names();
    let producers = verifier.producers();
    verifier.interface(&producers);
    verifier.order(&producers);
    verifier.types();
    Error::from_all(verifier.errors).map_or(Ok(()), Err)
}

/// The producer of a value.
#[derive(Clone, Copy, PartialEq)]
enum Producer {
    None,
    Caller,
    Constant,
    Node(NodeId),
}

struct Verifier<'a> {
    graph: &'a Graph,
    errors: Vec<Error>,
}

impl Verifier<'_> {
    fn report(&mut self, message: String) {
        self.errors
            .push(Error::new(ErrorKind::InvalidModel, message));
    }

    fn report_at(&mut self, id: NodeId, message: String) {
        let label = self.graph.node(id).label(id);
        self.errors
            .push(Error::new(ErrorKind::InvalidModel, message).at(Location::node(label)));
    }

    fn names(&mut self) {
        let graph = self.graph;
        let mut seen = HashSet::new();
        for (index, value) in graph.values.iter().enumerate() {
            if value.name.is_empty() {
                self.report(format!("value {} has no name", ValueId(index as u32)));
            } else if !seen.insert(&value.name) {
                self.report(format!("two values are called '{}'", value.name));
            }
        }
        let mut seen = HashSet::new();
        for node in graph.nodes.iter().filter(|node| !node.name.is_empty()) {
            if !seen.insert(&node.name) {
                self.report(format!("two nodes are called '{}'", node.name));
            }
        }
    }

    /// The producer of each value; reports values with several, and outputs that do not exist.
    fn producers(&mut self) -> Vec<Producer> {
        let graph = self.graph;
        let mut producers: Vec<Producer> = graph
            .values
            .iter()
            .map(|value| {
                if value.constant.is_some() || value.sizes.is_some() {
                    Producer::Constant
                } else {
                    Producer::None
                }
            })
            .collect();
        for &input in &graph.inputs {
            match producers.get_mut(input.index()) {
                None => self.errors.push(unknown_value(input)),
                Some(producer @ Producer::None) => *producer = Producer::Caller,
                Some(producer) => {
                    let what = if *producer == Producer::Caller {
                        "given twice"
                    } else {
                        "a constant"
                    };
                    self.report(format!("input '{}' is {what}", graph.value(input).name));
                }
            }
        }
        for (id, node) in graph.ids().zip(&graph.nodes) {
            for &output in node.outputs.iter().flatten() {
                match producers.get_mut(output.index()) {
                    None => {
                        let error = unknown_value(output).at(Location::node(node.label(id)));
                        self.errors.push(error);
                    }
                    Some(producer @ Producer::None) => *producer = Producer::Node(id),
                    Some(producer) => {
                        let name = &graph.value(output).name;
                        let other = match *producer {
                            Producer::Node(other) => {
                                format!("node '{}' makes it too", graph.node(other).label(other))
                            }
                            Producer::Caller => "it is an input".into(),
                            _ => "it is a constant".into(),
                        };
                        self.report_at(id, format!("output '{name}' is made twice: {other}"));
                    }
                }
            }
        }
        producers
    }

    fn interface(&mut self, producers: &[Producer]) {
        for &output in &self.graph.outputs {
            match producers.get(output.index()) {
                None => self.errors.push(unknown_value(output)),
                Some(Producer::None) => {
                    self.report(format!(
                        "nothing makes output '{}'",
                        self.graph.value(output).name
                    ));
                }
                Some(_) => {}
            }
        }
    }

    /// Reports values that are used before their producer, or that have none.
    fn order(&mut self, producers: &[Producer]) {
        let graph = self.graph;
        for (id, node) in graph.ids().zip(&graph.nodes) {
            for &input in node.inputs.iter().flatten() {
                let name = graph
                    .values
                    .get(input.index())
                    .map_or("", |value| &*value.name);
                match producers.get(input.index()) {
                    None => {
                        let error = unknown_value(input).at(Location::node(node.label(id)));
                        self.errors.push(error);
                    }
                    Some(Producer::None) => {
                        self.report_at(id, format!("nothing makes input '{name}'"));
                    }
                    Some(Producer::Node(producer)) if *producer == id => {
                        self.report_at(id, format!("it uses its own output '{name}'"));
                    }
                    Some(Producer::Node(producer)) if *producer > id => {
                        let label = graph.node(*producer).label(*producer);
                        let message =
                            format!("input '{name}' is used before node '{label}' makes it");
                        self.report_at(id, message);
                    }
                    Some(_) => {}
                }
            }
        }
    }

    fn types(&mut self) {
        let graph = self.graph;
        for value in &graph.values {
            if let Some(error) = constant_type(value) {
                self.errors.push(error);
            }
        }
        for &input in &graph.inputs {
            if graph
                .values
                .get(input.index())
                .is_some_and(|value| value.ty.is_none())
            {
                self.report(format!("input '{}' has no type", graph.value(input).name));
            }
        }
        for id in graph.ids() {
            self.node_types(id);
        }
    }

    fn node_types(&mut self, id: NodeId) {
        let graph = self.graph;
        let node = graph.node(id);
        // Dangling ids and values of unknown type are reported at their producers.
        let known = |value: &ValueId| {
            graph
                .values
                .get(value.index())
                .is_some_and(|value| value.ty.is_some())
        };
        if !node.inputs.iter().flatten().all(known) {
            return;
        }
        let types = match infer_node(graph, id) {
            Ok(types) => types,
            Err(error) => return self.errors.push(error),
        };
        for (output, expected) in node.outputs.iter().zip(types) {
            let Some(value) = output.and_then(|id| graph.values.get(id.index())) else {
                continue;
            };
            match &value.ty {
                Some(found) if *found == expected => {}
                Some(found) => self.errors.push(
                    Error::new(
                        ErrorKind::InvalidModel,
                        format!("output '{}' has the wrong type", value.name),
                    )
                    .expected(&expected)
                    .found(found)
                    .at(Location::node(node.label(id))),
                ),
                None => {
                    self.report_at(id, format!("output '{}' has no type", value.name));
                }
            }
        }
    }
}

fn constant_type(value: &Value) -> Option<Error> {
    let tensor = value.constant.as_ref()?;
    if value.ty.as_ref() == Some(tensor.ty()) {
        return None;
    }
    let error = Error::new(
        ErrorKind::InvalidModel,
        format!(
            "constant '{}' has another type than its elements",
            value.name
        ),
    );
    let found = value.ty.as_ref().map_or("none".into(), ToString::to_string);
    Some(error.expected(tensor.ty()).found(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::operator;
    use crate::{Attributes, DataType, Node, Tensor, TensorType};

    fn relu(name: &str, input: ValueId, output: ValueId) -> Node {
        Node {
            name: name.into(),
            op: operator("Relu").unwrap(),
            attributes: Attributes::new(),
            inputs: vec![Some(input)],
            outputs: vec![Some(output)],
        }
    }

    fn lines(graph: &Graph) -> Vec<String> {
        verify(graph)
            .unwrap_err()
            .to_string()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn dangling_ids_are_reported_without_panic() {
        let mut graph = Graph::new("g");
        let ty = TensorType::new(DataType::F32, [2]).unwrap();
        let x = graph.add_input("x", ty);
        graph.nodes.push(relu("a", ValueId(7), ValueId(8)));
        graph.inputs.push(ValueId(9));
        graph.inputs.push(x);
        graph.outputs.push(ValueId(10));
        assert_eq!(
            lines(&graph),
            [
                "the graph has no value %9",
                "input 'x' is given twice",
                "node 'a': the graph has no value %8",
                "the graph has no value %10",
                "node 'a': the graph has no value %7",
            ]
        );
    }

    #[test]
    fn names_are_unique_and_constants_have_their_type() {
        let mut graph = Graph::new("g");
        let one = Tensor::from_slice([1], &[1.0f32]).unwrap();
        let c = graph.add_constant("c", one.clone());
        graph.add_constant("c", one);
        graph.add_value("", None);
        graph.value_mut(c).ty = Some(TensorType::new(DataType::F32, [3]).unwrap());
        graph.inputs.push(c);
        assert_eq!(
            lines(&graph),
            [
                "two values are called 'c'",
                "value %2 has no name",
                "input 'c' is a constant",
                "constant 'c' has another type than its elements: expected f32[1], found f32[3]",
            ]
        );
    }
}
