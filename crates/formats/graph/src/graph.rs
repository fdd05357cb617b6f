//! Graph, node, value: the structure and how it is changed.

use crate::{Attributes, OperatorDef};
use std::collections::BTreeMap;
use std::fmt;
use tenon_tensor::{Tensor, TensorType};

/// A value of a graph; its text form is `%3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// A node of a graph; its text form is `node3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl ValueId {
    /// Position in the graph's values.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// Position in the graph's nodes.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node{}", self.0)
    }
}

/// A tensor that nodes make and use: an input, a constant or a node's output.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// The model's name for it; unique in the graph.
    pub name: String,
    /// Its type, once known (inputs and constants always).
    pub ty: Option<TensorType>,
    /// Its elements, when it is a constant.
    pub constant: Option<Tensor>,
}

/// An operator applied to values.
#[derive(Debug, Clone)]
pub struct Node {
    /// The model's name for it, made unique at import.
    pub name: String,
    /// What it does.
    pub op: &'static OperatorDef,
    /// With which parameters.
    pub attributes: Attributes,
    /// To which values; `None` where an optional input is left out.
    pub inputs: Vec<Option<ValueId>>,
    /// What it makes; `None` where an optional output is not wanted.
    pub outputs: Vec<Option<ValueId>>,
}

impl Node {
    /// How messages call it: its name, or `node3` when it has none.
    pub fn label(&self, id: NodeId) -> String {
        if self.name.is_empty() {
            id.to_string()
        } else {
            self.name.clone()
        }
    }
}

/// A tensor graph. Nodes stand in an order in which every value is made before it is used (the
/// verifier checks it).
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// The model's name.
    pub name: String,
    /// All values; a [`ValueId`] is a position here.
    pub values: Vec<Value>,
    /// Nodes in execution order; a [`NodeId`] is a position here and holds until nodes are removed.
    pub nodes: Vec<Node>,
    /// Values that the caller gives, in order.
    pub inputs: Vec<ValueId>,
    /// Values that the caller gets, in order.
    pub outputs: Vec<ValueId>,
    /// Free text that travels with the model (class labels, input scaling).
    pub metadata: BTreeMap<String, String>,
}

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Adds a value made by a node to come (or an input).
    pub fn add_value(&mut self, name: impl Into<String>, ty: Option<TensorType>) -> ValueId {
        self.values.push(Value {
            name: name.into(),
            ty,
            constant: None,
        });
        ValueId(self.values.len() as u32 - 1)
    }

    /// Adds an input.
    pub fn add_input(&mut self, name: impl Into<String>, ty: TensorType) -> ValueId {
        let id = self.add_value(name, Some(ty));
        self.inputs.push(id);
        id
    }

    /// Adds a constant.
    pub fn add_constant(&mut self, name: impl Into<String>, tensor: Tensor) -> ValueId {
        let id = self.add_value(name, Some(tensor.ty().clone()));
        self.values[id.index()].constant = Some(tensor);
        id
    }

    /// The value of an id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// The value of an id, to change it.
    pub fn value_mut(&mut self, id: ValueId) -> &mut Value {
        &mut self.values[id.index()]
    }

    /// The node of an id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// For each value the node that makes it.
    pub fn producers(&self) -> Vec<Option<NodeId>> {
        let mut producers = vec![None; self.values.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for output in node.outputs.iter().flatten() {
                // An id that dangles is the verifier's to report.
                if let Some(producer) = producers.get_mut(output.index()) {
                    *producer = Some(NodeId(index as u32));
                }
            }
        }
        producers
    }

    /// For each value the nodes that use it, in order, one entry a use.
    pub fn consumers(&self) -> Vec<Vec<NodeId>> {
        let mut consumers = vec![Vec::new(); self.values.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for input in node.inputs.iter().flatten() {
                if let Some(users) = consumers.get_mut(input.index()) {
                    users.push(NodeId(index as u32));
                }
            }
        }
        consumers
    }
}
