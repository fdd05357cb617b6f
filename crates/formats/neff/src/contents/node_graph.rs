//! A package of several nodes: subgraphs of cores, functions of libraries that run on the CPU, and
//! the tensors between them (docs/package.md, "Several nodes").

mod attribute;
mod host;
mod read;
mod write;

pub use attribute::NodeAttribute;
pub use host::HostFunction;

use super::Contents;
use super::write::NodeFiles;
use crate::error::invalid;
use crate::json::{dtype, kind};
use crate::{PlacementReport, Port, PortShape};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use tenon_base::{Error, Location, Result};
use tenon_tensor::{Buffer, DataType, TensorType, ValueKind};

/// The version of the call signature of CPU nodes (`include/tenon/cpu_node.h`).
pub const CPU_NODE_VERSION: u32 = 1;

/// The contents of a package of Tenon with any number of nodes.
#[derive(Debug, Clone)]
pub struct NodeGraph {
    /// The package's name.
    pub name: String,
    /// The inputs of the package, in order.
    pub inputs: Vec<GraphPort>,
    /// The computing nodes in execution order, which is a topological order.
    pub nodes: Vec<PackageNode>,
    /// The outputs of the package, in order.
    pub outputs: Vec<Wire>,
}

/// A named tensor that passes between nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphPort {
    /// Its name.
    pub name: String,
    /// What it is; only ports of host functions are no tensors.
    #[serde(default, skip_serializing_if = "ValueKind::is_tensor", with = "kind")]
    pub kind: ValueKind,
    /// The data type of the tensor or tensors.
    #[serde(with = "dtype")]
    pub dtype: DataType,
    /// The shape, outermost first: of a sequence what the shapes of its tensors have in common.
    pub shape: PortShape,
}

/// A node that computes.
#[derive(Debug, Clone)]
pub struct PackageNode {
    /// Its name.
    pub name: String,
    /// Its inputs, in order.
    pub inputs: Vec<Wire>,
    /// Its work.
    pub work: NodeWork,
}

/// The work of a node.
#[derive(Debug, Clone)]
pub enum NodeWork {
    /// Runs a subgraph on a core.
    Core(Box<Contents>),
    /// Calls a function of a library in the caller's thread.
    Cpu(CpuFunction),
    /// Runs the host program, which calls the subgraphs of the package.
    Host(HostFunction),
}

/// A function of a library that the package holds.
#[derive(Debug, Clone)]
pub struct CpuFunction {
    /// The function's symbol.
    pub symbol: String,
    /// The library, a file for the system's dynamic loader.
    pub library: Buffer,
    /// The operator that it implements, for display.
    pub operator: String,
    /// The operator's attributes in the model, by name.
    pub attributes: Vec<(String, NodeAttribute)>,
    /// Its outputs, in order.
    pub outputs: Vec<GraphPort>,
}

/// The source of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wire {
    /// The caller's input of that position.
    Input(usize),
    /// An output of a node.
    Output {
        /// The node's position.
        node: usize,
        /// The output's position.
        output: usize,
    },
}

impl From<Contents> for NodeGraph {
    /// The graph of one subgraph, whose inputs and outputs are the package's.
    fn from(contents: Contents) -> Self {
        let inputs = ports(&contents.tenon.inputs);
        let wires = |count| (0..count).map(Wire::Input).collect();
        let outputs = 0..contents.tenon.outputs.len();
        Self {
            name: contents.name.clone(),
            outputs: outputs
                .map(|output| Wire::Output { node: 0, output })
                .collect(),
            nodes: vec![PackageNode::core(0, wires(inputs.len()), contents)],
            inputs,
        }
    }
}

impl PackageNode {
    /// Subgraph `index` of a package, counted from 0; its name follows from that.
    pub fn core(index: usize, inputs: Vec<Wire>, contents: Contents) -> Self {
        Self {
            name: NodeFiles::of(index).name().to_owned(),
            inputs,
            work: NodeWork::Core(Box::new(contents)),
        }
    }

