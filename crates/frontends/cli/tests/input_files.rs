//! Inputs of models: sizes of dimensions, arrays, folders of links, standard streams.

mod common;

use common::{Answer, done, folder, repository, tenon, tiny};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use tenon::Tensor;
use tenon::tensor::npy;

const FAILED: Option<i32> = Some(1);
const USAGE: Option<i32> = Some(2);

fn zeros(path: &Path, shape: &[usize]) {
    let count = shape.iter().product();
    let array = Tensor::from_slice(shape.to_vec(), &vec![0.0f32; count]).unwrap();
    npy::write_npy(path, &array).unwrap();
}

#[test]
fn arrays_say_the_sizes_of_dimensions() {
    let folder = folder();
    let folder = folder.path();
    zeros(&folder.join("x.npy"), &[2, 3, 4]);
    zeros(&folder.join("y.npy"), &[2, 5, 6]);
    let run = ["run", &tiny("dims"), "-i", "x=x.npy", "-i", "y=y.npy"];
    let text = done(folder, &run);
    assert!(text.contains("p: f32[2, 3, 4]"), "{text}");
    assert!(text.contains("q: f32[2, 5, 6]"), "{text}");
    // The size of --dim and that of an array must be equal.
    let answer = tenon(folder, &[&run[..], &["--dim", "batch=3"]].concat());
    assert_eq!(answer.status, FAILED);
    let part = "input 'x': dimension 0 (batch) of the array given: expected 3, found 2";
    assert!(answer.err.contains(part), "{}", answer.err);
    zeros(&folder.join("y.npy"), &[7, 5, 6]);
    let answer = tenon(folder, &run);
    let part = "input 'y': dimension 0 (batch) of the array given: expected 2, found 7";
    assert!(answer.err.contains(part), "{}", answer.err);
    // The sizes of a constant also apply to other inputs.
    let constant = ["run", &tiny("dims"), "-i", "x=x.npy", "--random", "1"];
    zeros(&folder.join("y.npy"), &[2, 5, 6]);
    let text = done(folder, &[&constant[..], &["--const", "y=y.npy"]].concat());
    assert!(text.contains("q: f32[2, 5, 6]"), "{text}");
}

#[test]
fn all_missing_dimensions_are_named() {
    let folder = folder();
    let folder = folder.path();
    // `compile` keeps them symbolic.
    for command in ["run", "bench", "profile", "compare"] {
        let answer = tenon(folder, &[command, &tiny("dims")]);
        assert_eq!(answer.status, USAGE, "{command}: {}", answer.err);
        let lines: Vec<&str> = answer.err.lines().collect();
        let missing = ["batch", "length", "x[1]", "y[1]", "y[2]"];
        assert_eq!(lines.len(), missing.len(), "{}", answer.err);
        for (line, name) in lines.iter().zip(missing) {
            let part = format!("dims.onnx: dimension '{name}' is not given; input");
            assert!(line.contains(&part), "{line}");
            assert!(line.ends_with(&format!("--dim {name}=N")), "{line}");
        }
    }
}

