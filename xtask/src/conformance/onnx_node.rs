//! ONNX's node tests: every case of a backend of tensors.

use super::compare::compare;
use super::{Case, KnownCases, NotRun, Suite, Trial};
use crate::{Result, output, root, run, target};
use half::{bf16, f16};
use regex_lite::Regex;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use tenon_base::Control;
use tenon_graph::Graph;
use tenon_onnx::{Evaluator, ImportOptions, Model};
use tenon_tensor::{Buffer, BufferMut, DataType, ModelValue, Packing, Tensor, TensorType, convert};

/// Unsupported cases: patterns of their whole names, below a comment with the reason.
const UNSUPPORTED: &str = include_str!("onnx_node_unsupported.txt");

#[derive(Deserialize)]
struct CaseFile {
    onnx: String,
    cases: Vec<NodeCase>,
}

#[derive(Deserialize)]
struct NodeCase {
    name: String,
    operator: String,
    skip: Option<String>,
    #[serde(default)]
    sets: Vec<DataSet>,
    #[serde(default)]
    rtol: f64,
    #[serde(default)]
    atol: f64,
}

/// Offset and length in the data file.
type ByteRange = (usize, usize);

#[derive(Deserialize)]
struct DataSet {
    model: ByteRange,
    inputs: Vec<String>,
    values: Vec<StoredValue>,
    outputs: Vec<StoredValue>,
}

#[derive(Deserialize)]
struct StoredValue {
    name: String,
    kind: String,
    tensors: Vec<StoredTensor>,
}

#[derive(Deserialize)]
struct StoredTensor {
    dtype: String,
    shape: Vec<usize>,
    data: Option<ByteRange>,
    #[serde(default)]
    strings: Vec<String>,
}

/// The cases of the `onnx` package of the interpreter `python`.
pub(super) fn suite(python: &Path) -> Result<Suite> {
    let folder = generated_cases(python)?;
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let file: CaseFile =
        serde_json::from_slice(&read("cases.json")?).map_err(|error| error.to_string())?;
    let data = BufferMut::copy_of(&read("data.bin")?).map_err(|error| error.to_string())?;
    let data = data.freeze();
    let case = |case: NodeCase| Case {
        trials: match &case.skip {
            Some(reason) => Err(NotRun::Skipped(reason.clone())),
            None => trials(&case, &data).map_err(NotRun::Refused),
        },
        name: case.name,
        group: case.operator,
    };
    Ok(Suite {
        name: "ONNX node tests",
        source: format!("onnx {}", file.onnx),
        cases: file.cases.into_iter().map(case).collect(),
        known: known_cases()?,
    })
}

/// The patterns of the list, each with the comment above it; `run:` marks cases that run.
fn known_cases() -> Result<Vec<KnownCases>> {
    let (mut reason, mut list) = ("", Vec::new());
    for line in UNSUPPORTED.lines().map(str::trim) {
        match line.strip_prefix('#') {
            Some(comment) => reason = comment.trim().trim_end_matches('.'),
            None if line.is_empty() => {}
            None => {
                let text = line.strip_prefix("run:");
                let whole = Regex::new(&format!("^(?:{})$", text.unwrap_or(line).trim()));
                list.push(KnownCases {
                    pattern: whole.map_err(|error| error.to_string())?,
                    reason: reason.to_owned(),
                    run: text.is_some(),
                });
            }
        }
    }
    Ok(list)
}

/// The folder of the cases, which a script generates; repeated when the script or the package changes.
fn generated_cases(python: &Path) -> Result<PathBuf> {
    let script = root().join("tests/python/onnx_node_cases.py");
    let folder = target().join("onnx-node-cases");
    let version = "import onnx, sys; print(onnx.__version__, sys.version)";
    let version = output(Command::new(python).args(["-c", version]))?;
    let text = std::fs::read_to_string(&script)
        .map_err(|error| format!("cannot read {}: {error}", script.display()))?;
    let stamp = version + &text;
    // Other threads and processes that test at the same time wait for the cases.
    let lock = folder.with_extension("lock");
    let held = File::create(&lock).and_then(|file| file.lock().map(|()| file));
    let _held = held.map_err(|error| format!("cannot lock {}: {error}", lock.display()))?;
    if std::fs::read_to_string(folder.join("stamp")).is_ok_and(|found| found == stamp) {
        return Ok(folder);
    }
    run(Command::new(python).arg(&script).arg(&folder))?;
    let written = std::fs::write(folder.join("stamp"), stamp);
    written.map_err(|error| format!("cannot write in {}: {error}", folder.display()))?;
    Ok(folder)
}

fn trials(case: &NodeCase, data: &Buffer) -> Result<Vec<Trial>> {
    case.sets.iter().map(|set| trial(case, set, data)).collect()
}

