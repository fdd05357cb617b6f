//! `tenon netlist`: output and exit status.

mod common;

use common::{done, folder, tenon};

const GOOD: &str = "\
devices: {arch: grayskull}
queues:
  a: {type: queue, input: HOST, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 2], df: Float16, target_device: 0, loc: dram, dram: [[0, 0x30000000]]}
  b: {type: queue, input: add, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 2], df: Float16, target_device: 0, loc: dram, dram: [[1, 0x30000000]]}
graphs:
  g:
    target_device: 0
    input_count: 1
    add: {type: add, grid_loc: [9, 0], grid_size: [1, 1], inputs: [a, a], in_df: [Float16, Float16], out_df: Float16, intermed_df: Float16, acc_df: Float16, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, t: 1, mblock: [1, 1], ublock: [1, 2]}
programs:
  - p:
      - staticvar: {$l: 0, $g: 0}
      - execute: {graph_name: g, queue_settings: {a: {prologue: false, rd_ptr_local: $l, rd_ptr_global: $g}}}
";

#[test]
fn a_valid_netlist_passes_and_errors_have_their_lines() {
    let folder = folder();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("good.yaml", GOOD);
    write(
        "bad.yaml",
        &GOOD
            .replace("[a, a]", "[a, c]")
            .replace("entries: 2", "entries: 0"),
    );
    let out = done(folder.path(), &["netlist", "check", "good.yaml"]);
    assert_eq!(out, "1 netlist: 0 errors, 0 warnings\n");
    let answer = tenon(
        folder.path(),
        &["netlist", "check", "good.yaml", "bad.yaml", "--quiet"],
    );
    assert_eq!(answer.status, Some(1));
    let first =
        "bad.yaml:3:42: error: number out of range: expected at least 1, found 0 [value-range]";
    assert!(answer.out.starts_with(first), "{}", answer.out);
    assert!(
        answer.out.ends_with("2 netlists: 2 errors, 0 warnings\n"),
        "{}",
        answer.out
    );
}

#[test]
fn a_file_that_cannot_be_read_keeps_no_other_from_being_checked() {
    let folder = folder();
    std::fs::write(folder.path().join("good.yaml"), GOOD).unwrap();
    let check = ["netlist", "check", "none.yaml", "good.yaml"];
    let answer = tenon(folder.path(), &check);
    assert_eq!(answer.status, Some(1));
    assert!(
        answer.err.starts_with("error: none.yaml: cannot read: "),
        "{}",
        answer.err
    );
    assert_eq!(answer.out, "2 netlists: 1 error, 0 warnings\n");
    let answer = tenon(folder.path(), &[&check[..], &["--json"]].concat());
    let reports: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert!(
        reports[0]["error"]
            .as_str()
            .unwrap()
            .contains("cannot read")
    );
    assert_eq!((&reports[1]["errors"], answer.status), (&0.into(), Some(1)));
}

#[test]
fn an_architecture_is_one_of_the_netlist() {
    let folder = folder();
    std::fs::write(folder.path().join("n.yaml"), GOOD).unwrap();
    let answer = tenon(
        folder.path(),
        &["netlist", "check", "n.yaml", "--arch", "blackhole"],
    );
    let first = "n.yaml:1:17: error: the netlist does not support blackhole: expected blackhole, found grayskull";
    assert!(answer.out.starts_with(first), "{}", answer.out);
    assert_eq!(answer.status, Some(1));
}

#[test]
fn strict_checks_the_device() {
    let folder = folder();
    std::fs::write(folder.path().join("n.yaml"), GOOD).unwrap();
    done(
        folder.path(),
        &["netlist", "check", "n.yaml", "--strict", "grayskull"],
    );
    let small = "arch_name: grayskull\nfunctional_workers: [1-1, 2-1]\ndram: [[0-0], [1-0]]\n\
                 dram_bank_size: 1073741824\nworker_l1_size: 1048576\n";
    std::fs::write(folder.path().join("small.yaml"), small).unwrap();
    let answer = tenon(
        folder.path(),
        &[
            "netlist",
            "check",
            "n.yaml",
            "--strict",
            "small.yaml",
            "--json",
        ],
    );
    assert_eq!(answer.status, Some(1));
    let report: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(report[0]["findings"][0]["rule"], "device-grid");
    assert_eq!(report[0]["findings"][0]["line"], 9);
    let answer = tenon(
        folder.path(),
        &["netlist", "check", "n.yaml", "--strict", "none"],
    );
    assert_eq!(answer.status, Some(2));
    assert!(
        answer.err.contains("wormhole_b0_harvested"),
        "{}",
        answer.err
    );
}

#[test]
fn fmt_prints_what_reads_back() {
    let folder = folder();
    std::fs::write(folder.path().join("n.yaml"), GOOD).unwrap();
    let once = done(folder.path(), &["netlist", "fmt", "n.yaml"]);
    std::fs::write(folder.path().join("m.yaml"), &once).unwrap();
    assert_eq!(done(folder.path(), &["netlist", "fmt", "m.yaml"]), once);
    assert!(
        once.contains("    add:\n      type: add\n      grid_loc: [9, 0]\n"),
        "{once}"
    );
}

#[test]
fn the_rules_are_listed() {
    let folder = folder();
    let out = done(folder.path(), &["netlist", "check", "--rules"]);
    assert!(out.contains("core-overlap"), "{out}");
    assert!(
        out.contains("docs/netlists.md#3.7, docs/netlists.md#7.1"),
        "{out}"
    );
    assert!(out.contains("links between devices"), "{out}");
}

#[test]
fn show_prints_blocking_memory_and_programs() {
    let folder = folder();
    std::fs::write(folder.path().join("n.yaml"), GOOD).unwrap();
    let out = done(folder.path(), &["netlist", "show", "n.yaml"]);
    for part in ["estimate: ", "memory of the device, by channel", "program "] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }
    let report = done(folder.path(), &["netlist", "show", "n.yaml", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["graphs"][0]["ops"][0]["type"], "add");
}

#[test]
fn draw_writes_a_picture_for_each_graph_that_runs_alone() {
    let folder = folder();
    std::fs::write(folder.path().join("n.yaml"), GOOD).unwrap();
    let out = done(
        folder.path(),
        &["netlist", "draw", "n.yaml", "--output", "pictures"],
    );
    let path = folder.path().join(out.trim());
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(
        svg.starts_with("<svg ") && svg.contains("add (add)"),
        "{svg}"
    );
}

#[test]
fn fmt_keeps_comments() {
    let folder = folder();
    std::fs::write(
        folder.path().join("n.yaml"),
        format!("# what it is for\n{GOOD}"),
    )
    .unwrap();
    let out = done(folder.path(), &["netlist", "fmt", "n.yaml"]);
    assert!(out.starts_with("# what it is for\ndevices:\n"), "{out}");
}
