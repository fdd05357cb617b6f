//! Package → several nodes.

use super::{
    CPU_NODE_VERSION, CpuFunction, GraphPort, HostFunction, NodeGraph, NodeWork, PackageNode, Wire,
    attribute, invalid,
};
use crate::contents::read::read_node;
use crate::{Contents, FeatureBits, GraphNode, NEFF_JSON, NeffGraph, Package, neff_dtype};
use std::collections::HashMap;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_tensor::ValueKind;

impl NodeGraph {
    /// Reads and checks a package that Tenon made. Constants, programs and libraries stay where they
    /// are. A package of another compiler is refused with what it holds instead.
    pub fn read(package: &Package) -> Result<Self> {
        let graph: NeffGraph = package.json(NEFF_JSON)?;
        let features = package.header().feature_bits;
        if features.contains(FeatureBits::TENON_HOST_FUNCTIONS) {
            return hosted(package, &graph).map_err(|error| package.locate(error));
        }
        let computing = graph.nodes.iter().filter(|node| computes(node));
        // A single subgraph lists its inputs and outputs in its own members.
        let read = match computing.count() {
            0 | 1
                if graph
                    .nodes
                    .iter()
                    .all(|node| !computes(node) || node.kelf().is_some()) =>
            {
                return Contents::read(package).map(Self::from);
            }
            _ => several(package, &graph),
        };
        read.map_err(|error| package.locate(error))
    }
}

fn computes(node: &GraphNode) -> bool {
    *node.op != *"null"
}

/// A package whose host program calls the subgraphs.
fn hosted(package: &Package, graph: &NeffGraph) -> Result<NodeGraph> {
    let function = HostFunction::read(package)?;
    let mut nodes = Vec::new();
    for kelf in graph.nodes.iter().filter_map(|node| node.kelf()) {
        let contents = read_node(package, kelf)?;
        nodes.push(PackageNode::core(nodes.len(), Vec::new(), contents));
    }
    let (node, outputs) = (nodes.len(), 0..function.outputs.len());
    let graph = NodeGraph {
        name: package.header().name_text().into_owned(),
        inputs: function.inputs.clone(),
        outputs: outputs
            .map(|output| Wire::Output { node, output })
            .collect(),
        nodes: nodes
            .into_iter()
            .chain([PackageNode::host(function)])
            .collect(),
    };
    graph.check()?;
    Ok(graph)
}

fn several(package: &Package, graph: &NeffGraph) -> Result<NodeGraph> {
    let mut problems = Vec::new();
    let mut wires: HashMap<u32, ReadNode> = HashMap::new();
    let mut inputs = Vec::new();
    for &node in &graph.arg_nodes {
        match graph_port(graph, node, 0) {
            Ok(port) if wires.insert(node, ReadNode::Input(inputs.len())).is_none() => {
                inputs.push(port)
            }
            Ok(_) => problems.push(at(node, invalid("the input is listed twice"))),
            Err(error) => problems.push(at(node, error)),
        }
    }
    let mut nodes = Vec::new();
    for (id, node) in (0..).zip(&graph.nodes) {
        if !computes(node) {
            continue;
        }
        match package_node(package, graph, id, node, &wires) {
            Ok(node) => nodes.push(node),
            Err(error) => problems.push(at(id, error)),
        }
        // Inserted for an unreadable node as well, so that its users are not reported.
        wires.insert(id, ReadNode::Node(nodes.len().saturating_sub(1)));
    }
    if let Some(error) = Error::from_all(problems) {
        return Err(error);
    }
    let heads = graph.heads.iter().map(|&[node, output, _]| {
        wire(&wires, node, output).ok_or_else(|| {
            invalid("the head has no source")
                .found(format_args!("output {output} of node {node}"))
                .at(Location::member(NEFF_JSON))
        })
    });
    let graph = NodeGraph {
        name: package.header().name_text().into_owned(),
        inputs,
        outputs: heads.collect::<Result<_>>()?,
        nodes,
    };
    graph
        .check()
        .map_err(|error| error.at(Location::member(NEFF_JSON)))?;
    Ok(graph)
}

/// A node of the stored graph as it was read.
enum ReadNode {
    Input(usize),
    Node(usize),
}

fn wire(wires: &HashMap<u32, ReadNode>, node: u32, output: u32) -> Option<Wire> {
    match *wires.get(&node)? {
        ReadNode::Input(position) => (output == 0).then_some(Wire::Input(position)),
        ReadNode::Node(node) => Some(Wire::Output {
            node,
            output: output as usize,
        }),
    }
}

fn package_node(
    package: &Package,
    graph: &NeffGraph,
    id: u32,
    node: &GraphNode,
    wires: &HashMap<u32, ReadNode>,
) -> Result<PackageNode> {
    let inputs = node.inputs.iter().map(|&[from, output, _]| {
        wire(wires, from, output).ok_or_else(|| {
            invalid("an input has no earlier source")
                .found(format_args!("output {output} of node {from}"))
        })
    });
    let inputs = inputs.collect::<Result<_>>()?;
    let work = match node.kelf() {
        Some(kelf) => NodeWork::Core(Box::new(read_node(package, kelf)?)),
        None => NodeWork::Cpu(function(package, graph, id, node)?),
    };
    Ok(PackageNode {
        name: node.name.to_string(),
        inputs,
        work,
    })
}

fn function(
    package: &Package,
    graph: &NeffGraph,
    id: u32,
    node: &GraphNode,
) -> Result<CpuFunction> {
    let symbol = node.attribute("func_name").unwrap_or_default();
    let Some(version) = node.attribute("tenon_cpu_node") else {
        let text = format!(
            "'{}' is a CPU function ('{symbol}') of another compiler, whose call signature is not \
             known here",
            node.name
        );
        return Err(Error::new(ErrorKind::Unsupported, text)
            .help("compile the model with tenon compile --cpu-node"));
    };
    if version.parse() != Ok(CPU_NODE_VERSION) {
        let error = Error::new(
            ErrorKind::UnsupportedVersion,
            format!("CPU node '{}' has a call signature unknown here", node.name),
        );
        return Err(error.expected(CPU_NODE_VERSION).found(version));
    }
    let library = node
        .attribute("library")
        .ok_or_else(|| invalid("attrs.library is missing"))?;
    let outputs = (0..node.output_names.len() as u32).map(|output| graph_port(graph, id, output));
    Ok(CpuFunction {
        symbol: symbol.to_owned(),
        library: package.require(library)?,
        operator: node.attribute("operator").unwrap_or_default().to_owned(),
        attributes: match node.attribute("attributes") {
            Some(text) => attribute::from_text(text)?,
            None => Vec::new(),
        },
        outputs: outputs.collect::<Result<_>>()?,
    })
}

fn graph_port(graph: &NeffGraph, node: u32, output: u32) -> Result<GraphPort> {
    let port = graph
        .port(node as usize, output as usize)
        .ok_or_else(|| invalid("there is no such node or output"))?;
    let dtype = neff_dtype(&port.dtype)
        .ok_or_else(|| invalid("an unknown data type").found(format_args!("'{}'", port.dtype)))?;
    let extents = port.shape.iter().map(|&extent| {
        usize::try_from(extent).map_err(|_| invalid("a negative extent").found(extent))
    });
    Ok(GraphPort {
        shape: extents.collect::<Result<Vec<usize>>>()?.as_slice().into(),
        name: port.name,
        kind: ValueKind::Tensor,
        dtype,
    })
}

fn at(node: u32, error: Error) -> Error {
    error.at(Location {
        field: Some(format!("nodes[{node}]")),
        ..Location::member(NEFF_JSON)
    })
}
