//! Several nodes → package.

use super::{CPU_NODE_VERSION, GraphPort, NodeGraph, NodeWork, PackageNode, Wire, attribute};
use crate::contents::WriteOptions;
use crate::contents::write::{NodeFiles, header, write_file, write_head};
use crate::graph::{ComputingNode, KELF_FUNCTION, TypedPort};
use crate::{FeatureBits, Header, NeffGraph, PackageWriter, Target};
use std::path::Path;
use tenon_base::{Control, Result};
use tenon_tensor::Buffer;

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
        write_file(path.as_ref(), self.header(options), |writer| {
            self.check()?;
            self.write_to(writer, control)
        })
    }

    /// The package's bytes.
    pub fn to_bytes(&self, options: WriteOptions, control: &Control) -> Result<Vec<u8>> {
        self.check()?;
        let writer = PackageWriter::in_memory(self.header(options)?)?.with_digests();
        Ok(self.write_to(writer, control)?.0)
    }

    fn header(&self, options: WriteOptions) -> Result<Header> {
        let mut header = header(&self.name, options)?;
        if !self.is_one_core() {
            header.feature_bits = header.feature_bits | FeatureBits::TENON_CPU_NODES;
        }
        Ok(header)
    }

    fn write_to<W: Target>(
        &self,
        mut writer: PackageWriter<W>,
        control: &Control,
    ) -> Result<(W::Output, Header)> {
        let mut libraries = Libraries::default();
        let mut cores = 0;
        let nodes = self.nodes.iter();
        let stored: Vec<NodeRecord> = nodes
            .map(|node| stored(node, &mut cores, &mut libraries))
            .collect();
        write_head(&mut writer, &self.name, &self.graph(&stored))?;
        let files = if self.is_one_core() {
            vec![NodeFiles::of(0)]
        } else {
            NodeFiles::all(self.cores())
        };
        for (contents, files) in self.cores().zip(&files) {
            contents.write_node(&mut writer, files, control)?;
        }
        for (name, library) in libraries.0 {
            writer.add(&name, library)?;
        }
        writer.finish()
    }

    /// The graph of `neff.json`: inputs are its first nodes.
    fn graph(&self, stored: &[NodeRecord]) -> NeffGraph {
        let first = self.inputs.len();
        let wire = |wire: &Wire| match *wire {
            Wire::Input(position) => [position as u32, 0, 0],
            Wire::Output { node, output } => [(first + node) as u32, output as u32, 0],
        };
        let outputs = self.nodes.iter().map(|node| node.work.outputs().collect());
        let outputs: Vec<Vec<GraphPort>> = outputs.collect();
        let nodes = self.nodes.iter().zip(stored).zip(&outputs);
        let nodes: Vec<ComputingNode<'_>> = nodes
            .map(|((node, stored), outputs)| ComputingNode {
                name: &stored.name,
                function: &stored.function,
                attrs: stored
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
struct Libraries<'a>(Vec<(String, &'a Buffer)>);

impl<'a> Libraries<'a> {
    fn member(&mut self, library: &'a Buffer) -> &str {
        let known = self
            .0
            .iter()
            .position(|(_, known)| known[..] == library[..]);
        let at = known.unwrap_or_else(|| {
            self.0
                .push((format!("cpu_nodes/{}.so", self.0.len()), library));
            self.0.len() - 1
        });
        &self.0[at].0
    }
}

fn stored<'a>(
    node: &'a PackageNode,
    cores: &mut usize,
    libraries: &mut Libraries<'a>,
) -> NodeRecord {
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
        .map(|port| (port.name.as_str(), port.dtype, &port.shape[..]));
    ported.collect()
}
