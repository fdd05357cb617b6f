//! Errors: one sentence each, and the exit status: 2 for wrong usage, 1 for others.

mod common;

use common::{done, folder, package, repository, tenon, tiny};
use std::fs;
use std::path::Path;
use tenon::Tensor;
use tenon::tensor::npy;

const DIGITS: &str = "models/digits/digits.onnx";
const FAILED: i32 = 1;
const USAGE: i32 = 2;

/// `tenon` must fail with `status` and as many lines as there are `parts`, each with its part.
#[track_caller]
fn refused(folder: &Path, arguments: &[&str], status: i32, parts: &[&str]) {
    let answer = tenon(folder, arguments);
    let printed = format!("tenon {arguments:?} printed:\n{}", answer.err);
    assert_eq!(answer.status, Some(status), "{printed}");
    assert_eq!(answer.out, "", "a failure prints no answer");
    let lines: Vec<&str> = answer.err.lines().collect();
    assert_eq!(lines.len(), parts.len(), "{printed}");
    for (line, part) in lines.iter().zip(parts) {
        assert!(line.starts_with("error: "), "{printed}");
        assert!(line.contains(part), "no '{part}': {printed}");
        assert!(!line.contains("panicked"), "{printed}");
    }
}

/// Pseudo-random bytes.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn files_that_are_no_model() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("empty.onnx"), []).unwrap();
    fs::write(folder.join("noise.onnx"), noise(3000)).unwrap();
    fs::write(folder.join("noise.neff"), noise(3000)).unwrap();
    fs::write(folder.join("text.onnx"), "not a model, but a text\n").unwrap();
    for command in ["run", "compile", "info", "bench", "disasm"] {
        let command = |file, status, part| refused(folder, &[command, file], status, &[part]);
        command("none.onnx", FAILED, "none.onnx: cannot read: No such file");
        command(".", USAGE, ".: this is a folder");
        command("empty.onnx", FAILED, "empty.onnx: the file is empty");
        command("noise.onnx", FAILED, "noise.onnx: byte ");
        command("text.onnx", FAILED, "not an ONNX model");
        command("noise.neff", FAILED, "noise.neff: pkg_version: ");
    }
}

#[test]
fn files_cut_short() {
    let folder = folder();
    let folder = folder.path();
    package(folder, DIGITS);
    let whole = fs::read(folder.join("model.neff")).unwrap();
    for cut in [1, 16, 1000, 1024, 5000, whole.len() / 2, whole.len() - 1] {
        fs::write(folder.join("cut.neff"), &whole[..cut]).unwrap();
        for command in ["run", "info", "disasm", "bench"] {
            refused(folder, &[command, "cut.neff"], FAILED, &["cut.neff: "]);
        }
    }
    let whole = fs::read(repository(DIGITS)).unwrap();
    for cut in [1, 100, 5000, whole.len() / 2, whole.len() - 1] {
        fs::write(folder.join("cut.onnx"), &whole[..cut]).unwrap();
        for command in ["run", "info", "bench", "compile"] {
            refused(folder, &[command, "cut.onnx"], FAILED, &["cut.onnx: "]);
        }
    }
    assert!(!folder.join("cut.neff.onnx").exists() && folder.read_dir().unwrap().count() == 3);
}

#[test]
fn the_wrong_kind_of_file() {
    let folder = folder();
    let folder = folder.path();
    package(folder, DIGITS);
    let model = repository(DIGITS);
    refused(
        folder,
        &["compile", "model.neff"],
        USAGE,
        &["this is a package already"],
    );
    refused(
        folder,
        &["disasm", &model],
        USAGE,
        &["a model, not a package; compile it first"],
    );
    let late = [
        "run",
        "model.neff",
        "--dim",
        "n=1",
        "--backends",
        "CpuRef",
        "--random",
        "1",
    ];
    refused(
        folder,
        &late,
        USAGE,
        &["these flags have no effect: --dim, --backends"],
    );
}

