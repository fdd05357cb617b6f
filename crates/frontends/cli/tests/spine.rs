//! From a model to a package to outputs, as the help describes it.

mod common;

use common::{done, folder, package, repository, tenon, tiny};
use serde_json::Value;
use tenon::tensor::npy;
use tenon::{DataType, Tensor};

const DIGITS: &str = "models/digits/digits.onnx";
const DETECTOR: &str = "models/small/detector.onnx";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn seven() -> String {
    repository("models/digits/seven.png")
}

#[test]
fn the_readme_command_sees_a_seven() {
    let folder = folder();
    let model = repository(DIGITS);
    let text = done(folder.path(), &["run", &model, "--input", &seven()]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "probabilities:");
    let (probability, label) = lines[1].trim().split_once("  ").unwrap();
    assert_eq!(label.trim(), "seven");
    assert!(probability.parse::<f64>().unwrap() > 0.9, "{text}");
    assert!(lines.contains(&"8 ops: 8 CpuAcc"), "{text}");
    let times = lines.last().unwrap();
    let mut parts = times.split(", ");
    for name in ["compile ", "load ", "run "] {
        assert!(parts.next().unwrap().starts_with(name), "{times}");
    }
}

#[test]
fn a_package_answers_as_its_model() {
    let folder = folder();
    let written = done(
        folder.path(),
        &["compile", &repository(DIGITS), "-o", "d.neff", "--json"],
    );
    let written = json(&written);
    let bytes = folder.path().join("d.neff").metadata().unwrap().len();
    assert_eq!(written["bytes"], bytes);
    assert_eq!(written["placement"]["backends"][0], "CpuAcc");
    let model = repository(DIGITS);
    let answers = [model.as_str(), "d.neff"].map(|file| {
        let text = done(folder.path(), &["run", file, "-i", &seven(), "--json"]);
        json(&text)
    });
    assert_eq!(answers[0]["outputs"], answers[1]["outputs"]);
    assert_eq!(answers[1]["outputs"][0]["top"][0]["label"], "seven");
    assert!(answers[0]["compile_ms"].is_f64() && answers[1]["compile_ms"].is_null());
    // The folder contains nothing else.
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[test]
fn the_same_model_gives_the_same_package() {
    let folder = folder();
    for name in ["a.neff", "b.neff"] {
        done(
            folder.path(),
            &["compile", &repository(DIGITS), "--output", name],
        );
    }
    let read = |name| std::fs::read(folder.path().join(name)).unwrap();
    assert!(read("a.neff") == read("b.neff"));
}

#[test]
fn compile_shows_graph_and_placement() {
    let folder = folder();
    let model = repository(DIGITS);
    let graph = done(folder.path(), &["compile", &model, "--emit-graph"]);
    assert!(graph.contains("tenon.Conv("), "{graph}");
    assert_eq!(graph.matches("tenon.Conv(").count(), 3, "{graph}");
    let answer = done(
        folder.path(),
        &["compile", &model, "--emit-graph", "--json"],
    );
    assert_eq!(
        json(&answer)["graph"],
        graph.trim_end_matches('\n').to_owned() + "\n"
    );
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    let flags = ["--placement", "-o", "m.neff", "--backends", "CpuRef"];
    let arguments = [&["compile", model.as_str()], &flags[..]].concat();
    let text = done(folder.path(), &arguments);
    assert!(text.contains("11 ops: 11 CpuRef"), "{text}");
    assert!(
        text.lines()
            .any(|line| line.starts_with("conv1") && line.contains("CpuRef"))
    );
}

#[test]
fn slow_nodes_of_the_reference_backend_are_a_warning() {
    let folder = folder();
    let model = repository("models/small/resnet50.onnx");
    let slow = ["compile", &model, "-o", "m.neff", "--place", "*=CpuRef"];
    let answer = tenon(folder.path(), &slow);
    assert_eq!(answer.status, Some(0), "{answer:?}");
    let expected = " on CpuRef are likely to take ";
    assert!(answer.err.starts_with("warning: "), "{answer:?}");
    assert!(answer.err.contains(expected), "{answer:?}");
    assert_eq!(answer.err.lines().count(), 1, "{answer:?}");
    // The same when the package runs, but not where only CpuRef was to be used.
    let run = ["run", "m.neff", "--random", "1", "--quiet"];
    let answer = tenon(folder.path(), &run);
    assert!(answer.err.contains(expected), "{answer:?}");
    done(
        folder.path(),
        &["compile", &model, "-o", "m.neff", "--backends", "CpuRef"],
    );
}

#[test]
fn outputs_are_written_and_read_back() {
    let folder = folder();
    let model = repository("models/small/mlp.onnx");
    let arrays = repository("models/small/mlp.npz");
    let text = done(
        folder.path(),
        &["run", &model, "-i", &arrays, "--output", "a/b", "--quiet"],
    );
    assert_eq!(text, "");
    let found = npy::read_npy(folder.path().join("a/b/y.npy")).unwrap();
    let expected = tenon::inputs::read_npz_outputs(arrays.as_ref()).unwrap();
    let (name, expected) = &expected[0];
    assert_eq!(name, "y");
    let difference = tenon::compare::Difference::between(&found, expected).unwrap();
    assert!(
        difference.relative < 1e-5 && difference.same_top,
        "{difference:?}"
    );
    // The outputs can be inputs again, or the reference of the next run.
    npy::write_npz(folder.path().join("y.npz"), &[("y", &found)]).unwrap();
    let flags = ["--compare", "y.npz", "--tolerance", "0"];
    let text = done(
        folder.path(),
        &[&["run", &model, "-i", &arrays], &flags[..]].concat(),
    );
    assert!(text.contains("y: largest difference 0.000e0"), "{text}");
}

#[test]
fn a_difference_is_a_failure() {
    let folder = folder();
    let model = repository("models/small/mlp.onnx");
    let arrays = repository("models/small/mlp.npz");
    let flags = ["run", &model, "-i", &arrays, "--compare"];
    let text = done(folder.path(), &[&flags[..], &[&arrays]].concat());
    assert!(text.contains("top the same"), "{text}");
    let other = Tensor::from_slice([1, 4], &[1.0f32, 0.0, 0.0, 0.5]).unwrap();
    npy::write_npz(folder.path().join("other.npz"), &[("y", &other)]).unwrap();
    let answer = tenon(folder.path(), &[&flags[..], &["other.npz"]].concat());
    assert_eq!(answer.status, Some(1));
    assert!(
        answer
            .err
            .starts_with("error: other.npz: output 'y': the model's output differs: expected"),
        "{}",
        answer.err
    );
}

#[test]
fn random_inputs_depend_on_the_seed() {
    let folder = folder();
    package(folder.path(), "models/small/bert.onnx");
    let values = |seed: &str| {
        let text = done(
            folder.path(),
            &["run", "model.neff", "--random", seed, "--json"],
        );
        json(&text)["outputs"].clone()
    };
    assert_eq!(values("1"), values("1"));
    assert_ne!(values("1"), values("2"));
}

#[test]
fn every_kind_of_input_file_is_read() {
    let folder = folder();
    let model = repository("models/small/mlp.onnx");
    let values: Vec<f32> = (0..20).map(|i| i as f32 / 8.0).collect();
    let tensor = Tensor::from_slice([1, 20], &values).unwrap();
    let at = |name: &str| folder.path().join(name);
    npy::write_npy(at("x.npy"), &tensor).unwrap();
    npy::write_npz(at("x.npz"), &[("x", &tensor)]).unwrap();
    std::fs::write(at("x.bin"), tensor.bytes()).unwrap();
    let text: Vec<_> = values.iter().map(f32::to_string).collect();
    std::fs::write(at("x.csv"), text.join(",")).unwrap();
    let mut answers = ["x.npy", "x.npz", "x.bin", "x.csv", "x=x.npy", "x=x.npz"].map(|input| {
        let text = done(folder.path(), &["run", &model, "-i", input, "--json"]);
        json(&text)["outputs"].clone()
    });
    let first = answers[0].take();
    assert!(first[0]["values"][0].is_f64());
    assert!(answers[1..].iter().all(|other| *other == first));
}

#[test]
fn flags_override_the_scaling_of_the_model() {
    let folder = folder();
    let model = repository(DIGITS);
    let flags = ["run", &model, "-i", &seven(), "--json"];
    let run =
        |more: &[&str]| json(&done(folder.path(), &[&flags[..], more].concat()))["outputs"].clone();
    let own = run(&[]);
    assert_eq!(own, run(&["--mean", "0", "--scale", "0.00392156862745098"]));
    assert_ne!(own, run(&["--scale", "0"]));
}

#[test]
fn an_input_that_decides_a_shape_is_taken_when_compiling() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let x = Tensor::from_slice([2, 6], &[1.0f32; 12]).unwrap();
    let shape = Tensor::from_slice([2], &[4i64, 3]).unwrap();
    npy::write_npy(at("shape.npy"), &shape).unwrap();
    npy::write_npz(at("all.npz"), &[("x", &x), ("shape", &shape)]).unwrap();
    let model = tiny("reshape");
    let shown = |text: String| json(&text)["outputs"][0]["shape"].clone();
    let flags = ["run", &model, "--json", "-i"];
    let all = done(folder.path(), &[&flags[..], &["all.npz"]].concat());
    assert_eq!(shown(all), serde_json::json!([4, 3]));
    let named = ["shape=shape.npy", "--random", "1"];
    let random = done(folder.path(), &[&flags[..], &named].concat());
    assert_eq!(shown(random), serde_json::json!([4, 3]));
    let constant = ["--const", "shape=shape.npy", "-o", "m.neff"];
    done(
        folder.path(),
        &[&["compile", &model], &constant[..]].concat(),
    );
    let package = done(folder.path(), &["run", "m.neff", "--random", "1", "--json"]);
    assert_eq!(shown(package), serde_json::json!([4, 3]));
    let info = json(&done(folder.path(), &["info", "m.neff", "--json"]));
    assert_eq!(info["inputs"].as_array().unwrap().len(), 1);
}

