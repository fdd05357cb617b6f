//! Sizes that depend on data, branches and loops: written and random models, compared with onnxruntime. The models are
//! made by `host_functions.py` and `random_graphs.py`; `PROPTEST_CASES` sets the number of random ones, and
//! `TENON_SEED` their seed.

mod common;

use common::{named, with_prefix};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tenon::compare::{CompareOptions, Tolerance, compare_backends};
use tenon::profile::Recording;
use tenon::tap::{NanCheck, Tap, TapValue, Taps};
use tenon::tensor::npy;
use tenon::{
    Compiler, Control, Error, ErrorKind, LoadOptions, Model, ModelValue, Pattern, RunOptions,
    Tensor,
};
use tenon_test_data::{Answer, python};

/// The written models and random ones, or `None` without Python.
fn models(count: usize) -> Option<tempfile::TempDir> {
    made_by("host_functions.py", count, 1)
}

/// The models of a script, or `None` without Python.
fn made_by(script: &str, count: usize, seed: u64) -> Option<tempfile::TempDir> {
    let mut python = python(format!("crates/frontends/tenon/tests/{script}"))?;
    let folder = tempfile::tempdir().unwrap();
    let options = [count.to_string(), seed.to_string()];
    Answer::text(python.arg(folder.path()).args(options));
    Some(folder)
}

fn load(path: &Path) -> tenon::Result<Model> {
    let compiled = Compiler::new().compile_file(path)?;
    Model::from_package(&compiled.to_neff()?, &LoadOptions::default())
}

