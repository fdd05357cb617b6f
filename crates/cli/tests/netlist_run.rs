//! `tenon netlist run` and `tenon compile` of a netlist: what they print and how they exit.

mod common;

use common::{done, folder, tenon};

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
    assert!(lines[3].starts_with("ran in "), "{out}");
    let outputs = tenon::npy::read_npz(folder.path().join("out.npz")).unwrap();
    let (name, array) = &outputs[0];
    assert_eq!((name.as_str(), array.shape().elements()), ("y", 3 * 1024));
    assert!(
        array
            .as_slice::<f32>()
            .unwrap()
            .iter()
            .all(|&value| value == 9.0)
    );
    // What was written is what is pushed next.
    std::fs::rename(folder.path().join("out.npz"), folder.path().join("y.npz")).unwrap();
    let squares: Vec<(&str, &tenon::Tensor)> = vec![("x", array)];
    tenon::npy::write_npz(folder.path().join("in.npz"), &squares).unwrap();
    let again = ["--inputs", "in.npz", "--outputs", "out.npz", "--json"];
    let out = done(folder.path(), &[&run[..], &again[..]].concat());
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["ops"][0]["runs"], 3);
    assert_eq!(json["outputs"]["y"], serde_json::json!([3, 1, 32, 32]));
    let outputs = tenon::npy::read_npz(folder.path().join("out.npz")).unwrap();
    assert_eq!(outputs[0].1.as_slice::<f32>().unwrap()[0], 81.0);
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
    assert!(out.contains("1 inputs, 1 outputs"), "{out}");
    let input = tenon::Tensor::from_slice([2, 1, 32, 32], &[4.0f32; 2048]).unwrap();
    tenon::npy::write_npy(folder.path().join("x.npy"), &input).unwrap();
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
    let output = tenon::npy::read_npy(folder.path().join("out/y.npy")).unwrap();
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
fn wrong_flags_and_endless_programs_are_told() {
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
        err.contains("no program has a parameter '$p_other'"),
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
        "warning: roots.yaml:9:5: node 'square': sqrt of element [0, 0, 0] has no value\n";
    assert_eq!(answer.err, warning);
}
