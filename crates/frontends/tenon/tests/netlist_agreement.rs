//! `SelfTest`: the kernels against the plain implementation, on generated and on real
//! netlists.
#![allow(clippy::print_stderr, reason = "a test says what it leaves out")]

use std::path::PathBuf;
use std::time::{Duration, Instant};
use tenon::netlist::{AttributeKey, Netlist, Op, OpKind, Source, read};
use tenon::netlist::{Job, QueueAgreement, SelfTest};
use tenon::{Control, ErrorKind, Result, Tensor};
use tenon_test_data::good_netlists;

/// A matmul with a depth of eight tiles: two orders of summation differ in the last bits.
fn product(config: &str) -> Source {
    let shape = |columns: u32| format!("t: 1, mblock: [1, 1], ublock: [1, {columns}]");
    let queue = |name: &str, input: &str, shape: &str, address: u32| {
        format!(
            "  {name}: {{type: queue, input: {input}, entries: 1, grid_size: [1, 1], {shape}, df: \
             Float32, target_device: 0, loc: dram, dram: [[0, {address:#x}]]}}\n"
        )
    };
    let text = format!(
        "devices: {{arch: grayskull}}\nqueues:\n{}{}{}graphs:\n  g:\n    target_device: 0\n    \
         input_count: 1\n    product: {{type: matmul, grid_loc: [0, 0], grid_size: [1, 1], inputs: \
         [a, b], in_df: [Float32, Float32], acc_df: Float16, out_df: Float32, intermed_df: Float32, \
         ublock_order: r, buf_size_mb: 2, math_fidelity: HiFi4, attributes: {{m_k: 1, u_kt: 8}}, \
         {}}}\nprograms:\n  - run:\n    - var: {{$zero: 0}}\n    - execute: {{graph_name: g, \
         queue_settings: {{a: {{prologue: false, epilogue: false, zero: false, rd_ptr_local: $zero, \
         rd_ptr_global: $zero}}, b: {{prologue: false, epilogue: false, zero: false, rd_ptr_local: \
         $zero, rd_ptr_global: $zero}}}}}}\n{config}",
        queue("a", "HOST", &shape(8), 0x1000_0000),
        queue(
            "b",
            "HOST",
            "t: 1, mblock: [1, 1], ublock: [8, 1]",
            0x2000_0000
        ),
        queue("y", "product", &shape(1), 0x3000_0000),
        shape(1),
    );
    Source::new("product.yaml", text)
}

fn tested(source: &Source, control: &Control) -> Result<Vec<QueueAgreement>> {
    SelfTest::new().control(control.clone()).run(source)
}

#[test]
fn equal_results_pass() {
    let queues = tested(&product(""), &Control::new()).unwrap();
    let [y] = &queues[..] else {
        panic!("{queues:?}");
    };
    assert!(y.passed(), "{y:?}");
    assert_eq!((y.name.as_str(), y.shape), ("y", [1, 1, 32, 32]));
    let agreement = y.agreement.as_ref().unwrap();
    assert_eq!(agreement.close, 1.0);
    assert!(agreement.correlation > 0.99999, "{agreement:?}");
}

/// Broadcast rows and columns are computed once.
#[test]
fn inputs_that_are_broadcast_last_agree() {
    let text = product("").text().replace(
        "inputs: [a, b],",
        "inputs: [a, b], input_0_tms: [broadcast: {r: 3}], input_1_tms: [broadcast: {c: 2}],",
    );
    let text = text.replace(
        "mblock: [1, 1], ublock: [1, 1]",
        "mblock: [3, 2], ublock: [1, 1]",
    );
    let queues = tested(&Source::new("product.yaml", text), &Control::new()).unwrap();
    assert_eq!(queues[0].shape, [1, 1, 96, 64]);
    assert!(queues[0].passed(), "{queues:?}");
}