fn trial(case: &NodeCase, set: &DataSet, data: &Buffer) -> Result<Trial> {
    let text = |error: tenon_base::Error| error.to_string().replace('\n', "; ");
    let control = Control::new();
    let model = part(data, set.model)?;
    let evaluator = Evaluator::new(|graph, control| {
        tenon_compiler::specialise(graph, &tenon_builtin::registry(), control)
    });
    let options = ImportOptions {
        evaluator: Some(evaluator),
        ..ImportOptions::default()
    };
    let model = Model::from_bytes(&model[..], &control).map_err(text)?;
    let mut graph = model.graph(&options, &control).map_err(text)?;
    let inputs = restore_inputs(&mut graph, &set.inputs);
    let stored = |values: &[StoredValue]| -> Result<Vec<(String, ModelValue)>> {
        let value = |stored: &StoredValue| Ok((stored.name.clone(), value(stored, data)?));
        values.iter().map(value).collect()
    };
    let values = stored(&set.values)?.into_iter().collect();
    let expected = stored(&set.outputs)?;
    let (name, rtol, atol) = (case.name.clone(), case.rtol, case.atol);
    let check = move |found: &[ModelValue]| {
        if found.len() != expected.len() {
            return Err(format!("{} outputs", found.len()));
        }
        for ((output, expected), found) in expected.iter().zip(found) {
            let check = |expected: &Tensor, found: &Tensor| {
                let (rtol, atol) = tolerance(&name, (rtol, atol), found.dtype());
                check_output(expected, found, rtol, atol)
            };
            check_value(expected, found, check)
                .map_err(|error| format!("output '{output}': {error}"))?;
        }
        Ok(())
    };
    Ok(Trial {
        graph,
        inputs,
        values,
        check: Box::new(check),
    })
}

/// A value of a case.
fn value(stored: &StoredValue, data: &Buffer) -> Result<ModelValue> {
    let text = |error: tenon_base::Error| error.to_string();
    let tensor = |stored: &StoredTensor| {
        let Some(bytes) = stored.data else {
            return Tensor::from_strings(&stored.shape[..], &stored.strings).map_err(text);
        };
        let dtype = DataType::from_str(&stored.dtype).map_err(text)?;
        let ty = TensorType::new(dtype, &stored.shape[..]).map_err(text)?;
        Tensor::new(ty, part(data, bytes)?).map_err(text)
    };
    let mut tensors: Vec<Tensor> = stored.tensors.iter().map(tensor).collect::<Result<_>>()?;
    match (stored.kind.as_str(), tensors.pop()) {
        ("none", _) => Ok(ModelValue::None),
        ("tensor", Some(tensor)) => Ok(ModelValue::Tensor(tensor)),
        (_, last) => {
            tensors.extend(last);
            Ok(ModelValue::Sequence(tensors))
        }
    }
}

/// Compares values, and their tensors by `check`.
fn check_value(
    expected: &ModelValue,
    found: &ModelValue,
    check: impl Fn(&Tensor, &Tensor) -> Result<()>,
) -> Result<()> {
    match (expected, found) {
        (ModelValue::Tensor(expected), ModelValue::Tensor(found)) => check(expected, found),
        (ModelValue::Sequence(expected), ModelValue::Sequence(found))
            if expected.len() == found.len() =>
        {
            let mut pairs = expected.iter().zip(found);
            pairs.try_for_each(|(expected, found)| check(expected, found))
        }
        (ModelValue::None, ModelValue::None) => Ok(()),
        _ => {
            let (expected, found) = (expected.description(), found.description());
            Err(format!("expected {expected}, found {found}"))
        }
    }
}

fn part(data: &Buffer, (start, len): ByteRange) -> Result<Buffer> {
    // A copy, so that it is aligned for its elements.
    let bytes = data
        .get(start..start + len)
        .ok_or("the data file is truncated")?;
    let copy = BufferMut::copy_of(bytes).map_err(|error| error.to_string())?;
    Ok(copy.freeze())
}

/// Makes the constants that the script stored for the model's inputs inputs again.
fn restore_inputs(graph: &mut Graph, names: &[String]) -> BTreeMap<String, Tensor> {
    let mut inputs = BTreeMap::new();
    for index in 0..graph.values.len() {
        let id = tenon_graph::ValueId(index as u32);
        let value = graph.value_mut(id);
        if names.contains(&value.name)
            && let Some(tensor) = value.constant.take()
        {
            inputs.insert(value.name.clone(), tensor);
            graph.inputs.push(id);
        }
    }
    inputs
}

fn check_output(expected: &Tensor, found: &Tensor, rtol: f64, atol: f64) -> Result<()> {
    // The script stores elements of less than a byte as bytes or in single precision.
    let widened = match Packing::of(found.dtype()) {
        Some(_) if found.dtype().is_float() => convert(found, DataType::F32),
        Some(_) => convert(found, DataType::I8),
        None => Ok(found.clone()),
    };
    let found = widened.map_err(|error| error.to_string())?;
    let exact = !found.dtype().is_float();
    compare(expected, &found, |expected, found| {
        !exact && (expected - found).abs() <= atol + rtol * expected.abs()
    })
}

/// ONNX's relative and absolute tolerance, larger where the expected values are less accurate.
fn tolerance(name: &str, (rtol, atol): (f64, f64), dtype: DataType) -> (f64, f64) {
    // Scores, weights and sums were each rounded to 16 bits: two units in the last place.
    let unit: f64 = match dtype {
        DataType::F16 => f16::EPSILON.into(),
        DataType::BF16 => bf16::EPSILON.into(),
        _ => 0.0,
    };
    if name.starts_with("test_attention_") && unit > 0.0 {
        return (2.0 * unit, atol);
    }
    // A transform and its inverse in f32: zeros have rounding errors of f32.
    if name.starts_with("test_dft_inverse") {
        return (rtol, 1e-6);
    }
    (rtol, atol)
}
