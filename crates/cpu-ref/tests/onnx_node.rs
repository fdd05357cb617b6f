//! ONNX's own node tests: every case that a tensor backend can have, through import, inference and
//! `CpuRef`. Needs TENON_PYTHON, an interpreter with `onnx`.
#![allow(clippy::print_stdout, reason = "a test says what it covers")]

use half::{bf16, f16};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tenon_backend::evaluate;
use tenon_base::{Control, Error, Location, Result};
use tenon_cpu_ref::CpuRef;
use tenon_graph::{Graph, infer};
use tenon_onnx::{ImportOptions, Model};
use tenon_tensor::{DataType, Tensor, TensorType};

/// Cases that do not pass, by the start of their names; each with its reason.
const UNSUPPORTED: &str = include_str!("onnx_node_unsupported.txt");

#[derive(Deserialize)]
struct Cases {
    onnx: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    skip: Option<String>,
    #[serde(default)]
    sets: Vec<Set>,
    #[serde(default)]
    rtol: f64,
    #[serde(default)]
    atol: f64,
}

#[derive(Deserialize)]
struct Set {
    model: (usize, usize),
    outputs: Vec<Expected>,
}

#[derive(Deserialize)]
struct Expected {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    data: (usize, usize),
}

enum Outcome {
    Passed,
    /// Import, inference or the backend said no.
    Refused(String),
    /// Another answer than ONNX's.
    Wrong(String),
}

#[test]
fn cases_of_onnx() {
    let Ok(python) = std::env::var("TENON_PYTHON") else {
        println!("skipped: TENON_PYTHON is not set");
        return;
    };
    let folder = written_by(&python);
    let cases = std::fs::read(folder.join("cases.json")).unwrap();
    let cases: Cases = serde_json::from_slice(&cases).unwrap();
    let data = std::fs::read(folder.join("data.bin")).unwrap();
    let (mut passed, mut skipped) = (0, BTreeMap::<&str, usize>::new());
    let (mut refused, mut wrong) = (Vec::new(), Vec::new());
    for case in &cases.cases {
        if let Some(reason) = &case.skip {
            *skipped.entry(reason).or_default() += 1;
            continue;
        }
        match outcome(case, &data) {
            Outcome::Passed => passed += 1,
            Outcome::Refused(reason) => refused.push((case.name.as_str(), reason)),
            Outcome::Wrong(how) => wrong.push(format!("{}: {how}", case.name)),
        }
    }
    println!(
        "onnx {}: {passed} passed, {} refused",
        cases.onnx,
        refused.len()
    );
    println!("not a tensor backend's: {skipped:?}");
    refused
        .iter()
        .for_each(|(name, reason)| println!("refused: {name}: {reason}"));
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    check_refusals(&refused);
}

/// The refused cases are those of the list, and every line of the list is still needed.
fn check_refusals(refused: &[(&str, String)]) {
    let lines = UNSUPPORTED
        .lines()
        .map(|line| line.split('#').next().unwrap_or("").trim());
    let prefixes: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let unexpected: Vec<String> = refused
        .iter()
        .filter(|(name, _)| !prefixes.iter().any(|prefix| name.starts_with(prefix)))
        .map(|(name, reason)| format!("{name}: {reason}"))
        .collect();
    assert!(
        unexpected.is_empty(),
        "not in the list:\n{}",
        unexpected.join("\n")
    );
    let idle: Vec<_> = prefixes
        .iter()
        .filter(|prefix| !refused.iter().any(|(name, _)| name.starts_with(**prefix)))
        .collect();
    assert!(
        idle.is_empty(),
        "pass now, take them off the list: {idle:?}"
    );
}

/// Where the script has written the cases; they are written anew when the script has changed.
fn written_by(python: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx_node_cases.py");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("onnx_node_cases");
    let version = "import onnx, sys; print(onnx.__version__, sys.version)";
    let version = Command::new(python).args(["-c", version]).output().unwrap();
    assert!(version.status.success(), "{python} has no package onnx");
    let stamp = [std::fs::read(&script).unwrap(), version.stdout].concat();
    if std::fs::read(folder.join("stamp")).is_ok_and(|found| found == stamp) {
        return folder;
    }
    let status = Command::new(python)
        .arg(&script)
        .arg(&folder)
        .status()
        .unwrap();
    assert!(status.success(), "the script failed");
    std::fs::write(folder.join("stamp"), stamp).unwrap();
    folder
}

fn outcome(case: &Case, data: &[u8]) -> Outcome {
    for set in &case.sets {
        let (start, len) = set.model;
        let outputs = match run(&data[start..start + len]) {
            Ok(outputs) => outputs,
            Err(error) => return Outcome::Refused(error.to_string().replace('\n', "; ")),
        };
        for (expected, found) in set.outputs.iter().zip(&outputs) {
            if let Err(how) = compare(tolerance(case, found.dtype()), expected, found, data) {
                return Outcome::Wrong(format!("output '{}': {how}", expected.name));
            }
        }
        if outputs.len() != set.outputs.len() {
            return Outcome::Wrong(format!("{} outputs", outputs.len()));
        }
    }
    Outcome::Passed
}

