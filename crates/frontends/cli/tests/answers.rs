//! The outputs of `tenon run`: files, text and JSON.

mod common;

use common::{done, folder, repository, tiny};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::Path;
use tenon::tensor::{convert, npy};
use tenon::{DataType, Tensor};

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

#[test]
fn every_output_has_a_separate_file() {
    let folder = folder();
    let folder = folder.path();
    let x = Tensor::from_slice([1], &[-1.5f32]).unwrap();
    npy::write_npy(folder.join("x.npy"), &x).unwrap();
    let run = ["run", &tiny("names"), "-i", "x.npy", "-o", "out"];
    let answer = parsed(&done(folder, &[&run[..], &["--json"]].concat()));
    let outputs = answer["outputs"].as_array().unwrap();
    let mut files = HashSet::new();
    for output in outputs {
        let file = output["file"].as_str().unwrap();
        assert!(files.insert(file), "{file} holds two outputs");
        let array = npy::read_npy(folder.join(file)).unwrap();
        let value = f64::from(array.as_slice::<f32>().unwrap()[0]);
        assert!((value - output["values"][0].as_f64().unwrap()).abs() < 1e-6);
    }
    assert_eq!(files.len(), 5);
    assert_eq!(folder.join("out").read_dir().unwrap().count(), 5);
    // Names that are valid file names are kept; renamed files are printed.
    assert!(files.contains("out/a_b.npy"), "{files:?}");
    let text = done(folder, &run);
    assert!(text.contains("a/b written to out/a_b.2.npy\n"), "{text}");
    assert!(!text.contains("a_b written to"), "{text}");
}

#[test]
fn taps_with_similar_names_have_separate_files() {
    let folder = folder();
    let folder = folder.path();
    let run = ["run", &tiny("names"), "--random", "1", "--tap", "*"];
    let answer = parsed(&done(folder, &[&run[..], &["--json"]].concat()));
    let taps = answer["taps"].as_array().unwrap();
    let files: HashSet<_> = taps
        .iter()
        .map(|tap| tap["file"].as_str().unwrap())
        .collect();
    assert_eq!(files.len(), 5, "{taps:?}");
    assert!(files.iter().all(|file| folder.join(file).is_file()));
}

/// Inputs of the model `types`.
fn inputs(folder: &Path) {
    let floats = Tensor::from_slice([4], &[0.1f32, f32::NAN, f32::NEG_INFINITY, 1e-30]).unwrap();
    let doubles = Tensor::from_slice([4], &[0.1f64, 1.0 / 3.0, -0.0, f64::INFINITY]).unwrap();
    let halves = Tensor::from_slice([4], &[0.1f32, 1.0 / 3.0, 3.0, f32::NAN]).unwrap();
    let arrays = [
        (
            "bool",
            Tensor::from_bools([4], &[true, false, true, true]).unwrap(),
        ),
        (
            "i64",
            Tensor::from_slice([4], &[(1i64 << 53) + 1, i64::MIN, -1, 0]).unwrap(),
        ),
        (
            "u64",
            Tensor::from_slice([4], &[u64::MAX, (1u64 << 53) + 1, 1, 0]).unwrap(),
        ),
        ("f16", convert(&halves, DataType::F16).unwrap()),
        ("f32", floats),
        ("f64", doubles),
    ];
    let arrays: Vec<(&str, &Tensor)> = arrays.iter().map(|(name, it)| (*name, it)).collect();
    npy::write_npz(folder.join("x.npz"), &arrays).unwrap();
}

#[test]
fn elements_are_printed_exactly() {
    let folder = folder();
    let folder = folder.path();
    inputs(folder);
    let text = done(folder, &["run", &tiny("types"), "-i", "x.npz"]);
    for line in [
        "out_bool: bool[4] [true, false, true, true]",
        "out_i64: i64[4] [9007199254740993, -9223372036854775808, -1, 0]",
        "out_u64: u64[4] [18446744073709551615, 9007199254740993, 1, 0]",
        "out_f16: f16[4] [0.1, 0.3333, 3.0, NaN]",
        "out_f32: f32[4] [0.1, NaN, -inf, 1e-30]",
        "out_f64: f64[4] [0.1, 0.3333333333333333, -0.0, inf]",
    ] {
        assert!(text.contains(line), "no '{line}' in\n{text}");
    }
    let answer = parsed(&done(
        folder,
        &["run", &tiny("types"), "-i", "x.npz", "--json"],
    ));
    let values = |name: &str| {
        let outputs = answer["outputs"].as_array().unwrap().iter();
        let mut named = outputs.filter(|output| output["name"] == name);
        named.next().unwrap()["values"].clone()
    };
    assert_eq!(values("out_bool"), json!([true, false, true, true]));
    assert_eq!(
        values("out_i64"),
        json!([9_007_199_254_740_993i64, i64::MIN, -1, 0])
    );
    assert_eq!(
        values("out_u64"),
        json!([u64::MAX, 9_007_199_254_740_993u64, 1, 0])
    );
    assert_eq!(values("out_f16"), json!([0.1, 0.3333, 3.0, "NaN"]));
    assert_eq!(values("out_f32"), json!([0.1, "NaN", "-inf", 1e-30]));
    assert_eq!(values("out_f64"), json!([0.1, 1.0 / 3.0, -0.0, "inf"]));
    let help = done(folder, &["run", "--help"]);
    assert!(help.contains("\"NaN\", \"inf\" and \"-inf\""), "{help}");
}

#[test]
fn integers_that_f64_cannot_distinguish_differ() {
    let folder = folder();
    let folder = folder.path();
    inputs(folder);
    let odd = Tensor::from_slice([4], &[1i64 << 53, i64::MIN, -1, 0]).unwrap();
    npy::write_npz(folder.join("y.npz"), &[("out_i64", &odd)]).unwrap();
    let answer = common::tenon(
        folder,
        &[
            "run",
            &tiny("types"),
            "-i",
            "x.npz",
            "--compare",
            "y.npz",
            "--tolerance",
            "0",
        ],
    );
    assert_eq!(answer.status, Some(1), "{}", answer.out);
    assert!(
        answer
            .err
            .contains("output 'out_i64': the model's output differs"),
        "{}",
        answer.err
    );
}

#[test]
fn only_a_classification_is_sorted() {
    let folder = folder();
    let folder = folder.path();
    let x = Tensor::from_slice([4], &[3.0f32, -7.0, 2.5, 9.0]).unwrap();
    npy::write_npy(folder.join("x.npy"), &x).unwrap();
    let run = ["run", &tiny("types"), "-i", "f32=x.npy", "--random", "1"];
    let text = done(folder, &run);
    assert!(
        text.contains("out_f32: f32[4] [3.0, -7.0, 2.5, 9.0]\n"),
        "{text}"
    );
    let text = done(folder, &[&run[..], &["--top", "2"]].concat());
    assert!(text.contains("out_f32:\n  9.0  3\n  3.0  0\n"), "{text}");
    let seven = repository("models/digits/seven.png");
    let digits = repository("models/digits/digits.onnx");
    let answer = done(
        folder,
        &["run", &digits, "-i", &seven, "--json", "--top", "2"],
    );
    assert_eq!(
        parsed(&answer)["outputs"][0]["top"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}
