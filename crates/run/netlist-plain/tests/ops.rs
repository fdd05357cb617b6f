//! Compares the ops with NumPy, for which the script `ops.py` computes the same cases.
#![allow(clippy::print_stderr, reason = "the test prints why it skips")]

use std::collections::HashMap;
use std::process::Command;
use tenon_netlist::{Netlist, OpKind, Source, read};
use tenon_netlist_plain::Tensor;
use tenon_netlist_plain::ops::{self, Context, Faults};

/// Results of the script by case; `None` without Python.
fn expected() -> Option<HashMap<String, Vec<f32>>> {
    let Some(python) = std::env::var_os("TENON_PYTHON") else {
        eprintln!("skipped: TENON_PYTHON is not set");
        return None;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ops.py");
    let output = Command::new(python).arg(script).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let (name, hex) = line.rsplit_once(' ').unwrap();
        let bytes: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect();
        let floats = bytes
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes(four.try_into().unwrap()));
        (name.to_owned(), floats.collect())
    };
    Some(text.lines().map(line).collect())
}

/// The same elements as `generate` of the script.
fn generate([t, rows, columns]: [usize; 3], seed: u64, low: f32, high: f32) -> Tensor {
    let mut next = 0u64;
    Tensor::from_fn(t, rows / 32, columns / 32, |_, _, _| {
        let index = (next.wrapping_mul(2_654_435_761) + seed * 97) % (1 << 32);
        next += 1;
        (index as f64 / (1u64 << 32) as f64) as f32 * (high - low) + low
    })
    .unwrap()
}

/// A netlist with one op.
fn netlist(kind: &str, blocking: &str, rest: &str) -> Netlist {
    let text = format!(
        "devices: {{arch: blackhole}}\ngraphs:\n  g:\n    target_device: 0\n    input_count: 1\n    op: {{type: {kind}, \
         grid_loc: [0, 0], {blocking}, inputs: [a, b, c, d], in_df: [Float32, Float32, Float32, Float32], \
         out_df: Float32, intermed_df: Float32, acc_df: Float32, math_fidelity: HiFi4, buf_size_mb: 2, \
         ublock_order: r, {rest}}}\n"
    );
    read(&Source::new("op.yaml", text)).netlist
}

fn compute(kind: &str, blocking: &str, rest: &str, inputs: &[Tensor]) -> Vec<f32> {
    let netlist = netlist(kind, blocking, rest);
    let context = Context {
        op: &netlist.graphs[0].ops[0],
        fused: None,
        small_tiles: false,
    };
    let mut faults = Faults::default();
    let output = ops::compute(&context, inputs, &mut faults).unwrap();
    assert_eq!(faults, Faults::default(), "{kind}");
    output.values
}

fn assert_close(case: &str, found: &[f32], expected: &HashMap<String, Vec<f32>>, tolerance: f32) {
    let expected = &expected[case];
    assert_eq!(found.len(), expected.len(), "{case}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs();
        assert!(
            error <= tolerance * expected.abs().max(1.0),
            "{case} {index}: {found} is not {expected}"
        );
    }
}

const ONE: &str = "grid_size: [1, 1], t: 2, mblock: [1, 1], ublock: [2, 1]";

#[test]
fn elementwise_ops_are_those_of_numpy() {
    let Some(expected) = expected() else { return };
    let (x, positive) = (
        generate([2, 64, 32], 1, -3.0, 3.0),
        generate([2, 64, 32], 2, 0.01, 9.0),
    );
    for kind in OpKind::ALL
        .iter()
        .filter(|kind| kind.is_sfpu() && **kind != OpKind::Dropout)
    {
        let input = match kind {
            OpKind::Log | OpKind::Sqrt | OpKind::Reciprocal => &positive,
            _ => &x,
        };
        let attributes = match kind {
            OpKind::Lrelu => "attributes: {slope: 0.1}",
            OpKind::Power => "attributes: {exp: 3}",
            _ => "",
        };
        let found = compute(kind.name(), ONE, attributes, std::slice::from_ref(input));
        assert_close(kind.name(), &found, &expected, 1e-6);
    }
    let inputs = [x, generate([2, 64, 32], 9, 5.0, 40.0)];
    let zero = "attributes: {zero_point: 0.5}";
    assert_close(
        "quantization",
        &compute("quantization", ONE, zero, &inputs),
        &expected,
        0.0,
    );
    assert_close(
        "dequantization",
        &compute("dequantization", ONE, zero, &inputs),
        &expected,
        1e-6,
    );
}

