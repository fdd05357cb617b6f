//! From a model to a package, in one call.

use crate::Originals;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tenon_backend::{BackendId, CpuLevel, Registry};
use tenon_base::{Control, Error, ErrorKind, Location, Result, expect_regular_file};
use tenon_compiler::{CompiledNodes, CpuNode, Hint, MEMORY_STRATEGIES, MemoryStrategy, Placement};
use tenon_neff::{Limits, NodeGraph, Package, PlacementReport, WriteOptions};
use tenon_onnx::{
    CpuCall, CutGraph, Dimension, Evaluator, ImportOptions, Model as OnnxModel, ValueSignature,
};
use tenon_tensor::{Buffer, BufferMut, Tensor, TensorType};

/// How to compile a model.
#[derive(Clone)]
pub struct CompileOptions {
    /// Extents of symbolic dimensions, by name; others are those of [`Self::available`].
    pub dims: BTreeMap<String, usize>,
    /// Inputs that become constants of the package.
    pub constants: BTreeMap<String, Tensor>,
    /// Inputs whose values are at hand: those of them that decide shapes become constants.
    pub available: BTreeMap<String, Tensor>,
    /// Folders besides the model's own that links to external data may lead into.
    pub linked_folders: Vec<PathBuf>,
    /// Who computes, first choice first.
    pub backends: Vec<BackendId>,
    /// Which backends certain nodes are offered to before.
    pub hints: Vec<Hint>,
    /// What prepared constants may rely on.
    pub cpu: CpuLevel,
    /// Keeps the plain form of constants beside a prepared one from which it follows.
    pub keep_plain: bool,
    /// How intermediate values share memory.
    pub memory_strategy: &'static dyn MemoryStrategy,
    /// Nodes of the model that functions of libraries compute, by name.
    pub cpu_nodes: BTreeMap<String, CpuLibrary>,
}

/// A function of a library that becomes part of the package.
#[derive(Debug, Clone)]
pub struct CpuLibrary {
    /// The library's bytes.
    pub library: Buffer,
    /// The function's symbol; its call signature is that of `include/tenon/cpu_node.h`.
    pub symbol: String,
}

impl CpuLibrary {
    /// The function `symbol` of the library in a file.
    pub fn open(path: impl AsRef<Path>, symbol: impl Into<String>) -> Result<Self> {
        let path = path.as_ref();
        let read = || expect_regular_file(path).and_then(|()| std::fs::read(path));
        let bytes = read().map_err(|error| Error::io(path, "read", error))?;
        Ok(Self {
            library: BufferMut::copy_of(&bytes)?.freeze(),
            symbol: symbol.into(),
        })
    }
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            dims: BTreeMap::new(),
            constants: BTreeMap::new(),
            available: BTreeMap::new(),
            linked_folders: Vec::new(),
            backends: tenon_compiler::DEFAULT_BACKENDS.to_vec(),
            hints: Vec::new(),
            cpu: CpuLevel::default(),
            keep_plain: false,
            memory_strategy: MEMORY_STRATEGIES[0],
            cpu_nodes: BTreeMap::new(),
        }
    }
}

/// A compiled model, not yet written.
#[derive(Debug, Clone)]
pub struct Compiled {
    compiled: CompiledNodes,
    /// That of all subgraphs.
    placement: PlacementReport,
}

impl From<CompiledNodes> for Compiled {
    fn from(compiled: CompiledNodes) -> Self {
        Self {
            placement: compiled.nodes.placement(),
            compiled,
        }
    }
}

impl Compiled {
    /// Writes the package: aside, then renamed, so that `path` is replaced as a whole or not at all.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        self.compiled
            .nodes
            .write(path, WriteOptions::default(), &Control::new())
            .map(drop)
    }

    /// The package's bytes, as [`Compiled::write`] writes them.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        self.compiled
            .nodes
            .to_bytes(WriteOptions::default(), &Control::new())
    }

    /// The package in memory, without a file.
    pub fn into_package(self) -> Result<Package> {
        let buffer = BufferMut::copy_of(&self.bytes()?)?.freeze();
        Package::from_buffer(buffer, &Limits::default(), &Control::new())
    }

    /// What will be in the package: its subgraphs, CPU nodes and what passes between them.
    pub fn nodes(&self) -> &NodeGraph {
        &self.compiled.nodes
    }

    /// Which backend each node runs on; its `Display` is a line. Of the first subgraph, where CPU
    /// nodes cut the model into several.
    pub fn placement(&self) -> &Placement {
        &self.compiled.parts[0].placement
    }

    /// The same of all subgraphs, as it stands in the package.
    pub fn placement_report(&self) -> &PlacementReport {
        &self.placement
    }

    /// The nodes that backends took as one, for comparing.
    pub fn originals(&self) -> Originals {
        let nodes = self
            .compiled
            .parts
            .iter()
            .flat_map(|part| &part.placement.nodes);
        let pairs = nodes.filter_map(|node| Some((node.node.clone(), node.replaced.clone()?)));
        pairs.collect()
    }

    /// The optimised graph in text, one after the other where there are several.
    pub fn graph_text(&self) -> String {
        let graphs = self
            .compiled
            .parts
            .iter()
            .map(|part| part.graph.to_string());
        graphs.collect::<Vec<_>>().join("\n")
    }
}

