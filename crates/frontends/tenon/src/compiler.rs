//! Compiling: from an ONNX or LiteRT model to a package.

use crate::{OpenOptions, Package, StatePair, Weights};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use tenon_backend::{BackendId, CpuLevel, Registry};
use tenon_base::{Control, Error, ErrorKind, Location, Result, expect_regular_file};
use tenon_compiler::{CpuNode, Precisions};
use tenon_neff::{BucketInfo, Extent, NodeGraph, PaddingInfo};
use tenon_onnx::{
    CpuCall, Dimension, Evaluator, ExampleSizes, ImportOptions, Model as OnnxModel,
    PartitionedGraph, ValueSignature,
};
use tenon_tensor::{Buffer, BufferMut, Tensor, TensorType};

pub use tenon_compiler::{
    Hint, MEMORY_STRATEGIES, MemoryStrategy, Precision, PrecisionRule, StateSelection,
    memory_strategy,
};

/// Compiles ONNX and LiteRT models. Set what differs from the defaults, then call one of the `compile` methods;
/// a compiler can be used for several models.
///
/// ```
/// use tenon::{BackendId, Compiler, LoadOptions};
///
/// # let onnx = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits/digits.onnx");
/// let compiler = Compiler::new().backend("CpuAcc").backend("CpuRef");
/// let package = compiler.compile_file(onnx)?;
/// println!("{}", package.placement_report());
/// let model = package.load(&LoadOptions::new().threads(1))?;
/// # assert_eq!(model.inputs()[0].name, "image");
/// # Ok::<(), tenon::Error>(())
/// ```
#[derive(Clone)]
pub struct Compiler {
    dims: BTreeMap<String, usize>,
    ranges: BTreeMap<String, RangeInclusive<u64>>,
    buckets: BTreeMap<String, Vec<u64>>,
    paddings: BTreeMap<String, String>,
    symbolic: bool,
    constants: BTreeMap<String, Tensor>,
    known_inputs: BTreeMap<String, Tensor>,
    linked_folders: Vec<PathBuf>,
    /// Empty for the default ones.
    backends: Vec<BackendId>,
    hints: Vec<Hint>,
    precisions: Precisions,
    cpu_level: CpuLevel,
    keep_plain_constants: bool,
    memory_strategy: &'static dyn MemoryStrategy,
    states: StateSelection,
    cpu_nodes: BTreeMap<String, LibraryFunction>,
    registry: Option<Registry>,
    signature: Option<String>,
    weights: Weights,
    control: Control,
}

/// A function of a shared library that becomes part of the package.
#[derive(Debug, Clone)]
pub struct LibraryFunction {
    /// The library's bytes.
    pub library: Buffer,
    /// The function's symbol; its signature is that of `include/tenon/cpu_node.h`.
    pub symbol: String,
}

impl LibraryFunction {
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

impl Default for Compiler {
    fn default() -> Self {
        Self {
            dims: BTreeMap::new(),
            ranges: BTreeMap::new(),
            buckets: BTreeMap::new(),
            paddings: BTreeMap::new(),
            symbolic: true,
            constants: BTreeMap::new(),
            known_inputs: BTreeMap::new(),
            linked_folders: Vec::new(),
            backends: Vec::new(),
            hints: Vec::new(),
            precisions: Precisions::default(),
            cpu_level: CpuLevel::default(),
            keep_plain_constants: false,
            memory_strategy: MEMORY_STRATEGIES[0],
            states: StateSelection::None,
            cpu_nodes: BTreeMap::new(),
            registry: None,
            signature: None,
            weights: Weights::default(),
            control: Control::new(),
        }
    }
}

impl Compiler {
    /// A compiler for the built-in backends, with default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// The backends that models are compiled for by default, in order of preference.
    pub fn default_backends() -> Vec<BackendId> {
        tenon_compiler::DEFAULT_BACKENDS.to_vec()
    }

    /// Sets the extent of a symbolic dimension. Dimensions without one, here or from an array given with
    /// [`Self::known_input`], stay symbolic: their sizes are known when the model runs.
    #[must_use]
    pub fn dim(mut self, name: impl Into<String>, extent: usize) -> Self {
        self.dims.insert(name.into(), extent);
        self
    }

