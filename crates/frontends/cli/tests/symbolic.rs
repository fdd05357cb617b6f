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
            "--dim time: one size is needed for a package: expected time=N",
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

#[test]
fn sizes_between_buckets_are_padded() {
    let folder = folder();
    let folder = folder.path();
    let model = repository(LSTM);
    let compile = [
        "compile",
        &model,
        "-o",
        "model.neff",
        "--bucket",
        "time=4,32",
    ];
    done(folder, &[&compile[..], &["--pad", "x=0.5"]].concat());
    let text = done(folder, &["info", "model.neff"]);
    for line in [
        "time 1 to 32\n",
        "buckets of time: 4, 32\n",
        "x is padded with 0.5\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let json: Value =
        serde_json::from_str(&done(folder, &["info", "model.neff", "--json"])).unwrap();
    let buckets = serde_json::json!([{"symbol": "time", "sizes": [4, 32]}]);
    assert_eq!(json["buckets"], buckets);
    let paddings = serde_json::json!([{"input": "x", "value": "0.5"}]);
    assert_eq!(json["paddings"], paddings);
    assert!(done(folder, &["verify", "model.neff"]).contains("0 errors"));
    // 9, 1 and 30 steps; onnxruntime computed the outputs.
    for sample in 1..=3 {
        let arrays = repository(&format!("models/small/lstm-dynamic.{sample}.npz"));
        let run = [
            "run",
            "model.neff",
            "--input",
            &arrays,
            "--compare",
            &arrays,
        ];
        done(folder, &run);
    }
    let bench = ["bench", "model.neff", "--dim", "time=9", "--seconds", "0.1"];
    assert!(done(folder, &bench).contains("median"));
    done(folder, &compile);
    let answer = tenon(folder, &["bench", "model.neff", "--dim", "time=9"]);
    assert_ne!(answer.status, Some(0));
    assert!(
        answer.err.contains("expected 4, 32, found 9"),
        "{}",
        answer.err
    );
}

#[test]
fn flags_of_buckets_are_checked() {
    let folder = folder();
    let folder = folder.path();
    let model = repository(LSTM);
    for (flags, part) in [
        (&["--bucket", "time"][..], "expected NAME=A,B,C"),
        (&["--bucket", "time=4,x"], "'x' is not a size"),
        (
            &["--bucket", "time=4", "--bucket", "time=8"],
            "--bucket gives 'time' twice",
        ),
        (
            &["--bucket", "time=8,4"],
            "the buckets of dimension 'time' do not ascend",
        ),
        (&["--bucket", "tmie=4"], "the model has no dimension 'tmie'"),
        (
            &["--bucket", "time=4", "--pad", "x"],
            "expected INPUT=VALUE",
        ),
        (
            &["--bucket", "time=4", "--pad", "y=0"],
            "no input of the model has this name",
        ),
        (&["--pad", "x=0"], "--bucket"),
    ] {
        let answer = tenon(
            folder,
            &[&["compile", &model, "-o", "model.neff"][..], flags].concat(),
        );
        assert_ne!(answer.status, Some(0), "{flags:?}");
        assert!(answer.err.contains(part), "{flags:?}: {}", answer.err);
        assert!(!folder.join("model.neff").exists());
    }
}

#[test]
fn memory_is_planned_for_sizes() {
    let folder = folder();
    let folder = folder.path();
    common::package(folder, LSTM);
    let plan = |time: &str| -> Value {
        let dim = format!("time={time}");
        let flags = ["info", "model.neff", "--memory", "--json", "--dim", &dim];
        serde_json::from_str::<Value>(&done(folder, &flags)).unwrap()["memory"].take()
    };
    let [small, large] = ["2", "128"].map(plan);
    for plan in [&small, &large] {
        let rows = plan["variables"].as_array().unwrap();
        let end = |row: &Value| row["offset"].as_u64().unwrap() + row["bytes"].as_u64().unwrap();
        let ends = rows.iter().map(end).max().unwrap();
        assert!(ends > 0 && ends <= plan["arena_bytes"].as_u64().unwrap());
    }
    let live = |plan: &Value| plan["live_bytes"].as_u64().unwrap();
    assert!(live(&large) > 8 * live(&small), "{small} {large}");
    let text = done(
        folder,
        &["info", "model.neff", "--memory", "--dim", "time=2"],
    );
    assert!(text.contains(": arena "), "{text}");
    for (flags, part) in [
        (&["--memory"][..], "dimension 'time' has no size"),
        (
            &["--memory", "--dim", "size=1"],
            "no symbolic dimension 'size'",
        ),
        (&["--memory", "--dim", "time=1..4"], "one size is needed"),
    ] {
        let refused = tenon(folder, &[&["info", "model.neff"], flags].concat());
        assert_ne!(refused.status, Some(0));
        assert!(refused.err.contains(part), "{}", refused.err);
    }
}

#[test]
fn models_with_host_functions_are_observed() {
    let folder = folder();
    let folder = folder.path();
    let model = repository("crates/frontends/cli/tests/data/positive.onnx");
    done(folder, &["compile", &model, "-o", "model.neff"]);
    let x = Tensor::from_slice([4], &[1.0f32, -2.0, 0.0, 3.5]).unwrap();
    npy::write_npy(folder.join("x.npy"), &x).unwrap();
    // Compiled for its input, the model would have fixed sizes.
    let file = "model.neff";
    let run = ["run", file, "-i", "x=x.npy", "--tap", "*", "--profile"];
    let text = done(folder, &[&run[..], &["--tap-dir", "taps"]].concat());
    assert!(
        text.contains("Compress") && text.contains("choose"),
        "{text}"
    );
    let some = npy::read_npy(folder.join("taps/some.npy")).unwrap();
    assert_eq!(some.as_slice::<f32>().unwrap(), [1.0, 3.5]);

    let profile = ["profile", file, "-i", "x=x.npy", "--runs", "2"];
    let text = done(folder, &profile);
    assert!(text.contains("choose") && text.contains("negate"), "{text}");
    let json = done(
        folder,
        &[&profile[..], &["--json", "--trace", "t.json"]].concat(),
    );
    let json: Value = serde_json::from_str(&json).unwrap();
    let nodes = json["nodes"].as_array().unwrap();
    let choose = nodes.iter().find(|row| row["node"] == "choose").unwrap();
    assert_eq!(
        (&choose["backend"], &choose["runs"]),
        (&"host".into(), &1.0.into())
    );
    assert_eq!(choose["gflops"], Value::Null);
    let trace = std::fs::read_to_string(folder.join("t.json")).unwrap();
    assert!(
        trace.contains("\"choose\"") && trace.contains("f32[4] bool[4] -> f32[2]"),
        "{trace}"
    );

    let compared = done(folder, &["compare", file, "-i", "x=x.npy", "--json"]);
    let compared: Value = serde_json::from_str(&compared).unwrap();
    assert_eq!(compared["divergence"], Value::Null);
    assert!(
        !compared["compared"].as_array().unwrap().is_empty(),
        "{compared}"
    );
}