#[test]
fn inputs_that_are_missing_are_listed() {
    let folder = folder();
    let folder = folder.path();
    let model = repository("models/small/bert.onnx");
    package(folder, "models/small/bert.onnx");
    for file in [model.as_str(), "model.neff"] {
        let all = "inputs are missing: input_ids: i64[1, 16], attention_mask: i64[1, 16]";
        refused(folder, &["run", file], USAGE, &[all]);
        let ids = Tensor::from_slice([1, 16], &[1i64; 16]).unwrap();
        npy::write_npy(folder.join("ids.npy"), &ids).unwrap();
        let one = "inputs are missing: attention_mask: i64[1, 16]; give each with --input";
        refused(
            folder,
            &["run", file, "-i", "input_ids=ids.npy"],
            USAGE,
            &[one],
        );
        let unnamed = "ids.npy: expected --input NAME=FILE; the inputs left are: input_ids: i64[1, 16], attention_mask";
        refused(folder, &["run", file, "-i", "ids.npy"], USAGE, &[unnamed]);
    }
}

#[test]
fn inputs_that_do_not_fit() {
    let folder = folder();
    let folder = folder.path();
    package(folder, "models/small/mlp.onnx");
    let at = |name: &str| folder.join(name);
    let short = Tensor::from_slice([1, 19], &[0.0f32; 19]).unwrap();
    let ints = Tensor::from_slice([1, 20], &[0i32; 20]).unwrap();
    npy::write_npy(at("short.npy"), &short).unwrap();
    npy::write_npy(at("ints.npy"), &ints).unwrap();
    npy::write_npz(at("ints.npz"), &[("x", &ints)]).unwrap();
    npy::write_npz(at("other.npz"), &[("other", &short)]).unwrap();
    fs::write(at("short.bin"), [0; 79]).unwrap();
    fs::write(at("short.csv"), "1,2,3").unwrap();
    fs::write(at("words.csv"), "1,2,three").unwrap();
    fs::write(at("noise.npy"), noise(500)).unwrap();
    fs::write(at("noise.npz"), noise(500)).unwrap();
    fs::write(at("empty.npy"), []).unwrap();
    fs::write(at("x.txt"), "1").unwrap();
    for file in ["model.neff".to_owned(), repository("models/small/mlp.onnx")] {
        let given =
            |input, status, part| refused(folder, &["run", &file, "-i", input], status, &[part]);
        given("short.npy", FAILED, "expected f32[1, 20], found f32[1, 19]");
        given("ints.npy", FAILED, "expected f32[1, 20], found i32[1, 20]");
        given("ints.npz", FAILED, "input 'x': an array that does not fit");
        given(
            "other.npz",
            USAGE,
            "the model has no input 'other': expected x",
        );
        given(
            "y=short.npy",
            USAGE,
            "the model has no input 'y': expected x",
        );
        given("short.bin", FAILED, "short.bin: ");
        given(
            "short.csv",
            FAILED,
            "expected 20 elements for f32[1, 20], found 3",
        );
        given(
            "words.csv",
            FAILED,
            "words.csv:1:3: not a number: found 'three'",
        );
        given("noise.npy", FAILED, "noise.npy: ");
        given("noise.npz", FAILED, "noise.npz: ");
        given("empty.npy", FAILED, "empty.npy: ");
        given(
            "x.txt",
            USAGE,
            "expected .npy, .npz, .bin, .csv, .json, .png or .jpg, found .txt",
        );
        given("x=none.npy", FAILED, "none.npy: cannot read: No such file");
    }
}

#[test]
fn pictures_that_cannot_be_read() {
    let folder = folder();
    let folder = folder.path();
    package(folder, DIGITS);
    let picture = fs::read(repository("models/digits/seven.png")).unwrap();
    fs::write(folder.join("noise.png"), noise(500)).unwrap();
    fs::write(folder.join("cut.png"), &picture[..120]).unwrap();
    fs::write(folder.join("empty.jpg"), []).unwrap();
    let run = |input| ["run", "model.neff", "--input", input];
    for name in ["noise.png", "cut.png", "empty.jpg"] {
        let part = format!("{name}: cannot decode the picture: ");
        refused(folder, &run(name), FAILED, &[&part]);
    }
    let seven = repository("models/digits/seven.png");
    let mean = [&run(&seven)[..], &["--mean", "1,2"]].concat();
    refused(
        folder,
        &mean,
        USAGE,
        &["the mean does not fit the channels"],
    );
    package(folder, "models/small/gpt2.onnx");
    let past = format!("past={seven}");
    let shape = "a picture does not fit the input: expected a shape";
    refused(folder, &run(&past), FAILED, &[shape]);
}

