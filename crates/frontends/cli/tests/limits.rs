//! Host programs and netlists with sizes beyond any memory, and endless programs.

mod common;

use common::{folder, limited, tenon};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The command must end by itself, with an error that contains `part`.
#[track_caller]
fn refused(folder: &Path, arguments: &[&str], part: &str) {
    let answer = limited(folder, arguments);
    let text = format!("tenon {arguments:?}:\n{}{}", answer.out, answer.err);
    assert_eq!(answer.status, Some(1), "{text}");
    assert!(!answer.err.contains("panicked"), "{text}");
    assert!(text.contains(part), "no '{part}' of {text}");
}

/// A function that creates a tensor of `shape`, and `rest`.
fn tensor(name: &str, r#type: &str, shape: &[u64], rest: &str) -> String {
    let dimensions: Vec<String> = shape.iter().map(|size| format!("{size} : i64")).collect();
    format!(
        "func.func @{name}() {{\n  %c = tfrt.new.chain\n  %t = tfrt_dht.create_uninitialized_tensor.\
         {type}.{} [{}]\n{rest}  tfrt.return\n}}\n",
        shape.len(),
        dimensions.join(", ")
    )
}

#[test]
fn tensors_of_host_programs_that_no_memory_holds_are_errors() {
    let folder = folder();
    let folder = folder.path();
    let shapes: [&[u64]; 5] = [
        &[1 << 61],
        &[1 << 40],
        &[1 << 31, 1 << 31],
        &[1 << 31, 1 << 31, 1 << 31],
        &[(1 << 63) - 1],
    ];
    let mut program = String::new();
    for (number, shape) in shapes.into_iter().enumerate() {
        for r#type in ["ui8", "f64", "complex128"] {
            program += &tensor(&format!("f{number}_{type}"), r#type, shape, "");
        }
    }
    fs::write(folder.join("p.mlir"), &program).unwrap();
    let answer = limited(folder, &["exec", "p.mlir"]);
    assert_eq!(answer.status, Some(1), "{}", answer.err);
    assert_eq!(answer.err.matches("Cannot allocate tensor").count(), 15);
    let buffer = "func.func @f() -> !tfrt.chain {\n  %s = tfrt.constant.i64 2305843009213693952\n  \
                  %a = tfrt.constant.i64 8\n  %c = tfrt.new.chain\n  %b = \"tfrt_dht.allocate_buffer\"(%s, %a) : (i64, i64) -> !ht.host_buffer\n  \
                  tfrt.return %c : !tfrt.chain\n}\n";
    fs::write(folder.join("b.mlir"), buffer).unwrap();
    refused(folder, &["exec", "b.mlir"], "Cannot allocate host buffer");
}

/// Results of kernels that exceed memory are errors.
#[test]
fn a_tensor_that_just_fits_is_not_copied() {
    let folder = folder();
    let folder = folder.path();
    let rest = "  %s, %c1 = coo.convert_dht_to_coo.i32.2 %t, %c\n  %back, %c2 = coo.convert_coo_to_dht.i32.2 %s, %c1\n";
    let program = tensor("f", "i32", &[3 << 8, 1 << 20], rest);
    fs::write(folder.join("p.mlir"), program).unwrap();
    refused(folder, &["exec", "p.mlir"], "Cannot allocate tensor");
}

#[test]
fn splats_of_a_text_have_one_limit() {
    let folder = folder();
    let folder = folder.path();
    let mut program = String::from("func.func @f() {\n");
    for _ in 0..100 {
        program += "  \"x.y\"() {a = [dense<1> : tensor<16777216xi32>]} : () -> ()\n";
    }
    program += "  tfrt.return\n}\n";
    fs::write(folder.join("p.mlir"), program).unwrap();
    for command in [
        &["exec", "p.mlir"][..],
        &["translate", "-mlir-to-bef", "p.mlir"],
        &["opt", "-allow-unregistered-dialect", "p.mlir"],
    ] {
        refused(folder, command, "p.mlir:6:17: error: a splat too large");
    }
}

