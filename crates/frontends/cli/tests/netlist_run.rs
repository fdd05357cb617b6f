//! `tenon netlist run`, `tenon netlist test` and `tenon compile` of a netlist: output and exit
//! status.

mod common;

use common::{Answer, done, folder, tenon};

const SQUARES: &str = "\
devices: {arch: [grayskull, wormhole_b0]}
queues:
  x: {type: queue, input: HOST, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16, target_device: 0, loc: dram, dram: [[0, 0x30000000]]}
  y: {type: queue, input: square, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16, target_device: 0, loc: dram, dram: [[1, 0x30000000]]}
graphs:
  squares:
    target_device: 0
    input_count: 1
    square: {type: multiply, grid_loc: [0, 0], grid_size: [1, 1], inputs: [x, x], in_df: [Float16, Float16], out_df: Float16, intermed_df: Float16, acc_df: Float16, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, t: 1, mblock: [1, 1], ublock: [1, 1]}
programs:
  - run:
      - param: [$p_loop_count]
      - staticvar: {$at: 0}
      - loop: $p_loop_count
      - execute: {graph_name: squares, queue_settings: {x: {prologue: false, rd_ptr_local: $at, rd_ptr_global: $at}}}
      - varinst: [$at, incwrap, 1, 4]
      - endloop
test-config:
  stimulus-config: {type: Constant, constant_value: 3}
";

fn written() -> tempfile::TempDir {
    let folder = folder();
    std::fs::write(folder.path().join("squares.yaml"), SQUARES).unwrap();
    folder
}

#[test]
fn a_run_prints_its_ops_and_writes_its_outputs() {
    let folder = written();
    let run = [
        "netlist",
        "run",
        "squares.yaml",
        "--param",
        "$p_loop_count=3",
    ];
    let out = done(
        folder.path(),
        &[&run[..], &["--outputs", "out.npz"]].concat(),
    );
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("graph    op"), "{out}");
    assert!(
        lines[1].starts_with("squares  square  multiply  3 "),
        "{out}"
    );
    assert_eq!(lines[2], "y: f32[3, 1, 32, 32]");
    // One tile, element by element, three passes of the math fidelity; one of 120 cores.
    let ideal = "on this machine, and an estimate of an ideal grayskull that never waits for data";
    assert_eq!(lines[4], ideal);
    assert!(lines[6].starts_with("squares  3       "), "{out}");
    assert!(lines[6].ends_with("  24      0.8 %"), "{out}");
    assert!(lines[8].starts_with("ran in "), "{out}");
    let outputs = tenon::tensor::npy::read_npz(folder.path().join("out.npz")).unwrap();
    let (name, array) = &outputs[0];
    assert_eq!((name.as_str(), array.shape().elements()), ("y", 3 * 1024));
    assert!(
        array
            .as_slice::<f32>()
            .unwrap()
            .iter()
            .all(|&value| value == 9.0)
    );
    // The outputs are the inputs of the next run.
    std::fs::rename(folder.path().join("out.npz"), folder.path().join("y.npz")).unwrap();
    let squares: Vec<(&str, &tenon::Tensor)> = vec![("x", array)];
    tenon::tensor::npy::write_npz(folder.path().join("in.npz"), &squares).unwrap();
    let again = ["--inputs", "in.npz", "--outputs", "out.npz", "--json"];
    let out = done(folder.path(), &[&run[..], &again[..]].concat());
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["ops"][0]["runs"], 3);
    assert_eq!(json["outputs"]["y"], serde_json::json!([3, 1, 32, 32]));
    assert_eq!(json["graphs"][0]["inputs"], 3);
    assert_eq!(json["graphs"][0]["estimated_cycles"], 24);
    assert_eq!(json["performance_check"], serde_json::json!([]));
    let outputs = tenon::tensor::npy::read_npz(folder.path().join("out.npz")).unwrap();
    assert_eq!(outputs[0].1.as_slice::<f32>().unwrap()[0], 81.0);
}