/// Opens an ONNX file and compiles it.
pub fn compile_file(
    path: impl AsRef<Path>,
    options: &CompileOptions,
    control: &Control,
) -> Result<Compiled> {
    let path = path.as_ref();
    let model = OnnxModel::open(path, control)?;
    compile(&model, options, control).map_err(|error| error.at(Location::file(path)))
}

/// Compiles a model with the built-in backends.
pub fn compile(model: &OnnxModel, options: &CompileOptions, control: &Control) -> Result<Compiled> {
    compile_with(model, options, &crate::backends(), control)
}

/// Compiles a model with the backends of `registry`.
pub fn compile_with(
    model: &OnnxModel,
    options: &CompileOptions,
    registry: &Registry,
    control: &Control,
) -> Result<Compiled> {
    let available = options.available.iter();
    let import = ImportOptions {
        dims: options.dims.clone(),
        constants: options.constants.clone(),
        given: available
            .map(|(name, tensor)| (name.clone(), tensor.ty().clone()))
            .collect(),
        linked_folders: options.linked_folders.clone(),
        cpu_nodes: options.cpu_nodes.keys().cloned().collect(),
        evaluator: Some(evaluator(registry)),
    };
    let CutGraph { graph, calls } = model.cut_graph(&import, control)?;
    let mut compiler = tenon_compiler::Options::new(registry);
    compiler.backends.clone_from(&options.backends);
    compiler.hints.clone_from(&options.hints);
    compiler.cpu = options.cpu;
    compiler.keep_plain = options.keep_plain;
    compiler.memory_strategy = options.memory_strategy;
    compiler.control = control.clone();
    for name in tenon_compiler::shape_inputs(&graph) {
        if let Some(value) = options.available.get(&name) {
            compiler.constants.insert(name, value.clone());
        }
    }
    let cpu_node = |call: CpuCall| {
        let given = options.cpu_nodes.get(&call.node).cloned()?;
        Some(CpuNode {
            name: call.node,
            operator: call.operator,
            attributes: call.attributes,
            inputs: call.inputs,
            outputs: call.outputs,
            library: given.library,
            symbol: given.symbol,
        })
    };
    let cpu_nodes = calls.into_iter().filter_map(cpu_node).collect();
    let outputs = &model.signature().outputs;
    let compiled = tenon_compiler::compile_nodes(graph, cpu_nodes, outputs.len(), &compiler)?;
    check_outputs(outputs, &compiled.nodes)?;
    Ok(Compiled::from(compiled))
}

/// Whether outputs have the types and extents that the model declares for them.
fn check_outputs(declared: &[ValueSignature], nodes: &NodeGraph) -> Result<()> {
    let made = nodes.outputs.iter().filter_map(|&wire| nodes.port(wire));
    let made: BTreeMap<String, _> = made.map(|port| (port.name.clone(), port)).collect();
    let contradiction = |declared: &ValueSignature| {
        let made = made.get(&declared.name)?;
        let extent = |(dimension, &extent): (&Dimension, &usize)| match dimension {
            Dimension::Fixed(declared) => *declared == extent,
            Dimension::Named(_) | Dimension::Unnamed => true,
        };
        let extents = |shape: &Vec<Dimension>| {
            shape.len() == made.shape.len() && shape.iter().zip(&made.shape).all(extent)
        };
        let fits = declared.dtype.is_none_or(|dtype| dtype == made.dtype)
            && declared.shape.as_ref().is_none_or(extents);
        let text = "the model declares another type for this output than its nodes make";
        (!fits).then(|| {
            Error::new(ErrorKind::InvalidModel, text)
                .expected(declared)
                .found(format_args!("{}{:?}", made.dtype, made.shape))
                .at(Location::field(format!("output '{}'", declared.name)))
        })
    };
    Error::from_all(declared.iter().filter_map(contradiction)).map_or(Ok(()), Err)
}

/// Computes with these backends what branches and numbers of steps depend on.
fn evaluator(registry: &Registry) -> Evaluator {
    let registry = registry.clone();
    Evaluator::new(move |graph, control| tenon_compiler::specialise(graph, &registry, control))
}

/// Name and type of each input of a model. Symbolic dimensions get their extents from `dims` and
/// from the types of arrays that inputs will be `given`; all that are missing, unknown or
/// contradictory are reported together.
pub fn input_types(
    model: &OnnxModel,
    dims: &BTreeMap<String, usize>,
    given: &BTreeMap<String, TensorType>,
) -> Result<Vec<(String, TensorType)>> {
    model.input_types(&ImportOptions {
        dims: dims.clone(),
        given: given.clone(),
        ..ImportOptions::default()
    })
}
