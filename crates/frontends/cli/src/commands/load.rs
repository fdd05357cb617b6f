//! From a file and flags to a model and its inputs.

use super::input_files::{InputFiles, once, type_of};
use crate::model_flags::{CompileFlags, DimensionSize, InputFlags, ModelFlags, PictureFlags};
use crate::output;
use crate::plugin_flags::BackendFlags;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tenon::activity::{ActiveModel, Activity, ModelReport};
use tenon::backends::{CpuLevel, Registry, Runtime};
use tenon::compare::FusedNodes;
use tenon::inputs::ImageOptions;
use tenon::neff;
use tenon::neff::FeatureBits;
use tenon::{
    BackendId, Compiler, Control, Error, ErrorKind, LibraryFunction, LoadOptions, Location, Model,
    ModelFile, OnnxModel, OpenOptions, Package, Result, TensorType, Weights,
};

/// A model ready to run, and how long it took to get there.
pub struct Loaded {
    pub runtime: Runtime,
    pub model: Model,
    pub package: neff::Package,
    /// The nodes that backends fused when the model was compiled.
    pub fused_nodes: FusedNodes,
    /// `None` when the file was a package.
    pub compile_time: Option<Duration>,
    pub load_time: Duration,
    /// The list of running models in which it appears.
    pub activity: Activity,
}

/// A model and its inputs.
pub struct ModelSource<'a> {
    pub file: &'a Path,
    pub inputs: &'a InputFlags,
    pub flags: &'a ModelFlags,
    /// Whether the model keeps its symbolic dimensions, instead of being one for the sizes of its inputs.
    pub any_size: bool,
}

/// Opens a file, compiling it first if it is a model, and loads it.
pub fn load(
    source: &ModelSource<'_>,
    threads: Option<usize>,
    control: &Control,
) -> Result<(Loaded, InputFiles)> {
    let options = LoadOptions::new().threads(threads).control(control.clone());
    load_with(source, options)
}

/// The same with options of loading. Prints a warning where nodes on the reference backend are slow.
pub fn load_with(source: &ModelSource<'_>, options: LoadOptions) -> Result<(Loaded, InputFiles)> {
    let file = open(source.file, source.flags, &options.control)?;
    load_opened(file, source, options)
}

/// Opens a file.
pub fn open(file: &Path, flags: &ModelFlags, control: &Control) -> Result<ModelFile> {
    let options = opening(&flags.compiling, control)?;
    open_with(options.limits(flags.limits.limits()), file)
}

/// How a model is opened.
pub fn opening(compiling: &CompileFlags, control: &Control) -> Result<OpenOptions> {
    let mut options = OpenOptions::new().control(control.clone());
    options.signature.clone_from(&compiling.signature);
    for file in &compiling.weights {
        let added = options.weights.add(Weights::read(file)?);
        added.map_err(|error| error.at(Location::file(file)))?;
    }
    Ok(options)
}

/// Opens a file. Prints a note about weights that have no effect.
pub fn open_with(options: OpenOptions, file: &Path) -> Result<ModelFile> {
    let opened = options.open(file)?;
    if let ModelFile::Onnx(onnx) = &opened
        && let Some(note) = options.weights.unused_note(onnx)
    {
        output::complain(format_args!("note: {note}"));
    }
    Ok(opened)
}

/// As [`load_with`], of an opened file.
pub fn load_opened(
    file: ModelFile,
    source: &ModelSource<'_>,
    options: LoadOptions,
) -> Result<(Loaded, InputFiles)> {
    let (loaded, given) = load_file(file, source, options)?;
    if let Some(time) = loaded.model.reference_time(loaded.runtime.backends()) {
        output::complain(format_args!("warning: {time}"));
    }
    Ok((loaded, given))
}

