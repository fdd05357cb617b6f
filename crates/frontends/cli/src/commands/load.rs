//! From a file and flags to a model and its inputs.

use super::given::{GivenFiles, once, type_of};
use crate::model_flags::{CompileFlags, InputFlags};
use crate::output;
use crate::package_flags::LimitFlags;
use crate::plugin_flags::BackendFlags;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tenon::{
    ActiveModel, Activity, BackendId, CompileOptions, Compiled, Control, CpuLevel, CpuLibrary,
    Error, ErrorKind, ImageOptions, LoadOptions, Location, Model, ModelReport, OnnxModel,
    Originals, Package, Registry, Result, Runtime, Source, TensorType,
};

/// A model ready to run, and how long it took to get there.
pub struct Loaded {
    pub runtime: Runtime,
    pub model: Model,
    pub package: Package,
    /// The nodes that backends took as one when this was compiled.
    pub originals: Originals,
    /// `None` when the file was a package.
    pub compile_time: Option<Duration>,
    pub load_time: Duration,
    /// Where it is listed for those who watch the process.
    pub activity: Activity,
}

/// What a command says of a model and its inputs.
pub struct ModelFlags<'a> {
    pub file: &'a Path,
    pub compiling: &'a CompileFlags,
    pub inputs: &'a InputFlags,
    pub limits: &'a LimitFlags,
}

/// Opens a file, compiling it first if it is an ONNX model, and loads it.
pub fn load(
    flags: &ModelFlags<'_>,
    threads: Option<usize>,
    control: &Control,
) -> Result<(Loaded, GivenFiles)> {
    let options = LoadOptions {
        threads,
        control: control.clone(),
        ..LoadOptions::default()
    };
    load_with(flags, options)
}

/// The same with more to choose.
pub fn load_with(flags: &ModelFlags<'_>, options: LoadOptions) -> Result<(Loaded, GivenFiles)> {
    let source = Source::open(flags.file, &flags.limits.limits(), &options.control)?;
    load_source(source, flags, options)
}

/// The same of an open file.
pub fn load_source(
    source: Source,
    flags: &ModelFlags<'_>,
    mut options: LoadOptions,
) -> Result<(Loaded, GivenFiles)> {
    let ModelFlags {
        file,
        compiling,
        inputs,
        ..
    } = *flags;
    let here = |error: Error| error.at(Location::file(file));
    let mut given = GivenFiles::read(file, inputs)?;
    let registry = backends(&compiling.loading)?;
    let runtime = runtime(registry, &compiling.loading);
    let (package, originals, compile_time) = match source {
        Source::Package(package) => {
            no_compile_flags(compiling).map_err(here)?;
            (*package, Originals::new(), None)
        }
        Source::Onnx(onnx) => {
            let start = Instant::now();
            let compiled = compile(
                &onnx,
                compiling,
                Some((&mut given, inputs)),
                runtime.backends(),
                &options.control,
            );
            let compiled = compiled.map_err(here)?;
            let originals = compiled.originals();
            let package = compiled.into_package()?;
            // The only libraries in it are those that the user has just named.
            options.native_nodes |= !compiling.cpu_nodes.is_empty();
            (package, originals, Some(start.elapsed()))
        }
    };
    let activity = Activity::published();
    options.activity = Some(activity.clone());
    let start = Instant::now();
    let model = Model::load(&runtime, &package, &options).map_err(here)?;
    let load_time = start.elapsed();
    for substitution in model.substitutions() {
        output::complain(format_args!("warning: {substitution}"));
    }
    if compile_time.is_some() {
        // Those that decided shapes are constants by now; unknown names were refused before.
        given.keep(|name| model.inputs().iter().any(|input| input.name == name));
    }
    Ok((
        Loaded {
            runtime,
            model,
            package,
            originals,
            compile_time,
            load_time,
            activity,
        },
        given,
    ))
}

/// A program that is about to run, listed for those who watch the process.
pub fn active_program(activity: &Activity, file: &Path) -> ActiveModel {
    activity.model(ModelReport {
        name: file.display().to_string(),
        ..ModelReport::default()
    })
}