/// A netlist of one copy and `rams` rams.
fn netlist(shape: &str, entries: &str, rams: usize) -> String {
    let shape = format!("grid_size: [1, 1], {shape}");
    let queue = |name: &str, input: &str, kind: &str| {
        format!(
            "  {name}: {{type: {kind}, input: {input}, entries: {entries}, {shape}, df: Float16_b, \
             target_device: 0, loc: dram, dram: [[0, 0x10000000]]}}\n"
        )
    };
    let mut text = "devices: {arch: grayskull}\nqueues:\n".to_owned();
    text += &queue("x", "HOST", "queue");
    text += &queue("y", "copy", "queue");
    for ram in 0..rams {
        text += &queue(&format!("r{ram}"), "HOST", "ram");
    }
    write!(
        text,
        "graphs:\n  g:\n    target_device: 0\n    input_count: 1\n    copy: {{type: nop, grid_loc: [0, 0], \
         inputs: [x], in_df: [Float16_b], out_df: Float16_b, intermed_df: Float16_b, math_fidelity: \
         HiFi4, {shape}}}\nprograms:\n  - run:\n    - var: {{$z: 0}}\n    - execute: {{graph_name: g, \
         queue_settings: {{x: {{rd_ptr_local: $z, rd_ptr_global: $z}}}}}}\n"
    )
    .unwrap();
    text
}

#[test]
fn netlists_that_no_memory_holds_are_errors() {
    let folder = folder();
    let folder = folder.path();
    let tile = "t: 1, mblock: [1, 1], ublock: [1, 1]";
    let cases = [
        (
            netlist("t: 1, mblock: [1, 1099511627776], ublock: [1, 1]", "1", 0),
            "out of range",
        ),
        (
            netlist(
                "t: 2305843009213693952, mblock: [1, 1], ublock: [1, 1]",
                "1",
                0,
            ),
            "out of range",
        ),
        (
            netlist(
                "t: 2147483648, mblock: [2147483648, 2147483648], ublock: [2, 2]",
                "1",
                0,
            ),
            "exceeds the maximum tensor size",
        ),
        (netlist(tile, "1099511627776", 0), "out of range"),
        (netlist(tile, "4294967295", 0), "too many entries"),
        (netlist(tile, "1048576", 400), "cannot allocate"),
        (
            netlist("t: 1, mblock: [1024, 1024], ublock: [1, 1]", "1", 0),
            "",
        ),
    ];
    for (text, part) in cases {
        fs::write(folder.join("n.yaml"), text).unwrap();
        let commands = [
            &["netlist", "run", "n.yaml"][..],
            &["netlist", "test", "n.yaml"],
            &["compile", "n.yaml", "-o", "n.neff"],
        ];
        // The last two fill all memory, which takes a while.
        let is_slow = part == "cannot allocate" || part.is_empty();
        for command in commands.iter().take(if is_slow { 1 } else { 3 }) {
            refused(folder, command, part);
        }
    }
}

/// A program whose functions call each other twice each: 2^60 calls.
fn calls() -> String {
    let mut program = String::from("func.func private @f0() {\n  tfrt.return\n}\n");
    for number in 1..=60 {
        let before = number - 1;
        writeln!(
            program,
            "func.func private @f{number}() {{\n  tfrt.call @f{before}() : () -> ()\n  \
             tfrt.call @f{before}() : () -> ()\n  tfrt.return\n}}"
        )
        .unwrap();
    }
    program + "func.func @main() {\n  tfrt.call @f60() : () -> ()\n  tfrt.return\n}\n"
}