/// ONNX's own, relative and absolute, but where the expected numbers are themselves less exact.
fn tolerance(case: &Case, dtype: DataType) -> (f64, f64) {
    // Scores, weights and sums were each rounded to 16 bits: two units in the last place.
    let unit: f64 = match dtype {
        DataType::F16 => f16::EPSILON.into(),
        DataType::BF16 => bf16::EPSILON.into(),
        _ => 0.0,
    };
    if case.name.starts_with("test_attention_") && unit > 0.0 {
        return (2.0 * unit, case.atol);
    }
    // Transformed forth and back in f32: where 0 should be is noise of f32.
    if case.name.starts_with("test_dft_inverse") {
        return (case.rtol, 1e-6);
    }
    (case.rtol, case.atol)
}

/// The outputs of a model without inputs.
fn run(model: &[u8]) -> Result<Vec<Tensor>> {
    let control = Control::default();
    let model = Model::from_bytes(model, &control)?;
    let mut graph = model.graph(&ImportOptions::default(), &control)?;
    for index in 0..graph.nodes.len() {
        let name = graph.nodes[index].name.clone();
        step(&mut graph, index).map_err(|error: Error| error.at(Location::node(name)))?;
    }
    let output = |&id| graph.value(id).constant.clone().expect("made by a node");
    Ok(graph.outputs.iter().map(output).collect())
}

/// Executes a node whose inputs are constants and makes its outputs constants.
fn step(graph: &mut Graph, index: usize) -> Result<()> {
    let node = graph.nodes[index].clone();
    let inputs: Vec<Option<&Tensor>> = node
        .inputs
        .iter()
        .map(|id| id.and_then(|id| graph.value(id).constant.as_ref()))
        .collect();
    let types: Vec<Option<&TensorType>> = inputs.iter().map(|i| i.map(Tensor::ty)).collect();
    let inferred = infer(
        node.op,
        &node.attributes,
        &types,
        &inputs,
        node.outputs.len(),
    )?;
    let wanted: Vec<Option<TensorType>> = node
        .outputs
        .iter()
        .zip(inferred)
        .map(|(output, ty)| output.is_some().then_some(ty))
        .collect();
    let made = evaluate(&CpuRef, node.op, &node.attributes, &inputs, &wanted)?;
    for (id, tensor) in node.outputs.iter().zip(made) {
        if let Some(id) = id {
            graph.value_mut(*id).constant = tensor;
        }
    }
    Ok(())
}

fn compare(
    (rtol, atol): (f64, f64),
    expected: &Expected,
    found: &Tensor,
    data: &[u8],
) -> Result<(), String> {
    let half_bytes = matches!(found.dtype(), DataType::I4 | DataType::U4);
    let dtype = if half_bytes {
        "i8"
    } else {
        found.dtype().name()
    };
    if dtype != expected.dtype || **found.shape() != *expected.shape {
        return Err(format!(
            "expected {}{:?}, found {}",
            expected.dtype,
            expected.shape,
            found.ty()
        ));
    }
    let (start, len) = expected.data;
    let wanted = &data[start..start + len];
    let Some(wanted) = numbers(dtype, wanted) else {
        return if wanted == found.bytes() {
            Ok(())
        } else {
            Err("other bytes".into())
        };
    };
    let found = match found.dtype() {
        DataType::I4 => halves(found, |half| f64::from(((half << 4) as i8) >> 4)),
        DataType::U4 => halves(found, f64::from),
        _ => numbers(dtype, found.bytes()).expect("of the same type"),
    };
    let exact = !dtype.starts_with('f') && dtype != "bf16";
    for (at, (&wanted, &found)) in wanted.iter().zip(&found).enumerate() {
        let near = (wanted - found).abs() <= atol + rtol * wanted.abs();
        let same = wanted == found || (wanted.is_nan() && found.is_nan());
        if !same && (exact || !near) {
            return Err(format!("element {at}: expected {wanted}, found {found}"));
        }
    }
    Ok(())
}

fn halves(tensor: &Tensor, read: impl Fn(u8) -> f64) -> Vec<f64> {
    let all = tensor
        .bytes()
        .iter()
        .flat_map(|byte| [byte & 15, byte >> 4]);
    all.map(read).take(tensor.shape().elements()).collect()
}

/// The numbers in little-endian bytes; 64-bit integers of these tests fit f64. `None` for types
/// that are compared byte by byte.
fn numbers(dtype: &str, bytes: &[u8]) -> Option<Vec<f64>> {
    fn all<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes
            .as_chunks::<N>()
            .0
            .iter()
            .map(|&chunk| read(chunk))
            .collect()
    }
    Some(match dtype {
        "f32" => all(bytes, |b| f32::from_le_bytes(b).into()),
        "f64" => all(bytes, f64::from_le_bytes),
        "f16" => all(bytes, |b| f16::from_le_bytes(b).into()),
        "bf16" => all(bytes, |b| bf16::from_le_bytes(b).into()),
        "i8" => all(bytes, |b| i8::from_le_bytes(b).into()),
        "i16" => all(bytes, |b| i16::from_le_bytes(b).into()),
        "i32" => all(bytes, |b| i32::from_le_bytes(b).into()),
        "u8" | "bool" => all(bytes, |b| u8::from_le_bytes(b).into()),
        "u16" => all(bytes, |b| u16::from_le_bytes(b).into()),
        "u32" => all(bytes, |b| u32::from_le_bytes(b).into()),
        _ => return None,
    })
}