/// The built-in backends and those that are loaded; what is passed over is told.
pub fn backends(flags: &BackendFlags) -> Result<Registry> {
    CpuLevel::from_environment()?;
    if let Some(level) = flags.cpu {
        level.limit_to();
    }
    let found = tenon::backends_with(&flags.setup())?;
    for warning in found.passed_over {
        output::complain(format_args!("warning: {warning}"));
    }
    tell_refused(found.refused);
    Ok(found.registry)
}

/// A runtime with these backends; those that it goes on without are told.
pub fn runtime(registry: Registry, flags: &BackendFlags) -> Runtime {
    let (runtime, refused) = tenon::runtime_with(registry, &flags.setup());
    tell_refused(refused);
    runtime
}

fn tell_refused(refused: Vec<(BackendId, Error)>) {
    for (id, error) in refused {
        output::complain(format_args!("warning: without backend {id}: {error}"));
    }
}

/// A package is compiled already: flags that would change that are a mistake.
fn no_compile_flags(flags: &CompileFlags) -> Result<()> {
    let given = [
        ("--dim", !flags.dims.is_empty()),
        ("--const", !flags.constants.is_empty()),
        ("--backends", !flags.backends.is_empty()),
        ("--place", !flags.place.is_empty()),
        ("--keep-plain", flags.keep_plain),
        ("--allow-links", !flags.allow_links.is_empty()),
        ("--cpu-node", !flags.cpu_nodes.is_empty()),
        ("--memory-strategy", flags.memory_strategy.is_some()),
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
        "this is compiled already: {} can change nothing",
        given.join(", ")
    );
    Err(Error::new(ErrorKind::Usage, what).help("give them to tenon compile"))
}

/// Compiles with the flags. Inputs `given` for a run are read first: mistakes in them are told
/// before the work, and those that decide shapes are at hand.
pub fn compile(
    onnx: &OnnxModel,
    flags: &CompileFlags,
    given: Option<(&mut GivenFiles, &InputFlags)>,
    registry: &Registry,
    control: &Control,
) -> Result<Compiled> {
    let mut options = CompileOptions {
        dims: once("--dim", &flags.dims)?,
        linked_folders: flags.allow_links.clone(),
        cpu: flags.loading.cpu.unwrap_or_default(),
        hints: flags.place.clone(),
        keep_plain: flags.keep_plain,
        ..CompileOptions::default()
    };
    if !flags.backends.is_empty() {
        options.backends = flags
            .backends
            .iter()
            .cloned()
            .map(BackendId::from)
            .collect();
    }
    if let Some(strategy) = flags.memory_strategy {
        options.memory_strategy = strategy;
    }
    for (node, (library, symbol)) in once("--cpu-node", &flags.cpu_nodes)? {
        let library = CpuLibrary::open(&library, symbol)?;
        options.cpu_nodes.insert(node, library);
    }
    let constants = once("--const", &flags.constants)?;
    let inputs_of = onnx.signature().inputs.iter();
    let declared: Vec<(String, String)> = inputs_of
        .map(|input| (input.name.clone(), input.to_string()))
        .collect();
    let mut types = BTreeMap::new();
    for (name, file) in &constants {
        type_of(&declared, name)?;
        if let Some(array) = tenon::read_array(file)? {
            types.insert(name.clone(), array.ty().clone());
        }
    }
    let mut given = given;
    if let Some((given, _)) = &mut given {
        let mut left = declared.clone();
        left.retain(|(name, _)| !constants.contains_key(name));
        given.name_the_rest(&left)?;
        given.read_arrays(&left)?;
        types.extend(given.types());
    }
    let signature = tenon::input_types(onnx, &options.dims, &types)?;
    for (name, file) in &constants {
        let ty = type_of(&signature, name)?;
        let tensor = tenon::read_input(file, ty, &ImageOptions::default())?;
        options.constants.insert(name.clone(), tensor);
    }
    if let Some((given, inputs)) = given {
        let mut left = signature;
        left.retain(|(name, _)| !constants.contains_key(name));
        let image = image_options(&onnx.signature().metadata, inputs)?;
        options.available = given.read_all(&left, &image)?;
    }
    tenon::compile_with(onnx, &options, registry, control)
}

/// The model's own image options, the flags' where given.
pub fn image_options(
    metadata: &BTreeMap<String, String>,
    flags: &InputFlags,
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