const ENDLESS: &[(&str, &str)] = &[
    (
        "while",
        "func.func private @body(%i: i32) -> (i32, i1) {
  %t = tfrt.constant.i1 true
  tfrt.return %i, %t : i32, i1
}
func.func @main() -> i32 {
  %t = tfrt.constant.i1 true
  %n = tfrt.constant.i32 0
  %r = tfrt.while %t @body(%n) parallel_iterations(1) : (i32) -> (i32)
  tfrt.return %r : i32
}
",
    ),
    (
        "while of tasks",
        "func.func private @body(%i: i32) -> (i32, i1) {
  %one = tfrt.constant.i32 1
  %next = \"tfrt_test.async_add.i32\"(%i, %one) : (i32, i32) -> i32
  %t = \"tfrt.lessequal.i32\"(%i, %next) : (i32, i32) -> i1
  tfrt.return %i, %t : i32, i1
}
func.func @main() -> i32 {
  %t = tfrt.constant.i1 true
  %n = tfrt.constant.i32 0
  %r = tfrt.while %t @body(%n) parallel_iterations(8) : (i32) -> (i32)
  tfrt.return %r : i32
}
",
    ),
    (
        "repeat",
        "func.func @main() -> i32 {
  %n = tfrt.constant.i32 2147483647
  %r = tfrt.repeat.i32 %n, %n : i32 {
    %s = tfrt.repeat.i32 %n, %n : i32 {
      tfrt.return %n : i32
    }
    tfrt.return %s : i32
  }
  tfrt.return %r : i32
}
",
    ),
    (
        "parallel loop",
        "func.func @main() -> !tfrt.chain {
  %s = tfrt.constant.i32 -2147483648
  %e = tfrt.constant.i32 2147483647
  %b = tfrt.constant.i32 1
  %c = tfrt.parallel_for.i32 %s to %e fixed %b {
    tfrt.return
  }
  tfrt.return %c : !tfrt.chain
}
",
    ),
    (
        "tasks that start tasks",
        "func.func @main() {
  \"tfrt_test.do.async\"() ({
    tfrt.call @main() : () -> ()
    tfrt.return
  }) : () -> ()
  tfrt.return
}
",
    ),
    (
        "sleep",
        "func.func @main() -> !tfrt.chain {
  %n = tfrt.constant.i32 2147483647
  %c = \"tfrt_test.blocking.usleep\"(%n) : (i32) -> !tfrt.chain
  tfrt.return %c : !tfrt.chain
}
",
    ),
    (
        "benchmark",
        "func.func @main() -> !tfrt.chain {
  %n = tfrt.constant.i32 1
  %c = tfrt_test.benchmark \"b\"(%n : i32) duration_secs = 2147483647, max_count = 2147483647 {
    tfrt.return %n : i32
  }
  tfrt.return %c : !tfrt.chain
}
",
    ),
];

#[test]
fn programs_without_an_end_observe_the_deadline() {
    let folder = folder();
    let folder = folder.path();
    let calls = calls();
    let calls = [("calls", calls.as_str())];
    for (name, program) in ENDLESS.iter().copied().chain(calls) {
        for queue in ["s", "mstd:2"] {
            fs::write(folder.join("p.mlir"), program).unwrap();
            let queue = format!("--work_queue_type={queue}");
            let begun = Instant::now();
            let exec = [
                "exec",
                "--timeout",
                "0.5",
                "--functions=main",
                &queue,
                "p.mlir",
            ];
            let answer = tenon(folder, &exec);
            let text = format!("{name} {queue}: {}{}", answer.out, answer.err);
            assert_eq!(answer.status, Some(1), "{text}");
            assert!(text.contains("'main' did not end in time"), "{text}");
            assert!(begun.elapsed() < Duration::from_secs(30), "{text}");
        }
    }
    // A program that ends is not stopped.
    fs::write(folder.join("p.mlir"), "func.func @f() { tfrt.return }").unwrap();
    assert_eq!(
        tenon(folder, &["exec", "--timeout", "60", "p.mlir"]).status,
        Some(0)
    );
}
