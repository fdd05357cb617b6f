//! Packages whose sizes are known only when they run.

mod common;

use common::{done, folder, repository, tenon};
use serde_json::Value;
use std::path::Path;
use tenon::Tensor;
use tenon::tensor::npy;

const LSTM: &str = "models/small/lstm-dynamic.onnx";

/// Writes an input with this number of steps.
fn steps(path: &Path, count: usize) {
    let values: Vec<f32> = (0..count * 12).map(|at| (at % 7) as f32 / 7.0).collect();
    let array = Tensor::from_slice(vec![1, count, 12], &values).unwrap();
    npy::write_npy(path, &array).unwrap();
}

#[test]
fn a_package_without_sizes_takes_those_of_arrays() {
    let folder = folder();
    let folder = folder.path();
    common::package(folder, LSTM);
    for count in [1, 5, 40] {
        steps(&folder.join("x.npy"), count);
        let package = ["run", "model.neff", "-i", "x=x.npy", "-o", "package"];
        done(folder, &package);
        // The same model, compiled for the sizes of the array.
        let model = repository(LSTM);
        done(folder, &["run", &model, "-i", "x=x.npy", "-o", "model"]);
        assert_eq!(
            npy::read_npy(folder.join("package/classes.npy")).unwrap(),
            npy::read_npy(folder.join("model/classes.npy")).unwrap(),
        );
    }
}

#[test]
fn info_lists_the_dimensions_and_their_ranges() {
    let folder = folder();
    let folder = folder.path();
    let model = repository(LSTM);
    let compile = ["compile", &model, "-o", "model.neff", "--dim", "time=1..64"];
    done(folder, &compile);
    let text = done(folder, &["info", "model.neff"]);
    assert!(text.contains("f32[1, time, 12]"), "{text}");
    assert!(
        text.contains("sizes that are known when it runs: time 1 to 64"),
        "{text}"
    );
    let json: Value =
        serde_json::from_str(&done(folder, &["info", "model.neff", "--json"])).unwrap();
    let symbols = serde_json::json!([{"name": "time", "min": 1, "max": 64}]);
    assert_eq!(json["symbols"], symbols);
    assert!(done(folder, &["verify", "model.neff"]).contains("0 errors"));
}

#[test]
fn sizes_of_flags_are_checked() {
    let folder = folder();
    let folder = folder.path();
    let model = repository(LSTM);
    let compile = ["compile", &model, "-o", "model.neff", "--dim", "time=2..64"];
    done(folder, &compile);
    let run = |dims: &[&str]| {
        let flags = dims.iter().flat_map(|dim| ["--dim", dim]);
        let mut arguments = vec!["run", "model.neff", "--random", "1"];
        arguments.extend(flags);
        tenon(folder, &arguments)
    };
    assert_eq!(run(&["time=64"]).status, Some(0));
    for (dims, part) in [
        (
            &[][..],
            "dimension 'time' has no size: expected a size from 2 to 64",
        ),
        (
            &["time=65"],
            "dimension 'time': the size of a dimension is outside its range: expected 2 to 64, found 65",
        ),
        (
            &["time=2..5"],
            "--dim time: one size is needed to run a package: expected time=N",
        ),
        (
            &["time=3", "tmie=4"],
            "the model has no symbolic dimension 'tmie': expected time",
        ),
    ] {
        let answer = run(dims);
        assert_ne!(answer.status, Some(0), "{dims:?}");
        assert!(answer.err.contains(part), "{dims:?}: {}", answer.err);
    }
    let answer = tenon(folder, &["compile", &model, "--dim", "time=9..3"]);
    assert_ne!(answer.status, Some(0));
    assert!(answer.err.contains("9..3"), "{}", answer.err);
    let bench = [
        "bench",
        "model.neff",
        "--dim",
        "time=16",
        "--seconds",
        "0.1",
    ];
    assert!(done(folder, &bench).contains("median"));
}
