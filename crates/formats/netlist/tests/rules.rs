//! Every rule has a test: a valid netlist with one change that violates the rule.

use std::collections::BTreeSet;
use tenon_netlist::{Arch, Device, Findings, Rule, Source, check, check_device, read};

/// A valid netlist: a matmul with a bias, a fused op, a gradient, an untilized output, a view of a
/// ram.
const GOOD: &str = "\
devices: {arch: [wormhole_b0]}
queues:
  a: {type: queue, input: HOST, entries: 4, grid_size: [1, 1], t: 2, mblock: [1, 2], ublock: [2, 2], df: Float16_b, target_device: 0, loc: dram, dram: [[0, 0x30000000]]}
  w: {type: ram, input: HOST, entries: 1, grid_size: [1, 1], t: 2, mblock: [2, 1], ublock: [2, 2], df: Float16_b, target_device: 0, loc: dram, dram: [[1, 0x30000000]]}
  bias: {type: ram, input: HOST, entries: 1, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [2, 2], df: Float16_b, target_device: 0, loc: dram, dram: [[2, 0x30000000]]}
  view: {type: ram, input: HOST, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [2, 1], df: Float16_b, alias: bias, target_device: 0, loc: dram, dram: [[2, 0x30000000]]}
  grad: {type: ram, input: sum, entries: 1, grid_size: [1, 1], t: 2, mblock: [1, 1], ublock: [2, 2], df: Float16_b, target_device: 0, loc: dram, dram: [[3, 0x30000000]]}
  out: {type: queue, input: soft, entries: 4, grid_size: [1, 1], t: 2, mblock: [1, 1], ublock: [2, 2], df: Float16_b, target_device: 0, loc: host, host: [0x100]}