/// Matmuls accumulate over the inputs of an execute and over executes, until the ram is cleared; the
/// epilogue is applied before accumulation.
#[test]
fn products_that_gradient_ops_sum_agree() {
    let text = product("").text().replace("entries: 1", "entries: 2");
    let text = text.replace("input_count: 1", "input_count: 2");
    let text = text.replace("y: {type: queue", "y: {type: ram");
    let text = text.replace("inputs: [a, b]", "gradient_op: true, inputs: [a, b]");
    let execute = text.find("    - execute").unwrap();
    let settings = |zero| {
        let y = format!(
            "$zero}}, y: {{prologue: true, epilogue: true, zero: {zero}, rd_ptr_global: $zero, \
             wr_ptr_global: $zero}}}}}}"
        );
        text[execute..].replace("$zero}}}", &y)
    };
    let steps = [settings(true), settings(false), settings(true)];
    let moves = "    - varinst: [$at, incwrap, 2, 4]\n";
    // Broadcast rows of a matmul result are expanded only when it is accumulated.
    let broadcast = text.replace(
        "inputs: [a, b]",
        "input_0_tms: [broadcast: {r: 3}], inputs: [a, b]",
    );
    let broadcast = broadcast.replace(
        "mblock: [1, 1], ublock: [1, 1]",
        "mblock: [3, 1], ublock: [1, 1]",
    );
    let bent = text.replace("u_kt: 8}", "u_kt: 8, sfpu_op: gelu}");
    for text in [&text, &bent, &broadcast] {
        for count in 1..=3 {
            let head = text.split("    - execute").next().unwrap();
            let all = format!("{head}{}", steps[..count].join(moves));
            let all = all.replace("{$zero: 0}", "{$zero: 0, $at: 0}");
            let all = all.replace(
                "rd_ptr_local: $zero, rd_ptr_global: $zero",
                "rd_ptr_local: $at, rd_ptr_global: $at",
            );
            let source = Source::new("product.yaml", all);
            let queues = tested(&source, &Control::new()).unwrap();
            assert!(queues[0].name == "y" && queues[0].passed(), "{queues:?}");
        }
    }
}

/// Tiles are in their format before they are transposed: blocks of sixteen share an exponent as
/// they were stored.
#[test]
fn blocks_are_rounded_before_they_are_turned() {
    let queue = "type: queue, entries: 1, grid_size: [1, 1], t: 1, mblock: [1, 1], df: Bfp4, \
                 target_device: 0, loc: dram";
    let op = "grid_size: [1, 1], t: 1, mblock: [1, 1], acc_df: Float16, out_df: Bfp4, intermed_df: \
              Bfp4, ublock_order: r, buf_size_mb: 2, math_fidelity: HiFi4";
    let settings = "{prologue: false, epilogue: false, zero: false, rd_ptr_local: $zero, \
                    rd_ptr_global: $zero}";
    let text = format!(
        "devices: {{arch: grayskull}}
queues:
  a: {{input: HOST, ublock: [1, 8], dram: [[0, 0x10000000]], {queue}}}
  b: {{input: HOST, ublock: [1, 8], dram: [[0, 0x20000000]], {queue}}}
  y: {{input: product, ublock: [1, 1], dram: [[0, 0x30000000]], {queue}}}
  z: {{input: turned, ublock: [8, 1], dram: [[0, 0x40000000]], {queue}}}
graphs:
  g:
    target_device: 0
    input_count: 1
    product: {{type: matmul, grid_loc: [0, 0], inputs: [a, b], in_df: [Bfp4, Bfp4], input_1_tms: \
         [transpose], ublock: [1, 1], attributes: {{m_k: 1, u_kt: 8}}, {op}}}
    turned: {{type: nop, grid_loc: [0, 1], inputs: [b], in_df: [Bfp4], input_0_tms: [transpose], \
         ublock: [8, 1], {op}}}
programs:
  - run:
    - var: {{$zero: 0}}
    - execute: {{graph_name: g, queue_settings: {{a: {settings}, b: {settings}}}}}
test-config:
  stimulus-config: {{type: Normal, normal_mean: 0.0, normal_stddev: 1.0}}
  comparison-config: {{type: AllClose, atol: 1.0e-4, rtol: 1.0e-4, check_pct: 1.0}}
"
    );
    let queues = tested(&Source::new("turned.yaml", text), &Control::new()).unwrap();
    assert_eq!(queues.len(), 2);
    assert!(queues.iter().all(QueueAgreement::passed), "{queues:?}");
}

