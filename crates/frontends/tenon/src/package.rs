//! A compiled model before it is written to a file.

use crate::compare::FusedNodes;
use crate::inspect::ReferenceTime;
use crate::{LoadOptions, Model, StatePair};
use std::path::Path;
use tenon_backend::Registry;
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_compiler::{CompiledNodes, Placement};
use tenon_neff::{
    BucketInfo, Buckets, Limits, NodeGraph, NodeWork, PaddingInfo, PlacementReport, StateInfo,
    WriteOptions,
};
use tenon_tensor::Buffer;

/// The package that a [`Compiler`](crate::Compiler) made, in memory.
#[derive(Clone)]
pub struct Package {
    compiled: CompiledNodes,
    /// The placement of all subgraphs.
    placement: PlacementReport,
    control: Control,
}

impl Package {
    /// A package whose writing `control` can cancel.
    pub(crate) fn new(compiled: CompiledNodes, control: Control) -> Self {
        Self {
            placement: compiled.nodes.placement(),
            compiled,
            control,
        }
    }

    /// Sets cancellation and deadline of writing, which are those of compiling otherwise.
    #[must_use]
    pub fn control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }

    /// Gives symbols buckets, and inputs their paddings.
    pub(crate) fn set_buckets(
        &mut self,
        buckets: Vec<BucketInfo>,
        paddings: Vec<PaddingInfo>,
    ) -> Result<()> {
        let CompiledNodes { nodes, parts } = &mut self.compiled;
        let [node] = &mut nodes.nodes[..] else {
            return Err(no_buckets());
        };
        let (NodeWork::Core(contents), Some(part)) = (&mut node.work, parts.first_mut()) else {
            return Err(no_buckets());
        };
        contents.tenon.set_buckets(buckets, paddings);
        let checked = Buckets::new(&contents.tenon, &contents.tenon.symbol_table()?);
        checked.map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))?;
        part.contents.tenon = contents.tenon.clone();
        Ok(())
    }

    /// The number of optimisations that were left out because they hold for the example sizes alone.
    pub(crate) fn left_out(&self) -> usize {
        self.placement.notes.len()
    }

    /// Writes the package under a temporary name and renames it, so that `path` is replaced as a
    /// whole or not at all.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        let nodes = &self.compiled.nodes;
        let written = nodes.write(path, WriteOptions::default(), &self.control);
        written.map(drop)
    }

    /// The bytes of the package, the same that [`Self::write`] writes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(self.to_buffer()?.to_vec())
    }

    fn to_buffer(&self) -> Result<Buffer> {
        let nodes = &self.compiled.nodes;
        nodes.to_bytes(WriteOptions::default(), &self.control)
    }

    /// The package as if it was read from a file.
    pub fn to_neff(&self) -> Result<tenon_neff::Package> {
        tenon_neff::Package::from_buffer(self.to_buffer()?, &Limits::default(), &self.control)
    }

    /// Loads the package without a file.
    pub fn load(&self, options: &LoadOptions) -> Result<Model> {
        Model::from_package(&self.to_neff()?, options)
    }

    /// The contents of the package: its subgraphs, CPU nodes and the tensors between them.
    pub fn nodes(&self) -> &NodeGraph {
        &self.compiled.nodes
    }

    /// The backend of each node; its `Display` is one line. Of the first subgraph, where CPU nodes or sizes that
    /// depend on data cut the model into several; `None` if a host function computes all of it.
    pub fn placement(&self) -> Option<&Placement> {
        self.compiled.parts.first().map(|part| &part.placement)
    }

    /// The placement of all subgraphs, as it is stored in the package.
    pub fn placement_report(&self) -> &PlacementReport {
        &self.placement
    }

    /// The estimated time of nodes on the reference backend, one of `backends`, where it is over a
    /// tenth.
    pub fn reference_time(&self, backends: &Registry) -> Option<ReferenceTime> {
        let nodes = self.compiled.nodes.nodes.iter();
        let costs = nodes.flat_map(|node| match &node.work {
            NodeWork::Core(contents) => &contents.tenon.costs[..],
            NodeWork::Cpu(_) | NodeWork::Host(_) => &[],
        });
        ReferenceTime::estimate(&self.placement, costs.cloned(), backends)
    }

    /// The states that the package declares.
    pub fn states(&self) -> Vec<StatePair> {
        let parts = self.compiled.parts.iter();
        let states = parts.flat_map(|part| &part.contents.tenon.states);
        let pair = |state: &StateInfo| StatePair {
            output: state.output.clone(),
            input: state.input.clone(),
        };
        states.map(pair).collect()
    }

    /// The nodes that backends fused, for [`compare`](crate::compare).
    pub fn fused_nodes(&self) -> FusedNodes {
        let parts = self.compiled.parts.iter();
        let nodes = parts.flat_map(|part| &part.placement.nodes);
        let pairs = nodes.filter_map(|node| Some((node.node.clone(), node.replaced.clone()?)));
        pairs.collect()
    }

    /// The optimised graphs of all subgraphs as text, one after the other.
    pub fn graph_text(&self) -> String {
        let parts = self.compiled.parts.iter();
        let graphs: Vec<String> = parts.map(|part| part.graph.to_string()).collect();
        graphs.join("\n")
    }
}

fn no_buckets() -> Error {
    let text = "a model with sizes that depend on data, control flow or CPU nodes has no buckets";
    Error::new(ErrorKind::Unsupported, text).help("compile it without --bucket and --pad")
}

impl std::fmt::Debug for Package {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Package")
            .field("placement", &self.placement)
            .finish_non_exhaustive()
    }
}
