//! The output of `info`: the header as text, and the table of nodes (neff 3.2).

use crate::{FeatureBits, Header, Package, Structure, Subgraph, VariableKind};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;
use tenon_base::Result;

/// The header as text. Display is a block of lines under `NEFF Header:`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeaderBlock {
    /// `pkg_version`
    pub package_version: u64,
    /// `header_size`
    pub header_size: u64,
    /// `data_size`
    pub data_size: u64,
    /// `neff_version_major`
    pub version_major: u64,
    /// `neff_version_minor`
    pub version_minor: u64,
    /// `neff_build_version`
    pub build_version: String,
    /// `num_tpb`
    pub cores: u32,
    /// `lnc_size`
    pub logical_core_size: u32,
    /// `hash`
    pub hash: String,
    /// `uuid`
    pub uuid: String,
    /// `name`
    pub name: String,
    /// `feature_bits`
    pub feature_bits: u64,
    /// Their names.
    pub features: Vec<String>,
}

impl From<&Header> for HeaderBlock {
    fn from(header: &Header) -> Self {
        Self {
            package_version: header.pkg_version,
            header_size: header.header_size,
            data_size: header.data_size,
            version_major: header.version_major,
            version_minor: header.version_minor,
            build_version: header.build_version_text().into_owned(),
            cores: header.num_tpb,
            logical_core_size: header.lnc_size,
            hash: header.hash_text(),
            uuid: header.uuid_text(),
            name: header.name_text().into_owned(),
            feature_bits: header.feature_bits.0,
            features: header.feature_bits.names().collect(),
        }
    }
}

impl fmt::Display for HeaderBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "NEFF Header:")?;
        let mut line = |name: &str, value: &dyn fmt::Display| {
            let text = format!("    {name:<24}{value}");
            writeln!(f, "{}", text.trim_end())
        };
        line("Package Version:", &self.package_version)?;
        line("Header Size:", &self.header_size)?;
        line("Data Size:", &self.data_size)?;
        line("NEFF Major Version:", &self.version_major)?;
        line("NEFF Minor Version:", &self.version_minor)?;
        line("NEFF Build Version:", &self.build_version)?;
        line("Number of Neuron Cores:", &self.cores)?;
        line("Logical Core Size:", &self.logical_core_size)?;
        line("NEFF Hash:", &self.hash)?;
        line("NEFF UUID:", &self.uuid)?;
        line("Network Name:", &self.name)?;
        line("Enabled Features:", &FeatureBits(self.feature_bits))
    }
}

/// The executor of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum NodeExecutor {
    /// A subgraph on a core.
    #[serde(rename = "Neuron Core")]
    Core,
    /// A function of the host.
    #[serde(rename = "CPU")]
    Cpu,
}

impl fmt::Display for NodeExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            NodeExecutor::Core => "Neuron Core",
            NodeExecutor::Cpu => "CPU",
        })
    }
}

/// A subgraph, or a function of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its position in the graph; the subgraphs of one node share it.
    pub node: usize,
    /// Its executor.
    pub executor: NodeExecutor,
    /// Its name.
    pub name: String,
    /// Its inputs and outputs.
    pub ports: Vec<NodePort>,
}

/// An input or output of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodePort {
    /// The variable.
    pub variable: String,
    /// Its size in bytes; 0 when not declared.
    pub size: u64,
    /// Whether the node writes it.
    pub is_output: bool,
    /// The meaning of its dimensions, when declared.
    pub format: Option<String>,
    /// Its shape, outermost first.
    pub shape: Vec<i64>,
    /// Its data type, when declared.
    pub dtype: Option<String>,
}

/// The nodes that compute, in the graph's order. Display is a table under `NEFF Nodes:`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NodeTable {
    /// The nodes.
    pub nodes: Vec<Node>,
}

impl NodeTable {
    /// The nodes of a package.
    pub fn of(package: &Package) -> Result<Self> {
        Ok(Self::from(&Structure::read(package)?))
    }
}

impl From<&Structure> for NodeTable {
    fn from(structure: &Structure) -> Self {
        let mut table = Self::default();
        let Some(graph) = &structure.graph else {
            return table;
        };
        for (index, node) in graph.nodes.iter().enumerate() {
            if *node.op == *"null" {
                continue;
            }
            if node.kelf().is_none() {
                table.nodes.push(Node {
                    node: index,
                    executor: NodeExecutor::Cpu,
                    name: node.name.to_string(),
                    ports: node_ports(graph, index),
                });
                continue;
            }
            let of_node = |subgraph: &&Subgraph| {
                structure
                    .kelfs
                    .get(subgraph.kelf)
                    .is_some_and(|kelf| kelf.node == index)
            };
            for subgraph in structure.subgraphs.iter().filter(of_node) {
                table.nodes.push(Node {
                    node: index,
                    executor: NodeExecutor::Core,
                    name: subgraph.name.clone(),
                    ports: core_ports(structure, subgraph),
                });
            }
        }
        table
    }
}