#[test]
fn matmuls_are_those_of_numpy() {
    let Some(expected) = expected() else { return };
    let inputs = [
        generate([2, 64, 96], 3, -1.0, 1.0),
        generate([2, 96, 32], 4, -1.0, 1.0),
        generate([2, 64, 32], 5, -1.0, 1.0),
    ];
    let inner = "attributes: {m_k: 3, u_kt: 1";
    assert_close(
        "matmul",
        &compute("matmul", ONE, &format!("{inner}}}"), &inputs),
        &expected,
        1e-5,
    );
    assert_close(
        "bias",
        &compute("matmul", ONE, &format!("{inner}, bias: true}}"), &inputs),
        &expected,
        1e-5,
    );
    let one = "grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [2, 1]";
    let accumulate = format!("{inner}, accumulate: true, z: 2}}");
    assert_close(
        "accumulate",
        &compute("matmul", one, &accumulate, &inputs),
        &expected,
        1e-5,
    );
    let inputs = [
        generate([1, 32, 128], 6, -1.0, 1.0),
        generate([1, 64, 64], 7, -1.0, 1.0),
    ];
    let wide = "grid_size: [1, 1], t: 1, mblock: [1, 1], ublock: [1, 2]";
    let found = compute("depthwise", wide, "attributes: {m_k: 2, u_kt: 1}", &inputs);
    assert_close("depthwise", &found, &expected, 1e-5);
}

#[test]
fn reductions_are_those_of_numpy() {
    let Some(expected) = expected() else { return };
    let input = [generate([4, 64, 96], 8, -1.0, 1.0)];
    let shape = "grid_size: [1, 1], t: 4, mblock: [1, 1], ublock: [1, 1]";
    for dim in ["c", "r", "rc", "z"] {
        let attributes = format!("attributes: {{dim: {dim}, type: max, z: 2, m_k: 1, u_kt: 1}}");
        let found = compute("reduce", shape, &attributes, &input);
        assert_close(&format!("reduce {dim}"), &found, &expected, 0.0);
    }
}

#[test]
fn topk_and_splice_are_those_of_numpy() {
    let Some(expected) = expected() else { return };
    let values = generate([1, 32, 128], 10, -1.0, 1.0);
    let indices = Tensor::from_fn(1, 1, 4, |_, _, x| x as f32).unwrap();
    let shape = "grid_size: [1, 2], t: 1, mblock: [1, 1], ublock: [1, 1]";
    let inputs = [values, indices];
    assert_close(
        "topk",
        &compute("topk", shape, "attributes: {k: 8, sort: max}", &inputs),
        &expected,
        0.0,
    );
    assert_close(
        "argmax",
        &compute("topk", shape, "attributes: {k: 8, sort: argmax}", &inputs),
        &expected,
        0.0,
    );
    let inputs = [
        generate([6, 32, 32], 11, -1.0, 1.0),
        generate([2, 32, 32], 12, -1.0, 1.0),
    ];
    let mut netlist = netlist(
        "splice",
        "grid_size: [1, 1], t: 6, mblock: [1, 1], ublock: [1, 1]",
        "attributes: {granularity: t, input0: [1, 2, 2], input1: [0, 1, 1]}",
    );
    let op = &mut netlist.graphs[0].ops[0];
    op.inputs.truncate(2);
    let found = ops::splice(op, &ops::SplicePart::of(op).unwrap(), &inputs).unwrap();
    assert_close("splice", &found.values, &expected, 0.0);
}
