//! A model: the decoded file, before it becomes a graph.

use crate::external::ExternalFiles;
use crate::proto::{GraphProto, ModelProto};
use crate::{Evaluator, Signature, dimension, import};
use bytes::Bytes;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_graph::{Attributes, Graph};
use tenon_tensor::{Buffer, Tensor, TensorType};

/// What the caller decides about a model before it becomes a graph.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Extents of symbolic dimensions, by name; one that the model does not name is `INPUT[AXIS]`.
    pub dims: BTreeMap<String, usize>,
    /// Inputs that become constants of the graph, by name.
    pub constants: BTreeMap<String, Tensor>,
    /// Types of arrays that inputs will be given, by name: symbolic dimensions get their extents.
    pub given: BTreeMap<String, TensorType>,
    /// Folders besides the model's own that links to external data may lead into.
    pub linked_folders: Vec<PathBuf>,
    /// Nodes that something outside of the graph computes, by name: their operators need not be
    /// known, but the types of their outputs must be declared.
    pub cpu_nodes: BTreeSet<String>,
    /// Computes what branches and numbers of steps depend on; without one they must be constants.
    pub evaluator: Option<Evaluator>,
}

/// A node that something outside of the graph computes.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuCall {
    /// Its name.
    pub node: String,
    /// Its operator, with the domain where it is not ONNX's own.
    pub operator: String,
    /// What the model gives it besides tensors.
    pub attributes: Attributes,
    /// Names of the values that it reads, outputs of the graph.
    pub inputs: Vec<String>,
    /// Names of the values that it makes, inputs of the graph.
    pub outputs: Vec<String>,
}

/// A graph, and the nodes left out of it.
#[derive(Debug, Clone)]
pub struct CutGraph {
    /// Its inputs are the model's, then what the calls make; its outputs are the model's, then what
    /// the calls read besides.
    pub graph: Graph,
    /// The calls, each after those that it needs.
    pub calls: Vec<CpuCall>,
}

/// An ONNX model: decoded, its signature known, its nodes not yet looked at.
pub struct Model {
    proto: ModelProto,
    path: Option<PathBuf>,
    signature: Signature,
}

/// Lends a buffer's memory to the decoder.
struct Memory(Buffer);

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Model {
    /// Maps and decodes the file at `path`. Tensors of the model share the mapping.
    pub fn open(path: impl AsRef<Path>, control: &Control) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error| Error::io(path, "read", error);
        // Before opening: opening a pipe would wait for its other end.
        if !path.metadata().map_err(failed)?.is_file() {
            return Err(
                Error::new(ErrorKind::Io, "cannot read: not a file").at(Location::file(path))
            );
        }
        let buffer = File::open(path)
            .and_then(|file| Buffer::map(&file))
            .map_err(failed)?;
        let bytes = Bytes::from_owner(Memory(buffer));
        Self::decode(bytes, Some(path), control).map_err(|error| error.at(Location::file(path)))
    }

    /// Decodes a model from memory. It cannot keep data in other files.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>, control: &Control) -> Result<Self> {
        Self::decode(Bytes::from(bytes.into()), None, control)
    }

    fn decode(bytes: Bytes, path: Option<&Path>, control: &Control) -> Result<Self> {
        control.progress("read model", 0, bytes.len() as u64)?;
        crate::wire::check(&bytes)?;
        let proto = ModelProto::decode(bytes).map_err(|error| {
            Error::new(
                ErrorKind::InvalidModel,
                format!("not an ONNX model: {error}"),
            )
        })?;
        let signature = Signature::new(&proto, graph(&proto)?)?;
        control.check()?;
        Ok(Self {
            proto,
            path: path.map(Path::to_owned),
            signature,
        })
    }

    /// Inputs, outputs, operator sets, counts, metadata.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Name and type of each input, with the extents of `options`; those given as constants have
    /// their constant's type. All dimensions that lack an extent are reported together, and so is
    /// what contradicts.
    pub fn input_types(&self, options: &ImportOptions) -> Result<Vec<(String, TensorType)>> {
        let inputs = &self.signature.inputs;
        let types = dimension::input_types(inputs, options).map_err(|error| self.here(error))?;
        let names = inputs.iter().map(|input| input.name.clone());
        Ok(names.zip(types).collect())
    }

    /// The model as a graph of the newest operators: symbolic dimensions filled in, functions
    /// inlined, older operators upgraded, constants read. Inner values have no types yet. All
    /// problems of the model are reported together. Of [`ImportOptions::cpu_nodes`] there must be
    /// none: see [`Model::cut_graph`].
    pub fn graph(&self, options: &ImportOptions, control: &Control) -> Result<Graph> {
        let CutGraph { graph, calls } = self.cut_graph(options, control)?;
        match calls.first() {
            None => Ok(graph),
            Some(call) => Err(Error::new(
                ErrorKind::InvalidArgument,
                "a graph alone cannot hold a node that is computed elsewhere",
            )
            .at(Location::node(&call.node))),
        }
    }

    /// The same, with the nodes of [`ImportOptions::cpu_nodes`] cut out of it.
    pub fn cut_graph(&self, options: &ImportOptions, control: &Control) -> Result<CutGraph> {
        let folder = self
            .path
            .as_deref()
            .and_then(Path::parent)
            .map(Path::to_owned);
        let files = match folder {
            Some(folder) => ExternalFiles::in_folder(folder, &options.linked_folders)?,
            None => ExternalFiles::none(),
        };
        let graph = graph(&self.proto).and_then(|graph| {
            import::graph(
                &self.proto,
                graph,
                &self.signature,
                options,
                &files,
                control,
            )
        });
        graph.map_err(|error| self.here(error))
    }

    fn here(&self, error: Error) -> Error {
        match &self.path {
            Some(path) => error.at(Location::file(path)),
            None => error,
        }
    }
}

fn graph(model: &ModelProto) -> Result<&GraphProto> {
    model.graph.as_deref().ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidModel,
            "not an ONNX model: the file holds no graph",
        )
    })
}
