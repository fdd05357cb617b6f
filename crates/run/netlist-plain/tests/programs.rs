//! Arbitrary programs end with outputs or an error, and executes push one entry per input.

use proptest::prelude::*;
use tenon_base::{Control, ErrorKind};
use tenon_netlist::{Netlist, Source, check, read};
use tenon_netlist_plain::{Array, HostInputs, Machine, Options, RunLimits};

const HEAD: &str = "\
devices: {arch: [wormhole_b0]}
queues:
  in: {type: queue, input: HOST, entries: 4, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16_b, target_device: 0, loc: dram, dram: [[0, 0x30000000]]}
  kept: {type: ram, input: double, entries: 4, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16_b, target_device: 0, loc: dram, dram: [[2, 0x30000000]]}
  middle: {type: queue, input: double, entries: 4, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16_b, target_device: 0, loc: dram, dram: [[1, 0x30000000]]}
  out: {type: queue, input: copy, entries: 4, grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1], df: Float16_b, target_device: 1, loc: dram, dram: [[1, 0x30000000]]}
graphs:
  first:
    target_device: 0
    input_count: 2
    double: {type: add, grid_loc: [0, 0], grid_size: [1, 1], inputs: [in, in], in_df: [Float16_b, Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, t: 1, mblock: [1, 1], ublock: [1, 1]}
  second:
    target_device: 1
    input_count: 2
    copy: {type: nop, grid_loc: [0, 0], grid_size: [1, 1], inputs: [middle], in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, acc_df: Float16_b, math_fidelity: HiFi3, buf_size_mb: 2, ublock_order: r, t: 1, mblock: [1, 1], ublock: [1, 1]}
programs:
  - run:
    - param: [$p_n]
    - var: {$l: 0, $g: 0, $m: 0, $w: 0}
    - staticvar: {$s: 0}
";

/// Instructions by index.
const INSTRUCTIONS: &[&str] = &[
    "loop: $p_n",
    "loop: 3",
    "loop: 2000000000",
    "endloop",
    "varinst: [$l, incwrap, 2, 8]",
    "varinst: [$g, incwrap, 2, 8]",
    "varinst: [$m, incwrap, 2, 8]",
    "varinst: [$w, incwrap, 1, 4]",
    "varinst: [$s, inc, 1]",
    "varinst: [$g, mul, $g, 65536]",
    "varinst: [$g, set, -1]",
    "varinst: [$l, add, $l, $g]",
    "allocate_queue: [middle]",
    "deallocate_queue: [middle]",
    "execute: {graph_name: first, queue_settings: {in: {prologue: false, zero: false, rd_ptr_local: $l, rd_ptr_global: $g}, kept: {prologue: false, rd_ptr_global: $w, wr_ptr_global: $w, global_wrptr_autoinc: 1}}}",
    "execute: {graph_name: second, queue_settings: {middle: {prologue: false, rd_ptr_local: $m, rd_ptr_global: $m}}}",
    "execute: {graph_name: second, queue_settings: {middle: {prologue: true, zero: true, rd_ptr_local: $l, rd_ptr_global: $g, global_rdptr_autoinc: 1}}}",
];

fn netlist(instructions: &[usize]) -> Netlist {
    let lines = instructions
        .iter()
        .map(|&number| format!("    - {}\n", INSTRUCTIONS[number]));
    read(&Source::new(
        "program.yaml",
        format!("{HEAD}{}", lines.collect::<String>()),
    ))
    .netlist
}

/// Four entries with the constant elements 1 to 4.
fn inputs() -> HostInputs {
    let values = (0..4 * 1024)
        .map(|index| (index / 1024 + 1) as f32)
        .collect();
    HostInputs::from([(
        "in".to_owned(),
        Array {
            shape: [4, 1, 32, 32],
            values,
        },
    )])
}

fn options(n: i64) -> Options {
    Options {
        params: vec![("$p_n".to_owned(), n)],
        limits: RunLimits {
            instructions: 500,
            elements: 1 << 22,
        },
        ..Options::default()
    }
}

/// The first element of each entry of an output.
fn firsts(array: &Array) -> Vec<f32> {
    array.values.chunks(1024).map(|entry| entry[0]).collect()
}

#[test]
fn a_loop_advances_its_pointers() {
    // Two iterations of: execute first; execute second; advance the pointers of `in` and `middle`.
    let netlist = netlist(&[1, 14, 15, 4, 5, 6, 7, 3]);
    assert!(!check(&netlist, None).has_errors());
    let outcome = Machine::run(&netlist, &inputs(), &options(1), &Control::new()).unwrap();
    assert_eq!(
        firsts(&outcome.outputs["out"]),
        [2.0, 4.0, 6.0, 8.0, 2.0, 4.0]
    );
    // The third iteration wrote slots 2 and 3, after slots 0 and 1 of the first and 1 and 2 of the second.
    assert_eq!(firsts(&outcome.outputs["kept"]), [2.0, 6.0, 2.0, 4.0]);
}

#[test]
fn reading_an_empty_queue_is_an_error() {
    let error = Machine::run(&netlist(&[15]), &inputs(), &options(1), &Control::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ExecutionFailed);
    let text = error.to_string();
    assert!(
        text.contains("'copy'") && text.contains("'middle'") && text.contains("empty"),
        "{text}"
    );
}

#[test]
fn a_program_beyond_the_limit_of_instructions_is_aborted() {
    let netlist = netlist(&[2, 8, 3]);
    let error = Machine::run(&netlist, &inputs(), &options(1), &Control::new()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("exceeds the limit of instructions"),
        "{error}"
    );
}

#[test]
fn a_push_to_a_full_queue_with_a_reader_is_an_error() {
    let error = Machine::run(
        &netlist(&[14, 4, 5, 14, 4, 5, 14]),
        &inputs(),
        &options(1),
        &Control::new(),
    );
    let text = error.unwrap_err().to_string();
    assert!(text.contains("'middle', which is full"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_program_ends(instructions in prop::collection::vec(0..INSTRUCTIONS.len(), 0..24), n in -1i64..4) {
        let netlist = netlist(&instructions);
        let executes = instructions.iter().filter(|&&number| number >= 15).count();
        match Machine::run(&netlist, &inputs(), &options(n), &Control::new()) {
            Ok(outcome) => {
                // Every execute of the second graph pushes two entries, in loops repeatedly.
                let pushed = outcome.outputs["out"].shape[0];
                prop_assert!(pushed >= 2 * executes && pushed % 2 == 0, "{pushed} of {executes}");
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
