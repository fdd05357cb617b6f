//! A decoded model file.

use crate::files::ModelFiles;
use crate::proto::{GraphProto, ModelProto};
use crate::{Evaluator, Signature, dimension, import, weights};
use bytes::Bytes;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_graph::{Attributes, Graph};
use tenon_tensor::{Buffer, Tensor, TensorType};

/// Options of an import.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Extents of symbolic dimensions, by name; an unnamed one is `INPUT[AXIS]`.
    pub dims: BTreeMap<String, usize>,
    /// Inputs that become constants of the graph, by name.
    pub constants: BTreeMap<String, Tensor>,
    /// Ranges of symbolic dimensions, by name, for those that stay symbolic; others are of any size.
    pub ranges: BTreeMap<String, RangeInclusive<u64>>,
    /// Keeps symbolic dimensions without an extent: the graph's symbols. `None` makes them errors.
    pub symbolic: Option<ExampleSizes>,
    /// Types of arrays for inputs, by name: they determine symbolic dimensions.
    pub given: BTreeMap<String, TensorType>,
    /// Folders, besides the model's, into which symbolic links to external data may lead.
    pub linked_folders: Vec<PathBuf>,
    /// CPU nodes, which are computed outside of the graph, by name: their operators may be unknown, but
    /// the types of their outputs must be declared.
    pub cpu_nodes: BTreeSet<String>,
    /// Evaluates conditions of branches and trip counts; without it they must be constants.
    pub evaluator: Option<Evaluator>,
}

/// The sizes of symbolic dimensions while a model is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExampleSizes {
    /// Different primes.
    Primes,
    /// Different multiples of 32: for models that halve an image several times.
    MultiplesOf32,
    /// Different primes below 32: for models with small tables of positions.
    SmallPrimes,
    /// Different large primes: for models whose windows and strides leave little of a signal.
    LargePrimes,
}

/// A CPU node, which is computed outside of the graph.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuCall {
    /// Its name.
    pub node: String,
    /// Its operator, with the domain if that is not ONNX's.
    pub operator: String,
    /// Its attributes.
    pub attributes: Attributes,
    /// Names of the values that it reads, outputs of the graph.
    pub inputs: Vec<String>,
    /// Names of the values that it produces, inputs of the graph.
    pub outputs: Vec<String>,
}

/// A graph, and the CPU nodes removed from it.
#[derive(Debug, Clone)]
pub struct PartitionedGraph {
    /// Its inputs are those of the model, then the outputs of the calls; its outputs are those of the
    /// model, then the other inputs of the calls.
    pub graph: Graph,
    /// The calls in topological order.
    pub calls: Vec<CpuCall>,
}

/// An ONNX model: decoded, with its signature; nodes are not checked yet.
pub struct Model {
    proto: ModelProto,
    path: Option<PathBuf>,
    /// The mapped file at `path`.
    mapping: Option<Buffer>,
    signature: Signature,
    /// Values of initialisers from other files, of their types.
    weights: BTreeMap<String, Tensor>,
}