/// Binary ops with TMs on one operand, fused ops also with `tile_broadcast`.
#[test]
fn broadcast_operands_of_binary_ops_agree() {
    let queue = "type: queue, entries: 1, grid_size: [1, 1], ublock: [1, 1], df: Float32, \
                 target_device: 0, loc: dram";
    let op = "grid_size: [1, 1], ublock: [1, 1], acc_df: Float16_b, out_df: Float32, intermed_df: \
              Float32, ublock_order: r, buf_size_mb: 2, math_fidelity: HiFi4";
    let settings = "{prologue: false, epilogue: false, zero: false, rd_ptr_local: $zero, \
                    rd_ptr_global: $zero}";
    let all = "t: 2, mblock: [3, 4]";
    let part = "mblock: [3, 4], ublock: [1, 1]";
    let text = format!(
        "devices: {{arch: wormhole_b0}}
queues:
  x: {{input: HOST, {all}, dram: [[0, 0x10000000]], {queue}}}
  w: {{input: HOST, t: 1, mblock: [1, 2], dram: [[0, 0x20000000]], {queue}}}
  y: {{input: less, {all}, dram: [[0, 0x30000000]], {queue}}}
  z: {{input: both, {all}, dram: [[0, 0x40000000]], {queue}}}
graphs:
  g:
    target_device: 0
    input_count: 1
    less: {{type: subtract, grid_loc: [0, 0], inputs: [w, x], in_df: [Float32, Float32], input_0_tms: \
         [broadcast: {{z: 2}}, broadcast: {{r: 3}}, broadcast: {{c: 2}}], {all}, {op}}}
    both: {{type: fused_op, grid_loc: [0, 1], inputs: [x, w, less], in_df: [Float32, Float32, \
         Float32], input_1_tms: [broadcast: {{c: 2}}, broadcast: {{z: 2}}, broadcast: {{r: 3}}], \
         attributes: {{fused_op_id: 0}}, {all}, {op}}}
programs:
  - run:
    - var: {{$zero: 0}}
    - execute: {{graph_name: g, queue_settings: {{x: {settings}, w: {settings}}}}}
fused_ops:
  0:
    inputs: 3
    intermediates: 1
    schedules:
      -
        - a: {{type: multiply, inputs: [input0, input1], input_1_tms: [tile_broadcast: r], {part}, \
          output: dest}}
        - b: {{type: abs, inputs: [dest], {part}, output: intermed0}}
      -
        - m: {{type: reduce, inputs: [intermed0], attributes: {{dim: c, type: max, m_k: 4, u_kt: 1}}, \
          pop: [intermed0], mblock: [3, 1], ublock: [1, 1], output: intermed0}}
      -
        - c: {{type: subtract, inputs: [input2, intermed0], input_1_tms: [broadcast: {{c: 4}}, \
          tile_broadcast: c], pop_last: [intermed0], {part}, output: output}}
"
    );
    let queues = tested(&Source::new("seen.yaml", text), &Control::new()).unwrap();
    assert_eq!(queues.len(), 2);
    for queue in &queues {
        assert!(
            queue.passed() && queue.shape == [1, 2, 96, 128],
            "{queue:?}"
        );
    }
}

/// The fast GELU is close but not equal at every CPU level: an exact comparison reports the first difference.
#[test]
fn different_results_fail_with_their_position() {
    let exact = product(
        "test-config: {comparison-config: {type: Exact}, stimulus-config: {type: Uniform, \
         uniform_lower_bound: -0.5, uniform_upper_bound: 0.5}}\n",
    );
    let gelu = exact.text().replace("u_kt: 8}", "u_kt: 8, sfpu_op: gelu}");
    let source = Source::new("product.yaml", gelu);
    let queues = tested(&source, &Control::new()).unwrap();
    assert!(!queues[0].passed(), "{queues:?}");
    let ([entry, t, row, column], expected, found) = queues[0].first.unwrap();
    assert!(entry == 0 && t == 0 && row < 32 && column < 32);
    assert!(expected != found && (expected - found).abs() < 1e-3);
}

#[test]
fn a_netlist_with_errors_is_refused() {
    let broken = product("")
        .text()
        .replace("inputs: [a, b]", "inputs: [a, c]");
    let error = tested(&Source::new("product.yaml", broken), &Control::new()).unwrap_err();
    assert!(error.to_string().contains("product.yaml:"), "{error}");
    let late = Control::with_deadline(Instant::now());
    let error = tested(&product(""), &late).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
}

/// On two devices every queue exists twice; both get the data of the common name.
#[test]
fn queues_on_several_devices_are_fed_by_their_name() {
    let source = product("");
    let text = source
        .text()
        .replace("target_device: 0", "target_device: [0, 1]");
    let text = text.replace("arch: grayskull", "arch: wormhole_b0");
    let queues = tested(&Source::new("product.yaml", text), &Control::new()).unwrap();
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["y.0", "y.1"]);
    assert!(queues.iter().all(QueueAgreement::passed), "{queues:?}");
}

