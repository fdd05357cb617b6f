//! From a file and flags to a model and its inputs.

use crate::flags::{CompileFlags, Cpu, InputFlags};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tenon::{
    BackendId, CompileOptions, Compiled, Control, CpuLevel, Error, ErrorKind, ImageOptions,
    LoadOptions, Location, Model, OnnxModel, Result, Source, Tensor, TensorType,
};

/// A model ready to run, and how long it took to get there.
pub struct Loaded {
    pub model: Model,
    /// `None` when the file was a package.
    pub compile_time: Option<Duration>,
    pub load_time: Duration,
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
    let given = GivenFiles::read(inputs)?;
    let options = LoadOptions { threads, control: control.clone(), ..LoadOptions::default() };
    let (package, compile_time) = match Source::open(file, control)? {
        Source::Package(package) => (package, None),
        Source::Onnx(onnx) => {
            let start = Instant::now();
            let compiled = compile(&onnx, compiling, Some((&given, inputs)), control)?;
            (compiled.into_package()?, Some(start.elapsed()))
        }
    };
    let start = Instant::now();
    let model =
        tenon::load(&package, &options).map_err(|error| error.at(Location::file(file)))?;
    Ok((Loaded { model, compile_time, load_time: start.elapsed() }, given))
}

/// Compiles with the flags. Inputs `given` for a run are at hand for the case that one decides
/// shapes.
pub fn compile(
    onnx: &OnnxModel,
    flags: &CompileFlags,
    given: Option<(&GivenFiles, &InputFlags)>,
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
        prepared_only: flags.prepared_only,
        ..CompileOptions::default()
    };
    if !flags.backends.is_empty() {
        options.backends = flags.backends.iter().cloned().map(BackendId::from).collect();
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
        // What is wrong with the inputs is told when they are bound; here they only help.
        options.available = given.tensors(&missing, inputs, &ImageOptions::default(), true)?;
    }
    tenon::compile(onnx, &options, control)
}

fn type_of<'a>(signature: &'a [(String, TensorType)], name: &str) -> Result<&'a TensorType> {
    let found = signature.iter().find(|(known, _)| known == name);
    found.map(|(_, ty)| ty).ok_or_else(|| unknown_input(name, signature))
}

fn unknown_input(name: &str, signature: &[(String, TensorType)]) -> Error {
    Error::new(ErrorKind::Usage, format!("the model has no input '{name}'"))
        .expected(signature.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "))
}

impl GivenFiles {
    fn read(flags: &InputFlags) -> Result<Self> {
        let mut given = Self { named: Vec::new(), unnamed: Vec::new(), arrays: Vec::new() };
        for text in &flags.inputs {
            // A path may hold '=', a name hardly ever a '/'.
            match text.split_once('=').filter(|(name, _)| !name.contains('/')) {
                Some((name, file)) => given.named.push((name.to_owned(), file.into())),
                None if text.to_lowercase().ends_with(".npz") => {
                    given.arrays.extend(tenon::read_npz_inputs(Path::new(text))?);
                }
                None => given.unnamed.push(text.into()),
            }
        }
        Ok(given)
    }

    /// A tensor for each input of `signature` that was given (or random); every problem at once.
    /// With `partial`, inputs that are missing or unknown are no problem.
    pub fn tensors(
        &self,
        signature: &[(String, TensorType)],
        flags: &InputFlags,
        image: &ImageOptions,
        partial: bool,
    ) -> Result<BTreeMap<String, Tensor>> {
        let mut tensors = BTreeMap::new();
        let mut problems = Vec::new();
        let mut keep = |name: &str, tensor: Result<Tensor>| match tensor {
            Ok(tensor) => {
                tensors.insert(name.to_owned(), tensor);
            }
            Err(error) => problems.push(error),
        };
        for (name, array) in &self.arrays {
            match type_of(signature, name) {
                Ok(ty) => keep(name, tenon::fit(array.clone(), ty)),
                Err(error) if !partial => keep(name, Err(error)),
                Err(_) => {}
            }
        }
        for (name, file) in &self.named {
            match type_of(signature, name) {
                Ok(ty) => keep(name, tenon::read_input(file, ty, image)),
                Err(error) if !partial => keep(name, Err(error)),
                Err(_) => {}
            }
        }
        let free: Vec<_> = signature
            .iter()
            .filter(|(name, _)| !self.names(name))
            .collect();
        match (self.unnamed.as_slice(), free.as_slice()) {
            ([], _) => {}
            ([file], [(name, ty)]) => keep(name, tenon::read_input(file, ty, image)),
            _ if partial => {}
            ([file, ..], free) => problems.push(
                Error::new(ErrorKind::Usage, format!("{} says not which input it is", file.display()))
                    .expected("--input NAME=FILE")
                    .help(format!("the inputs left are: {}", list(free.iter().copied()))),
            ),
        }
        if let Some(seed) = flags.random {
            for (index, (name, ty)) in signature.iter().enumerate() {
                if !tensors.contains_key(name) && !self.names(name) {
                    let tensor = tenon::random_tensor(ty, seed.wrapping_add(index as u64))?;
                    tensors.insert(name.clone(), tensor);
                }
            }
        }
        if !partial && problems.is_empty() {
            let missing: Vec<_> =
                signature.iter().filter(|(name, _)| !tensors.contains_key(name)).collect();
            if !missing.is_empty() {
                problems.push(
                    Error::new(
                        ErrorKind::Usage,
                        format!("inputs are missing: {}", list(missing.into_iter())),
                    )
                    .help("give each with --input NAME=FILE, or all with --random SEED"),
                );
            }
        }
        Error::from_all(problems).map_or(Ok(tensors), Err)
    }

    /// Whether an input was given by this name.
    fn names(&self, name: &str) -> bool {
        self.named.iter().any(|(known, _)| known == name)
            || self.arrays.iter().any(|(known, _)| known == name)
    }
}

fn list<'a>(inputs: impl Iterator<Item = &'a (String, TensorType)>) -> String {
    inputs.map(|(name, ty)| format!("{name}: {ty}")).collect::<Vec<_>>().join(", ")
}

/// The model's own image options, the flags' where given.
pub fn image_options(model: &Model, flags: &InputFlags) -> Result<ImageOptions> {
    let mut options = ImageOptions::from_metadata(model.metadata())?;
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
    model.inputs().iter().map(|input| (input.name.clone(), input.ty.clone())).collect()
}