    /// The host program of a package, which takes all inputs.
    pub fn host(function: HostFunction) -> Self {
        Self {
            name: "host".to_owned(),
            inputs: (0..function.inputs.len()).map(Wire::Input).collect(),
            work: NodeWork::Host(function),
        }
    }
}

impl NodeGraph {
    /// The tensor of a wire; `None` for a source that does not exist.
    pub fn port(&self, wire: Wire) -> Option<GraphPort> {
        match wire {
            Wire::Input(position) => self.inputs.get(position).cloned(),
            Wire::Output { node, output } => self.nodes.get(node)?.work.outputs().nth(output),
        }
    }

    /// The subgraphs.
    pub fn cores(&self) -> impl Iterator<Item = &Contents> {
        self.nodes.iter().filter_map(|node| match &node.work {
            NodeWork::Core(contents) => Some(&**contents),
            NodeWork::Cpu(_) | NodeWork::Host(_) => None,
        })
    }

    /// The placement of every node of the model, in all subgraphs and outside of them.
    pub fn placement(&self) -> PlacementReport {
        let cores = self.cores().map(|core| &core.tenon.placement);
        let mut report = PlacementReport::of_all(cores);
        for (name, function) in self.cpu_nodes() {
            report.add_cpu_node(name, &function.operator);
        }
        report
    }

    /// The CPU nodes, with their names.
    pub fn cpu_nodes(&self) -> impl Iterator<Item = (&str, &CpuFunction)> {
        self.nodes.iter().filter_map(|node| match &node.work {
            NodeWork::Cpu(function) => Some((node.name.as_str(), function)),
            NodeWork::Core(_) | NodeWork::Host(_) => None,
        })
    }

    /// The host program, if the package has one that calls its subgraphs.
    pub fn host(&self) -> Option<&HostFunction> {
        self.nodes.iter().find_map(|node| match &node.work {
            NodeWork::Host(function) => Some(function),
            NodeWork::Core(_) | NodeWork::Cpu(_) => None,
        })
    }

    /// Name and contents of the single node, if the package is one subgraph, as most are; else the
    /// graph.
    pub fn into_one_core(mut self) -> Result<(String, Contents), Self> {
        match self.nodes.pop() {
            Some(PackageNode {
                name,
                work: NodeWork::Core(contents),
                ..
            }) if self.nodes.is_empty() => Ok((name, *contents)),
            node => {
                self.nodes.extend(node);
                Err(self)
            }
        }
    }

    /// Whether the package is a single subgraph.
    pub fn is_one_core(&self) -> bool {
        matches!(&self.nodes[..], [node] if matches!(node.work, NodeWork::Core(_)))
    }

    /// Checks all rules; all problems together.
    pub fn check(&self) -> Result<()> {
        let mut problems = Vec::new();
        let mut names = HashSet::new();
        let hosted = self.host().is_some();
        for (index, node) in self.nodes.iter().enumerate() {
            let place = Location::node(&node.name);
            if !names.insert(&node.name) {
                problems.push(invalid("two nodes of this name").at(place.clone()));
            }
            if let NodeWork::Core(contents) = &node.work {
                let checked = contents.check_rules(hosted);
                problems.extend(checked.err().map(|error| error.at(place.clone())));
            }
            let mut report = |error: Error| problems.push(error.at(place.clone()));
            self.check_inputs(index, node, &mut report);
            node.work.check(&mut report);
        }
        for (position, &wire) in self.outputs.iter().enumerate() {
            if self.port(wire).is_none() {
                let field = Location::field(format!("outputs[{position}]"));
                problems.push(invalid("its source does not exist").at(field));
            }
        }
        if self.cores().next().is_none() && self.host().is_none() {
            problems.push(invalid("no node of a subgraph"));
        }
        Error::from_all(problems).map_or(Ok(()), Err)
    }

