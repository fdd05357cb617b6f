//! Keywords and defaults of the specification that the netlists of the original do not use.

use tenon_netlist::{
    Arch, AttributeKey, Buffer, Netlist, Source, Tm, UblockOrder, check, format_with_comments, read,
};

const NETLIST: &str = "\
devices: {arch: wormhole_b}
queues:
  a: {type: queue, input: HOST, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 2], df: Float16_b, target_device: 0, loc: dram, dram: [[0, 0x30000000]]}
  out: {type: queue, input: soft, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [2, 2], df: Float16_b, target_device: 0, loc: dram, dram: [[1, 0x30000000]]}
graphs:
  g:
    target_device: 0
    input_count: 1
    pad: {type: datacopy, grid_loc: [0, 0], grid_size: [1, 1], inputs: [a], input_0_tms: [pad: [1, 0, -.inf]], in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, math_fidelity: LoFi, t: 1, mblock: [1, 1], ublock: [2, 2], attributes: {relu_en: true, relu_threshold: 0o1, relu_mode: none}}
    slow: {type: lrelu, grid_loc: [0, 1], grid_size: [1, 1], inputs: [pad], in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, math_fidelity: LoFi, t: 1, mblock: [1, 1], ublock: [2, 2], attributes: {slope: .INF}}
    soft: {type: fused_op, grid_loc: [0, 2], grid_size: [1, 1], inputs: [slow], in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, math_fidelity: LoFi, t: 1, mblock: [1, 1], ublock: [2, 2], attributes: {fused_op_id: 0}}
fused_ops:
  0:
    inputs: 1
    intermediates: 1
    schedules:
      -
        - exp: {type: exp, inputs: [input0], mblock: [1, 1], ublock: [2, 2], output: interm0}
        - put: {type: nop, inputs: [interm0], pop: [interm0], mblock: [1, 1], ublock: [2, 2], output: output}
programs:
  - run:
      - var: {$z: 0}
      - execute: {graph_name: g, queue_settings: {a: {rd_ptr_local: $z, rd_ptr_global: $z}}}
";

fn netlist(text: &str) -> Netlist {
    let source = Source::new("n.yaml", text);
    let read = read(&source);
    let mut findings = read.findings;
    findings.extend(check(&read.netlist, None));
    let shown: Vec<_> = findings
        .iter()
        .map(|finding| finding.display(&source).to_string())
        .collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    read.netlist
}

#[test]
fn the_words_of_the_specification_are_accepted() {
    let netlist = netlist(NETLIST);
    assert_eq!(netlist.arch[0].value, Arch::WormholeB0);
    let schedule = &netlist.fused_ops[0].schedules[0];
    assert_eq!(schedule[0].output.value, Buffer::Intermediate(0));
    assert_eq!(schedule[1].inputs[0].0.value, Buffer::Intermediate(0));
    assert_eq!(schedule[1].pop[0].value, Buffer::Intermediate(0));
}

#[test]
fn an_op_has_the_defaults_of_the_specification() {
    let netlist = netlist(NETLIST);
    let op = &netlist.graphs[0].ops[0];
    assert_eq!(op.buf_size_mb.value, 1);
    assert_eq!(op.blocking.order(), UblockOrder::Row);
    assert_eq!(op.attributes.word(AttributeKey::ReluMode), Some("none"));
}

#[test]
fn special_float_values_have_the_forms_of_yaml() {
    let netlist = netlist(NETLIST);
    let ops = &netlist.graphs[0].ops;
    let Tm::Pad(pad) = ops[0].inputs[0].tms[0].value else {
        panic!("{:?}", ops[0].inputs[0].tms);
    };
    assert_eq!(pad.value, f32::NEG_INFINITY);
    let number = |op: usize, key| ops[op].attributes.number(key);
    assert_eq!(number(0, AttributeKey::ReluThreshold), Some(1.0));
    assert_eq!(number(1, AttributeKey::Slope), Some(f64::INFINITY));
}

#[test]
fn a_printed_netlist_parses_to_an_equal_one() {
    let first = netlist(NETLIST);
    let printed = first.to_string();
    assert!(printed.contains("pad: [1, 0, -.inf]") && printed.contains("slope: .inf"));
    assert_eq!(netlist(&printed), first);
    let commented = format_with_comments(&Source::new("n.yaml", NETLIST), &first);
    assert_eq!(netlist(&commented), first);
}