/// The inputs and outputs of a node: outputs of other nodes, then those of the node itself.
fn node_ports(graph: &crate::NeffGraph, index: usize) -> Vec<NodePort> {
    let Some(node) = graph.nodes.get(index) else {
        return Vec::new();
    };
    let reads = node
        .inputs
        .iter()
        .map(|&[from, output, _]| (from as usize, output as usize, false));
    let writes = (0..node.output_names.len()).map(|output| (index, output, true));
    let port = |(node, output, is_output)| {
        let port = graph.port(node, output)?;
        Some(NodePort {
            variable: port.name,
            size: 0,
            is_output,
            format: None,
            shape: port.shape,
            dtype: Some(port.dtype).filter(|dtype| !dtype.is_empty()),
        })
    };
    reads.chain(writes).filter_map(port).collect()
}

/// The input and output variables of a subgraph, inputs first.
fn core_ports(structure: &Structure, subgraph: &Subgraph) -> Vec<NodePort> {
    let node = structure.kelfs.get(subgraph.kelf).map(|kelf| kelf.node);
    let graph = structure.graph.as_ref().zip(node);
    let types = graph
        .map(|(graph, node)| node_ports(graph, node))
        .unwrap_or_default();
    let types: HashMap<&str, &NodePort> = types
        .iter()
        .map(|port| (port.variable.as_str(), port))
        .collect();
    let mapped: HashMap<&str, _> = subgraph
        .tensor_map
        .iter()
        .flat_map(|map| map.iter())
        .collect();
    let mut ports = Vec::new();
    for (kind, is_output) in [(VariableKind::Input, false), (VariableKind::Output, true)] {
        for (name, stored) in subgraph
            .definition
            .var
            .iter()
            .filter(|(_, it)| it.kind == kind)
        {
            let (mapped, declared) = (mapped.get(name), types.get(name));
            let format = mapped.and_then(|it| it.tf_format.as_ref().or(it.sim_format.as_ref()));
            let shape = mapped.and_then(|it| it.tf_shape.clone());
            let dtype = mapped.map(|it| it.dtype.to_string());
            ports.push(NodePort {
                variable: name.to_owned(),
                size: stored.size.unwrap_or(0),
                is_output,
                format: format.map(|format| format.to_string()),
                shape: shape
                    .or(declared.map(|port| port.shape.clone()))
                    .unwrap_or_default(),
                dtype: dtype.or(declared.and_then(|port| port.dtype.clone())),
            });
        }
    }
    ports
}

const COLUMNS: [&str; 10] = [
    "NODE",
    "Executor",
    "Name",
    "Variable",
    "Size",
    "Type",
    "Format",
    "Shape",
    "DataType",
    "TimeSeries",
];

impl fmt::Display for NodeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![COLUMNS.map(str::to_owned)];
        for node in &self.nodes {
            let mut row: [String; 10] = Default::default();
            row[0] = node.node.to_string();
            row[1] = node.executor.to_string();
            row[2] = node.name.clone();
            rows.push(row);
            rows.extend(node.ports.iter().map(|port| port_row(port, node.executor)));
        }
        let width = |column: usize| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: [usize; 10] = std::array::from_fn(width);
        writeln!(f, "NEFF Nodes:")?;
        for row in &rows {
            let cells = row
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("    {cell:>width$}"));
            writeln!(f, "{}", cells.collect::<String>().trim_end())?;
        }
        Ok(())
    }
}

fn port_row(port: &NodePort, executor: NodeExecutor) -> [String; 10] {
    let shape: Vec<String> = port.shape.iter().map(i64::to_string).collect();
    // No documented key marks an output of a core as a time series.
    let series = if port.is_output && executor == NodeExecutor::Core {
        "false"
    } else {
        ""
    };
    [
        String::new(),
        String::new(),
        String::new(),
        port.variable.clone(),
        port.size.to_string(),
        if port.is_output { "OUT" } else { "IN" }.to_owned(),
        port.format.clone().unwrap_or_default(),
        format!("[{}]", shape.join(" ")),
        port.dtype.clone().unwrap_or_default(),
        series.to_owned(),
    ]
}
