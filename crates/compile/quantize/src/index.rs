//! The main graph of a model: its constants, and the producer and the consumers of each value.

use std::collections::{HashMap, HashSet};
use tenon_onnx::proto::{GraphProto, NodeProto, TensorProto, attribute_type};

/// The main graph of a model, indexed by names of values.
pub(crate) struct Index<'a> {
    pub(crate) graph: &'a GraphProto,
    /// Initializers, tensors of `Constant` nodes, and copies of both.
    constants: HashMap<&'a str, &'a TensorProto>,
    producers: HashMap<&'a str, usize>,
    consumers: HashMap<&'a str, Vec<usize>>,
    /// Outputs of the graph, and values that subgraphs read.
    escaping: HashSet<&'a str>,
    /// Names of all values.
    names: HashSet<&'a str>,
}

impl<'a> Index<'a> {
    pub(crate) fn new(graph: &'a GraphProto) -> Self {
        let mut index = Self {
            graph,
            constants: HashMap::new(),
            producers: HashMap::new(),
            consumers: HashMap::new(),
            escaping: graph.output.iter().map(|it| it.name.as_str()).collect(),
            names: graph.input.iter().map(|it| it.name.as_str()).collect(),
        };
        let initializers = graph.initializer.iter();
        index
            .constants
            .extend(initializers.map(|it| (it.name.as_str(), it)));
        for (position, node) in graph.node.iter().enumerate() {
            for output in named(&node.output) {
                index.producers.insert(output, position);
                let copied = (is_standard(node) && node.op_type == "Identity")
                    .then(|| index.constants.get(node.input.first()?.as_str()).copied());
                if let Some(tensor) = constant_tensor(node).or(copied.flatten()) {
                    index.constants.insert(output, tensor);
                }
            }
            for input in named(&node.input) {
                index.consumers.entry(input).or_default().push(position);
            }
            for subgraph in subgraphs(node) {
                escaping(subgraph, &mut index.escaping);
            }
        }
        index.names.extend(index.constants.keys());
        index.names.extend(index.producers.keys());
        index.names.extend(index.escaping.iter());
        index
    }

    pub(crate) fn constant(&self, name: &str) -> Option<&'a TensorProto> {
        self.constants.get(name).copied()
    }

    /// The position and the node that computes a value.
    pub(crate) fn producer(&self, name: &str) -> Option<(usize, &'a NodeProto)> {
        let position = *self.producers.get(name)?;
        Some((position, &self.graph.node[position]))
    }

    /// Positions of the nodes that read a value.
    pub(crate) fn consumers(&self, name: &str) -> &[usize] {
        self.consumers.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether a value is an output of the graph, or read by a subgraph.
    pub(crate) fn escapes(&self, name: &str) -> bool {
        self.escaping.contains(name)
    }

    /// Names of all values, those of subgraphs included.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.names.iter().copied()
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

/// Names of operands that are present.
fn named(names: &[String]) -> impl Iterator<Item = &str> {
    names
        .iter()
        .map(String::as_str)
        .filter(|name| !name.is_empty())
}

/// Whether an operator is one of ONNX itself.
pub(crate) fn is_standard(node: &NodeProto) -> bool {
    matches!(node.domain.as_str(), "" | "ai.onnx")
}

fn constant_tensor(node: &NodeProto) -> Option<&TensorProto> {
    let is_constant = is_standard(node) && node.op_type == "Constant";
    let mut attributes = node.attribute.iter().filter(|_| is_constant);
    attributes
        .find(|attribute| attribute.name == "value")
        .and_then(|attribute| attribute.t.as_deref())
}

pub(crate) fn subgraphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    let attributes = node.attribute.iter();
    let graphs = attributes.filter(|attribute| {
        matches!(
            attribute.r#type,
            attribute_type::GRAPH | attribute_type::UNDEFINED
        )
    });
    graphs.filter_map(|attribute| attribute.g.as_deref())
}

/// All names that a graph and its subgraphs mention.
fn escaping<'a>(graph: &'a GraphProto, names: &mut HashSet<&'a str>) {
    names.extend(graph.initializer.iter().map(|it| it.name.as_str()));
    names.extend(graph.input.iter().map(|it| it.name.as_str()));
    names.extend(graph.output.iter().map(|it| it.name.as_str()));
    for node in &graph.node {
        names.extend(named(&node.input).chain(named(&node.output)));
        subgraphs(node).for_each(|subgraph| escaping(subgraph, names));
    }
}

/// An integer attribute, or its default.
pub(crate) fn integer(node: &NodeProto, name: &str, default: i64) -> i64 {
    let mut attributes = node.attribute.iter();
    let found = attributes.find(|attribute| attribute.name == name);
    found.and_then(|attribute| attribute.i).unwrap_or(default)
}

/// A float attribute, or its default.
pub(crate) fn float(node: &NodeProto, name: &str, default: f32) -> f32 {
    let mut attributes = node.attribute.iter();
    let found = attributes.find(|attribute| attribute.name == name);
    found.and_then(|attribute| attribute.f).unwrap_or(default)
}
