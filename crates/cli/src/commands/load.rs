//! From a file and flags to a model and its inputs.

use crate::flags::{CompileFlags, Cpu, CpuNode, InputFlags};
use crate::plugin_flags::BackendFlags;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tenon::{
    ActiveModel, Activity, BackendId, CompileOptions, Compiled, Control, CpuLevel, CpuLibrary,
    Error, ErrorKind, ImageOptions, LoadOptions, Location, Model, ModelReport, OnnxModel,
    Originals, Package, Registry, Result, Runtime, Source, Tensor, TensorType,
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

/// The inputs given on the command line, by file.
pub struct GivenFiles {
    named: Vec<(String, PathBuf)>,
    /// Given without a name: for the only input left.
    unnamed: Vec<PathBuf>,
    /// Arrays of .npz files, already read: they name themselves.
    arrays: Vec<(String, Tensor)>,
}

/// Opens `file`, compiling it first if it is an ONNX model, and loads it.
pub fn load(
    file: &Path,
    compiling: &CompileFlags,
    inputs: &InputFlags,
    threads: Option<usize>,
    control: &Control,
) -> Result<(Loaded, GivenFiles)> {
    let options = LoadOptions {
        threads,
        control: control.clone(),
        ..LoadOptions::default()
    };
    load_with(file, compiling, inputs, &options)
}

/// The same with more to choose.
pub fn load_with(
    file: &Path,
    compiling: &CompileFlags,
    inputs: &InputFlags,
    options: &LoadOptions,
) -> Result<(Loaded, GivenFiles)> {
    let control = &options.control;
    let mut given = GivenFiles::read(inputs)?;
    let registry = backends(&compiling.loading)?;
    let runtime = runtime(registry, &compiling.loading);
    let (package, originals, compile_time) = match Source::open(file, control)? {
        Source::Package(package) => {
            no_compile_flags(compiling).map_err(|error| error.at(Location::file(file)))?;
            (*package, Originals::new(), None)
        }
        Source::Onnx(onnx) => {
            let start = Instant::now();
            let compiled = compile(
                &onnx,
                compiling,
                Some((&mut given, inputs)),
                runtime.backends(),
                control,
            )?;
            let originals = compiled.originals();
            let package = compiled.into_package()?;
            (package, originals, Some(start.elapsed()))
        }
    };
    let activity = Activity::published();
    let options = LoadOptions {
        activity: Some(activity.clone()),
        ..options.clone()
    };
    let start = Instant::now();
    let model = Model::load(&runtime, &package, &options);
    let model = model.map_err(|error| error.at(Location::file(file)))?;
    let load_time = start.elapsed();
    for substitution in model.substitutions() {
        let nodes = substitution.nodes.iter();
        let nodes: Vec<String> = nodes
            .map(|(id, count)| format!("{count} on {id}"))
            .collect();
        eprintln!(
            "warning: backend {} is unavailable ({}): of its nodes {} run",
            substitution.backend,
            substitution.reason,
            nodes.join(", ")
        );
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
    let found = tenon::backends_with(&flags.setup())?;
    for warning in found.passed_over {
        eprintln!("warning: {warning}");
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
        eprintln!("warning: without backend {id}: {error}");
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
        dims: flags.dims.iter().cloned().collect(),
        cpu: match flags.cpu {
            Cpu::Baseline => CpuLevel::Baseline,
            Cpu::Avx2 => CpuLevel::Avx2,
            Cpu::Avx512 => CpuLevel::Avx512,
            Cpu::Native => tenon::native_cpu(),
        },
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
    for CpuNode {
        node,
        library,
        symbol,
    } in &flags.cpu_nodes
    {
        let given = CpuLibrary::open(library, symbol)?;
        if options.cpu_nodes.insert(node.clone(), given).is_some() {
            let text = format!("--cpu-node names '{node}' twice");
            return Err(Error::new(ErrorKind::Usage, text));
        }
    }
    let signature = tenon::input_types(onnx, &options.dims)?;
    for (name, file) in &flags.constants {
        let ty = type_of(&signature, name)?;
        let tensor = tenon::read_input(file, ty, &ImageOptions::default())?;
        options.constants.insert(name.clone(), tensor);
    }
    if let Some((given, inputs)) = given {
        let missing = signature
            .iter()
            .filter(|(name, _)| !options.constants.contains_key(name))
            .cloned()
            .collect::<Vec<_>>();
        given.name_the_rest(&missing)?;
        let image = image_options(&onnx.signature().metadata, inputs)?;
        options.available = given.read_all(&missing, &image)?;
    }
    tenon::compile_with(onnx, &options, registry, control)
}

fn type_of<'a>(signature: &'a [(String, TensorType)], name: &str) -> Result<&'a TensorType> {
    let found = signature.iter().find(|(known, _)| known == name);
    found
        .map(|(_, ty)| ty)
        .ok_or_else(|| unknown_input(name, signature))
}

fn unknown_input(name: &str, signature: &[(String, TensorType)]) -> Error {
    Error::new(ErrorKind::Usage, format!("the model has no input '{name}'")).expected(
        signature
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    )
}

impl GivenFiles {
    fn read(flags: &InputFlags) -> Result<Self> {
        let mut given = Self {
            named: Vec::new(),
            unnamed: Vec::new(),
            arrays: Vec::new(),
        };
        for text in &flags.inputs {
            // A path may hold '=', a name hardly ever a '/'.
            match text.split_once('=').filter(|(name, _)| !name.contains('/')) {
                Some((name, file)) => given.named.push((name.to_owned(), file.into())),
                None if text.to_lowercase().ends_with(".npz") => {
                    given
                        .arrays
                        .extend(tenon::read_npz_inputs(Path::new(text))?);
                }
                None => given.unnamed.push(text.into()),
            }
        }
        Ok(given)
    }

    /// A tensor for each input of `signature`, given or random; every problem at once.
    pub fn tensors(
        &mut self,
        signature: &[(String, TensorType)],
        flags: &InputFlags,
        image: &ImageOptions,
    ) -> Result<BTreeMap<String, Tensor>> {
        self.name_the_rest(signature)?;
        let mut tensors = self.read_all(signature, image)?;
        let mut missing = Vec::new();
        for (index, input) in signature.iter().enumerate() {
            let (name, ty) = input;
            match flags.random {
                _ if tensors.contains_key(name) => {}
                Some(seed) => {
                    let tensor = tenon::random_tensor(ty, seed.wrapping_add(index as u64))?;
                    tensors.insert(name.clone(), tensor);
                }
                None => missing.push(input),
            }
        }
        if missing.is_empty() {
            return Ok(tensors);
        }
        let what = format!("inputs are missing: {}", list(missing.into_iter()));
        Err(Error::new(ErrorKind::Usage, what)
            .help("give each with --input NAME=FILE, or all with --random SEED"))
    }

    /// A tensor for each input that was given; every problem at once.
    fn read_all(
        &self,
        signature: &[(String, TensorType)],
        image: &ImageOptions,
    ) -> Result<BTreeMap<String, Tensor>> {
        let arrays = self.arrays.iter().map(|(name, array)| {
            let read = type_of(signature, name).and_then(|ty| {
                let here = |error: Error| error.at(Location::field(format!("input '{name}'")));
                tenon::fit(array.clone(), ty).map_err(here)
            });
            (name, read)
        });
        let files = self.named.iter().map(|(name, file)| {
            let read = type_of(signature, name).and_then(|ty| tenon::read_input(file, ty, image));
            (name, read)
        });
        let mut tensors = BTreeMap::new();
        let mut problems = Vec::new();
        for (name, read) in arrays.chain(files) {
            match read {
                Ok(tensor) => {
                    tensors.insert(name.clone(), tensor);
                }
                Err(error) => problems.push(error),
            }
        }
        Error::from_all(problems).map_or(Ok(tensors), Err)
    }

    /// A file without a name is for the only input that has none.
    fn name_the_rest(&mut self, signature: &[(String, TensorType)]) -> Result<()> {
        let free: Vec<_> = signature
            .iter()
            .filter(|(name, _)| !self.names(name))
            .collect();
        match (self.unnamed.as_slice(), free.as_slice()) {
            ([], _) => {}
            ([file], [(name, _)]) => {
                self.named.push((name.clone(), file.clone()));
                self.unnamed.clear();
            }
            ([file, ..], free) => {
                let what = format!("{} says not which input it is", file.display());
                let left = match free {
                    [] => "no input is left".into(),
                    free => format!("the inputs left are: {}", list(free.iter().copied())),
                };
                return Err(Error::new(ErrorKind::Usage, what)
                    .expected("--input NAME=FILE")
                    .help(left));
            }
        }
        Ok(())
    }

    /// Forgets what was given for other inputs.
    fn keep(&mut self, known: impl Fn(&str) -> bool) {
        self.named.retain(|(name, _)| known(name));
        self.arrays.retain(|(name, _)| known(name));
    }

    /// Whether an input was given by this name.
    fn names(&self, name: &str) -> bool {
        self.named.iter().any(|(known, _)| known == name)
            || self.arrays.iter().any(|(known, _)| known == name)
    }
}

fn list<'a>(inputs: impl Iterator<Item = &'a (String, TensorType)>) -> String {
    inputs
        .map(|(name, ty)| format!("{name}: {ty}"))
        .collect::<Vec<_>>()
        .join(", ")
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