    /// Gives a symbolic dimension buckets, ascending: the sizes at which the model is executed. Without
    /// [`Self::dim_range`] its sizes are from 1 to the last bucket. Sizes between buckets need a [`Self::pad`] of each
    /// input with the dimension. libnrt makes the instances of all buckets when it loads the package.
    ///
    /// ```no_run
    /// use tenon::Compiler;
    ///
    /// let compiler = Compiler::new().dim("batch", 1).bucket("sequence", [64, 128, 256]);
    /// let compiler = compiler.pad("input_ids", 0).pad("attention_mask", 0);
    /// compiler.compile_file("bert.onnx")?.write("bert.neff")?;
    /// # Ok::<(), tenon::Error>(())
    /// ```
    #[must_use]
    pub fn bucket(mut self, name: impl Into<String>, sizes: impl IntoIterator<Item = u64>) -> Self {
        self.buckets
            .insert(name.into(), sizes.into_iter().collect());
        self
    }

    /// Sets the value that an input is padded with, at the end of each dimension, up to the next bucket. Outputs are
    /// cut to the actual sizes. Only the author of a model knows whether its results stay the same: with a mask that
    /// excludes the padding, or if positions do not depend on each other.
    #[must_use]
    pub fn pad(mut self, input: impl Into<String>, value: impl std::fmt::Display) -> Self {
        self.paddings.insert(input.into(), value.to_string());
        self
    }

    /// Sets the range of a symbolic dimension that stays symbolic; of any size from 1 on otherwise.
    #[must_use]
    pub fn dim_range(mut self, name: impl Into<String>, range: RangeInclusive<u64>) -> Self {
        self.ranges.insert(name.into(), range);
        self
    }

    setters! {
        /// Whether dimensions without an extent stay symbolic, as they do by default; else they are errors.
        symbolic: bool,
        /// The instruction sets that the layout of prepared constants may rely on.
        cpu_level: CpuLevel,
        /// Whether the plain form of constants is kept beside a prepared form from which it can be
        /// computed.
        keep_plain_constants: bool,
        /// How intermediate values share memory.
        memory_strategy: &'static dyn MemoryStrategy,
        /// Which outputs are inputs of the next execution: [`Model::session`](crate::Model::session) keeps them. The cache
        /// of a decoder, to which a Concat appends, gets the layout in which it grows in place if its batch is fixed to 1: the
        /// growing dimension is the first one with more than one element, in [`Model::inputs`](crate::Model::inputs) and
        /// outputs too. Packages with CPU nodes, or of models with control flow or sizes that depend on data, declare no states.
        states: StateSelection,
        /// Values of the model's initialisers, and of inputs, which become constants. They have no effect on
        /// [`Self::compile_model`], whose model is opened already.
        weights: Weights,
        /// Progress, cancellation and deadline of compiling.
        control: Control,
    }

    /// Makes an input a constant of the package.
    #[must_use]
    pub fn constant(mut self, input: impl Into<String>, value: Tensor) -> Self {
        self.constants.insert(input.into(), value);
        self
    }

    /// Gives the value that an input will have. Its shape fixes symbolic dimensions; it becomes a
    /// constant if shapes depend on its elements; one of floats, such as an image, only where the model does not compile
    /// otherwise.
    #[must_use]
    pub fn known_input(mut self, input: impl Into<String>, value: Tensor) -> Self {
        self.known_inputs.insert(input.into(), value);
        self
    }

    /// Allows links to external data to lead into this folder, besides the model's own.
    #[must_use]
    pub fn linked_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.linked_folders.push(folder.into());
        self
    }

    /// The folders of [`Self::linked_folder`].
    pub(crate) fn linked_folders(&self) -> &[PathBuf] {
        &self.linked_folders
    }

    /// Adds a backend behind those chosen so far. The first call replaces
    /// [`Self::default_backends`].
    #[must_use]
    pub fn backend(mut self, id: impl Into<BackendId>) -> Self {
        self.backends.push(id.into());
        self
    }