impl Model {
    /// Maps and decodes the file at `path`. Tensors of the model share the mapping.
    pub fn open(path: impl AsRef<Path>, control: &Control) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error| Error::io(path, "read", error);
        // Before `open`, which would block on a pipe.
        if !path.metadata().map_err(failed)?.is_file() {
            return Err(
                Error::new(ErrorKind::Io, "cannot read: not a file").at(Location::file(path))
            );
        }
        let buffer = File::open(path)
            .and_then(|file| Buffer::map(&file))
            .map_err(failed)?;
        let bytes = Bytes::from_owner(buffer.clone());
        let model = Self::decode(bytes, Some(path), control);
        let model = model.map_err(|error| error.at(Location::file(path)))?;
        Ok(Self {
            mapping: Some(buffer),
            ..model
        })
    }

    /// Decodes a model from memory. External data is an error.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>, control: &Control) -> Result<Self> {
        Self::decode(Bytes::from(bytes.into()), None, control)
    }

    /// A model from its message, as after decoding. External data is an error.
    pub fn from_proto(proto: ModelProto) -> Result<Self> {
        let signature = Signature::new(&proto, graph(&proto)?)?;
        Ok(Self {
            proto,
            path: None,
            mapping: None,
            signature,
            weights: BTreeMap::new(),
        })
    }

    /// A model that was converted from the file at `path`, of another format: errors name that file.
    pub fn converted(proto: ModelProto, path: &Path) -> Result<Self> {
        let model = Self::from_proto(proto);
        let model = model.map_err(|error| error.at(Location::file(path)))?;
        Ok(Self {
            path: Some(path.to_owned()),
            ..model
        })
    }

    /// The message with the data of all tensors inside, which are read from their files. They share the mappings where
    /// they can.
    pub fn self_contained(&self, linked_folders: &[PathBuf]) -> Result<ModelProto> {
        let files = self.files(linked_folders)?;
        let mut proto = self.proto.clone();
        if let Some(graph) = proto.graph.as_deref_mut() {
            weights::embed(graph, &self.weights)?;
            crate::tensor::embed(graph, &files).map_err(|error| self.at_path(error))?;
        }
        Ok(proto)
    }

    /// Gives initialisers and inputs of these names their values; such inputs become initialisers. Elements are widened
    /// to the type of the model where that is exact. Names that the model does not have are left out.
    ///
    /// # Errors
    /// Values of other types or shapes, all together.
    pub fn set_weights(&mut self, weights: &BTreeMap<String, Tensor>) -> Result<()> {
        let fitted = weights::fitted(&self.signature, weights);
        let fitted = fitted.map_err(|error| self.at_path(error))?;
        if let Some(graph) = self.proto.graph.as_deref_mut() {
            weights::declare(graph, &fitted)?;
        }
        self.signature = Signature::new(&self.proto, graph(&self.proto)?)?;
        self.weights.extend(fitted);
        Ok(())
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
        let model = Self::from_proto(proto)?;
        control.check()?;
        Ok(Self {
            path: path.map(Path::to_owned),
            ..model
        })
    }

    /// Inputs, outputs, operator sets, counts, metadata.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Name and type of each input that is a tensor, with the extents of `options`; inputs with a constant have its type.
    /// All missing and contradictory dimensions are reported together.
    pub fn input_types(&self, options: &ImportOptions) -> Result<Vec<(String, TensorType)>> {
        let inputs = &self.signature.inputs;
        let types = dimension::input_types(inputs, options).map_err(|error| self.at_path(error))?;
        let tensors = inputs.iter().filter(|input| input.kind.is_tensor());
        let names = tensors.map(|input| input.name.clone());
        Ok(names.zip(types.types).collect())
    }

    /// The model as a graph of the newest operators: symbolic dimensions substituted, functions
    /// inlined, older operators upgraded, constants read. Inner values have no types yet. All
    /// problems of the model are reported together. [`ImportOptions::cpu_nodes`] must be empty: see
    /// [`Model::cut_graph`].
    pub fn graph(&self, options: &ImportOptions, control: &Control) -> Result<Graph> {
        let PartitionedGraph { graph, calls } = self.cut_graph(options, control)?;
        match calls.first() {
            None => Ok(graph),
            Some(call) => Err(Error::new(
                ErrorKind::InvalidArgument,
                "a graph cannot contain a CPU node",
            )
            .at(Location::node(&call.node))),
        }
    }

    /// The graph without the nodes of [`ImportOptions::cpu_nodes`], which are returned separately.
    pub fn cut_graph(
        &self,
        options: &ImportOptions,
        control: &Control,
    ) -> Result<PartitionedGraph> {
        let files = self.files(&options.linked_folders)?;
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
        graph.map_err(|error| self.at_path(error))
    }

    /// The files with data of the model.
    fn files(&self, linked_folders: &[PathBuf]) -> Result<ModelFiles> {
        let folder = self.path.as_deref().and_then(Path::parent);
        let files = match folder {
            Some(folder) => ModelFiles::in_folder(folder.to_owned(), linked_folders)?,
            None => ModelFiles::none(),
        };
        Ok(files
            .with_model(self.mapping.clone())
            .with_weights(self.weights.clone()))
    }

    fn at_path(&self, error: Error) -> Error {
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