/// Two graphs on two devices; the second reads the queue of `entries` entries that the first writes.
/// Each takes two inputs.
fn pipeline(entries: u32, program: &str) -> Source {
    let shape = "grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 1]";
    let queue = |name: &str, input: &str, entries: u32, address: u32| {
        format!(
            "  {name}: {{type: queue, input: {input}, entries: {entries}, {shape}, df: Float32, \
             target_device: 0, loc: dram, dram: [[0, {address:#x}]]}}\n"
        )
    };
    let graph = |name: &str, device: u32, op: &str, input: &str| {
        format!(
            "  {name}:\n    target_device: {device}\n    input_count: 2\n    {op}: {{type: nop, \
             grid_loc: [0, 0], inputs: [{input}], in_df: [Float32], acc_df: Float32, out_df: Float32, \
             intermed_df: Float32, ublock_order: r, buf_size_mb: 2, math_fidelity: HiFi4, {shape}}}\n"
        )
    };
    let text = format!(
        "devices: {{arch: blackhole}}\nqueues:\n{}{}{}graphs:\n{}{}programs:\n  - run:\n    - var: \
         {{$zero: 0, $two: 2, $three: 3}}\n{program}",
        queue("x", "HOST", 8, 0x1000_0000),
        queue("q", "one", entries, 0x2000_0000),
        queue("y", "two", 8, 0x3000_0000),
        graph("first", 0, "one", "x"),
        graph("second", 1, "two", "q"),
    );
    Source::new("pipeline.yaml", text)
}

/// An execute of `graph` that reads `queue` from the pointer in a variable.
fn execute(graph: &str, queue: &str, from: &str, rest: &str) -> String {
    format!(
        "    - execute: {{graph_name: {graph}, queue_settings: {{{queue}: {{prologue: false, \
         epilogue: false, zero: false, rd_ptr_local: {from}, rd_ptr_global: $zero{rest}}}}}}}\n"
    )
}

/// The first elements of all entries of `y`; all elements of entry i of `x` are i.
fn entries_of_y(source: &Source) -> Vec<f32> {
    let values: Vec<f32> = (0..8u8).flat_map(|i| [f32::from(i); 1024]).collect();
    let x = Tensor::from_slice([8, 1, 32, 32], &values).unwrap();
    let job = Job::new().input("x", x);
    let outcome = job.run(source).unwrap();
    let y = outcome.outputs["y"].as_slice::<f32>().unwrap();
    y.chunks(1024).map(|entry| entry[0]).collect()
}

/// Consecutive executes on different devices run input by input: the queue between them needs one entry.
#[test]
fn executes_on_different_devices_are_pipelined() {
    let first = execute("first", "x", "$zero", "");
    let streams = "    - execute: {graph_name: second}\n";
    let source = pipeline(1, &(first.clone() + streams));
    assert_eq!(entries_of_y(&source), [0.0, 1.0]);
    assert!(tested(&source, &Control::new()).unwrap()[0].passed());
    // An instruction between them ends the first.
    let between = first + "    - varinst: [$two, set, 2]\n" + streams;
    let error = tested(&pipeline(1, &between), &Control::new()).unwrap_err();
    assert!(error.to_string().contains("queue 'q' is full"), "{error}");
}

/// The second reads an entry that the first pushes with its last input: both cannot run input by
/// input, and run one after the other.
#[test]
fn executes_that_cannot_be_pipelined_run_one_after_the_other() {
    let program = execute("first", "x", "$zero", "")
        + &execute("first", "x", "$two", "")
        + &execute("second", "q", "$three", ", rd_ptr_autoinc: 0");
    let source = pipeline(4, &program);
    assert_eq!(entries_of_y(&source), [3.0, 3.0]);
    assert!(tested(&source, &Control::new()).unwrap()[0].passed());
}