#[test]
fn unknown_names() {
    let folder = folder();
    let folder = folder.path();
    let model = repository(DIGITS);
    let compile = |more: &[&'static str], status, parts: &[&str]| {
        let arguments = [&["compile", &model, "-o", "m.neff"], more].concat();
        refused(folder, &arguments, status, parts);
        assert_eq!(folder.read_dir().unwrap().count(), 0, "nothing is written");
    };
    compile(&["--dim", "batch=1"], FAILED, &["no dimension 'batch'"]);
    compile(
        &["--const", "shape=x.npy"],
        USAGE,
        &["the model has no input 'shape'"],
    );
    let backends = ["found Npu", "found Gpu"];
    compile(&["--backends", "Npu,Gpu"], FAILED, &backends);
    let batch = ["run", &tiny("batch"), "--random", "1"];
    let size = "dimension 'batch' is not given; input 'x' uses it; give it with --dim batch=N";
    refused(folder, &batch, USAGE, &[size]);
}

#[test]
fn several_problems_are_reported_together() {
    let folder = folder();
    let folder = folder.path();
    let bert = repository("models/small/bert.onnx");
    package(folder, "models/small/bert.onnx");
    for file in [bert.as_str(), "model.neff"] {
        let inputs = [
            "-i",
            "mask=a.npy",
            "-i",
            "input_ids=b.npy",
            "-i",
            "attention_mask=c.xyz",
        ];
        let parts = [
            "no input 'mask'",
            "b.npy: cannot read",
            "c.xyz: an input of unknown kind",
        ];
        refused(
            folder,
            &[&["run", file], &inputs[..]].concat(),
            USAGE,
            &parts,
        );
    }
    let parts = ["Frobnicate", "Widget"];
    refused(folder, &["compile", &tiny("unknown")], FAILED, &parts);
}

#[test]
fn a_shape_that_is_not_known_when_compiling() {
    let folder = folder();
    let part = "input 'shape' (value 'shape') decides the shape of the result, but is not known when compiling; give it with --const shape=FILE";
    for arguments in [["compile", &tiny("reshape")], ["run", &tiny("reshape")]] {
        refused(folder.path(), &arguments, FAILED, &[part]);
    }
}

#[test]
fn a_comparison_that_cannot_be_made() {
    let folder = folder();
    let folder = folder.path();
    package(folder, "models/small/mlp.onnx");
    let flags = ["run", "model.neff", "--random", "1", "--quiet", "--compare"];
    let compare = |file| [&flags[..], &[file]].concat();
    refused(
        folder,
        &compare("none.npz"),
        FAILED,
        &["none.npz: cannot read"],
    );
    let lstm = repository("models/small/lstm.npz");
    refused(
        folder,
        &compare(&lstm),
        USAGE,
        &["no array is named as an output"],
    );
}

#[test]
fn a_wrong_command_line() {
    let folder = folder();
    let model = repository(DIGITS);
    for arguments in [
        &[][..],
        &["fly"],
        &["run"],
        &["run", &model, "--fast"],
        &["run", &model, "--dim", "batch"],
        &["run", &model, "--dim", "batch=many"],
        &["run", &model, "--threads", "0"],
        &["run", &model, "--tolerance", "1"],
        &["run", &model, "--compare", "x.npz", "--tolerance", "NaN"],
        &["run", &model, "--quiet", "--json"],
        &["bench"],
        &["bench", &model, "--seconds", "NaN"],
        &["bench", &model, "--seconds", "-1"],
        &["completions", "nosh"],
    ] {
        let answer = tenon(folder.path(), arguments);
        assert_eq!(answer.status, Some(USAGE), "{arguments:?}: {}", answer.err);
        assert_eq!(answer.out, "", "{arguments:?}");
        assert!(!answer.err.contains("panicked"), "{}", answer.err);
        assert!(
            answer.err.contains("error: ") || arguments.is_empty(),
            "{}",
            answer.err
        );
    }
    assert!(done(folder.path(), &["--version"]).starts_with("tenon 0."));
}