/// The same without the warning.
pub fn load_file(
    file: ModelFile,
    source: &ModelSource<'_>,
    mut options: LoadOptions,
) -> Result<(Loaded, InputFiles)> {
    let ModelSource {
        file: path,
        inputs,
        flags,
        any_size,
    } = *source;
    let compiling = &flags.compiling;
    let here = |error: Error| error.at(Location::file(path));
    let mut given = InputFiles::read(path, inputs)?;
    let registry = backends(&compiling.loading)?;
    let runtime = runtime(registry, &compiling.loading);
    let (package, fused_nodes, compile_time) = match file {
        ModelFile::Package(package) => {
            no_compile_flags(compiling, &package, any_size).map_err(here)?;
            (*package, FusedNodes::new(), None)
        }
        ModelFile::Onnx(onnx) => {
            let start = Instant::now();
            let compiled = compile(
                &onnx,
                compiling,
                (!any_size).then_some((&mut given, inputs)),
                runtime.backends(),
                &options.control,
            );
            let compiled = compiled.map_err(here)?;
            let fused_nodes = compiled.fused_nodes();
            let package = compiled.to_neff()?;
            // The package contains only the libraries that the user has named.
            options.native_nodes |= !compiling.cpu_nodes.is_empty();
            (package, fused_nodes, Some(start.elapsed()))
        }
    };
    let activity = Activity::published();
    options.activity = Some(activity.clone());
    let start = Instant::now();
    options.runtime = Some(runtime.clone());
    options
        .device_memory_limits
        .clone_from(&flags.device.device_memory_limits);
    let model = Model::from_package(&package, &options).map_err(here)?;
    let load_time = start.elapsed();
    given.set_maps(model.metadata()).map_err(here)?;
    let model = match any_size {
        true => model,
        false => at_sizes(model, &mut given, compiling).map_err(here)?,
    };
    warnings(&model, &runtime).iter().for_each(warn);
    if compile_time.is_some() && !any_size {
        // Inputs that shapes depend on became constants; unknown names were refused before.
        given.keep(|name| model.inputs().iter().any(|input| input.name == name));
    }
    Ok((
        Loaded {
            runtime,
            model,
            package,
            fused_nodes,
            compile_time,
            load_time,
            activity,
        },
        given,
    ))
}

/// Adds a program that is about to run to the list of running models.
pub fn active_program(activity: &Activity, file: &Path) -> ActiveModel {
    activity.model(ModelReport {
        name: file.display().to_string(),
        ..ModelReport::default()
    })
}

/// What is wrong with a loaded model, though it runs.
pub fn warnings(model: &Model, runtime: &Runtime) -> Vec<String> {
    // Making the workloads has used the cache.
    let problem = runtime.backends().cache().and_then(|cache| cache.problem());
    let mut warnings: Vec<String> = problem.iter().map(ToString::to_string).collect();
    warnings.extend(model.substitutions().iter().map(ToString::to_string));
    warnings
}

/// The built-in backends and those of libraries. Prints a warning for each library that is not loaded.
pub fn backends(flags: &BackendFlags) -> Result<Registry> {
    let (registry, warnings) = find_backends(flags)?;
    warnings.iter().for_each(warn);
    Ok(registry)
}

/// The same with the warnings.
pub fn find_backends(flags: &BackendFlags) -> Result<(Registry, Vec<String>)> {
    CpuLevel::from_environment()?;
    if let Some(level) = flags.cpu {
        level.limit_to();
    }
    let found = flags.setup().load()?;
    let mut warnings: Vec<String> = found.skipped.iter().map(ToString::to_string).collect();
    warnings.extend(without(found.refused));
    Ok((found.registry, warnings))
}

/// A runtime with these backends. Prints a warning for each backend that cannot be started.
pub fn runtime(registry: Registry, flags: &BackendFlags) -> Runtime {
    let (runtime, warnings) = start_runtime(registry, flags);
    warnings.iter().for_each(warn);
    runtime
}

