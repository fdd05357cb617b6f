//! The activations that are quantised for the products, and the nodes that compute between them.

use crate::index::{Index, is_standard};
use std::collections::{BTreeMap, BTreeSet};
use tenon_onnx::proto::NodeProto;

/// The activations to quantise.
#[derive(Default)]
pub(crate) struct Regions {
    /// Names of the activations, each with the name of its group: the activations of a group have the same
    /// parameters, since an operator only moves or compares elements between them.
    pub(crate) activations: BTreeMap<String, String>,
    /// Positions of the nodes whose operands and results are quantised where they are among the activations.
    pub(crate) nodes: BTreeSet<usize>,
}

/// What a node does with quantised activations.
enum Role {
    /// Moves or compares elements of its first input.
    Movement,
    /// Joins all its inputs.
    Concat,
    /// Adds two activations.
    Add,
    /// An average of its first input.
    Average,
    /// An elementwise function behind the node before it.
    Activation,
    Other,
}

fn role(index: &Index<'_>, node: &NodeProto) -> Role {
    if !is_standard(node) {
        return Role::Other;
    }
    match node.op_type.as_str() {
        "MaxPool" if node.output.len() == 1 => Role::Movement,
        "Reshape" | "Flatten" | "Transpose" | "Squeeze" | "Unsqueeze" | "Identity" => {
            Role::Movement
        }
        "Concat" => Role::Concat,
        "Add"
            if node
                .input
                .iter()
                .all(|input| index.constant(input).is_none()) =>
        {
            Role::Add
        }
        "AveragePool" | "GlobalAveragePool" => Role::Average,
        "Relu" | "Clip" => Role::Activation,
        _ => Role::Other,
    }
}

impl Regions {
    /// The activations for products at some positions. Starting at the inputs of products, the inputs of additions,
    /// pools and movements whose results are quantised are quantised, too.
    pub(crate) fn new(index: &Index<'_>, products: &BTreeMap<usize, String>) -> Self {
        let mut regions = Self {
            activations: BTreeMap::new(),
            nodes: products.keys().copied().collect(),
        };
        let mut open: Vec<String> = products.values().cloned().collect();
        while let Some(name) = open.pop() {
            if regions.activations.contains_key(&name) || index.constant(&name).is_some() {
                continue;
            }
            regions.activations.insert(name.clone(), name.clone());
            let Some((position, node)) = index.producer(&name) else {
                continue;
            };
            let Some(first) = node.input.first() else {
                continue;
            };
            match role(index, node) {
                Role::Activation => {
                    regions.nodes.insert(position);
                    if let Some((before, node)) = index.producer(first)
                        && matches!(role(index, node), Role::Add)
                        && index.consumers(first).len() == 1
                    {
                        regions.nodes.insert(before);
                        open.extend(node.input.iter().cloned());
                    }
                }
                Role::Add => {
                    regions.nodes.insert(position);
                    open.extend(node.input.iter().cloned());
                }
                Role::Average => {
                    regions.nodes.insert(position);
                    open.push(first.clone());
                }
                Role::Movement if !regions.computes(index, first) => {}
                Role::Movement => {
                    regions.nodes.insert(position);
                    open.push(first.clone());
                }
                Role::Concat => {
                    regions.nodes.insert(position);
                    open.extend(node.input.iter().cloned());
                }
                Role::Other => {}
            }
        }
        regions.join_groups(index);
        regions
    }

    /// Whether a value comes from a node that computes it from quantised activations, maybe moved.
    fn computes(&self, index: &Index<'_>, name: &str) -> bool {
        let mut name = name;
        for _ in 0..index.graph.node.len() {
            let Some((position, node)) = index.producer(name) else {
                return false;
            };
            if self.nodes.contains(&position) {
                return true;
            }
            match (role(index, node), node.input.first()) {
                (Role::Movement | Role::Activation, Some(first)) => name = first,
                (Role::Other, _) | (_, None) => return false,
                _ => return true,
            }
        }
        false
    }

    /// Gives the activations around each movement one group.
    fn join_groups(&mut self, index: &Index<'_>) {
        for &position in &self.nodes {
            let node = &index.graph.node[position];
            let joined = match role(index, node) {
                Role::Movement => 1,
                Role::Concat => node.input.len(),
                _ => continue,
            };
            let members = node.input[..joined].iter().chain(&node.output);
            let groups: Vec<String> = members
                .filter_map(|name| self.activations.get(name).cloned())
                .collect();
            let Some(first) = groups.first() else {
                continue;
            };
            for group in self.activations.values_mut() {
                if groups.contains(group) {
                    group.clone_from(first);
                }
            }
        }
    }
}