#[test]
fn dimensions_without_a_name_are_different() {
    let folder = folder();
    let mut arguments = vec![
        "run".to_owned(),
        tiny("dims"),
        "--random".into(),
        "1".into(),
    ];
    for dim in ["batch=1", "length=2", "x[1]=3", "y[1]=4", "y[2]=5"] {
        arguments.extend(["--dim".into(), dim.into()]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let text = done(folder.path(), &arguments);
    assert!(
        text.contains("p: f32[1, 3, 2]") && text.contains("q: f32[1, 4, 5]"),
        "{text}"
    );
}

#[test]
fn a_second_value_is_refused() {
    let folder = folder();
    let folder = folder.path();
    zeros(&folder.join("x.npy"), &[1, 3, 2]);
    let refused = |flags: &[&str], part: &str| {
        let answer = tenon(folder, &[&["run", &tiny("dims")], flags].concat());
        assert_eq!(answer.status, USAGE, "{}", answer.err);
        assert!(answer.err.contains(part), "{}", answer.err);
    };
    let dims = ["--dim", "batch=1", "--dim", "batch=2"];
    refused(&dims, "--dim gives 'batch' twice");
    refused(
        &["-i", "x=x.npy", "-i", "x=y.npy"],
        "--input gives 'x' twice",
    );
    refused(
        &["--const", "x=x.npy", "--const", "x=x.npy"],
        "--const gives 'x' twice",
    );
    let unknown = tenon(folder, &["run", &tiny("dims"), "--dim", "bacth=1"]);
    assert!(
        unknown.err.contains("the model has no dimension 'bacth'"),
        "{}",
        unknown.err
    );
}

#[test]
fn outputs_that_are_not_what_the_model_declares() {
    let folder = folder();
    let folder = folder.path();
    for command in ["compile", "run"] {
        let answer = tenon(folder, &[command, &tiny("wrong_outputs"), "--dim", "x=1"]);
        assert_eq!(answer.status, FAILED, "an unknown dimension comes first");
        let answer = tenon(folder, &[command, &tiny("wrong_outputs")]);
        assert_eq!(answer.status, FAILED, "{}", answer.err);
        let text = "wrong_outputs.onnx: output";
        let another = "the model declares another type for this output than its nodes produce";
        for line in [
            format!("{text} 'y': {another}: expected f32[2, 4], found f32[2, 3]\n"),
            format!("{text} 'z': {another}: expected i64[2, 3], found f32[2, 3]\n"),
        ] {
            assert!(answer.err.contains(&line), "no {line} in {}", answer.err);
        }
    }
    assert_eq!(folder.read_dir().unwrap().count(), 0);
}

/// A folder like those of model hubs: a snapshot with links to a folder of blobs.
#[cfg(unix)]
#[test]
fn links_are_followed_into_folders_that_are_allowed() {
    use std::os::unix::fs::symlink;
    let folder = folder();
    let folder = folder.path();
    for name in ["blobs", "snapshots", "snapshots/1"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    std::fs::copy(tiny("external"), folder.join("blobs/a")).unwrap();
    let weights: Vec<u8> = [1.5f32, -2.0]
        .iter()
        .flat_map(|it| it.to_le_bytes())
        .collect();
    std::fs::write(folder.join("blobs/b"), weights).unwrap();
    symlink("../../blobs/a", folder.join("snapshots/1/model.onnx")).unwrap();
    symlink("../../blobs/b", folder.join("snapshots/1/external.bin")).unwrap();
    std::fs::write(folder.join("x.csv"), "1,1\n").unwrap();
    let run = ["run", "snapshots/1/model.onnx", "-i", "x.csv"];
    let answer = tenon(folder, &run);
    assert_eq!(answer.status, FAILED);
    let blobs = folder.canonicalize().unwrap().join("blobs");
    let help = format!("give --allow-links {}\n", blobs.display());
    assert!(answer.err.ends_with(&help), "{}", answer.err);
    let text = done(folder, &[&run[..], &["--allow-links", "blobs"]].concat());
    assert!(text.contains("y: f32[2] [2.5, -1.0]"), "{text}");
    let other = tenon(
        folder,
        &[&run[..], &["--allow-links", "snapshots"]].concat(),
    );
    assert_eq!(other.status, FAILED, "{}", other.out);
    let none = tenon(folder, &[&run[..], &["--allow-links", "none"]].concat());
    assert!(none.err.contains("none: cannot read"), "{}", none.err);
}

/// The file with the external data of the model is not there.
#[test]
fn weights_replace_external_data() {
    let folder = folder();
    let folder = folder.path();
    let model = folder.join("model.onnx");
    std::fs::copy(tiny("external"), &model).unwrap();
    std::fs::write(folder.join("x.csv"), "1,1\n").unwrap();
    let w = Tensor::from_slice([2], &[1.5f32, -2.0]).unwrap();
    npy::write_npz(folder.join("w.npz"), &[("w", &w), ("other", &w)]).unwrap();
    let flags = ["--weights", "w.npz"];
    let run = ["run", "model.onnx", "-i", "x.csv"];
    let answer = tenon(folder, &[&run[..], &flags].concat());
    assert!(
        answer.out.contains("y: f32[2] [2.5, -1.0]"),
        "{}",
        answer.err
    );
    let note =
        "note: 1 of 2 tensors of the weights have no initialiser or input of their name: other";
    assert!(answer.err.contains(note), "{}", answer.err);
    tenon(folder, &[&["compile", "model.onnx"][..], &flags].concat());
    assert!(done(folder, &["run", "model.neff", "-i", "x.csv"]).contains("[2.5, -1.0]"));
    let answer = tenon(folder, &[&["run", "model.neff"][..], &flags].concat());
    assert_eq!(answer.status, USAGE);
    let part = "model.neff: weights for a package, which is compiled with weights already";
    assert!(answer.err.contains(part), "{}", answer.err);
    let answer = tenon(folder, &[&run[..], &flags, &flags].concat());
    assert!(
        answer.err.contains("w.npz: there are two tensors 'other'"),
        "{}",
        answer.err
    );
}

/// Runs `tenon` with standard input; returns its output as bytes.
#[track_caller]
fn piped(folder: &Path, input: &[u8], arguments: &[&str]) -> Vec<u8> {
    let output = piped_output(folder, input, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    output.stdout
}

fn piped_output(folder: &Path, input: &[u8], arguments: &[&str]) -> std::process::Output {
    let mut child = common::command(folder, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that refuses its flags does not read standard input.
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap_or_default());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

#[test]
fn files_may_be_standard_streams() {
    let folder = folder();
    let folder = folder.path();
    let model = std::fs::read(repository("models/small/mlp.onnx")).unwrap();
    let arrays = repository("models/small/mlp.npz");
    let package = piped(folder, &model, &["compile", "-", "-o", "-"]);
    done(
        folder,
        &[
            "compile",
            &repository("models/small/mlp.onnx"),
            "-o",
            "m.neff",
        ],
    );
    assert!(package == std::fs::read(folder.join("m.neff")).unwrap());

    let run = ["run", "-", "-i", &arrays, "--compare", &arrays];
    for file in [&model, &package] {
        let text = String::from_utf8(piped(folder, file, &run)).unwrap();
        assert!(text.contains("top the same"), "{text}");
    }
    let outputs = piped(folder, &package, &["run", "-", "-i", &arrays, "-o", "-"]);
    std::fs::write(folder.join("y.npz"), outputs).unwrap();
    assert_eq!(npy::read_npz(folder.join("y.npz")).unwrap()[0].0, "y");

    for arguments in [
        &["info", "-"][..],
        &["info", "-", "--memory"],
        &["info", "-", "--memory", "--svg", "-"],
        &["disasm", "-"],
        &["verify", "-"],
        &["ls", "-"],
        &["cat", "-", "neff.json"],
        &["dma", "-"],
        &["diff", "-", "m.neff"],
        &["bench", "-", "--seconds", "0"],
        &["profile", "-", "--runs", "1"],
        &["compare", "-", "--random", "1"],
    ] {
        let printed = piped(folder, &package, arguments);
        assert_eq!(printed.is_empty(), arguments[0] == "diff", "{arguments:?}");
    }
    let stripped = piped(folder, &package, &["strip", "-", "-o", "-"]);
    assert_eq!(stripped[..16], package[..16]);
    piped(folder, &package, &["unpack", "-", "-o", "parts"]);
    let packed = piped(folder, &[], &["pack", "-i", "parts", "-o", "-"]);
    assert_eq!(packed.len(), package.len());
    let trace = piped(
        folder,
        &package,
        &["profile", "-", "--runs", "1", "--trace", "-"],
    );
    serde_json::from_slice::<Value>(&trace).unwrap();
    let svg = piped(folder, &package, &["info", "-", "--memory", "--svg", "-"]);
    assert!(
        svg.starts_with(b"<svg"),
        "{}",
        String::from_utf8_lossy(&svg)
    );
}

#[test]
fn invalid_uses_of_standard_streams_are_refused() {
    let folder = folder();
    let folder = folder.path();
    let model = std::fs::read(repository("models/small/mlp.onnx")).unwrap();
    done(
        folder,
        &[
            "compile",
            &repository("models/small/mlp.onnx"),
            "-o",
            "m.neff",
        ],
    );
    let refused = |arguments: &[&str], part: &str| {
        let answer = Answer::from(piped_output(folder, &model, arguments));
        assert_eq!(answer.status, USAGE, "{arguments:?}: {}", answer.err);
        assert!(answer.err.contains(part), "{}", answer.err);
        assert_eq!(answer.out, "");
    };
    let cannot = "a folder cannot be standard output (-)";
    refused(&["unpack", "m.neff", "-o", "-"], cannot);
    refused(&["compare", "m.neff", "--random", "1", "-o", "-"], cannot);
    refused(
        &[
            "run",
            "m.neff",
            "--random",
            "1",
            "--tap",
            "*",
            "--tap-dir",
            "-",
        ],
        cannot,
    );
    refused(&["compile", "-"], "give one with --output");
    let both = "standard output cannot take both a file (-) and JSON";
    refused(&["compile", "-", "-o", "-", "--json"], both);
    refused(&["run", "-", "--random", "1", "-o", "-", "--json"], both);
    assert_eq!(folder.read_dir().unwrap().count(), 1);
    let package = std::fs::read(folder.join("m.neff")).unwrap();
    let twice = Answer::from(piped_output(folder, &package, &["diff", "-", "-"]));
    let part = "standard input (-) can be used for one file only";
    assert!(
        twice.status == USAGE && twice.err.contains(part),
        "{}",
        twice.err
    );
    let empty = Answer::from(piped_output(folder, &[], &["run", "-"]));
    assert!(
        empty.err.contains("<stdin>: the file is empty"),
        "{}",
        empty.err
    );
}

#[test]
fn maps_and_strings_are_read_and_shown() {
    let folder = folder();
    let folder = folder.path();
    let words = folder.join("words.json");
    let run = ["run", &tiny("maps"), "-i", "words=words.json"];
    std::fs::write(&words, r#"{"b": 0.5, "unknown": 9, "a": -1}"#).unwrap();
    let text = done(folder, &run);
    let maps = "scores: f32[1, 3] by 3 keys\n  {7: -1.0, 8: 0.5, 9: 0.0}\n";
    assert!(text.contains(maps), "{text}");
    assert!(text.contains(r#"label: string[1] ["y \"z\""]"#), "{text}");
    let text = done(folder, &[&run[..], &["--json"]].concat());
    let answer: Value = serde_json::from_str(&text).unwrap();
    let maps = serde_json::json!([{"7": -1.0, "8": 0.5, "9": 0.0}]);
    assert_eq!(answer["outputs"][0]["maps"], maps);
    assert_eq!(answer["outputs"][1]["values"][0], "y \"z\"");
    // A list has a value for each key; an object has values of their type.
    std::fs::write(&words, "[3, 2, 1]").unwrap();
    assert!(done(folder, &run).contains("{7: 3.0, 8: 2.0, 9: 1.0}"));
    std::fs::write(&words, r#"{"b": "x"}"#).unwrap();
    let answer = tenon(folder, &run);
    assert_eq!(answer.status, FAILED);
    let part = "words.json: element 1 is not a number: found \"x\"";
    assert!(answer.err.contains(part), "{}", answer.err);
    // The same from a package.
    std::fs::write(&words, r#"{"c": 4}"#).unwrap();
    done(folder, &["compile", &tiny("maps"), "-o", "maps.neff"]);
    let text = done(folder, &["run", "maps.neff", "-i", "words.json"]);
    assert!(text.contains("{7: 0.0, 8: 0.0, 9: 4.0}"), "{text}");
}
