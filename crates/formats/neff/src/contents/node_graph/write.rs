//! Several nodes → package.

use super::{
    CPU_NODE_VERSION, GraphPort, HostFunction, NodeGraph, NodeWork, PackageNode, Wire, attribute,
};
use crate::contents::WriteOptions;
use crate::contents::write::{NodeFiles, PackageMembers, write_file};
use crate::graph::{ComputingNode, KELF_FUNCTION, TypedPort};
use crate::{Contents, FeatureBits, Header, NeffGraph};
use std::path::Path;
use tenon_base::{Control, Result};
use tenon_tensor::Buffer;

/// The function of the node of a host program.
const HOST_FUNCTION: &str = "tenon.host";

/// The record of a node in `neff.json`, without inputs and outputs.
struct NodeRecord {
    name: String,
    function: String,
    attrs: Vec<(&'static str, String)>,
}

impl NodeGraph {
    /// Writes the package to a temporary file that replaces `path` when it is complete. Equal graphs
    /// give equal bytes.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        options: WriteOptions,
        control: &Control,
    ) -> Result<Header> {
        let checked = self.check().and_then(|()| self.members());
        write_file(checked, path.as_ref(), options, control)
    }

    /// The package's bytes.
    pub fn to_bytes(&self, options: WriteOptions, control: &Control) -> Result<Buffer> {
        self.check()?;
        self.members()?.to_bytes(options, control)
    }

    fn members(&self) -> Result<PackageMembers<'_>> {
        let mut libraries = Libraries::default();
        let mut cores = 0;
        let nodes = self.nodes.iter();
        let records: Vec<NodeRecord> = nodes
            .map(|node| record(node, &mut cores, &mut libraries))
            .collect();
        let program = FeatureBits::TENON_HOST_PROGRAM;
        let (features, files) = if self.host().is_some() {
            let cores = self.cores().map(Contents::features);
            let features = cores.fold(program, |all, features| all | features);
            let features = features | FeatureBits::TENON_HOST_FUNCTIONS;
            (features, NodeFiles::all(self.cores()))
        } else if self.is_one_core() {
            (
                self.cores()
                    .map(Contents::features)
                    .fold(program, |all, features| all | features),
                vec![NodeFiles::of(0)],
            )
        } else {
            let features = program | FeatureBits::TENON_CPU_NODES;
            (features, NodeFiles::all(self.cores()))
        };
        let host = self.host().map(HostFunction::members).transpose()?;
        Ok(PackageMembers {
            name: &self.name,
            features,
            graph: self.graph(&records),
            cores: self.cores().zip(files).collect(),
            others: libraries
                .0
                .into_iter()
                .chain(host.into_iter().flatten())
                .collect(),
        })
    }

    /// The graph of `neff.json`: inputs are its first nodes.
    fn graph(&self, records: &[NodeRecord]) -> NeffGraph {
        let first = self.inputs.len();
        let wire = |wire: &Wire| match *wire {
            Wire::Input(position) => [position as u32, 0, 0],
            Wire::Output { node, output } => [(first + node) as u32, output as u32, 0],
        };
        let outputs = self.nodes.iter().map(|node| node.work.outputs().collect());
        let outputs: Vec<Vec<GraphPort>> = outputs.collect();
        let nodes = self.nodes.iter().zip(records).zip(&outputs);
        let nodes: Vec<ComputingNode<'_>> = nodes
            .map(|((node, record), outputs)| ComputingNode {
                name: &record.name,
                function: &record.function,
                attrs: record
                    .attrs
                    .iter()
                    .map(|(key, value)| (*key, value.as_str()))
                    .collect(),
                inputs: node.inputs.iter().map(wire).collect(),
                outputs: ported(outputs),
            })
            .collect();
        let heads = self.outputs.iter().map(wire).collect();
        NeffGraph::of_nodes(&ported(&self.inputs), &nodes, heads)
    }
}

/// The distinct libraries of a package, with the names of their members.
#[derive(Default)]
struct Libraries(Vec<(String, Buffer)>);

impl Libraries {
    fn member(&mut self, library: &Buffer) -> &str {
        let known = self
            .0
            .iter()
            .position(|(_, known)| known[..] == library[..]);
        let at = known.unwrap_or_else(|| {
            let name = format!("cpu_nodes/{}.so", self.0.len());
            self.0.push((name, library.clone()));
            self.0.len() - 1
        });
        &self.0[at].0
    }
}

fn record(node: &PackageNode, cores: &mut usize, libraries: &mut Libraries) -> NodeRecord {
    match &node.work {
        NodeWork::Core(_) => {
            let files = NodeFiles::of(*cores);
            *cores += 1;
            NodeRecord {
                name: files.name().to_owned(),
                function: KELF_FUNCTION.to_owned(),
                attrs: vec![("kelf", files.kelf)],
            }
        }
        NodeWork::Host(_) => NodeRecord {
            name: node.name.clone(),
            function: HOST_FUNCTION.to_owned(),
            attrs: Vec::new(),
        },
        NodeWork::Cpu(function) => NodeRecord {
            name: node.name.clone(),
            function: function.symbol.clone(),
            attrs: attribute::to_text(&function.attributes)
                .map(|text| ("attributes", text))
                .into_iter()
                .chain([
                    ("library", libraries.member(&function.library).to_owned()),
                    ("operator", function.operator.clone()),
                    ("tenon_cpu_node", CPU_NODE_VERSION.to_string()),
                ])
                .collect(),
        },
    }
}

fn ported(ports: &[GraphPort]) -> Vec<TypedPort<'_>> {
    let ported = ports
        .iter()
        .map(|port| (port.name.as_str(), port.dtype, port.shape.to_neff()));
    ported.collect()
}