    /// Replaces the backends, in order of preference; none chosen means the default ones.
    #[must_use]
    pub fn backends<I: Into<BackendId>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.backends = ids.into_iter().map(Into::into).collect();
        self
    }

    /// Offers the nodes of a name to one backend before all others. The first hint that matches a
    /// node counts.
    #[must_use]
    pub fn hint(mut self, hint: Hint) -> Self {
        self.hints.push(hint);
        self
    }

    /// The precision of matrix products and convolutions of f32: the type of their constant weights, and of embeddings
    /// (docs/precision.md). All other tensors and sums stay f32.
    ///
    /// ```
    /// use tenon::{Compiler, Precision};
    ///
    /// # let onnx = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../models/digits/digits.onnx");
    /// let compiler = Compiler::new().precision(Precision::Bf16);
    /// let package = compiler.precision_rule("*conv1*=f32".parse()?).compile_file(onnx)?;
    /// let weights = package.placement_report().nodes.iter();
    /// assert!(weights.filter(|node| node.weights.as_deref() == Some("bf16")).count() > 0);
    /// # Ok::<(), tenon::Error>(())
    /// ```
    #[must_use]
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precisions.all = precision;
        self
    }

    /// Adds a precision of some nodes, which counts before that of all; the first one that matches counts. An error when
    /// compiling if it matches no node.
    #[must_use]
    pub fn precision_rule(mut self, rule: PrecisionRule) -> Self {
        self.precisions.add(rule);
        self
    }

    /// Replaces a node of the model by a function of a shared library.
    #[must_use]
    pub fn cpu_node(mut self, node: impl Into<String>, function: LibraryFunction) -> Self {
        self.cpu_nodes.insert(node.into(), function);
        self
    }

    /// Compiles with the backends of a registry instead of the built-in ones.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Compiles this signature of a LiteRT model instead of its first one. It has no effect on
    /// [`Self::compile_model`], whose model is opened already.
    #[must_use]
    pub fn signature(mut self, name: impl Into<String>) -> Self {
        self.signature = Some(name.into());
        self
    }

    /// How [`Self::compile_file`] opens files: with the signature, the weights and the control of this compiler.
    pub fn open_options(&self) -> OpenOptions {
        let mut options = OpenOptions::new().control(self.control.clone());
        options.signature.clone_from(&self.signature);
        options.weights.clone_from(&self.weights);
        options
    }

    /// Opens and compiles an ONNX or LiteRT file.
    ///
    /// # Errors
    /// A file that cannot be read or is malformed, symbolic dimensions without an extent, operators
    /// that no chosen backend supports. All problems of a model are reported together.
    pub fn compile_file(&self, path: impl AsRef<Path>) -> Result<Package> {
        let path = path.as_ref();
        let model = self.open_options().open_model(path)?;
        let compiled = self.compile_model(&model);
        compiled.map_err(|error| error.at(Location::file(path)))
    }

    /// Compiles the bytes of an ONNX or LiteRT file. External data is not available.
    ///
    /// # Errors
    /// As [`Self::compile_file`].
    pub fn compile_bytes(&self, onnx: impl Into<Vec<u8>>) -> Result<Package> {
        self.compile_model(&self.open_options().model_from_bytes(onnx)?)
    }

    /// Compiles an opened model.
    ///
    /// # Errors
    /// As [`Self::compile_file`].
    pub fn compile_model(&self, model: &OnnxModel) -> Result<Package> {
        let mut compiled = self.compile_for_sizes(model)?;
        if !self.buckets.is_empty() || !self.paddings.is_empty() {
            let bucket = |(symbol, sizes): (&String, &Vec<u64>)| BucketInfo {
                symbol: symbol.clone(),
                sizes: sizes.clone(),
            };
            let padding = |(input, value): (&String, &String)| PaddingInfo {
                input: input.clone(),
                value: value.clone(),
            };
            let buckets = self.buckets.iter().map(bucket).collect();
            compiled.set_buckets(buckets, self.paddings.iter().map(padding).collect())?;
        }
        Ok(compiled)
    }

    fn compile_for_sizes(&self, model: &OnnxModel) -> Result<Package> {
        let registry = self.registry.clone();
        let registry = &registry.unwrap_or_else(tenon_builtin::registry);
        let has_other_inputs = model
            .signature()
            .inputs
            .iter()
            .any(|it| !it.kind.is_tensor());
        // Functions of libraries take tensors of fixed shapes.
        if !self.cpu_nodes.is_empty() || (!self.symbolic && has_other_inputs) {
            return self.compile_with(model, registry, None, false);
        }
        // Sizes that depend on data have examples, whether or not there are symbols.
        let has_symbols = match self.fixed_types(model) {
            Ok(_) => has_other_inputs,
            Err(error) if !self.symbolic => return Err(error),
            Err(_) => true,
        };
        // Sizes that the model refuses say nothing about others, and small extents that windows and strides leave of
        // an example may be taken for fixed ones.
        let mut first = None;
        let mut best: Option<Package> = None;
        for examples in [
            ExampleSizes::Primes,
            ExampleSizes::MultiplesOf32,
            ExampleSizes::SmallPrimes,
            ExampleSizes::LargePrimes,
        ] {
            self.control.check()?;
            match self.compile_with(model, registry, Some(examples), false) {
                Ok(compiled) if compiled.left_out() == 0 => return Ok(compiled),
                Ok(compiled) => {
                    let fewest = best.as_ref().map_or(usize::MAX, Package::left_out);
                    if compiled.left_out() < fewest {
                        best = Some(compiled);
                    }
                }
                Err(error) => first = first.or(Some(error)),
            }
            // Without symbols only sizes that depend on data have examples.
            if !has_symbols && first.is_some() {
                break;
            }
        }
        if let Some(compiled) = best {
            return Ok(compiled);
        }
        let error = match self.compile_with(model, registry, Some(ExampleSizes::Primes), true) {
            Ok(compiled) => return Ok(compiled),
            Err(error) => first.unwrap_or(error),
        };
        if !has_symbols {
            return Err(error);
        }
        // Nodes that are refused when they are read have nothing to do with sizes.
        let import = self.import_options(registry, Some(ExampleSizes::Primes));
        model.cut_graph(&import, &self.control)?;
        Err(error.help("fix dimensions with --dim NAME=N, or bound them with --dim NAME=A..B"))
    }

    fn import_options(&self, registry: &Registry, symbolic: Option<ExampleSizes>) -> ImportOptions {
        let known = self.known_inputs.iter();
        ImportOptions {
            dims: self.dims.clone(),
            ranges: self.size_ranges(),
            symbolic,
            constants: self.constants.clone(),
            given: known
                .map(|(name, tensor)| (name.clone(), tensor.ty().clone()))
                .collect(),
            linked_folders: self.linked_folders.clone(),
            cpu_nodes: self.cpu_nodes.keys().cloned().collect(),
            evaluator: Some(evaluator(registry)),
        }
    }

    /// The types of the inputs without symbols.
    ///
    /// # Errors
    /// Dimensions without an extent, together.
    fn fixed_types(&self, model: &OnnxModel) -> Result<Vec<(String, TensorType)>> {
        let known = self.known_inputs.iter();
        let given = known.map(|(name, tensor)| (name.clone(), tensor.ty().clone()));
        model.input_types(&ImportOptions {
            dims: self.dims.clone(),
            constants: self.constants.clone(),
            given: given.collect(),
            ..ImportOptions::default()
        })
    }

    fn compile_with(
        &self,
        model: &OnnxModel,
        registry: &Registry,
        symbolic: Option<ExampleSizes>,
        open_extents: bool,
    ) -> Result<Package> {
        let import = self.import_options(registry, symbolic);
        let PartitionedGraph { graph, calls } = model.cut_graph(&import, &self.control)?;
        let mut compiler = tenon_compiler::Options::new(registry);
        compiler.backends = match self.backends.as_slice() {
            [] => Self::default_backends(),
            chosen => chosen.to_vec(),
        };
        compiler.hints.clone_from(&self.hints);
        compiler.precisions.clone_from(&self.precisions);
        compiler.open_extents = open_extents;
        compiler.cpu = self.cpu_level;
        compiler.keep_plain = self.keep_plain_constants;
        compiler.memory_strategy = self.memory_strategy;
        compiler.states.clone_from(&self.states);
        compiler.control = self.control.clone();
        let mut floats = BTreeMap::new();
        for name in tenon_compiler::shape_inputs(&graph) {
            if let Some(value) = self.known_inputs.get(&name) {
                let constants = match value.dtype().is_float() {
                    true => &mut floats,
                    false => &mut compiler.constants,
                };
                constants.insert(name, value.clone());
            }
        }
        let cpu_node = |call: &CpuCall| {
            let function = self.cpu_nodes.get(&call.node).cloned()?;
            Some(CpuNode {
                name: call.node.clone(),
                operator: call.operator.clone(),
                attributes: call.attributes.clone(),
                inputs: call.inputs.clone(),
                outputs: call.outputs.clone(),
                library: function.library,
                symbol: function.symbol,
            })
        };
        let outputs = &model.signature().outputs;
        let compile = |graph, options: &tenon_compiler::Options<'_>| {
            let cpu_nodes = calls.iter().filter_map(cpu_node).collect();
            tenon_compiler::compile_nodes(graph, cpu_nodes, outputs.len(), options)
        };
        let compiled = if floats.is_empty() {
            compile(graph, &compiler)?
        } else {
            // Sizes that depend on floats are often those of results, such as the boxes of a detector, which need no
            // constants. Operands such as the scales of Resize do.
            compile(graph.clone(), &compiler).or_else(|_| {
                compiler.constants.extend(floats);
                compile(graph, &compiler)
            })?
        };
        let package = Package::new(compiled, self.control.clone());
        check_outputs(outputs, package.nodes(), &package.states())?;
        Ok(package)
    }

    /// The ranges of dimensions; of those with buckets up to the greatest, if none is given.
    fn size_ranges(&self) -> BTreeMap<String, RangeInclusive<u64>> {
        let mut ranges = self.ranges.clone();
        for (name, sizes) in &self.buckets {
            if let Some(&greatest) = sizes.iter().max() {
                ranges.entry(name.clone()).or_insert(1..=greatest);
            }
        }
        ranges
    }

    /// Name and type of each input of a model. Symbolic dimensions get their extents from
    /// [`Self::dim`] and from the types of arrays that will be `given` for inputs; those that stay
    /// symbolic have an example size.
    ///
    /// # Errors
    /// Every dimension that is unknown or contradictory, or that has no extent and may not stay symbolic,
    /// together.
    pub fn input_types(
        &self,
        model: &OnnxModel,
        given: &BTreeMap<String, TensorType>,
    ) -> Result<Vec<(String, TensorType)>> {
        model.input_types(&ImportOptions {
            dims: self.dims.clone(),
            ranges: self.size_ranges(),
            symbolic: self.symbolic.then_some(ExampleSizes::Primes),
            given: given.clone(),
            ..ImportOptions::default()
        })
    }
}

