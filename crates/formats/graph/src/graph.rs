//! Graph, node and value.

use crate::control::Body;
use crate::{Attributes, List, OperatorDef};
use std::collections::BTreeMap;
use std::fmt;
use tenon_tensor::size::{SizeExpr, SymbolId, Symbols};
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

/// A tensor, or a sequence or optional value: an input, a constant or the output of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// Its name in the model; unique in the graph.
    pub name: String,
    /// Its type, once known (inputs and constants always); in a graph with symbols, the type for the
    /// example sizes.
    pub ty: Option<TensorType>,
    /// Its elements, when it is a constant.
    pub constant: Option<Tensor>,
    /// Its extents as expressions of the graph's symbols, once known.
    pub extents: Option<Vec<SizeExpr>>,
    /// Its elements, when they are sizes: known for the sizes of an execution, but no constant.
    pub sizes: Option<SizeElements>,
    /// What it is if it is no tensor, once known.
    pub list: Option<List>,
}

/// Integer elements that are expressions of the graph's symbols.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeElements {
    /// The elements in row-major order.
    pub elements: Vec<SizeExpr>,
    /// The tensor for the example sizes.
    pub example: Tensor,
}

impl Value {
    /// The elements, if they are known for the example sizes. They decide shapes and support; only those of
    /// [`constant`](Self::constant) hold for all sizes.
    pub fn known(&self) -> Option<&Tensor> {
        let sizes = self.sizes.as_ref().map(|sizes| &sizes.example);
        self.constant.as_ref().or(sizes)
    }
}

/// An operator applied to values.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name in the model, made unique at import.
    pub name: String,
    /// Its operator.
    pub op: &'static OperatorDef,
    /// Its attributes.
    pub attributes: Attributes,
    /// Its inputs; `None` for an omitted optional input.
    pub inputs: Vec<Option<ValueId>>,
    /// Its outputs; `None` for an omitted optional output.
    pub outputs: Vec<Option<ValueId>>,
}

impl Node {
    /// Its name in messages: its name, or `node3` when it has none.
    pub fn label(&self, id: NodeId) -> String {
        if self.name.is_empty() {
            id.to_string()
        } else {
            self.name.clone()
        }
    }
}

/// A tensor graph. Nodes are in topological order (the verifier checks it).
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// The model's name.
    pub name: String,
    /// All values; a [`ValueId`] is a position here.
    pub values: Vec<Value>,
    /// Nodes in execution order; a [`NodeId`] is a position here, valid until nodes are removed.
    pub nodes: Vec<Node>,
    /// The inputs, in order.
    pub inputs: Vec<ValueId>,
    /// The outputs, in order.
    pub outputs: Vec<ValueId>,
    /// Metadata of the model (class labels, input scaling).
    pub metadata: BTreeMap<String, String>,
    /// The dimensions of the inputs that are known only when the model runs; none if all are fixed.
    pub symbols: Symbols,
    /// A size for each symbol: the types of values are those for these example sizes.
    pub example_sizes: Vec<i64>,
    /// The last symbols: sizes that depend on data. They are not known before their value is computed.
    pub data_sizes: Vec<DataSize>,
    /// The bodies of nodes of control flow.
    pub bodies: Vec<Body>,
}

/// A size that depends on data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSize {
    /// Its symbol.
    pub symbol: SymbolId,
    /// The value that it is read from.
    pub value: ValueId,
    /// Where in the value it is.
    pub source: DataSizeSource,
}

/// Where a size is in a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataSizeSource {
    /// The extent of this dimension.
    Extent(usize),
    /// The element of this position.
    Element(usize),
}

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Adds a value: an output of a later node, or an input.
    pub fn add_value(&mut self, name: impl Into<String>, ty: Option<TensorType>) -> ValueId {
        self.values.push(Value {
            name: name.into(),
            ty,
            constant: None,
            extents: None,
            sizes: None,
            list: None,
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

    /// For each value its producer.
    pub fn producers(&self) -> Vec<Option<NodeId>> {
        let mut producers = vec![None; self.values.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for output in node.outputs.iter().flatten() {
                // The verifier reports dangling ids.
                if let Some(producer) = producers.get_mut(output.index()) {
                    *producer = Some(NodeId(index as u32));
                }
            }
        }
        producers
    }

    /// For each value its consumers, in order, one entry for each use.
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
