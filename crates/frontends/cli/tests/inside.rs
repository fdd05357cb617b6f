//! Inspection of a model: its memory plan, intermediate values, two backends compared.

mod common;

use common::{done, folder, package, repository, tenon};
use serde_json::Value;
use tenon::Tensor;
use tenon::tensor::npy;

const DIGITS: &str = "models/digits/digits.onnx";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Text beside the golden file of that name.
#[track_caller]
fn golden(name: &str, text: &str) {
    tenon_test_data::golden(format!("crates/frontends/cli/tests/golden/{name}"), text);
}

#[test]
fn the_memory_plan_is_a_table_and_a_picture() {
    let folder = folder();
    // CpuRef needs the same memory on every machine.
    let flags = ["--backends", "CpuRef", "-o", "model.neff"];
    done(
        folder.path(),
        &[&["compile", &repository(DIGITS)], &flags[..]].concat(),
    );
    let flags = ["info", "model.neff", "--memory"];
    let text = done(folder.path(), &[&flags[..], &["--svg", "m.svg"]].concat());
    golden("memory.txt", &text);
    let picture = std::fs::read_to_string(folder.path().join("m.svg")).unwrap();
    golden("memory.svg", &picture);
    let report = json(&done(folder.path(), &[&flags[..], &["--json"]].concat()));
    let memory = &report["memory"];
    let rows = memory["variables"].as_array().unwrap();
    let end = rows
        .iter()
        .map(|row| row["offset"].as_u64().unwrap() + row["bytes"].as_u64().unwrap());
    assert_eq!(memory["arena_bytes"].as_u64(), end.max());
    assert!(memory["live_bytes"].as_u64() <= memory["arena_bytes"].as_u64());
    assert_eq!(memory["strategy"], "packed");
}

#[test]
fn strategies_share_more_or_less_and_compute_the_same() {
    let folder = folder();
    let arrays = repository("models/small/detector.npz");
    let mut arenas = Vec::new();
    for strategy in ["packed", "single-axis-priority", "constant"] {
        let model = repository("models/small/detector.onnx");
        let flags = [
            "compile",
            &model,
            "-o",
            "m.neff",
            "--memory-strategy",
            strategy,
        ];
        done(folder.path(), &flags);
        let report = json(&done(
            folder.path(),
            &["info", "m.neff", "--memory", "--json"],
        ));
        assert_eq!(report["memory"]["strategy"], strategy);
        arenas.push(report["memory"]["arena_bytes"].as_u64().unwrap());
        done(
            folder.path(),
            &["run", "m.neff", "-i", &arrays, "--compare", &arrays],
        );
    }
    assert!(
        arenas[0] <= arenas[1] && arenas[1] < arenas[2],
        "{arenas:?}"
    );
    let model = repository(DIGITS);
    let answer = tenon(
        folder.path(),
        &["compile", &model, "--memory-strategy", "best"],
    );
    assert_eq!(answer.status, Some(2));
    assert!(
        answer
            .err
            .contains("packed, single-axis-priority, constant"),
        "{}",
        answer.err
    );
}

#[test]
fn a_memory_plan_is_of_packages() {
    let folder = folder();
    let answer = tenon(folder.path(), &["info", &repository(DIGITS), "--memory"]);
    assert_eq!(answer.status, Some(2), "{}", answer.err);
    assert!(
        answer.err.contains("compile the model first"),
        "{}",
        answer.err
    );
    package(folder.path(), DIGITS);
    let answer = tenon(folder.path(), &["info", "model.neff", "--svg", "m.svg"]);
    assert_eq!(answer.status, Some(2), "{}", answer.err);
}

#[test]
fn taps_write_values_inside() {
    let folder = folder();
    package(folder.path(), "models/small/mlp.onnx");
    let arrays = repository("models/small/mlp.npz");
    let run = [
        "run",
        "model.neff",
        "-i",
        &arrays,
        "--tap-dir",
        "inside",
        "--tap",
    ];
    let text = done(folder.path(), &[&run[..], &["*"]].concat());
    // The last value is the output.
    let files: Vec<_> = folder.path().join("inside").read_dir().unwrap().collect();
    assert!(files.len() >= 2, "{text}");
    assert_eq!(text.matches(" written to ").count(), files.len(), "{text}");
    let output = npy::read_npy(folder.path().join("inside/y.npy")).unwrap();
    let expected = tenon::inputs::read_npz_outputs(arrays.as_ref()).unwrap();
    let difference = tenon::compare::Difference::between(&output, &expected[0].1).unwrap();
    assert!(difference.relative < 1e-5, "{difference:?}");
    let listed = json(&done(folder.path(), &[&run[..], &["y", "--json"]].concat()));
    assert_eq!(listed["taps"][0]["name"], "y");
    let answer = tenon(folder.path(), &[&run[..], &["nothing*"]].concat());
    assert_eq!(answer.status, Some(2));
    assert!(
        answer.err.contains("no value matches 'nothing*'") && answer.err.contains(", y"),
        "{}",
        answer.err
    );
}