#[test]
fn dimensions_get_their_size() {
    let folder = folder();
    let text = done(
        folder.path(),
        &["run", &tiny("batch"), "--dim", "batch=3", "--random", "1"],
    );
    assert!(text.contains("f32[3, 6]"), "{text}");
}

#[test]
fn info_prints_the_contents() {
    let folder = folder();
    package(folder.path(), DIGITS);
    let text = done(folder.path(), &["info", "model.neff"]);
    for part in [
        "package 'digits'",
        "tenon-host-program",
        "f32[1, 1, 8, 8]",
        "f32[1, 10]",
        "function @main: 8 kernels",
        "arena",
        "tenon.labels: zero, one",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    let info = json(&done(folder.path(), &["info", "model.neff", "--json"]));
    assert_eq!(info["kind"], "package");
    assert_eq!(info["header"]["neff_version"], "2.0");
    assert_eq!(info["inputs"][0]["name"], "image");
    assert_eq!(info["outputs"][0]["shape"], serde_json::json!([1, 10]));
    assert_eq!(info["functions"][0]["kernels"], 8);
    let file = folder.path().join("model.neff").metadata().unwrap().len();
    assert_eq!(info["sizes"]["file_bytes"], file);
    let weights = 4 * (16 * 9 + 32 * 16 * 9 + 32 * 32 * 9 + 128 * 64 + 64 * 10);
    assert!(info["sizes"]["used_constant_bytes"].as_u64().unwrap() >= weights);
}

#[test]
fn info_of_a_model_names_dimensions_and_operators() {
    let folder = folder();
    let text = done(folder.path(), &["info", &tiny("batch")]);
    assert!(
        text.contains("f32[batch, 6]") && text.contains("1 Relu"),
        "{text}"
    );
    let info = json(&done(folder.path(), &["info", &tiny("batch"), "--json"]));
    assert_eq!(info["kind"], "onnx");
    assert_eq!(info["operators"]["Relu"], 1);
}

#[test]
fn moves_are_dma_kernels_with_their_bytes() {
    let folder = folder();
    package(folder.path(), DETECTOR);
    let program = done(folder.path(), &["disasm", "model.neff"]);
    assert!(
        program.contains("\nfunc.func @main() attributes {tfrt.sync}"),
        "{program}"
    );
    let concat = program
        .lines()
        .find(|line| line.contains("\"tenon.dma\"") && line.contains("/stem/stem.2/Concat"));
    let concat = concat.expect("the concat is a dma kernel");
    let arrays = repository("models/small/detector.npz");
    let flags = [
        "run",
        "model.neff",
        "-i",
        &arrays,
        "--compare",
        &arrays,
        "--profile",
    ];
    let text = done(folder.path(), &flags);
    let row = text
        .lines()
        .find(|line| line.contains(" dma ") && line.ends_with("/stem/stem.2/Concat"));
    // Three parts of 4 channels at a quarter of 64 x 64, in f32.
    assert!(
        row.expect("a row of the profile").contains("12.3 kB"),
        "{text}"
    );
    assert!(concat.contains("bytes = 12288,"), "{concat}");
    let profile = done(folder.path(), &[&flags[..], &["--json"]].concat());
    let profile = json(profile.lines().next().unwrap());
    let kernels = profile["profile"].as_array().unwrap();
    let moved = kernels.iter().filter(|kernel| kernel["backend"] == "dma");
    assert!(moved.clone().count() > 10);
    assert!(
        moved
            .clone()
            .all(|kernel| kernel["bytes"].as_u64().unwrap() > 0)
    );
}

#[test]
fn bench_prints_its_fields() {
    let folder = folder();
    package(folder.path(), DIGITS);
    let flags = ["bench", "model.neff", "--seconds", "0.05", "--threads", "1"];
    let text = done(folder.path(), &[&flags[..], &["--json"]].concat());
    let fields = json(&text);
    let fields = fields.as_object().unwrap();
    let names = [
        "load_ms",
        "first_ms",
        "median_us",
        "p99_us",
        "min_us",
        "runs",
        "threads",
        "peak_rss_kb",
    ];
    assert!(fields.keys().eq(names), "{text}");
    let number = |name: &str| fields[name].as_f64().unwrap();
    assert!(names.iter().all(|name| number(name) > 0.0), "{text}");
    assert!(number("min_us") <= number("median_us") && number("median_us") <= number("p99_us"));
    assert_eq!(fields["threads"], 1);
    let text = done(folder.path(), &flags);
    assert!(
        text.contains("median") && text.contains("runs on 1 thread,"),
        "{text}"
    );
}

#[test]
fn backends_are_listed() {
    let folder = folder();
    let text = done(folder.path(), &["backends"]);
    assert!(text.contains("CpuAcc") && text.contains("CpuRef"), "{text}");
    let list = json(&done(folder.path(), &["backends", "--json"]));
    let ids: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["CpuAcc", "CpuRef"]);
}