/// The same with the warnings.
pub fn start_runtime(registry: Registry, flags: &BackendFlags) -> (Runtime, Vec<String>) {
    let (runtime, refused) = flags.setup().start_runtime(registry);
    (runtime, without(refused))
}

fn without(refused: Vec<(BackendId, Error)>) -> Vec<String> {
    let refused = refused.into_iter();
    refused
        .map(|(id, error)| format!("without backend {id}: {error}"))
        .collect()
}

fn warn(warning: &String) {
    output::complain(format_args!("warning: {warning}"));
}

/// Refuses flags of compiling for a package, which they cannot change.
pub fn no_compile_flags(
    flags: &CompileFlags,
    package: &neff::Package,
    any_size: bool,
) -> Result<()> {
    let features = package.header().feature_bits;
    let fixed = !features.contains(FeatureBits::TENON_SYMBOLS);
    let given = [
        ("--dim", fixed && !flags.dims.is_empty()),
        ("--const", !flags.constants.is_empty()),
        ("--backends", !flags.backends.is_empty()),
        ("--place", !flags.place.is_empty()),
        ("--keep-plain", flags.keep_plain),
        ("--allow-links", !flags.allow_links.is_empty()),
        ("--signature", flags.signature.is_some()),
        ("--cpu-node", !flags.cpu_nodes.is_empty()),
        ("--memory-strategy", flags.memory_strategy.is_some()),
        // A session takes them.
        ("--state", !any_size && flags.has_states()),
    ];
    let given: Vec<_> = given
        .iter()
        .filter(|(_, given)| *given)
        .map(|(name, _)| *name)
        .collect();
    if given.is_empty() {
        return Ok(());
    }
    let what = format!(
        "the package is compiled already, so that these flags have no effect: {}",
        given.join(", ")
    );
    Err(Error::new(ErrorKind::Usage, what).help("give them to tenon compile"))
}

/// The model for the sizes of the arrays that are given for its inputs, and of the flags.
fn at_sizes(model: Model, given: &mut InputFiles, flags: &CompileFlags) -> Result<Model> {
    if model.symbols().is_empty() {
        return Ok(model);
    }
    given.assign_unnamed(&signature(&model))?;
    given.read_arrays(&signature(&model))?;
    let types: Vec<(String, TensorType)> = given.types().collect();
    let types: Vec<_> = types.iter().map(|(name, ty)| (name.as_str(), ty)).collect();
    let sizes = fixed_sizes(&flags.dims)?;
    model
        .at_inputs(&types, &sizes)
        .map_err(|error| error.help("give sizes with --dim NAME=N, or arrays with --input"))
}

/// The sizes of dimensions, by name.
pub fn fixed_sizes(dims: &[(String, DimensionSize)]) -> Result<Vec<(&str, u64)>> {
    once("--dim", dims)?;
    let mut sizes = Vec::new();
    for (name, size) in dims {
        match size {
            DimensionSize::Fixed(size) => sizes.push((name.as_str(), *size as u64)),
            DimensionSize::Range(_) => {
                let text = format!("--dim {name}: one size is needed for a package");
                return Err(Error::new(ErrorKind::Usage, text).expected(format!("{name}=N")));
            }
        }
    }
    Ok(sizes)
}

/// Compiles with the flags. Inputs `given` for a run are read first: mistakes in them are reported
/// before the work, and shapes may depend on their values.
pub fn compile(
    onnx: &OnnxModel,
    flags: &CompileFlags,
    given: Option<(&mut InputFiles, &InputFlags)>,
    registry: &Registry,
    control: &Control,
) -> Result<Package> {
    compile_with(Compiler::new(), onnx, flags, given, registry, control)
}

/// The same with a compiler for options that are not in these flags.
pub fn compile_with(
    compiler: Compiler,
    onnx: &OnnxModel,
    flags: &CompileFlags,
    given: Option<(&mut InputFiles, &InputFlags)>,
    registry: &Registry,
    control: &Control,
) -> Result<Package> {
    compiler_with(compiler, onnx, flags, given, registry, control)?.compile_model(onnx)
}

