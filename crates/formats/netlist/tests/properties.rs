//! Any text is parsed without panic; a valid netlist is checked and printed, and the printed text
//! parses to an equal netlist.

use proptest::prelude::*;
use tenon_netlist::{Source, check, read};

/// A small valid netlist.
const SMALL: &str = "\
devices: {arch: [wormhole_b0]}
queues:
  q: {type: queue, input: HOST, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 2], ublock: [2, 2], df: Bfp8_b, target_device: 0, loc: dram, dram: [[0, 0x30000000]]}
  w: {type: ram, input: HOST, entries: 1, grid_size: [1, 1], t: 1, mblock: [2, 1], ublock: [2, 2], df: Bfp8_b, target_device: 0, loc: dram, dram: [[1, 0x30000000]]}
  out: {type: queue, input: m, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [2, 2], df: Float16_b, target_device: 0, loc: host, host: [0x100]}
graphs:
  g:
    target_device: 0
    input_count: 2
    m: {type: matmul, grid_loc: [0, 0], grid_size: [1, 1], inputs: [q, w], in_df: [Bfp8_b, Bfp8_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, t: 1, mblock: [1, 1], ublock: [2, 2], attributes: {m_k: 2, u_kt: 2}}
programs:
  - run:
      - param: [$p_loop_count]
      - staticvar: {$l: 0, $g: 0}
      - loop: $p_loop_count
      - execute: {graph_name: g, queue_settings: {q: {prologue: false, epilogue: false, zero: false, rd_ptr_local: $l, rd_ptr_global: $g}, w: {prologue: true, rd_ptr_global: 0, wr_ptr_global: 0}}}
      - varinst: [$g, incwrap, 2, 4]
      - varinst: [$l, incwrap, 2, 4]
      - endloop
test-config:
  comparison-config: {type: AllCloseHw, atol: 0.01}
";

fn check_any(text: &str) {
    let source = Source::new("any.yaml", text);
    let first = read(&source);
    for finding in first.findings.iter() {
        finding.display(&source).to_string();
    }
    if first.findings.has_errors() {
        return;
    }
    for finding in check(&first.netlist, None).iter() {
        finding.display(&source).to_string();
    }
    let printed = Source::new("printed.yaml", first.netlist.to_string());
    let second = read(&printed);
    assert!(!second.findings.has_errors(), "{}", printed.text());
    assert_eq!(first.netlist, second.netlist);
}

#[test]
fn the_small_netlist_has_no_findings() {
    let source = Source::new("small.yaml", SMALL);
    let read = read(&source);
    let mut findings = read.findings;
    findings.extend(check(&read.netlist, None));
    let shown: Vec<_> = findings
        .iter()
        .map(|f| f.display(&source).to_string())
        .collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    assert!(!read.netlist.programs.is_empty());
}

#[test]
fn unquoted_scalars_of_block_style_are_printed_on_one_line() {
    for scalar in ["A\n\n      0.01\n      .", "{type: A, b: [c]}", "a, b]"] {
        let text = SMALL.replace("{type: AllCloseHw, atol: 0.01}", scalar);
        check_any(&text);
        let nested = format!("\n    - type: {scalar}\n    - {scalar}\n");
        check_any(&SMALL.replace("{type: AllCloseHw, atol: 0.01}", &nested));
    }
}

#[test]
fn keys_that_are_no_names_are_printed_as_they_were_read() {
    for entries in [
        "a, : 0.01",
        "~: 0.01",
        "'~': 0.01",
        "a b: 0.01",
        "'a': 0.01",
        "'': 1",
    ] {
        check_any(&SMALL.replace("atol: 0.01", entries));
    }
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_rejected(text in ".{0,400}") {
        check_any(&text);
    }

    #[test]
    fn a_netlist_with_a_replaced_range_never_panics(
        at in 0..SMALL.len(),
        length in 0usize..24,
        replacement in "[-\\[\\]{}:,$0-9a-z \n]{0,12}",
    ) {
        let mut text = SMALL.to_owned();
        let end = (at + length).min(text.len());
        text.replace_range(at..end, &replacement);
        check_any(&text);
    }

    #[test]
    fn a_netlist_with_a_replaced_word_never_panics(from in 0usize..200, to in 0usize..200) {
        let words: Vec<&str> = SMALL.split_inclusive([' ', ',', '\n']).collect();
        let mut changed = words.clone();
        changed[from % words.len()] = words[to % words.len()];
        check_any(&changed.concat());
    }
}

#[test]
fn deep_nesting_is_an_error() {
    check_any(&"[".repeat(100_000));
    check_any(&format!("a: {}", "{a: ".repeat(5_000)));
    check_any(&"- ".repeat(5_000));
}
