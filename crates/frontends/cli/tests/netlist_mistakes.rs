//! Invalid and hostile netlists: the output of `tenon netlist check` for each is in
//! `golden/netlist_mistakes.txt`, rewritten with `TENON_BLESS=1`. None of them makes any command
//! panic, hang or leave a file behind.

mod common;

use common::{folder, tenon};
use std::fmt::Write;

const GOOD: &str = "\
devices: {arch: grayskull}
queues:
  x: {type: queue, input: HOST, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16_b, target_device: 0, loc: dram, dram: [[0, 0x10000000]]}
  y: {type: queue, input: square, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16_b, target_device: 0, loc: dram, dram: [[1, 0x10000000]]}
graphs:
  squares:
    target_device: 0
    input_count: 1
    square: {type: multiply, grid_loc: [0, 0], grid_size: [1, 1], inputs: [x, x], in_df: [Float16_b, Float16_b], acc_df: Float16_b, out_df: Float16_b, intermed_df: Float16_b, ublock_order: r, buf_size_mb: 2, math_fidelity: HiFi4, t: 1, mblock: [1, 1], ublock: [1, 1]}
programs:
  - run:
      - param: [$p_loop_count]
      - staticvar: {$l: 0, $g: 0}
      - loop: $p_loop_count
      - execute: {graph_name: squares, queue_settings: {x: {prologue: false, epilogue: false, zero: false, rd_ptr_local: $l, rd_ptr_global: $g}}}
      - varinst: [$g, incwrap, 1, 4]
      - varinst: [$l, incwrap, 1, 4]
      - endloop
";

/// Text of the valid netlist, and its faulty replacement.
const CHANGES: &[(&str, &str)] = &[
    ("arch: grayskull", "arch: graphcore"),
    ("arch: grayskull", "arch: []"),
    ("arch: grayskull", "arch: |\n  grayskull"),
    ("arch: grayskull", "arch: &it grayskull, queues: *it"),
    ("arch: grayskull", "arch: \"gray\\e[2Jskull\""),
    ("devices: {arch: grayskull}\n", ""),
    (
        "devices: {arch: grayskull}\n",
        "devices:\n\tarch: grayskull\n",
    ),
    ("queues:\n", "queues: [\n"),
    ("type: queue", "type: stack"),
    ("type: queue, input: HOST", "input: HOST"),
    ("entries: 2", "entries: 2.5"),
    ("entries: 2", "entries: -4"),
    ("entries: 2", "entries: 99999999999999999999999"),
    ("entries: 2", "entries: 99999999999"),
    ("entries: 2", "entires: 2"),
    ("mblock: [1, 1]", "mblock: [1, 1, 1]"),
    ("mblock: [1, 1]", "mblock: 1"),
    ("t: 1", "t: 2000000000"),
    (
        "mblock: [1, 1], ublock: [1, 1], df: Float16_b, target_device: 0, loc: dram, dram: [[1",
        "mblock: [2, 1], ublock: [1, 1], df: Float16_b, target_device: 0, loc: dram, dram: [[1",
    ),
    ("df: Float16_b", "df: float16"),
    ("[[0, 0x10000000]]", "[[0, 0xffffffffffffffffff]]"),
    ("[[0, 0x10000000]]", "[[-1, 0x10000000]]"),
    ("[[0, 0x10000000]]", "[[0, 0x10000000], [1, 0]]"),
    ("loc: dram", "loc: DRAM"),
    ("input: square", "input: sqare"),
    ("inputs: [x, x]", "inputs: [x, z]"),
    ("inputs: [x, x]", "inputs: [x]"),
    ("inputs: [x, x]", "inputs: [square, x]"),
    ("inputs: [x, x]", "inputs: [x, x], input_0_tms: [hslice: 3]"),
    (
        "inputs: [x, x]",
        "inputs: [x, x], input_0_tms: [broadcast: {r: 2000000000}, broadcast: {z: 2000000000}]",
    ),
    ("inputs: [x, x]", "inputs: [x, x], input_7_tms: [transpose]"),
    ("type: multiply", "type: mul"),
    ("math_fidelity: HiFi4", "math_fidelity: HiFi5"),
    ("grid_loc: [0, 0]", "grid_loc: [-1, 0]"),
    ("input_count: 1", "input_count: 0"),
    ("ublock_order: r", "untilize_output: maybe, ublock_order: r"),
    ("graph_name: squares", "graph_name: square"),
    ("graph_name: squares", "graph_name: cubes"),
    ("{x: {prologue", "{z: {prologue"),
    ("prologue: false", "prolog: false"),
    ("rd_ptr_local: $l", "rd_ptr_local: $local"),
    ("rd_ptr_local: $l, ", ""),
    ("incwrap, 1, 4", "incrwrap, 1, 4"),
    ("incwrap, 1, 4", "incwrap, 1"),
    ("incwrap, 1, 4", "incwrap, 1, 0"),
    ("      - endloop\n", ""),
    ("      - endloop\n", "      - endloop\n      - endloop\n"),
    ("loop: $p_loop_count", "loop: -5"),
    ("      - endloop\n", "      - endloop\n      - jump: 3\n"),
    (
        "      - endloop\n",
        "      - endloop\n---\ndevices: {arch: grayskull}\n",
    ),
    ("  - run:\n", "  run:\n"),
];

