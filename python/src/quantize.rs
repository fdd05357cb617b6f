//! `tenon.quantize`: an f32 model becomes one of integers.

use crate::call::Call;
use crate::compile::{ModelInput, WeightsInput, copied, dimension, warn};
use crate::error::{Failure, invalid};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use tenon::inputs::ImageOptions;
use tenon::quantize::{Calibration, Quantizer, Sample, Scheme, read_samples, split_samples};
use tenon::{Compiler, LoadOptions, Model, Pattern, Result, Tensor};

/// Calibration data.
enum Samples {
    Path(PathBuf),
    /// Arrays by name, each set with one or several samples.
    Arrays(Vec<Vec<(String, Tensor)>>),
}

impl Samples {
    fn read(samples: &Bound<'_, PyAny>) -> PyResult<Self> {
        if samples.is_none() {
            return Ok(Self::Arrays(Vec::new()));
        }
        if let Ok(path) = samples.extract::<PathBuf>() {
            return Ok(Self::Path(path));
        }
        if let Ok(arrays) = samples.cast::<PyDict>() {
            return Ok(Self::Arrays(vec![named(arrays)?]));
        }
        let mut sets = Vec::new();
        for set in samples.try_iter()? {
            sets.push(named(set?.cast::<PyDict>()?)?);
        }
        Ok(Self::Arrays(sets))
    }

    fn split(self, model: &Model) -> Result<Vec<Sample>> {
        let sets = match self {
            Self::Path(path) => {
                let image = ImageOptions::from_metadata(model.metadata())?;
                return read_samples(&path, model, &image);
            }
            Self::Arrays(sets) => sets,
        };
        let mut samples = Vec::new();
        for set in sets {
            samples.extend(split_samples(set, model)?);
        }
        Ok(samples)
    }
}

fn named(arrays: &Bound<'_, PyDict>) -> PyResult<Vec<(String, Tensor)>> {
    let arrays = arrays.iter();
    arrays
        .map(|(name, array)| Ok((name.extract()?, copied(&array)?)))
        .collect()
}

/// Quantises the ONNX or LiteRT file of a path, or its bytes; returns the bytes of the quantised one and the report as JSON.
#[pyfunction]
#[pyo3(signature = (model, samples, *, scheme, block_size, method, percentile, exclude, max_node_error, labels, dims,
    linked_folders, signature, weights, timeout, progress))]
pub fn quantize_model<'py>(
    py: Python<'py>,
    model: &Bound<'py, PyAny>,
    samples: &Bound<'py, PyAny>,
    scheme: &str,
    block_size: usize,
    method: &str,
    percentile: f64,
    exclude: Vec<String>,
    max_node_error: f64,
    labels: Option<Vec<i64>>,
    dims: &Bound<'py, PyDict>,
    linked_folders: Vec<PathBuf>,
    signature: Option<String>,
    weights: (Vec<PathBuf>, Bound<'py, PyDict>),
    timeout: Option<f64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyBytes>, String)> {
    let call = Call::new(timeout, progress)?;
    let scheme = match scheme {
        "int8" => Scheme::Int8,
        "int4" => Scheme::Int4 { block: block_size },
        "f16" => Scheme::F16,
        other => return Err(choice("scheme", "int8, int4 or f16", other)),
    };
    let calibration = match method {
        "minmax" => Calibration::MinMax,
        "percentile" => Calibration::Percentile(percentile),
        "entropy" => Calibration::Entropy,
        other => return Err(choice("method", "minmax, percentile or entropy", other)),
    };
    let mut compiler = Compiler::new();
    for (name, size) in dims {
        compiler = dimension(compiler, name.extract()?, &size)?;
    }
    for folder in linked_folders {
        compiler = compiler.linked_folder(folder);
    }
    if let Some(signature) = signature {
        compiler = compiler.signature(signature);
    }
    let mut quantizer = Quantizer::new(scheme)
        .calibration(calibration)
        .max_node_error(max_node_error);
    for pattern in exclude {
        quantizer = quantizer.exclude(Pattern::new(&pattern));
    }
    if let Some(labels) = labels {
        quantizer = quantizer.labels(labels);
    }
    let (model, samples) = (ModelInput::read(model)?, Samples::read(samples)?);
    let weights = WeightsInput::read(&weights)?;
    let (bytes, report, note) = call.run(py, move |control| {
        let compiler = compiler.control(control.clone()).weights(weights.load()?);
        let (onnx, note) = model.open(&compiler.open_options())?;
        let options = LoadOptions::new().control(control.clone());
        let samples = samples.split(&compiler.compile_model(&onnx)?.load(&options)?)?;
        let quantizer = quantizer.compiler(compiler).control(control.clone());
        let quantized = quantizer.quantize(&onnx, &samples)?;
        let report = quantized.report().json().to_string();
        Ok((quantized.to_bytes()?, report, note))
    })?;
    warn(py, note)?;
    Ok((PyBytes::new(py, &bytes), report))
}

/// Writes a file as a whole or not at all.
#[pyfunction]
pub fn write_file(path: PathBuf, data: &[u8]) -> PyResult<()> {
    let written = tenon::files::write(&path, data);
    written.map_err(|error| Failure::from(error).into())
}

/// An option with an unknown value.
fn choice(option: &str, expected: &str, found: &str) -> PyErr {
    let error = invalid(format!("an unknown {option}"));
    Failure::from(error.expected(expected).found(found)).into()
}