/// A row of tiles is written and seen as a column of them: the blocking determines the
/// address of a tile.
#[test]
fn a_ram_is_seen_in_another_blocking() {
    let ram = |name: &str, input: &str, mblock: &str, rest: &str| {
        format!(
            "  {name}: {{type: ram, input: {input}, entries: 1, grid_size: [1, 1], t: 1, mblock: \
             {mblock}, ublock: [1, 1], df: Float32, target_device: 0, loc: dram, dram: [[1, \
             0x10000000]]{rest}}}\n"
        )
    };
    let queue = |name: &str, input: &str, mblock: &str, address: u32| {
        format!(
            "  {name}: {{type: queue, input: {input}, entries: 1, grid_size: [1, 1], t: 1, mblock: \
             {mblock}, ublock: [1, 1], df: Float32, target_device: 0, loc: dram, dram: [[0, \
             {address:#x}]]}}\n"
        )
    };
    let graph = |name: &str, op: &str, input: &str, mblock: &str| {
        format!(
            "  {name}:\n    target_device: 0\n    input_count: 1\n    {op}: {{type: nop, grid_loc: \
             [0, 0], grid_size: [1, 1], inputs: [{input}], in_df: [Float32], acc_df: Float32, out_df: \
             Float32, intermed_df: Float32, ublock_order: r, buf_size_mb: 2, math_fidelity: HiFi4, t: \
             1, mblock: {mblock}, ublock: [1, 1]}}\n"
        )
    };
    let text = [
        "devices: {arch: blackhole}\nqueues:\n".to_owned(),
        queue("x", "HOST", "[1, 2]", 0x1000_0000),
        ram("wide", "write", "[1, 2]", ""),
        ram("tall", "HOST", "[2, 1]", ", alias: wide"),
        queue("y", "read", "[2, 1]", 0x2000_0000),
        "graphs:\n".to_owned(),
        graph("writes", "write", "x", "[1, 2]"),
        graph("reads", "read", "tall", "[2, 1]"),
        "programs:\n  - run:\n    - var: {$zero: 0}\n    - execute: {graph_name: writes, \
         queue_settings: {x: {prologue: false, epilogue: false, zero: false, rd_ptr_local: $zero, \
         rd_ptr_global: $zero}, wide: {prologue: false, epilogue: false, zero: false, rd_ptr_global: \
         $zero, wr_ptr_global: $zero}}}\n    - execute: {graph_name: reads, queue_settings: {tall: \
         {prologue: true, epilogue: false, zero: false, rd_ptr_global: $zero, wr_ptr_global: $zero, \
         read_only: true}}}\n"
            .to_owned(),
    ];
    let source = Source::new("views.yaml", text.concat());
    let values: Vec<f32> = (0..2048u16).map(f32::from).collect();
    let x = Tensor::from_slice([1, 1, 32, 64], &values).unwrap();
    let job = Job::new().input("x", x);
    let outcome = job.run(&source).unwrap();
    // The second tile of a row of 64 elements, below the first.
    let y = outcome.outputs["y"].as_slice::<f32>().unwrap();
    let expected = |row: usize, column: usize| (row % 32 * 64 + row / 32 * 32 + column) as f32;
    assert!((0..64).all(|row| (0..32).all(|column| y[row * 32 + column] == expected(row, column))));
    assert!(
        tested(&source, &Control::new())
            .unwrap()
            .iter()
            .all(QueueAgreement::passed)
    );
}

/// The most multiplications of a sample in the tests that always run.
const QUICK: u64 = 10_000_000;

/// Real netlists that the plain implementation runs quickly.
#[test]
fn quick_samples_agree() {
    let left_out = agree(|cost| cost <= QUICK, Duration::from_secs(60));
    for path in left_out {
        eprintln!("left out for its size: {}", path.display());
    }
}

#[test]
#[ignore = "takes an hour"]
fn slow_samples_agree() {
    agree(|cost| cost > QUICK, Duration::from_secs(3600));
}

/// Tests the selected samples; returns the others.
fn agree(is_selected: impl Fn(u64) -> bool, each: Duration) -> Vec<PathBuf> {
    let (mut left_out, mut failures) = (Vec::new(), Vec::new());
    for path in good_netlists() {
        let source = Source::new(&path, std::fs::read_to_string(&path).unwrap());
        if !is_selected(cost(&read(&source).netlist)) {
            left_out.push(path);
            continue;
        }
        let control = Control::with_deadline(Instant::now() + each);
        match tested(&source, &control) {
            Ok(queues) => {
                assert!(!queues.is_empty(), "{} has no outputs", path.display());
                let differ = queues.iter().filter(|queue| !queue.passed());
                failures.extend(differ.map(|queue| format!("{}: {queue:?}", path.display())));
            }
            Err(error) => failures.push(error.to_string()),
        }
    }
    let count = failures.len();
    assert!(count == 0, "{count} failures\n{}", failures.join("\n"));
    left_out
}

/// Multiplications of all ops on all inputs of one execute of each graph; a generated element
/// counts as several.
fn cost(netlist: &Netlist) -> u64 {
    let inner = |op: &Op| match op.kind.value {
        OpKind::Matmul => {
            let size = |key| op.attributes.integer(key).unsigned_abs();
            (size(AttributeKey::MK) * size(AttributeKey::UKt) * 32).max(1)
        }
        _ => 8,
    };
    let elements = |blocking: &tenon::netlist::Blocking| {
        let tiles = u64::from(blocking.t.value) * blocking.rows() * blocking.columns();
        tiles.saturating_mul(1024)
    };
    let ops = netlist.ops().map(|(graph, op)| {
        let one = elements(&op.blocking).saturating_mul(inner(op));
        one.saturating_mul(graph.input_count.value.into())
    });
    let queues = netlist.queues.iter().map(|queue| {
        let entries = u64::from(queue.entries.value).min(16);
        elements(&queue.blocking).saturating_mul(16 * entries)
    });
    ops.chain(queues).fold(0, u64::saturating_add)
}