/// The differences of a model's outputs from a sample.
fn differences(model: &Model, sample: &Path) -> Vec<String> {
    let all: Vec<(String, Tensor)> = npy::read_npz(sample).unwrap().into_iter().collect();
    let inputs = with_prefix(&all, "in.");
    let inputs = named(&inputs);
    let outputs = match model.run(&inputs) {
        Ok(outputs) => outputs,
        Err(error) => return vec![error.to_string()],
    };
    let mut found = Vec::new();
    for (name, expected) in with_prefix(&all, "out.") {
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

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn models_agree_with_onnxruntime() {
    let count = number("PROPTEST_CASES").unwrap_or(40);
    if let Some(folder) = models(count as usize) {
        check_models(&folder);
    }
}

#[test]
fn random_graphs_agree_with_onnxruntime() {
    let count = number("PROPTEST_CASES").unwrap_or(40);
    let seed = number("TENON_SEED").unwrap_or(1);
    if let Some(folder) = made_by("random_graphs.py", count as usize, seed) {
        check_models(&folder);
    }
}

/// Compiles each model of a folder once, and compares its outputs for each sample.
fn check_models(folder: &tempfile::TempDir) {
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
fn models_with_host_functions_cannot_be_bound() {
    let compiled = Compiler::new().compile_bytes(ENDLESS).unwrap();
    let model = compiled.load(&LoadOptions::default()).unwrap();
    let error = model.bind().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

type NamedTensors = Vec<(String, Tensor)>;

/// The sample `observed.K.npz`: count, inputs and the outputs of onnxruntime.
fn observed(folder: &Path, index: usize) -> (usize, NamedTensors, NamedTensors) {
    let all = npy::read_npz(folder.join(format!("observed.{index}.npz"))).unwrap();
    let inputs = with_prefix(&all, "in.");
    let count = inputs.iter().find(|(name, _)| name == "count").unwrap();
    let count = count.1.to_i64s().unwrap()[0] as usize;
    (count, inputs, with_prefix(&all, "out."))
}

fn assert_close(found: &Tensor, expected: &[f32], what: &str) {
    let found = found.as_slice::<f32>().unwrap();
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * (1.0 + b.abs());
    let all = found.len() == expected.len() && found.iter().zip(expected).all(close);
    assert!(all, "{what}: {found:?} instead of {expected:?}");
}

#[test]
fn tapped_values_of_iterations_are_those_of_onnxruntime() {
    let Some(folder) = models(0) else { return };
    let model = load(&folder.path().join("observed.onnx")).unwrap();
    for index in 0..2 {
        let (count, inputs, expected) = observed(folder.path(), index);
        let output = |name: &str| &expected.iter().find(|(it, _)| it == name).unwrap().1;
        let patterns = ["*row", "*t", "where"].map(Pattern::new);
        let taps = Taps::new(patterns.to_vec());
        let options = RunOptions::new().tap(&taps);
        model.run_with(&named(&inputs), options).unwrap();
        let found = taps.tensors().unwrap();
        let of = |suffix: &str| -> Vec<&(String, Tensor)> {
            let base = |name: &str| match name.rsplit_once('.') {
                Some((base, run)) if run.parse::<u64>().is_ok() => base.to_owned(),
                _ => name.to_owned(),
            };
            let is = |(name, _): &&(String, Tensor)| {
                base(name).rsplit(['/', '.']).next() == Some(suffix)
            };
            found.iter().filter(is).collect()
        };
        let rows = of("row");
        assert_eq!(rows.len(), count);
        let stacked = output("rows").as_slice::<f32>().unwrap();
        for (at, (name, row)) in rows.iter().enumerate() {
            assert_close(row, &stacked[at * 4..][..4], name);
            if count > 1 {
                assert!(name.ends_with(&format!("row.{at}")), "{name}");
            }
        }
        let last = output("last").as_slice::<f32>().unwrap();
        assert_close(&of("t").last().unwrap().1, last, "the last state");
        assert_eq!(of("where").len(), 1);
        assert_eq!(of("where")[0].1, *output("where"));
    }
}

#[test]
fn profiles_and_traces_have_the_nodes_of_every_iteration() {
    let Some(folder) = models(0) else { return };
    let model = load(&folder.path().join("observed.onnx")).unwrap();
    let mut profile = model.profile();
    let mut runs = 0;
    // Other sizes are other kernels of the same nodes.
    for index in [0, 1, 1] {
        let (count, inputs, _) = observed(folder.path(), index);
        let options = RunOptions::new().profile(&mut profile);
        model.run_with(&named(&inputs), options).unwrap();
        runs += count as u64;
    }
    assert_eq!(profile.executions, 3);
    let of = |node: &str| {
        let kernels = profile.kernels.iter();
        let found: Vec<_> = kernels.filter(|it| it.node.ends_with(node)).collect();
        assert_eq!(found.len(), 1, "{node}: {:?}", profile.kernels);
        found[0]
    };
    let total = of("total");
    assert_eq!(total.runs, runs);
    // Four elements of f32 in each iteration.
    assert_eq!(total.bytes, runs * 16 / 3);
    let find = of("find");
    assert_eq!(
        (find.runs, &*find.operator, &*find.backend),
        (3, "NonZero", "host")
    );
    assert!(profile.total() > Duration::ZERO && profile.total() <= profile.elapsed);

    let (count, inputs, _) = observed(folder.path(), 1);
    let recording = Recording::new();
    let options = RunOptions::new().trace(&recording);
    model.run_with(&named(&inputs), options).unwrap();
    let text = recording.json("observed");
    assert_eq!(text.matches("total\"").count(), count, "{text}");
    assert_eq!(text.matches("\"find\"").count(), 1);
}

#[test]
fn nodes_of_loops_are_compared_in_every_iteration() {
    let Some(folder) = models(0) else { return };
    let compiled = Compiler::new()
        .compile_file(folder.path().join("observed.onnx"))
        .unwrap();
    let (_, inputs, _) = observed(folder.path(), 1);
    let options = CompareOptions::new("CpuAcc", "CpuRef").fused_nodes(compiled.fused_nodes());
    let package = compiled.to_neff().unwrap();
    let found = compare_backends(&package, &named(&inputs), &options).unwrap();
    assert!(found.divergence.is_none());
    let nodes: BTreeSet<&str> = found.compared.iter().map(|it| &*it.node).collect();
    assert_eq!(nodes.len(), found.compared.len(), "one entry for a node");
    assert!(
        nodes.iter().any(|node| node.ends_with("total")),
        "{nodes:?}"
    );
    // No difference is accepted: the first that is not zero ends the comparison.
    let exact = options.tolerance(Tolerance {
        relative: Some(0.0),
        absolute: Some(0.0),
        steps: Some(0),
    });
    let found = compare_backends(&package, &named(&inputs), &exact).unwrap();
    let divergence = found.divergence.expect("sines differ in their last bits");
    assert!(divergence.difference.absolute > 0.0);
}

#[test]
fn operators_of_the_host_program_are_observed() {
    let positive = include_bytes!("../../cli/tests/data/positive.onnx");
    let compiled = Compiler::new().compile_bytes(positive).unwrap();
    let model = compiled.load(&LoadOptions::default()).unwrap();
    let x = Tensor::from_slice([4], &[1.0f32, -2.0, 0.0, 3.5]).unwrap();
    let taps = Taps::new(vec![Pattern::new("*")]);
    let mut profile = model.profile();
    let options = RunOptions::new().tap(&taps).profile(&mut profile);
    model.run_with(&[("x", &x)], options).unwrap();
    let tensors = taps.tensors().unwrap();
    let some = tensors.iter().find(|(name, _)| name == "some").unwrap();
    assert_eq!(some.1.as_slice::<f32>().unwrap(), [1.0, 3.5]);
    let choose = profile.kernels.iter().find(|it| it.node == "choose");
    let choose = choose.unwrap();
    assert_eq!((choose.runs, choose.bytes), (1, 8));
    assert!(profile.kernels.iter().any(|it| it.node == "negate"));

    // NaN is greater than nothing, so that none passes; infinity does, and its negation is none.
    let x = Tensor::from_slice([2], &[f32::NAN, f32::INFINITY]).unwrap();
    let options = RunOptions::new().tap(&NanCheck);
    model.run_with(&[("x", &x)], options).unwrap();
}

/// A tap that ends the execution at its third value of a node.
#[derive(Default)]
struct EndsAtThird(AtomicU64);

impl Tap for EndsAtThird {
    fn selects(&self, node: &str) -> bool {
        node.ends_with("where")
    }

    fn on_value(&self, tapped: TapValue<'_>) -> tenon::Result<()> {
        assert_eq!(tapped.run, self.0.fetch_add(1, Ordering::Relaxed));
        match tapped.run {
            2 => Err(Error::new(
                ErrorKind::ExecutionFailed,
                "the third iteration",
            )),
            _ => Ok(()),
        }
    }
}

#[test]
fn the_error_of_a_tap_ends_the_execution() {
    let compiled = Compiler::new().compile_bytes(ENDLESS).unwrap();
    let model = compiled.load(&LoadOptions::default()).unwrap();
    let x = Tensor::from_slice([2], &[1.0f32, 2.0]).unwrap();
    let tap = EndsAtThird::default();
    let control = Control::with_deadline(Instant::now() + Duration::from_secs(60));
    let options = RunOptions::new().tap(&tap).control(control);
    let error = model.run_with(&[("x", &x)], options).unwrap_err();
    assert_eq!(error.message(), "the third iteration");
    assert_eq!(tap.0.into_inner(), 3);
}

#[test]
fn the_nan_check_names_the_node_of_a_loop() {
    let Some(folder) = models(0) else { return };
    let model = load(&folder.path().join("observed.onnx")).unwrap();
    let x = Tensor::from_slice([1, 4], &[0.0, f32::NAN, 1.0, 2.0]).unwrap();
    let count = Tensor::scalar(3i64).unwrap();
    let options = RunOptions::new().tap(&NanCheck);
    let error = model
        .run_with(&[("x", &x), ("count", &count)], options)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotANumber);
    let node = error.location().node.clone().unwrap();
    assert!(
        node.ends_with("project") || node.ends_with("wave"),
        "{node}"
    );
}
