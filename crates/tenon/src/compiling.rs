//! From a model to a package, in one call.

use crate::Originals;
use std::collections::BTreeMap;
use std::path::Path;
use tenon_backend::{BackendId, CpuLevel, Registry};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_compiler::{CompiledNodes, CpuNode, Hint, MEMORY_STRATEGIES, MemoryStrategy, Placement};
use tenon_neff::{Limits, NodeGraph, Package, PlacementReport, WriteOptions};
use tenon_onnx::{CpuCall, CutGraph, Dimension, Evaluator, ImportOptions, Model as OnnxModel};
use tenon_tensor::{Buffer, BufferMut, Shape, Tensor, TensorType};

/// How to compile a model.
#[derive(Clone)]
pub struct CompileOptions {
    /// Extents of symbolic dimensions, by name.
    pub dims: BTreeMap<String, usize>,
    /// Inputs that become constants of the package.
    pub constants: BTreeMap<String, Tensor>,
    /// Inputs whose values are at hand: those of them that decide shapes become constants.
    pub available: BTreeMap<String, Tensor>,
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
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, "read", error))?;
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
        let reports = compiled.nodes.cores().map(|core| &core.tenon.placement);
        Self {
            placement: PlacementReport::of_all(reports),
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
    let import = ImportOptions {
        dims: options.dims.clone(),
        constants: options.constants.clone(),
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
    let outputs = model.signature().outputs.len();
    tenon_compiler::compile_nodes(graph, cpu_nodes, outputs, &compiler).map(Compiled::from)
}

/// Computes with these backends what branches and numbers of steps depend on.
fn evaluator(registry: &Registry) -> Evaluator {
    let registry = registry.clone();
    Evaluator::new(move |graph, control| tenon_compiler::specialise(graph, &registry, control))
}

/// Name and type of each input of a model, symbolic dimensions filled in from `dims`. All that are
/// missing are named together.
pub fn input_types(
    model: &OnnxModel,
    dims: &BTreeMap<String, usize>,
) -> Result<Vec<(String, TensorType)>> {
    let mut problems = Vec::new();
    let mut types = Vec::new();
    for input in &model.signature().inputs {
        match input_type(input, dims) {
            Ok(ty) => types.push((input.name.clone(), ty)),
            Err(error) => {
                problems.push(error.at(Location::field(format!("input '{}'", input.name))))
            }
        }
    }
    Error::from_all(problems).map_or(Ok(types), Err)
}

fn input_type(
    input: &tenon_onnx::ValueSignature,
    dims: &BTreeMap<String, usize>,
) -> Result<TensorType> {
    let refused = |what: &str| Error::new(ErrorKind::Unsupported, what.to_owned()).found(input);
    let dtype = input
        .dtype
        .ok_or_else(|| refused("an input that is no tensor of a known type"))?;
    let shape = input
        .shape
        .as_ref()
        .ok_or_else(|| refused("an input without a shape"))?;
    let extents = shape.iter().enumerate().map(|(axis, dimension)| {
        let name = match dimension {
            Dimension::Fixed(extent) => return Ok(*extent),
            Dimension::Named(name) => name.clone(),
            Dimension::Unnamed => format!("{}[{axis}]", input.name),
        };
        dims.get(&name).copied().ok_or_else(|| {
            Error::new(ErrorKind::Usage, format!("dimension '{name}' has no size"))
                .found(input)
                .help(format!("give it with --dim {name}=N"))
        })
    });
    TensorType::new(dtype, Shape::new(extents.collect::<Result<Vec<_>>>()?))
}