/// Compares the types and extents of outputs with those that the model declares. States may have another layout.
fn check_outputs(
    declared: &[ValueSignature],
    nodes: &NodeGraph,
    states: &[StatePair],
) -> Result<()> {
    let ports = nodes.outputs.iter().filter_map(|&wire| nodes.port(wire));
    let ports: BTreeMap<String, _> = ports.map(|port| (port.name.clone(), port)).collect();
    let contradiction = |declared: &ValueSignature| {
        let inferred = ports.get(&declared.name)?;
        let extent = |(dimension, extent): (&Dimension, &Extent)| match (dimension, extent) {
            (Dimension::Fixed(declared), Extent::Fixed(extent)) => *declared as i64 == *extent,
            _ => true,
        };
        let extents = |shape: &Vec<Dimension>| {
            let inferred = &inferred.shape.0;
            shape.len() == inferred.len() && shape.iter().zip(inferred).all(extent)
        };
        // Maps are tensors (docs/contributed-operators.md).
        let tensor = declared.kind.is_tensor() || declared.keys.is_some();
        let has_layout = states.iter().all(|state| state.output != declared.name);
        // What the tensors of a sequence have in common is often not declared as it is.
        let fits = tensor == inferred.kind.is_tensor()
            && declared.dtype.is_none_or(|dtype| dtype == inferred.dtype)
            && (!tensor || !has_layout || declared.shape.as_ref().is_none_or(extents));
        let text = "the model declares another type for this output than its nodes produce";
        (!fits).then(|| {
            Error::new(ErrorKind::InvalidModel, text)
                .expected(declared)
                .found(format_args!("{}{}", inferred.dtype, inferred.shape))
                .at(Location::field(format!("output '{}'", declared.name)))
        })
    };
    Error::from_all(declared.iter().filter_map(contradiction)).map_or(Ok(()), Err)
}

/// Evaluates the conditions of branches and the trip counts of loops on these backends.
fn evaluator(registry: &Registry) -> Evaluator {
    let registry = registry.clone();
    Evaluator::new(move |graph, control| tenon_compiler::specialise(graph, &registry, control))
}