#[test]
fn performance_check_is_evaluated_on_this_machine() {
    let folder = folder();
    let text = SQUARES.to_owned()
        + "performance-check:
  squares-0:
    graph-name: squares
    tensors-per-second: {expected: 1, rtol: 1000000000}
    cycles-per-tensor: {expected: 24, rtol: 0.1}
  host: {backend-samples-per-second: {expected: 0, rtol: 0.1}}
";
    std::fs::write(folder.path().join("squares.yaml"), text).unwrap();
    let run = ["netlist", "run", "squares.yaml"];
    let out = done(folder.path(), &run);
    let title = "what performance-check expects of a device, and what this machine reached";
    let lines: Vec<&str> = out.lines().skip_while(|line| *line != title).collect();
    assert!(
        lines[2].starts_with("squares-0  tensors-per-second "),
        "{out}"
    );
    assert!(lines[2].ends_with("  met here"), "{out}");
    assert!(lines[3].contains("cycles-per-tensor "), "{out}");
    assert!(lines[3].ends_with("  only a device has it"), "{out}");
    assert!(lines[4].ends_with("  nothing is expected"), "{out}");
    let out = done(folder.path(), &[&run[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let metrics = &json["performance_check"];
    assert_eq!(metrics[0]["within"], true);
    assert!(metrics[0]["measured_here"].as_f64().unwrap() > 0.0);
    assert_eq!(metrics[1]["measured_here"], serde_json::Value::Null);
    assert_eq!(metrics[2]["within"], serde_json::Value::Null);
}

#[test]
fn a_performance_check_that_fails_exits_1_and_writes_the_outputs() {
    let folder = folder();
    let text = SQUARES.to_owned()
        + "performance-check:
  squares-0:
    graph-name: squares
    tensors-per-second: {expected: 1000000000000, rtol: 0.1}
    cycles-per-tensor: {expected: 24, rtol: 0.1}
  host: {backend-samples-per-second: {expected: 1, rtol: 1000000000}}
";
    std::fs::write(folder.path().join("squares.yaml"), text).unwrap();
    for form in [&[][..], &["--json"], &["--quiet"]] {
        let run = ["netlist", "run", "squares.yaml", "--outputs", "out.npz"];
        let answer = tenon(folder.path(), &[&run[..], form].concat());
        assert_eq!(answer.status, Some(1), "{form:?}: {}", answer.out);
        assert_eq!(
            answer.err,
            "error: squares.yaml: performance-check: 1 of 2 metrics not met: \
             squares-0.tensors-per-second\n"
        );
        assert!(!answer.out.is_empty());
        std::fs::remove_file(folder.path().join("out.npz")).unwrap();
    }
}

#[test]
fn formats_say_that_math_fidelity_has_no_effect() {
    let folder = written();
    let run = ["netlist", "run", "squares.yaml", "--mode"];
    let answer = tenon(folder.path(), &[&run[..], &["formats"]].concat());
    assert_eq!(answer.status, Some(0));
    assert_eq!(
        answer.err,
        "warning: math_fidelity has no effect: multiplications are exact in 1 op of less than HiFi4\n"
    );
    assert_eq!(
        tenon(folder.path(), &[&run[..], &["golden"]].concat()).err,
        ""
    );
}

/// ARCH_NAME chooses among the architectures of a netlist; `--arch` comes first.
#[test]
fn the_environment_names_the_architecture() {
    let folder = folder();
    // Sixteen tiles: too many for any but wormhole a0.
    let text = SQUARES
        .replace("[grayskull, wormhole_b0]", "[grayskull, wormhole]")
        .replace(
            "mblock: [1, 1], ublock: [1, 1]",
            "mblock: [1, 1], ublock: [4, 4]",
        );
    std::fs::write(folder.path().join("squares.yaml"), text).unwrap();
    let run = |command: &str, name: &str, flags: &[&str]| {
        let mut command = common::command(folder.path(), &["netlist", command, "squares.yaml"]);
        Answer::of(command.args(flags).env("ARCH_NAME", name))
    };
    for command in ["check", "run", "test"] {
        let status = |name, flags: &[&str]| run(command, name, flags).status;
        assert_eq!(status("", &[]), Some(0), "{command}");
        assert_eq!(status("WORMHOLE", &[]), Some(0), "{command}");
        assert_eq!(status("grayskull", &[]), Some(1), "{command}");
        assert_eq!(status("blackhole", &[]), Some(1), "{command}");
        assert_eq!(
            status("grayskull", &["--arch", "wormhole"]),
            Some(0),
            "{command}"
        );
        assert_ne!(status("tiger", &[]), Some(0), "{command}");
    }
    let shown = run("show", "wormhole", &[]).out;
    assert!(shown.contains("shown on wormhole"), "{shown}");
    let err = run("check", "tiger", &[]).err;
    assert!(err.contains("ARCH_NAME names no architecture"), "{err}");
}

#[test]
fn a_netlist_becomes_a_package() {
    let folder = written();
    let compile = [
        "compile",
        "squares.yaml",
        "-o",
        "squares.neff",
        "--param",
        "p_loop_count=2",
    ];
    let out = done(folder.path(), &compile);
    assert!(out.starts_with("squares.neff: "), "{out}");
    assert!(out.contains("1 input, 1 output"), "{out}");
    let input = tenon::Tensor::from_slice([2, 1, 32, 32], &[4.0f32; 2048]).unwrap();
    tenon::tensor::npy::write_npy(folder.path().join("x.npy"), &input).unwrap();
    done(
        folder.path(),
        &[
            "run",
            "squares.neff",
            "--input",
            "x=x.npy",
            "--output",
            "out",
        ],
    );
    // Ops of netlists are not nodes of a graph, and are not counted.
    for command in [
        &["info", "squares.neff"][..],
        &["run", "squares.neff", "--random", "1"],
    ] {
        let text = done(folder.path(), command);
        assert!(!text.contains("0 ops"), "{text}");
    }
    let output = tenon::tensor::npy::read_npy(folder.path().join("out/y.npy")).unwrap();
    assert_eq!(output.shape()[..], [2, 1, 32, 32]);
    assert!(
        output
            .as_slice::<f32>()
            .unwrap()
            .iter()
            .all(|&value| value == 16.0)
    );
}

#[test]
fn a_package_rounds_what_it_is_given() {
    let folder = folder();
    let text = SQUARES.replace("df: Float16,", "df: Bfp8_b,");
    std::fs::write(folder.path().join("squares.yaml"), text).unwrap();
    done(
        folder.path(),
        &["compile", "squares.yaml", "-o", "squares.neff"],
    );
    // As in the vector of netlist 5.2: sixteen values share the exponent of 100.
    let given = [
        1.0, -0.5, 0.3, 3.999, -2.75, 100.0, 7.0, 2.5, 1.5, -3.5, 64.4, 0.0, 0.0, 0.0, 0.0, 0.0f32,
    ];
    let held = [
        1.0, -1.0, 0.0, 4.0, -3.0, 100.0, 7.0, 3.0, 2.0, -4.0, 64.0, 0.0, 0.0, 0.0, 0.0, 0.0f32,
    ];
    let entry: Vec<f32> = given.iter().copied().cycle().take(1024).collect();
    let input = tenon::Tensor::from_slice([1, 1, 32, 32], &entry).unwrap();
    tenon::tensor::npy::write_npy(folder.path().join("x.npy"), &input).unwrap();
    let run = [
        "run",
        "squares.neff",
        "--input",
        "x=x.npy",
        "--output",
        "out",
    ];
    done(folder.path(), &run);
    let output = tenon::tensor::npy::read_npy(folder.path().join("out/y.npy")).unwrap();
    let squares: Vec<f32> = held.iter().map(|value| value * value).collect();
    assert_eq!(output.as_slice::<f32>().unwrap()[..16], squares);
}

#[test]
fn a_package_does_not_replace_its_netlist() {
    let folder = written();
    let compile = ["compile", "squares.yaml", "-o", "./squares.yaml"];
    let answer = tenon(folder.path(), &compile);
    assert_eq!(answer.status, Some(2));
    assert!(
        answer.err.contains("would replace its own model"),
        "{}",
        answer.err
    );
    let kept = std::fs::read_to_string(folder.path().join("squares.yaml")).unwrap();
    assert_eq!(kept, SQUARES);
}

#[test]
fn outputs_replace_only_regular_files() {
    let folder = written();
    std::fs::create_dir(folder.path().join("dir.npz")).unwrap();
    for path in ["dir.npz", "none/out.npz", "squares.yaml/out.npz"] {
        let run = ["netlist", "run", "squares.yaml", "--outputs", path];
        let answer = tenon(folder.path(), &run);
        assert_eq!(answer.status, Some(1));
        // Before the run.
        assert_eq!(answer.out, "");
        let start = format!("error: {path}: cannot write: ");
        assert!(answer.err.starts_with(&start), "{}", answer.err);
        assert!(!answer.err.contains(".part"), "{}", answer.err);
    }
}

#[test]
fn wrong_flags_and_endless_programs_are_reported() {
    let folder = written();
    let refused = |arguments: &[&str]| {
        let answer = tenon(
            folder.path(),
            &[&["netlist", "run", "squares.yaml"], arguments].concat(),
        );
        (answer.status, answer.err)
    };
    let (status, err) = refused(&["--param", "$p_other=1"]);
    assert_eq!(status, Some(2), "{err}");
    assert!(
        err.contains("no program has a parameter '$p_other': expected one of $p_loop_count"),
        "{err}"
    );
    let (status, err) = refused(&["--program", "other"]);
    assert_eq!(status, Some(1), "{err}");
    assert!(
        err.contains("there is no program 'other': expected one of run"),
        "{err}"
    );
    let (status, err) = refused(&["--param", "$p_loop_count=100000000", "--max-steps", "50"]);
    assert_eq!(status, Some(1), "{err}");
    assert!(err.contains("program 'run' does not end"), "{err}");
    let (status, err) = refused(&["--param", "$p_loop_count=100000000", "--timeout", "0.05"]);
    assert_eq!(status, Some(1), "{err}");
    assert!(err.contains("program 'run' did not end in time"), "{err}");
    let (_, err) = refused(&["--arch", "toaster"]);
    assert!(err.contains("unknown architecture"), "{err}");
    let (_, err) = refused(&["--arch", "blackhole"]);
    assert!(
        err.contains("the netlist does not support blackhole"),
        "{err}"
    );
    for (flag, value, message) in [
        ("--loops", "0", "0 is not in 1.."),
        ("--timeout", "-1", "expected seconds, 0 to 1e9"),
        (
            "--param",
            "$p_loop_count=99999999999",
            "no integer of 32 bits",
        ),
        ("--param", "=3", "expected a name before '='"),
    ] {
        let (status, err) = refused(&[flag, value]);
        assert_eq!(status, Some(2), "{err}");
        assert!(err.contains(message), "{err}");
    }
}

#[test]
fn an_element_without_a_value_is_a_warning_with_its_line() {
    let folder = folder();
    let text = SQUARES.replace("type: multiply", "type: sqrt");
    let text = text.replace(
        "inputs: [x, x], in_df: [Float16, Float16]",
        "inputs: [x], in_df: [Float16]",
    );
    let text = text.replace("constant_value: 3", "constant_value: -1");
    std::fs::write(folder.path().join("roots.yaml"), text).unwrap();
    let answer = tenon(folder.path(), &["netlist", "run", "roots.yaml", "--quiet"]);
    assert_eq!(answer.status, Some(0));
    let warning =
        "warning: roots.yaml:9:5: node 'square': sqrt of element [0, 0, 0] is undefined\n";
    assert_eq!(answer.err, warning);
}

#[test]
fn a_test_reports_whether_both_implementations_agree() {
    let folder = written();
    let out = done(folder.path(), &["netlist", "test", "squares.yaml"]);
    assert_eq!(
        out,
        "squares.yaml: 1 queue passed, 0 failed
"
    );
    // Two implementations of exp in single precision are not bit-equal.
    let text = SQUARES.replace("type: multiply", "type: exp");
    let text = text.replace(
        "inputs: [x, x], in_df: [Float16, Float16]",
        "inputs: [x], in_df: [Float16]",
    );
    let text = text.replace("{type: Constant, constant_value: 3}", "{type: Uniform}");
    let exact = text + "  comparison-config: {type: Exact}\n";
    std::fs::write(folder.path().join("exact.yaml"), exact).unwrap();
    std::fs::write(
        folder.path().join("broken.yaml"),
        "devices: {arch: toaster}\n",
    )
    .unwrap();
    let files = ["exact.yaml", "broken.yaml", "squares.yaml"];
    let answer = tenon(folder.path(), &[&["netlist", "test"], &files[..]].concat());
    assert_eq!(answer.status, Some(1));
    let lines: Vec<&str> = answer.out.lines().collect();
    assert_eq!(lines[0], "exact.yaml: 0 queues passed, 1 failed");
    assert!(lines[1].starts_with("  y: "), "{}", answer.out);
    assert!(
        lines[1].contains("first at entry 0, t 0, "),
        "{}",
        answer.out
    );
    // A netlist that cannot run does not prevent the next one.
    assert!(answer.err.contains("broken.yaml:1:"), "{}", answer.err);
    assert_eq!(lines[2], "squares.yaml: 1 queue passed, 0 failed");
    let answer = tenon(
        folder.path(),
        &[&["netlist", "test", "--json"], &files[..]].concat(),
    );
    let json: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    let passed = |index: usize| json[index]["passed"].as_bool();
    assert_eq!(
        [passed(0), passed(1), passed(2)],
        [Some(false), Some(false), Some(true)]
    );
    assert_eq!(json[2]["queues"][0]["name"], "y");
}