/// Files that are not netlists.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let nested = "[".repeat(5000).into_bytes();
    let utf16 = GOOD.encode_utf16().flat_map(u16::to_le_bytes).collect();
    vec![
        ("empty", Vec::new()),
        ("blank lines", b"\n\n\n".to_vec()),
        ("a scalar", b"hello\n".to_vec()),
        ("a list", b"- 1\n- 2\n".to_vec()),
        ("zeros", vec![0; 64]),
        ("bytes", (0..=255).collect()),
        ("UTF-16", utf16),
        ("deep nesting", nested),
        (
            "a template",
            GOOD.replace("entries: 2", "entries: $TEMPLATE_entries")
                .into_bytes(),
        ),
    ]
}

/// Every mistake and its name.
fn mistakes() -> Vec<(String, Vec<u8>)> {
    let changed = CHANGES.iter().map(|(from, to)| {
        assert!(GOOD.contains(from), "{from}");
        let name = format!("'{}' for '{}'", to.trim_end(), from.trim_end());
        (name, GOOD.replacen(from, to, 1).into_bytes())
    });
    let files = files()
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text));
    files.chain(changed).collect()
}

#[test]
fn every_mistake_is_reported_with_position_and_cause() {
    let folder = folder();
    let path = folder.path().join("n.yaml");
    let mut report = String::new();
    for (name, text) in mistakes() {
        std::fs::write(&path, text).unwrap();
        let answer = tenon(folder.path(), &["netlist", "check", "n.yaml"]);
        assert!(
            answer.out.contains(": warning: ") || answer.status == Some(1),
            "{name}: {answer:?}"
        );
        write!(report, "## {name}\n{}{}\n", answer.out, answer.err).unwrap();
    }
    let golden = "crates/frontends/cli/tests/golden/netlist_mistakes.txt";
    tenon_test_data::golden(golden, &report);
}

#[test]
fn no_mistake_stops_another_command_badly() {
    let folder = folder();
    for (name, text) in mistakes() {
        std::fs::write(folder.path().join("n.yaml"), text).unwrap();
        for command in [
            &[
                "netlist",
                "run",
                "n.yaml",
                "--timeout",
                "20",
                "--outputs",
                "out.npz",
            ][..],
            &["netlist", "test", "n.yaml", "--timeout", "20"],
            &["netlist", "show", "n.yaml"],
            &["netlist", "fmt", "n.yaml"],
            &["compile", "n.yaml", "--timeout", "20", "-o", "out.neff"],
        ] {
            let answer = tenon(folder.path(), command);
            let ended = matches!(answer.status, Some(0 | 1));
            assert!(ended, "{name}: {command:?}: {answer:?}");
            assert!(
                !answer.err.contains("panicked"),
                "{name}: {command:?}: {answer:?}"
            );
            if answer.status == Some(1) {
                let report = format!("{}{}", answer.out, answer.err);
                assert!(report.contains("n.yaml"), "{name}: {command:?}: {report}");
                for out in ["out.npz", "out.neff"] {
                    assert!(!folder.path().join(out).exists(), "{name}: {command:?}");
                }
            }
            for out in ["out.npz", "out.neff"] {
                let _ = std::fs::remove_file(folder.path().join(out));
            }
        }
    }
    let left = folder.path().read_dir().unwrap().count();
    assert_eq!(left, 1, "the netlist alone");
}
