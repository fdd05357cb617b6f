//! `tenon.compile`: an ONNX or LiteRT model becomes a package.

use crate::arrays;
use crate::call::Call;
use crate::error::{Failure, invalid};
use crate::package::PyPackage;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyRange, PyRangeMethods};
use std::path::PathBuf;
use tenon::backends::CpuLevel;
use tenon::{
    BackendId, Compiler, Hint, Location, OnnxModel, OpenOptions, Pattern, StatePair,
    StateSelection, Weights,
};

/// A model: a file, or its bytes.
pub enum ModelInput {
    File(PathBuf),
    Bytes(Vec<u8>),
}

impl ModelInput {
    pub fn read(model: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(match model.cast::<PyBytes>() {
            Ok(bytes) => Self::Bytes(bytes.as_bytes().to_vec()),
            Err(_) => Self::File(model.extract()?),
        })
    }

    /// The opened model, and a note about weights without effect.
    pub fn open(self, options: &OpenOptions) -> tenon::Result<(OnnxModel, Option<String>)> {
        let model = match self {
            Self::File(path) => options.open_model(path)?,
            Self::Bytes(bytes) => options.model_from_bytes(bytes)?,
        };
        let note = options.weights.unused_note(&model);
        Ok((model, note))
    }
}

/// Compiles the ONNX or LiteRT file of a path, or its bytes.
#[pyfunction]
#[pyo3(signature = (model, *, dims, pad, constants, known_inputs, backends, hints, precisions, cpu, states, symbolic,
    linked_folders, signature, weights, timeout, progress))]
pub fn compile_model(
    py: Python<'_>,
    model: &Bound<'_, PyAny>,
    dims: &Bound<'_, PyDict>,
    pad: &Bound<'_, PyDict>,
    constants: &Bound<'_, PyDict>,
    known_inputs: &Bound<'_, PyDict>,
    backends: Vec<String>,
    hints: Vec<(String, String)>,
    precisions: Vec<String>,
    cpu: &str,
    states: &Bound<'_, PyAny>,
    symbolic: bool,
    linked_folders: Vec<PathBuf>,
    signature: Option<String>,
    weights: (Vec<PathBuf>, Bound<'_, PyDict>),
    timeout: Option<f64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyPackage> {
    let call = Call::new(timeout, progress)?;
    let model = ModelInput::read(model)?;
    let level = match cpu {
        "native" => CpuLevel::native(),
        name => name
            .parse()
            .map_err(|error: tenon::Error| crate::error::exception(&error))?,
    };
    let mut compiler = Compiler::new()
        .backends(backends.into_iter().map(BackendId::from))
        .cpu_level(level)
        .symbolic(symbolic)
        .states(state_selection(states)?);
    for (name, size) in dims {
        compiler = dimension(compiler, name.extract()?, &size)?;
    }
    for (input, value) in pad {
        compiler = compiler.pad(input.extract::<String>()?, value.str()?.to_string());
    }
    for (input, value) in constants {
        compiler = compiler.constant(input.extract::<String>()?, copied(&value)?);
    }
    for (input, value) in known_inputs {
        compiler = compiler.known_input(input.extract::<String>()?, copied(&value)?);
    }
    for (pattern, backend) in hints {
        compiler = compiler.hint(Hint {
            pattern: Pattern::new(&pattern),
            backend: BackendId::from(backend),
        });
    }
    for rule in precisions {
        let rule = rule
            .parse()
            .map_err(|error: tenon::Error| crate::error::exception(&error))?;
        compiler = compiler.precision_rule(rule);
    }
    for folder in linked_folders {
        compiler = compiler.linked_folder(folder);
    }
    if let Some(signature) = signature {
        compiler = compiler.signature(signature);
    }
    let weights = WeightsInput::read(&weights)?;
    let (package, note) = call.run(py, move |control| {
        let compiler = compiler.control(control.clone()).weights(weights.load()?);
        let (model, note) = model.open(&compiler.open_options())?;
        Ok((compiler.compile_model(&model)?, note))
    })?;
    warn(py, note)?;
    Ok(PyPackage::new(package))
}

/// Weights: files, or arrays by name.
pub struct WeightsInput {
    files: Vec<PathBuf>,
    arrays: Weights,
}

impl WeightsInput {
    pub fn read((files, arrays): &(Vec<PathBuf>, Bound<'_, PyDict>)) -> PyResult<Self> {
        let mut weights = Weights::default();
        for (name, array) in arrays {
            weights.insert(name.extract::<String>()?, copied(&array)?);
        }
        Ok(Self {
            files: files.clone(),
            arrays: weights,
        })
    }

    pub fn load(self) -> tenon::Result<Weights> {
        let mut weights = self.arrays;
        for file in self.files {
            let added = weights.add(Weights::read(&file)?);
            added.map_err(|error| error.at(Location::file(&file)))?;
        }
        Ok(weights)
    }
}

/// Shows a warning of Python for a note about weights.
pub fn warn(py: Python<'_>, note: Option<String>) -> PyResult<()> {
    let Some(note) = note else { return Ok(()) };
    let category = py.get_type::<pyo3::exceptions::PyUserWarning>();
    let text = std::ffi::CString::new(note)?;
    PyErr::warn(py, &category, &text, 1)
}

/// A tensor of the package, which does not change when the array does.
pub fn copied(value: &Bound<'_, PyAny>) -> Result<tenon::Tensor, Failure> {
    let tensor = arrays::read(value, None)?;
    let bytes = tenon::tensor::BufferMut::copy_of(tensor.bytes())?;
    Ok(tenon::Tensor::new(tensor.ty().clone(), bytes.freeze())?)
}

/// Sets the size, the range or the buckets of a dimension.
pub fn dimension(compiler: Compiler, name: String, size: &Bound<'_, PyAny>) -> PyResult<Compiler> {
    if let Ok(size) = size.extract::<usize>() {
        return Ok(compiler.dim(name, size));
    }
    if let Ok(range) = size.cast::<PyRange>() {
        let (start, stop) = (range.start()?, range.stop()?);
        if range.step()? == 1 && start >= 0 && stop > start {
            return Ok(compiler.dim_range(name, start as u64..=stop as u64 - 1));
        }
    } else if let Ok(sizes) = size.extract::<Vec<u64>>() {
        return Ok(compiler.bucket(name, sizes));
    }
    let error = invalid(format!("dimension '{name}' has no size"));
    let error = error.expected("an int, a range with step 1, or a list of sizes (buckets)");
    Err(Failure::from(error.found(size)).into())
}

/// Which outputs are inputs of the next execution.
fn state_selection(states: &Bound<'_, PyAny>) -> PyResult<StateSelection> {
    if let Ok(automatic) = states.cast::<PyBool>() {
        return Ok(match automatic.is_true() {
            true => StateSelection::Automatic,
            false => StateSelection::None,
        });
    }
    Ok(StateSelection::Pairs(state_pairs(states)?))
}

/// States as a dictionary of outputs to inputs.
pub fn state_pairs(states: &Bound<'_, PyAny>) -> PyResult<Vec<StatePair>> {
    let Ok(pairs) = states.cast::<PyDict>() else {
        let error = invalid("states are no dict of output names to input names");
        let error = error.found(crate::error::class_name(states));
        return Err(Failure::from(error).into());
    };
    let pairs = pairs.iter().map(|(output, input)| {
        Ok(StatePair {
            output: output.extract()?,
            input: input.extract()?,
        })
    });
    pairs.collect()
}