graphs:
  g:
    target_device: 0
    input_count: 2
    m: {type: matmul, grid_loc: [0, 0], grid_size: [1, 1], inputs: [a, w, bias], input_2_tms: [broadcast: {z: 2}], in_df: [Float16_b, Float16_b, Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, t: 2, mblock: [1, 1], ublock: [2, 2], attributes: {m_k: 2, u_kt: 2, bias: true}}
    top: {type: reduce, grid_loc: [0, 1], grid_size: [1, 1], inputs: [m], in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, t: 2, mblock: [1, 1], ublock: [2, 1], attributes: {dim: c, type: max, m_k: 1, u_kt: 2}}
    soft: {type: fused_op, grid_loc: [0, 2], grid_size: [1, 1], inputs: [m, top], input_1_tms: [broadcast: {c: 2}], in_df: [Float16_b, Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, untilize_output: true, t: 2, mblock: [1, 1], ublock: [2, 2], attributes: {fused_op_id: 0}}
    sum: {type: datacopy, grid_loc: [1, 0], grid_size: [1, 1], inputs: [m], in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, gradient_op: true, t: 2, mblock: [1, 1], ublock: [2, 2]}
fused_ops:
  0:
    inputs: 2
    intermediates: 1
    schedules:
      -
        - sub: {type: subtract, inputs: [input0, input1], input_1_tms: [tile_broadcast: c], mblock: [1, 1], ublock: [2, 2], output: dest}
        - exp: {type: exp, inputs: [dest], mblock: [1, 1], ublock: [2, 2], output: intermed0}
        - put: {type: nop, inputs: [intermed0], pop: [intermed0], mblock: [1, 1], ublock: [2, 2], output: output}
programs:
  - run:
      - param: [$p_loop_count]
      - var: {$zero: 0}
      - staticvar: {$l: 0, $g: 0}
      - loop: $p_loop_count
      - execute: {graph_name: g, queue_settings: {
          a: {prologue: false, rd_ptr_local: $l, rd_ptr_global: $g},
          w: {prologue: true, rd_ptr_global: $zero, wr_ptr_global: $zero},
          bias: {prologue: true, rd_ptr_global: $zero, wr_ptr_global: $zero},
          grad: {prologue: true, epilogue: true, rd_ptr_global: $zero, wr_ptr_global: $zero}}}
      - varinst: [$g, incwrap, 2, 8]
      - varinst: [$l, incwrap, 2, 8]
      - endloop
";

/// A rule and a change that violates it: the original text and its replacement.
const VIOLATIONS: &[(&str, &str, &str)] = &[
    ("yaml-syntax", "queues:\n", "queues: ]\n"),
    (
        "documents",
        "      - endloop\n",
        "      - endloop\n---\nqueues: {}\n",
    ),
    (
        "tensor-size",
        "t: 2, mblock: [1, 2]",
        "t: 2000000, mblock: [1, 2]",
    ),
    (
        "op-circle",
        "inputs: [m], in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, gradient_op",
        "inputs: [sum], in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, gradient_op",
    ),
    (
        "queue-shape",
        "input: soft, entries: 4, grid_size: [1, 1], t: 2",
        "input: soft, entries: 4, grid_size: [1, 1], t: 1",
    ),
    (
        "device-pipe",
        "sum: {type: datacopy, grid_loc: [1, 0], grid_size: [1, 1]",
        "sum: {type: datacopy, grid_loc: [1, 0], grid_size: [1, 2]",
    ),
    ("template", "entries: 4", "entries: $TEMPLATE_entries"),
    (
        "structure",
        "inputs: [m], in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, gradient_op",
        "inputs: [m], input_3_tms: [transpose], in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, gradient_op",
    ),
    ("unknown-field", "grid_loc: [0, 0]", "grid_locs: [0, 0]"),
    (
        "missing-field",
        "math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, t: 2, mblock: [1, 1], ublock: [2, 2], attributes: {m_k",
        "buf_size_mb: 2, ublock_order: r, t: 2, mblock: [1, 1], ublock: [2, 2], attributes: {m_k",
    ),
    (
        "duplicate-field",
        "grid_loc: [0, 0]",
        "grid_loc: [3, 3], grid_loc: [0, 0]",
    ),
    (
        "input-formats",
        "in_df: [Float16_b, Float16_b, Float16_b]",
        "in_df: [Float16_b]",
    ),
    ("value-type", "entries: 4", "entries: many"),
    ("value-range", "entries: 4", "entries: 0"),
    ("value-word", "type: matmul", "type: matrix"),
    (
        "unique-name",
        "    top: {type: reduce",
        "    m: {type: reduce",
    ),
    (
        "unknown-name",
        "inputs: [m], in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, gradient_op",
        "inputs: [n], in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, gradient_op",
    ),
    ("queue-producer", "input: soft", "input: a"),
    (
        "queue-buffers",
        "dram: [[0, 0x30000000]]",
        "dram: [[0, 0x30000000], [0, 0x31000000]]",
    ),
    (
        "queue-alias",
        "entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [2, 1]",
        "entries: 3, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [2, 1]",
    ),
    (
        "queue-tile",
        "input: soft, entries: 4",
        "input: soft, tile_dim: [16, 32], entries: 4",
    ),
    (
        "queue-epilogue",
        "          a: {",
        "          out: {epilogue: true, rd_ptr_local: 0, rd_ptr_global: 0},\n          a: {",
    ),
    (
        "input-number",
        "inputs: [m, top], input_1_tms: [broadcast: {c: 2}], in_df: [Float16_b, Float16_b]",
        "inputs: [m], in_df: [Float16_b]",
    ),
    ("core-overlap", "grid_loc: [0, 1]", "grid_loc: [0, 0]"),
    (
        "output-order",
        "ublock_order: r, t: 2, mblock: [1, 1], ublock: [2, 2], attributes: {m_k",
        "ublock_order: c, t: 2, mblock: [1, 1], ublock: [2, 2], attributes: {m_k",
    ),
    (
        "buffer-size",
        "buf_size_mb: 2, ublock_order: r, gradient_op",
        "buf_size_mb: 3, ublock_order: r, gradient_op",
    ),
    (
        "dest-size",
        "gradient_op: true, t: 2, mblock: [1, 1], ublock: [2, 2]",
        "gradient_op: true, t: 2, mblock: [1, 1], ublock: [4, 4]",
    ),
    (
        "untilize",
        "input: soft, entries: 4, grid_size: [1, 1]",
        "input: soft, entries: 4, grid_size: [1, 2]",
    ),
    (
        "untilize-format",
        "inputs: [m, top], input_1_tms: [broadcast: {c: 2}], in_df: [Float16_b, Float16_b], out_df: Float16_b",
        "inputs: [m, top], input_1_tms: [broadcast: {c: 2}], in_df: [Float16_b, Float16_b], out_df: Bfp8_b",
    ),
    ("shape-declared", "input_2_tms: [broadcast: {z: 2}], ", ""),
    (
        "tm-shape",
        "input_2_tms: [broadcast: {z: 2}]",
        "input_2_tms: [hslice: 3]",
    ),
    (
        "tm-transpose",
        "input_2_tms: [broadcast: {z: 2}]",
        "input_2_tms: [broadcast: {z: 2}, transpose]",
    ),
    (
        "tm-place",
        "input_2_tms: [broadcast: {z: 2}]",
        "input_2_tms: [broadcast: {z: 2}, tile_broadcast: r]",
    ),
    ("attribute", "m_k: 2, u_kt: 2, bias", "m_k: 2, bias"),
    (
        "integer-format",
        "inputs: [a, w, bias], input_2_tms: [broadcast: {z: 2}], in_df: [Float16_b",
        "inputs: [a, w, bias], input_2_tms: [broadcast: {z: 2}], in_df: [Int32",
    ),
    ("fused", "pop: [intermed0], ", ""),
    (
        "fused-shape",
        "inputs: [intermed0], pop: [intermed0], mblock: [1, 1], ublock: [2, 2]",
        "inputs: [intermed0], pop: [intermed0], mblock: [1, 1], ublock: [1, 2]",
    ),
    (
        "param-first",
        "      - param: [$p_loop_count]\n      - var: {$zero: 0}\n",
        "      - var: {$zero: 0}\n      - param: [$p_loop_count]\n",
    ),
    (
        "variable",
        "staticvar: {$l: 0, $g: 0}",
        "staticvar: {$l: 0}",
    ),
    (
        "variable-implicit",
        "      - endloop\n",
        "      - varinst: [$new, set, 1]\n      - endloop\n",
    ),
    ("loop-nesting", "      - endloop\n", ""),
    ("loop-count", "loop: $p_loop_count", "loop: 0"),
    (
        "test-config",
        "programs:\n",
        "test-config: {stimulus-config: {type: Uniform, upper: 2}}\nprograms:\n",
    ),
    (
        "end-program",
        "      - endloop\n",
        "      - endloop\n      - endprogram\n",
    ),
    (
        "setting-missing",
        "a: {prologue: false, rd_ptr_local: $l, ",
        "a: {prologue: false, ",
    ),
    (
        "setting-forbidden",
        "a: {prologue: false, ",
        "a: {prologue: false, wr_ptr_global: 0, ",
    ),
    (
        "setting-unused",
        "          a: {",
        "          view: {rd_ptr_global: 0, wr_ptr_global: 0},\n          a: {",
    ),
    (
        "unknown-name",
        "buf_size_mb: 2, ublock_order: r, gradient_op: true",
        "forked_dram_inputs: [w: m], buf_size_mb: 2, ublock_order: r, gradient_op: true",
    ),
    ("device-arch", "arch: [wormhole_b0]", "arch: [blackhole]"),
    ("device-grid", "grid_loc: [0, 1]", "grid_loc: [10, 1]"),
    (
        "device-channel",
        "dram: [[0, 0x30000000]]",
        "dram: [[7, 0x30000000]]",
    ),
    (
        "device-memory",
        "dram: [[0, 0x30000000]]",
        "dram: [[0, 0x7fffffff]]",
    ),
    (
        "device-format",
        "ublock: [2, 2], df: Float16_b, target_device: 0, loc: dram, dram: [[0, 0x30000000]]",
        "ublock: [2, 2], df: Bfp8_b, target_device: 0, loc: dram, dram: [[0, 0x30000000]]",
    ),
    (
        "device-settings",
        "w: {prologue: true, ",
        "w: {prologue: true, epilogue: true, ",
    ),
    (
        "device-buffer",
        "buf_size_mb: 2, ublock_order: r, gradient_op: true, t: 2",
        "buf_size_mb: 6, ublock_order: r, gradient_op: true, t: 2",
    ),
    (
        "device-l1",
        "buf_size_mb: 2, ublock_order: r, gradient_op: true, t: 2",
        "buf_size_mb: 2048, ublock_order: r, gradient_op: true, t: 2",
    ),
    (
        "buffer-overlap",
        "dram: [[1, 0x30000000]]",
        "dram: [[0, 0x30000100]]",
    ),
];

fn findings(text: &str) -> (Source, Findings) {
    let source = Source::new("n.yaml", text);
    let read = read(&source);
    let mut findings = read.findings;
    if !findings.has_errors() {
        findings.extend(check(&read.netlist, None));
        let grayskull = read
            .netlist
            .arch
            .iter()
            .any(|arch| arch.value == Arch::Grayskull);
        let device = if grayskull {
            "grayskull"
        } else {
            "wormhole_b0"
        };
        let device = Device::find(device).unwrap();
        findings.extend(check_device(&read.netlist, &device));
    }
    (source, findings.sorted())
}

fn display((source, findings): &(Source, Findings)) -> String {
    let all: Vec<_> = findings
        .iter()
        .map(|f| f.display(source).to_string())
        .collect();
    all.join("\n")
}

#[test]
fn the_valid_netlist_has_no_findings() {
    let found = findings(GOOD);
    assert_eq!(display(&found), "");
}

#[test]
fn every_change_violates_its_rule() {
    let mut failures = Vec::new();
    for (rule, text) in violations() {
        let found = findings(&text);
        if !found.1.iter().any(|finding| finding.rule.id() == rule) {
            failures.push(format!("{rule} is not reported, but:\n{}", display(&found)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Changes of the fused op, and the message for each.
const FUSED: &[(&str, &str, &str)] = &[
    (
        "ublock: [2, 2], output: intermed0",
        "ublock: [4, 4], output: intermed0",
        "scheduled op 'exp': the ublock exceeds the destination registers: expected at most 8 tiles, found 16",
    ),
    (
        "ublock: [2, 2], output: dest",
        "ublock: [3, 3], output: dest",
        "scheduled op 'sub': the ublock exceeds the destination registers: expected at most 8 tiles, found 9",
    ),
    (
        "input_1_tms: [tile_broadcast: c]",
        "input_1_tms: [broadcast: {c: 2}]",
        "scheduled op 'sub': only intermediate buffers can be broadcast",
    ),
    (
        "inputs: [intermed0], pop",
        "inputs: [intermed0], input_0_tms: [broadcast: {r: 2}, broadcast: {c: 2}], pop",
        "scheduled op 'put': a buffer cannot be broadcast along both rows and columns",
    ),
    (
        "{type: nop, inputs: [intermed0], pop",
        "{type: matmul, attributes: {m_k: 1, u_kt: 4}, inputs: [input0, intermed0], input_1_tms: [broadcast: {r: 2}], pop",
        "scheduled op 'put': a matmul supports a broadcast of the columns of input 0 only",
    ),
    (
        "{type: nop, inputs: [intermed0], pop",
        "{type: matmul, attributes: {m_k: 1, u_kt: 3}, inputs: [intermed0, input0], input_0_tms: [broadcast: {c: 2}], pop",
        "scheduled op 'put': m_k and u_kt are 1 and 3, but intermed0 is broadcast to 4 tiles",
    ),
    (
        "mblock: [1, 1], ublock: [2, 2], output: output",
        "mblock: [3, 1], ublock: [2, 2], output: output",
        "scheduled op 'put': intermed0 has 2x2 tiles, the op has 6x2",
    ),
    (
        "{type: nop, inputs: [intermed0], pop: [intermed0], mblock: [1, 1]",
        "{type: matmul, attributes: {m_k: 1, u_kt: 2}, inputs: [intermed0, input0], pop: [intermed0], mblock: [2, 1]",
        "scheduled op 'put': intermed0 has 2 rows of tiles, the op has 4",
    ),
];

#[test]
fn fused_ops_fit_the_registers_and_the_blocks_of_their_schedule() {
    for (from, to, message) in FUSED {
        assert!(GOOD.contains(from), "'{from}' is not in the netlist");
        let source = Source::new("n.yaml", GOOD.replacen(from, to, 1));
        let netlist = read(&source).netlist;
        let found = check(&netlist, None);
        let sentences: Vec<_> = found.iter().map(|finding| finding.sentence()).collect();
        let hit = sentences.iter().any(|text| text.starts_with(message));
        assert!(hit && found.has_errors(), "{message}: {sentences:#?}");
    }
}

#[test]
fn the_capacity_of_registers_depends_on_architecture_and_accumulation_format() {
    let sizes = |text: &str, arch| {
        let found = check(&read(&Source::new("n.yaml", text)).netlist, arch);
        let sizes = found.iter().filter(|found| found.rule == Rule::DestSize);
        sizes
            .filter_map(|found| found.expected.clone())
            .collect::<Vec<_>>()
    };
    let text = GOOD
        .replace("arch: [wormhole_b0]", "arch: [wormhole, wormhole_b0]")
        .replace(
            "ublock: [2, 2], output: dest",
            "ublock: [2, 6], output: dest",
        );
    // Wormhole a0 has four times as many registers.
    assert!(sizes(&text, None).is_empty());
    assert!(sizes(&text, Some(Arch::Wormhole)).is_empty());
    assert_eq!(sizes(&text, Some(Arch::WormholeB0)), ["at most 8 tiles"]);
    // There are half as many 32-bit registers, for all ops that run the fused op.
    let wide = GOOD.replace(
        "acc_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, untilize",
        "acc_df: Float32, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, untilize",
    );
    assert!(sizes(&wide, None).is_empty());
    let wide = wide.replace(
        "ublock: [2, 2], output: dest",
        "ublock: [2, 3], output: dest",
    );
    assert_eq!(sizes(&wide, None), ["at most 4 tiles"]);
}

/// Netlists that violate a rule by more than one change.
fn violations_by_several_changes() -> Vec<(&'static str, String)> {
    vec![
        ("buffer-alignment", GOOD
            .replace("arch: [wormhole_b0]", "arch: [blackhole]")
            .replace("dram: [[0, 0x30000000]]", "dram: [[0, 0x30000020]]")),
        ("input-count", {
            let graph = "  h:\n    target_device: 0\n    input_count: 1\n    k: {type: nop, grid_loc: [0, 0], grid_size: [1, 1], inputs: [a], in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, t: 2, mblock: [1, 2], ublock: [2, 2]}\n";
            GOOD.replace("fused_ops:\n", &format!("{graph}fused_ops:\n"))
        }),
        ("tile-size", GOOD
            .replace("type: reduce", "type: embedding")
            .replace("inputs: [m], in_df: [Float16_b], out_df", "tile_dim: [16, 32], inputs: [m], in_df: [Float16_b], out_df")),
        ("format", GOOD
            .replace("m_k: 2, u_kt: 2, bias: true", "m_k: 2, u_kt: 2, bias: true, l1_acc: true")
            .replace("in_df: [Float16_b, Float16_b, Float16_b], out_df: Float16_b, intermed_df: Float16_b", "in_df: [Float16_b, Float16_b, Float16_b], out_df: Float16_b, intermed_df: Bfp8_b")),
        ("gradient", GOOD.replace("type: ram, input: sum", "type: queue, input: sum")),
        ("device-output", GOOD.replace(
            "grad: {type: ram, input: sum, entries: 1, grid_size: [1, 1], t: 2, mblock: [1, 1], ublock: [2, 2]",
            "grad: {type: ram, input: sum, entries: 1, grid_size: [1, 1], t: 2, mblock: [2, 1], ublock: [1, 2]",
        )),
        ("device-dynamic", GOOD.replace("      - loop:", "      - allocate_queue: [out]\n      - loop:")),
        ("grayskull", GOOD
            .replace("arch: [wormhole_b0]", "arch: grayskull")
            .replace("acc_df: Float16_b", "acc_df: Float32")),
        ("section-empty", {
            let programs = GOOD.find("programs:").unwrap();
            format!("{}programs: []\n", &GOOD[..programs])
        }),
        ("shape", GOOD.replace("type: reduce", "type: splice").replace(
            "{dim: c, type: max, m_k: 1, u_kt: 2}",
            "{granularity: t, input0: [0, 2, 2]}",
        )),
        ("device-ethernet", GOOD
            .replace("type: datacopy, grid_loc: [1, 0]", "type: ethernet_datacopy, attributes: {dest_device: 1, ingress_channels: [0], egress_channels: [16]}")),
        ("device-remote", on_grayskulls()),
        ("device-streams", {
            let nine = |word: &str| [word; 9].join(", ");
            let (inputs, formats) = (nine("a"), nine("Float16_b"));
            GOOD.replace(
                "inputs: [m, top], input_1_tms: [broadcast: {c: 2}], in_df: [Float16_b, Float16_b]",
                &format!("inputs: [{inputs}], in_df: [{formats}]"),
            )
        }),
    ]
}

/// Two grayskulls, of which the second reads a queue of the first outside of the shared memory.
fn on_grayskulls() -> String {
    let queue = |name: &str, input: &str, device: u32, address: &str| {
        format!(
            "  {name}: {{type: queue, input: {input}, entries: 2, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16, target_device: {device}, loc: dram, dram: [{address}]}}\n"
        )
    };
    let graph = |name: &str, device: u32, op: &str, input: &str| {
        format!(
            "  {name}:\n    target_device: {device}\n    input_count: 1\n    {op}: {{type: nop, grid_loc: [0, 0], grid_size: [1, 1], inputs: [{input}], in_df: [Float16], out_df: Float16, intermed_df: Float16, acc_df: Float16, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, t: 1, mblock: [1, 1], ublock: [1, 1]}}\n"
        )
    };
    let queues = [
        queue("x", "HOST", 0, "[1, 0x10000000]"),
        queue("between", "first", 0, "[1, 0x30000000]"),
        queue("y", "second", 1, "[1, 0x10000000]"),
    ];
    let graphs = [
        graph("one", 0, "first", "x"),
        graph("two", 1, "second", "between"),
    ];
    format!(
        "devices: {{arch: grayskull}}\nqueues:\n{}graphs:\n{}programs:\n  - run:\n    - var: {{$z: 0}}\n    \
         - execute: {{graph_name: one, queue_settings: {{x: {{rd_ptr_local: $z, rd_ptr_global: $z}}}}}}\n    \
         - execute: {{graph_name: two}}\n",
        queues.concat(),
        graphs.concat()
    )
}

/// Every rule with a netlist that violates it.
fn violations() -> Vec<(&'static str, String)> {
    let one = |&(rule, from, to): &(&'static str, &str, &str)| {
        assert!(
            GOOD.contains(from),
            "{rule}: '{from}' is not in the netlist"
        );
        (rule, GOOD.replacen(from, to, 1))
    };
    VIOLATIONS
        .iter()
        .map(one)
        .chain(violations_by_several_changes())
        .collect()
}

#[test]
fn every_rule_has_a_test() {
    let tested: BTreeSet<&str> = violations().into_iter().map(|(rule, _)| rule).collect();
    let all: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.id()).collect();
    let missing: Vec<_> = all.difference(&tested).collect();
    assert!(missing.is_empty(), "no test for {missing:?}");
    let unknown: Vec<_> = tested.difference(&all).collect();
    assert!(unknown.is_empty(), "unknown rules: {unknown:?}");
}