#[test]
fn agreeing_backends_are_reported() {
    let folder = folder();
    for file in [repository("models/small/bert.onnx"), "model.neff".into()] {
        package(folder.path(), "models/small/bert.onnx");
        let text = done(folder.path(), &["compare", &file, "--random", "7"]);
        assert!(
            text.contains("operators agree on CpuAcc and CpuRef"),
            "{text}"
        );
        let flags = [
            "compare",
            &file,
            "--random",
            "7",
            "--backends",
            "CpuRef,CpuAcc",
            "--json",
        ];
        let found = json(&done(folder.path(), &flags));
        assert!(found["divergence"].is_null());
        assert!(found["compared"].as_array().unwrap().len() > 10);
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[test]
fn the_first_difference_is_written_as_a_package_that_shows_it() {
    let folder = folder();
    let model = repository("models/small/bert.onnx");
    // With tolerance 0 the fast backend differs at an early operator.
    let strict = ["--tolerance", "0", "--absolute", "0", "--output", "found"];
    let flags = [&["compare", &model, "--random", "7"], &strict[..]].concat();
    let answer = tenon(folder.path(), &flags);
    assert_eq!(answer.status, Some(1), "{}{}", answer.out, answer.err);
    let command = answer.out.lines().last().unwrap().trim();
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    // Within the default tolerance the one operator agrees: the printed command works.
    let text = done(folder.path(), &words);
    assert!(text.contains("largest difference"), "{text}");
    let found = folder.path().join("found");
    assert_eq!(found.read_dir().unwrap().count(), 2);
    // The operator alone has the same difference.
    let again = [
        &["compare", words[1], "--input", words[3], "--json"],
        &strict[..],
    ]
    .concat();
    let alone = tenon(folder.path(), &again);
    assert_eq!(alone.status, Some(1), "{}{}", alone.out, alone.err);
    let whole = tenon(folder.path(), &[&flags[..], &["--json"]].concat());
    let (alone, whole) = (json(&alone.out), json(&whole.out));
    assert!(alone["compared"].as_array().unwrap().is_empty());
    for key in ["node", "operator", "output", "absolute", "values"] {
        assert_eq!(alone["divergence"][key], whole["divergence"][key], "{key}");
    }
}

#[test]
fn invalid_comparisons_are_refused() {
    let folder = folder();
    package(folder.path(), DIGITS);
    let one = Tensor::from_slice([1, 1, 8, 8], &[0.5f32; 64]).unwrap();
    npy::write_npy(folder.path().join("x.npy"), &one).unwrap();
    for (backends, message) in [
        ("CpuRef", "two backends are compared"),
        ("CpuRef,CpuRef", "cannot be compared with itself"),
        ("CpuRef,Other", "no backend has this name"),
    ] {
        let flags = [
            "compare",
            "model.neff",
            "-i",
            "x.npy",
            "--backends",
            backends,
        ];
        let answer = tenon(folder.path(), &flags);
        assert_ne!(answer.status, Some(0));
        assert!(answer.err.contains(message), "{}", answer.err);
    }
}

#[test]
fn the_placement_is_printed_in_one_line_and_in_full() {
    let folder = folder();
    let model = repository(DIGITS);
    let place = [
        "--backends",
        "CpuRef",
        "--place",
        "relu*=CpuAcc",
        "-o",
        "model.neff",
    ];
    let compile = [&["compile", &model], &place[..]].concat();
    let line = done(folder.path(), &compile);
    assert_eq!(line.lines().count(), 1);
    let summary = line.split(", ").nth(1).unwrap();
    assert!(line.contains(" crossings, "), "{line}");
    let text = done(folder.path(), &["info", "model.neff", "--placement"]);
    golden("placement.txt", &text);
    assert!(text.contains(summary), "{summary} in\n{text}");
    let full = done(folder.path(), &[&compile[..], &["--placement"]].concat());
    let rows = |text: &str| text.lines().take_while(|l| !l.is_empty()).count();
    assert!(rows(&full) >= rows(&text), "{full}");
    let parts = json(&done(
        folder.path(),
        &["info", "model.neff", "--placement", "--memory", "--json"],
    ));
    let report = &parts["placement"]["report"];
    assert_eq!(report["nodes"][0]["operator"], "Conv");
    assert!(report["nodes"][0]["read"].is_u64() && report["traffic"]["least"].is_u64());
    assert!(parts["memory"]["arena_bytes"].is_u64());
    let compiled = json(&done(folder.path(), &[&compile[..], &["--json"]].concat()));
    assert_eq!(&compiled["placement"], report);
    assert_eq!(compiled["summary"], parts["placement"]["summary"]);
    for (hint, message) in [
        ("nothing=CpuAcc", "no node is called like 'nothing'"),
        ("*=Npu", "no backend has this name"),
    ] {
        let answer = tenon(folder.path(), &["compile", &model, "--place", hint]);
        assert_ne!(answer.status, Some(0));
        assert!(answer.err.contains(message), "{}", answer.err);
    }
    let answer = tenon(folder.path(), &["compile", &model, "--place", "x"]);
    assert_eq!(answer.status, Some(2));
}