    /// Each input has an earlier source of the type that the subgraph reads.
    fn check_inputs(&self, index: usize, node: &PackageNode, report: &mut impl FnMut(Error)) {
        if self.host().is_some() {
            return self.check_hosted(index, node, report);
        }
        if let NodeWork::Core(contents) = &node.work
            && contents.tenon.inputs.len() != node.inputs.len()
        {
            let error = invalid("its input count differs from its subgraph's");
            let error = error.expected(contents.tenon.inputs.len());
            return report(error.found(node.inputs.len()));
        }
        for (position, &wire) in node.inputs.iter().enumerate() {
            let before = match wire {
                Wire::Input(_) => true,
                Wire::Output { node, .. } => node < index,
            };
            let Some(port) = self.port(wire).filter(|_| before) else {
                let text = format!(
                    "the source of input {position} is neither an input nor an earlier node"
                );
                report(invalid(text));
                continue;
            };
            let NodeWork::Core(contents) = &node.work else {
                continue;
            };
            let expected = &contents.tenon.inputs[position];
            if (expected.dtype, &expected.shape) != (port.dtype, &port.shape) {
                let text = format!("input '{}' has another type", expected.name);
                let error = invalid(text).expected(shown(expected.dtype, &expected.shape));
                report(error.found(shown(port.dtype, &port.shape)));
            }
        }
    }
}

impl NodeGraph {
    /// The host program is the last node and has all inputs; the subgraphs have none, since it calls them.
    fn check_hosted(&self, index: usize, node: &PackageNode, report: &mut impl FnMut(Error)) {
        let inputs = match node.work {
            NodeWork::Core(_) => 0,
            NodeWork::Host(_) => self.inputs.len(),
            NodeWork::Cpu(_) => {
                return report(invalid("a CPU node in a package with host functions"));
            }
        };
        let wires = (0..inputs).map(Wire::Input);
        if !node.inputs.iter().copied().eq(wires) {
            report(invalid("inputs that the host program does not allow"));
        }
        let last = index + 1 == self.nodes.len();
        if last != matches!(node.work, NodeWork::Host(_)) {
            report(invalid("the host program is not the last node"));
        }
    }
}

impl NodeWork {
    /// Its outputs.
    pub fn outputs(&self) -> impl Iterator<Item = GraphPort> {
        match self {
            NodeWork::Core(contents) => ports(&contents.tenon.outputs),
            NodeWork::Cpu(function) => function.outputs.clone(),
            NodeWork::Host(function) => function.outputs.clone(),
        }
        .into_iter()
    }

    fn check(&self, report: &mut impl FnMut(Error)) {
        let function = match self {
            NodeWork::Core(_) => return,
            NodeWork::Host(function) => return function.check(report),
            NodeWork::Cpu(function) => function,
        };
        if function.symbol.is_empty() || function.symbol.contains('\0') {
            report(invalid("not a symbol name").found(format!("{:?}", function.symbol)));
        }
        for port in &function.outputs {
            if port.dtype == DataType::String
                || port
                    .shape
                    .fixed()
                    .is_none_or(|shape| TensorType::new(port.dtype, shape).is_err())
            {
                let text = format!(
                    "output '{}' has a type that functions do not support",
                    port.name
                );
                report(invalid(text).found(shown(port.dtype, &port.shape)));
            }
        }
    }
}

impl From<&Port> for GraphPort {
    fn from(port: &Port) -> Self {
        Self {
            name: port.name.clone(),
            kind: ValueKind::Tensor,
            dtype: port.dtype,
            shape: port.shape.clone(),
        }
    }
}

fn ports(ports: &[Port]) -> Vec<GraphPort> {
    ports.iter().map(GraphPort::from).collect()
}

fn shown(dtype: DataType, shape: &PortShape) -> String {
    format!("{dtype}{shape}")
}

#[cfg(test)]
mod tests;