const COMMANDS: [&str; 10] = [
    "compile",
    "run",
    "map",
    "compare",
    "bench",
    "info",
    "disasm",
    "backends",
    "completions",
    "man",
];

#[test]
fn help_has_examples() {
    let folder = folder();
    let top = done(folder.path(), &["--help"]);
    assert!(
        top.contains("Examples:") && top.contains("Exit status:"),
        "{top}"
    );
    for command in COMMANDS {
        assert!(
            top.contains(&format!("\n  {command} ")),
            "{command} in\n{top}"
        );
        let help = done(folder.path(), &[command, "--help"]);
        assert!(help.contains("Example"), "{command}:\n{help}");
        assert!(
            help.contains(&format!("  tenon {command}")),
            "{command}:\n{help}"
        );
    }
}

#[test]
fn completions_and_manual_name_every_command() {
    let folder = folder();
    let script = done(folder.path(), &["completions", "bash"]);
    let manual = done(folder.path(), &["man"]);
    assert!(manual.contains(".TH tenon"), "{manual}");
    for command in COMMANDS {
        assert!(script.contains(&format!("tenon,{command})")), "{command}");
        assert!(manual.contains(&format!("tenon\\-{command}")), "{command}");
    }
    for flag in ["--tolerance", "--ceiling", "--keep-plain"] {
        assert!(script.contains(flag), "{flag}");
        assert!(manual.contains(&flag.replace('-', "\\-")), "{flag}");
    }
}

#[test]
fn types_of_inputs_have_the_names_of_tenon() {
    let folder = folder();
    package(folder.path(), "models/small/bert.onnx");
    let info = json(&done(folder.path(), &["info", "model.neff", "--json"]));
    let dtype = info["inputs"][0]["dtype"].as_str().unwrap();
    assert_eq!(dtype, DataType::I64.name());
}