/// The compiler of the flags, for this model.
pub fn compiler_with(
    compiler: Compiler,
    onnx: &OnnxModel,
    flags: &CompileFlags,
    given: Option<(&mut InputFiles, &InputFlags)>,
    registry: &Registry,
    control: &Control,
) -> Result<Compiler> {
    let mut compiler = compiler
        .backends(flags.backends.iter().map(String::as_str))
        .cpu_level(flags.loading.cpu.unwrap_or_default())
        .keep_plain_constants(flags.keep_plain)
        .states(flags.state_selection())
        .registry(registry.clone())
        .control(control.clone());
    for (name, size) in once("--dim", &flags.dims)? {
        compiler = match size {
            DimensionSize::Fixed(extent) => compiler.dim(name, extent),
            DimensionSize::Range(range) => compiler.dim_range(name, range),
        };
    }
    // A model that runs at once is compiled for its sizes.
    compiler = compiler.symbolic(given.is_none());
    for folder in &flags.allow_links {
        compiler = compiler.linked_folder(folder);
    }
    for hint in &flags.place {
        compiler = compiler.hint(hint.clone());
    }
    for rule in &flags.precision {
        compiler = compiler.precision_rule(rule.clone());
    }
    if let Some(strategy) = flags.memory_strategy {
        compiler = compiler.memory_strategy(strategy);
    }
    for (node, (library, symbol)) in once("--cpu-node", &flags.cpu_nodes)? {
        compiler = compiler.cpu_node(node, LibraryFunction::open(&library, symbol)?);
    }
    let constants = once("--const", &flags.constants)?;
    let inputs_of = onnx.signature().inputs.iter();
    let declared: Vec<(String, String)> = inputs_of
        .map(|input| (input.name.clone(), input.to_string()))
        .collect();
    let mut types = BTreeMap::new();
    for (name, file) in &constants {
        type_of(&declared, name)?;
        if let Some(array) = tenon::inputs::read_array(file)? {
            types.insert(name.clone(), array.ty().clone());
        }
    }
    let mut given = given;
    if let Some((given, _)) = &mut given {
        given.set_maps(&onnx.signature().metadata)?;
        let mut left = declared.clone();
        left.retain(|(name, _)| !constants.contains_key(name));
        given.assign_unnamed(&left)?;
        given.read_arrays(&left)?;
        types.extend(given.types());
    }
    let signature = compiler.input_types(onnx, &types)?;
    for (name, file) in &constants {
        let ty = type_of(&signature, name)?;
        let tensor = tenon::inputs::read_input(file, ty, &ImageOptions::default())?;
        compiler = compiler.constant(name, tensor);
    }
    if let Some((given, inputs)) = given {
        let mut left = signature;
        left.retain(|(name, _)| !constants.contains_key(name));
        let image = image_options(&onnx.signature().metadata, &inputs.pictures)?;
        for (name, tensor) in given.read_all(&left, &image)? {
            compiler = compiler.known_input(name, tensor);
        }
    }
    Ok(compiler)
}

/// The model's own image options, the flags' where given.
pub fn image_options(
    metadata: &BTreeMap<String, String>,
    flags: &PictureFlags,
) -> Result<ImageOptions> {
    let mut options = ImageOptions::from_metadata(metadata)?;
    if !flags.mean.is_empty() {
        options.mean.clone_from(&flags.mean);
    }
    if !flags.scale.is_empty() {
        options.scale.clone_from(&flags.scale);
    }
    Ok(options)
}

/// Name and type of each input of a loaded model.
pub fn signature(model: &Model) -> Vec<(String, TensorType)> {
    model
        .inputs()
        .iter()
        .map(|input| (input.name.clone(), input.ty.clone()))
        .collect()
}
