//! Sizes that depend on data, branches and loops: written and random models, compared with onnxruntime. The models are
//! made by `host_functions.py`; `PROPTEST_CASES` sets the number of random ones.

#![allow(clippy::print_stderr, reason = "a skipped test prints the reason")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tenon::tensor::npy;
use tenon::{Compiler, Control, ErrorKind, LoadOptions, Model, ModelValue, RunOptions, Tensor};

/// The models, or `None` without Python.
fn models(count: usize) -> Option<tempfile::TempDir> {
    let Some(python) = std::env::var_os("TENON_PYTHON") else {
        eprintln!("skipped: TENON_PYTHON is not set");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host_functions.py");
    let done = Command::new(python)
        .arg(script)
        .arg(folder.path())
        .args([count.to_string(), "1".to_owned()])
        .status()
        .unwrap();
    assert!(done.success());
    Some(folder)
}

fn load(path: &Path) -> tenon::Result<Model> {
    let compiled = Compiler::new().compile_file(path)?;
    Model::from_package(&compiled.to_package()?, &LoadOptions::default())
}

/// The arrays of a sample whose names have a prefix.
fn arrays(arrays: &[(String, Tensor)], prefix: &str) -> Vec<(String, Tensor)> {
    let named = arrays.iter();
    let named = named
        .filter_map(|(name, tensor)| Some((name.strip_prefix(prefix)?.to_owned(), tensor.clone())));
    named.collect()
}

/// The differences of a model's outputs from a sample.
fn differences(model: &Model, sample: &Path) -> Vec<String> {
    let all: Vec<(String, Tensor)> = npy::read_npz(sample).unwrap().into_iter().collect();
    let inputs = arrays(&all, "in.");
    let inputs: Vec<(&str, &Tensor)> = inputs
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    let outputs = match model.run(&inputs) {
        Ok(outputs) => outputs,
        Err(error) => return vec![error.to_string()],
    };
    let mut found = Vec::new();
    for (name, expected) in arrays(&all, "out.") {
        let output = outputs.tensor(&name).unwrap();
        if output.ty() != expected.ty() {
            found.push(format!(
                "{name}: {} instead of {}",
                output.ty(),
                expected.ty()
            ));
            continue;
        }
        let close = |(a, b): (&f32, &f32)| {
            (a - b).abs() <= 1e-3 * (1.0 + b.abs()) || a.is_nan() && b.is_nan()
        };
        let equal = match (output.as_slice::<f32>(), expected.as_slice::<f32>()) {
            (Some(a), Some(b)) => a.iter().zip(b).all(close),
            _ => *output == expected,
        };
        if !equal {
            found.push(format!("{name}: other elements"));
        }
    }
    found
}

#[test]
fn models_agree_with_onnxruntime() {
    let count = std::env::var("PROPTEST_CASES").ok();
    let count = count.and_then(|count| count.parse().ok()).unwrap_or(40);
    let Some(folder) = models(count) else { return };
    let paths = folder.path().read_dir().unwrap();
    let paths: BTreeSet<PathBuf> = paths.map(|entry| entry.unwrap().path()).collect();
    let is =
        |path: &Path, extension: &str| path.extension().is_some_and(|found| found == extension);
    let mut problems = Vec::new();
    for path in paths.iter().filter(|path| is(path, "onnx")) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let model = match load(path) {
            Ok(model) => model,
            Err(error) => {
                problems.push(format!("{name}: {error}"));
                continue;
            }
        };
        let prefix = format!("{name}.");
        let samples = paths.iter().filter(|path| {
            let file = path.file_name().unwrap().to_str().unwrap();
            is(path, "npz") && file.starts_with(&prefix)
        });
        for sample in samples {
            let differences = differences(&model, sample).into_iter();
            problems.extend(differences.map(|text| format!("{}: {text}", sample.display())));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn positions_outside_of_a_sequence_are_errors() {
    let Some(folder) = models(0) else { return };
    let model = load(&folder.path().join("sequence_positions.onnx")).unwrap();
    let x = Tensor::from_slice([3, 3], &[0f32; 9]).unwrap();
    let sizes = Tensor::from_slice([2], &[1i64, 2]).unwrap();
    let run = |at: i64, to: i64| {
        let (at, to) = (Tensor::scalar(at).unwrap(), Tensor::scalar(to).unwrap());
        let inputs = [("x", &x), ("sizes", &sizes), ("at", &at), ("to", &to)];
        model.run(&inputs).map(drop)
    };
    run(1, 1).unwrap();
    for (at, to, found) in [(2, 0, "2"), (-3, 0, "-3"), (0, 2, "2"), (0, i64::MIN, "-9")] {
        let error = run(at, to).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(
            text.contains("a position that the sequence does not have"),
            "{text}"
        );
        assert!(text.contains(&format!("found {found}")), "{text}");
    }
}

#[test]
fn sequences_and_absent_values_pass_as_values() {
    let Some(folder) = models(0) else { return };
    let model = load(&folder.path().join("ports.onnx")).unwrap();
    let inputs = model.inputs().iter().map(ToString::to_string);
    let expected = [
        "sequence of f32[?, 3]",
        "f32[m, 3]",
        "optional of f32[?, 3]",
    ];
    assert_eq!(inputs.collect::<Vec<_>>(), expected);
    let rows = |count: usize| Tensor::from_slice([count, 3], &vec![1f32; 3 * count]).unwrap();
    let sequence = ModelValue::from(vec![rows(1), rows(2)]);
    let v = ModelValue::from(rows(4));
    let run = |s: &ModelValue, o: &ModelValue| {
        model.run_values(&[("s", s), ("v", &v), ("o", o)], RunOptions::new())
    };
    let outputs = run(&sequence, &ModelValue::None).unwrap();
    let longer = ModelValue::from(vec![rows(1), rows(2), rows(4)]);
    let flag = |flag: bool| ModelValue::from(Tensor::from_bools([], &[flag]).unwrap());
    assert_eq!(outputs, [longer, flag(false), ModelValue::None]);
    let outputs = run(&ModelValue::Sequence(Vec::new()), &v).unwrap();
    assert_eq!(outputs, [vec![rows(4)].into(), flag(true), v.clone()]);
    // Values of another kind or type.
    let refused = |s: &ModelValue, o: &ModelValue| run(s, o).unwrap_err().to_string();
    let text = refused(&v, &ModelValue::None);
    let expected = "input 's' has the wrong type: expected sequence of f32[?, 3], found f32[4, 3]";
    assert_eq!(text, expected);
    let other = Tensor::from_slice([1, 2], &[0f32; 2]).unwrap();
    let text = refused(&vec![rows(1), other].into(), &ModelValue::None);
    assert!(
        text.contains("tensor 1") && text.contains("f32[1, 2]"),
        "{text}"
    );
    let text = refused(&ModelValue::None, &sequence);
    assert!(
        text.contains("found nothing") && text.contains("optional of"),
        "{text}"
    );
    let error = model.run(&[("v", &rows(4))]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

/// A loop that never ends by itself.
const ENDLESS: &[u8] = include_bytes!("../../cli/tests/data/endless.onnx");

#[test]
fn a_loop_without_end_stops_at_the_deadline() {
    let compiled = Compiler::new().compile_bytes(ENDLESS).unwrap();
    let model = compiled.load(&LoadOptions::default()).unwrap();
    let x = Tensor::from_slice([2], &[1.0f32, 2.0]).unwrap();
    let control = Control::with_deadline(Instant::now() + Duration::from_millis(50));
    let options = RunOptions::new().control(control);
    let error = model.run_with(&[("x", &x)], options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
}

#[test]
fn models_with_host_functions_are_neither_bound_nor_observed() {
    let compiled = Compiler::new().compile_bytes(ENDLESS).unwrap();
    let model = compiled.load(&LoadOptions::default()).unwrap();
    let error = model.bind().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    // Nor can its subgraphs be observed yet: an empty profile would mislead.
    let mut profile = model.profile();
    let x = Tensor::from_slice([2], &[1.0f32, 2.0]).unwrap();
    let options = RunOptions::new().profile(&mut profile);
    let error = model.run_with(&[("x", &x)], options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
