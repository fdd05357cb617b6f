//! Models in QDQ and QOperator form are computed by operators on quantized tensors, where the backend supports these.

mod common;

use common::{ChannelsLast, TEST_BACKEND, TestBackend};
use std::sync::Arc;
use tenon_backend::{BackendId, Reason, Registry};
use tenon_compiler::{Compiled, Options, compile};
use tenon_cpu_ref::CpuRef;
use tenon_graph::{DataType, Graph, Tensor};

/// CpuRef, also under the name of a preferred backend for channels-last images.
fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.register(Arc::new(ChannelsLast(CpuRef))).unwrap();
    registry.register(Arc::new(CpuRef)).unwrap();
    registry
}

/// Constants of a text: pseudorandom integers from `low` to `high`.
fn integers(name: &str, ty: &str, [low, high]: [i64; 2]) -> String {
    let extents = ty.split(['[', ']']).nth(1).unwrap();
    let extents = extents
        .split(',')
        .map(|extent| extent.trim().parse::<usize>().unwrap());
    let mut state = name
        .bytes()
        .fold(7u64, |sum, byte| sum * 31 + u64::from(byte));
    let elements: Vec<String> = (0..extents.product())
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (low + (state >> 33) as i64 % (high - low + 1)).to_string()
        })
        .collect();
    format!("    const %{name}: {ty} = [{}]\n", elements.join(", "))
}

/// The compiled graph, after a comparison with every node of `graph` executed by CpuRef: integers differ by one step at
/// most, floating point by `tolerance`.
fn compiled(
    graph: &Graph,
    registry: &Registry,
    backends: &[&'static str],
    tolerance: f32,
) -> Compiled {
    let mut options = Options::new(registry);
    options.backends = backends.iter().map(|id| BackendId::new(id)).collect();
    let compiled =
        compile(graph.clone(), &options).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    let inputs = common::inputs(graph, 5);
    let expected = common::run(graph, &inputs);
    let found = common::execute(&compiled, registry, &inputs);
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected.ty(), found.ty());
        if expected.dtype() == DataType::F32 {
            let pair = [expected, found].map(|tensor| tensor.as_slice::<f32>().unwrap());
            let pairs = pair[0].iter().zip(pair[1]);
            let largest = pairs.fold(0f32, |most, (a, b)| most.max((a - b).abs()));
            assert!(largest <= tolerance, "{largest}\n{}", compiled.graph);
            continue;
        }
        let [expected, found] = [expected, found].map(|tensor| tensor.to_i64s().unwrap());
        let distinct: std::collections::BTreeSet<_> = expected.iter().collect();
        assert!(distinct.len() > 4, "{expected:?}");
        let mut pairs = expected.iter().zip(&found);
        assert!(
            pairs.all(|(a, b)| (a - b).abs() <= 1),
            "{expected:?}\n{found:?}"
        );
    }
    compiled
}

/// The operators that compute, in order.
fn operators(compiled: &Compiled) -> Vec<&'static str> {
    let nodes = compiled.graph.nodes.iter().map(|node| node.op.name);
    nodes
        .filter(|name| !matches!(*name, "Transpose" | "Reshape"))
        .collect()
}

/// The elements of constants of f32.
fn float_constants(compiled: &Compiled) -> usize {
    let constants = compiled
        .graph
        .values
        .iter()
        .filter_map(|value| value.constant.as_ref());
    let floats = constants.filter(|tensor| tensor.dtype() == DataType::F32);
    floats.map(|tensor| tensor.ty().elements()).sum()
}

/// Two convolutions, of u8 with a scale for each filter, a bias of i32 and Relu; and of groups with Clip. Between them MaxPool, at the
/// end a residual and the average of the channels.
fn images() -> Graph {
    let text = [
        "graph \"g\" (%x: f32[1, 6, 9, 9]) -> (%y: u8[1, 6, 4, 4], %mean: f32[1, 6, 1, 1]) {
    const %xs: f32[] = [0.0078125]
    const %xz: u8[] = [128]
    const %ws: f32[6] = [0.01, 0.02, 0.005, 0.01, 0.03, 0.01]
    const %wz: i8[6] = [0, 0, 0, 0, 0, 0]
    const %vs: f32[] = [0.01]
    const %bs: f32[6] = [0.000078125, 0.00015625, 0.0000390625, 0.000078125, 0.000234375, 0.000078125]
    const %as: f32[] = [0.02]
    const %az: u8[] = [0]
    const %ys: f32[] = [0.03]
    const %yz: u8[] = [100]
    const %low: f32[] = [-1]
    const %high: f32[] = [3]\n",
        &integers("w", "i8[6, 6, 3, 3]", [-127, 127]),
        &integers("b", "i32[6]", [-9000, 9000]),
        &integers("v", "i8[6, 2, 1, 1]", [-127, 127]),
        "    %xq: u8[1, 6, 9, 9] = QuantizeLinear(%x, %xs, %xz)
    %xd: f32[1, 6, 9, 9] = DequantizeLinear(%xq, %xs, %xz)
    %wd: f32[6, 6, 3, 3] = DequantizeLinear(%w, %ws, %wz) {axis = 0}
    %bd: f32[6] = DequantizeLinear(%b, %bs) {axis = 0}
    %c: f32[1, 6, 9, 9] = Conv(%xd, %wd, %bd) {pads = [1, 1, 1, 1]} @first
    %r: f32[1, 6, 9, 9] = Relu(%c)
    %rq: u8[1, 6, 9, 9] = QuantizeLinear(%r, %as, %az)
    %rd: f32[1, 6, 9, 9] = DequantizeLinear(%rq, %as, %az)
    %p: f32[1, 6, 4, 4] = MaxPool(%rd) {kernel_shape = [2, 2], strides = [2, 2]} @pool
    %pq: u8[1, 6, 4, 4] = QuantizeLinear(%p, %as, %az)
    %pd: f32[1, 6, 4, 4] = DequantizeLinear(%pq, %as, %az)
    %vd: f32[6, 2, 1, 1] = DequantizeLinear(%v, %vs)
    %d: f32[1, 6, 4, 4] = Conv(%pd, %vd) {group = 3} @second
    %k: f32[1, 6, 4, 4] = Clip(%d, %low, %high)
    %kq: u8[1, 6, 4, 4] = QuantizeLinear(%k, %ys, %yz)
    %kd: f32[1, 6, 4, 4] = DequantizeLinear(%kq, %ys, %yz)
    %s: f32[1, 6, 4, 4] = Add(%kd, %pd)
    %y: u8[1, 6, 4, 4] = QuantizeLinear(%s, %ys, %yz)
    %yd: f32[1, 6, 4, 4] = DequantizeLinear(%y, %ys, %yz)
    %mean: f32[1, 6, 1, 1] = GlobalAveragePool(%yd)
}",
    ];
    text.concat().parse().unwrap()
}

#[test]
fn convolutions_between_quantizations_are_one_operator_each() {
    let graph = images();
    let registry = registry();
    for backends in [&["CpuAcc", "CpuRef"][..], &["CpuRef"]] {
        let compiled = compiled(&graph, &registry, backends, 0.03);
        let found = operators(&compiled);
        let count = |name: &str| found.iter().filter(|found| **found == name).count();
        assert_eq!(count("tenon.QuantizedConv"), 2, "{}", compiled.graph);
        for gone in ["Conv", "tenon.Conv", "Relu", "Clip"] {
            assert_eq!(count(gone), 0, "{}", compiled.graph);
        }
        // Of the input, and of the sum unless that is one program with its quantizations.
        let is_fused = backends.len() == 2;
        let expected = if is_fused { [1, 0, 1] } else { [2, 1, 0] };
        let found = ["QuantizeLinear", "Add", "tenon.Elementwise"].map(count);
        assert_eq!(found, expected, "{}", compiled.graph);
        // Biases and scales, no weights.
        assert!(float_constants(&compiled) < 40, "{}", compiled.graph);
        let node = |name: &str| {
            let mut nodes = compiled.graph.nodes.iter();
            nodes.find(|node| node.name == name).unwrap()
        };
        let first = node("first");
        let activation = first.attributes.string("activation", "none").unwrap();
        assert_eq!((activation, first.inputs.len()), ("relu", 9));
        // The pool compares bytes.
        let pooled = node("pool").outputs[0].unwrap();
        let pooled = compiled.graph.value(pooled).ty.as_ref().unwrap();
        assert_eq!(pooled.dtype(), DataType::U8, "{}", compiled.graph);
        if backends.len() == 2 {
            // The images of one channel order pass without a transpose but at both ends.
            let transposes = compiled
                .graph
                .nodes
                .iter()
                .filter(|node| node.op.name == "Transpose");
            assert_eq!(transposes.count(), 2, "{}", compiled.graph);
        }
    }
}

/// Tensors of i8 between the nodes become u8 for a backend that prefers it, where all that read them dequantize them; %m and
/// %y are outputs, and %n is of one type with %m, because the pool compares bytes.
#[test]
fn activations_of_i8_become_u8_where_the_backend_prefers_it() {
    let text = [
        "graph \"g\" (%x: f32[1, 6, 8, 8]) -> (%y: i8[1, 6, 4, 4], %m: i8[1, 6, 4, 4]) {
    const %s: f32[] = [0.0078125]
    const %z: i8[] = [3]
    const %cs: f32[] = [0.1]
    const %cz: i8[] = [-100]
    const %ws: f32[] = [0.01]\n",
        &integers("w", "i8[6, 6, 3, 3]", [-127, 127]),
        &integers("v", "i8[6, 6, 1, 1]", [-127, 127]),
        "    %a: i8[1, 6, 8, 8] = QuantizeLinear(%x, %s) {output_dtype = \"i8\"}
    %ad: f32[1, 6, 8, 8] = DequantizeLinear(%a, %s)
    %wd: f32[6, 6, 3, 3] = DequantizeLinear(%w, %ws)
    %c: f32[1, 6, 8, 8] = Conv(%ad, %wd) {pads = [1, 1, 1, 1]}
    %b: i8[1, 6, 8, 8] = QuantizeLinear(%c, %cs, %cz)
    %bd: f32[1, 6, 8, 8] = DequantizeLinear(%b, %cs, %cz)
    %p: f32[1, 6, 4, 4] = MaxPool(%bd) {kernel_shape = [2, 2], strides = [2, 2]} @pool
    %d: i8[1, 6, 4, 4] = QuantizeLinear(%p, %cs, %cz)
    %dd: f32[1, 6, 4, 4] = DequantizeLinear(%d, %cs, %cz)
    %vd: f32[6, 6, 1, 1] = DequantizeLinear(%v, %ws)
    %e: f32[1, 6, 4, 4] = Conv(%dd, %vd)
    %y: i8[1, 6, 4, 4] = QuantizeLinear(%e, %cs, %cz)
    %n: i8[1, 6, 8, 8] = QuantizeLinear(%x, %s, %z)
    %nd: f32[1, 6, 8, 8] = DequantizeLinear(%n, %s, %z)
    %q: f32[1, 6, 4, 4] = MaxPool(%nd) {kernel_shape = [2, 2], strides = [2, 2]} @last
    %m: i8[1, 6, 4, 4] = QuantizeLinear(%q, %s, %z)
}",
    ];
    let graph: Graph = text.concat().parse().unwrap();
    let registry = registry();
    for (backends, expected) in [
        (&["CpuAcc", "CpuRef"][..], DataType::U8),
        (&["CpuRef"], DataType::I8),
    ] {
        let compiled = compiled(&graph, &registry, backends, 0.0);
        let ty = |name: &str| {
            let mut nodes = compiled.graph.nodes.iter();
            let node = nodes.find(|node| node.name == name).unwrap();
            let input = node.inputs[0].unwrap();
            compiled.graph.value(input).ty.as_ref().unwrap().dtype()
        };
        assert_eq!(ty("pool"), expected, "{}", compiled.graph);
        assert_eq!(ty("last"), DataType::I8, "{}", compiled.graph);
        let found = operators(&compiled);
        let count = |name: &str| found.iter().filter(|found| **found == name).count();
        assert_eq!(count("tenon.QuantizedConv"), 2, "{}", compiled.graph);
    }
}

/// The residual of a convolution whose result is quantized before the addition, and that of one whose result is not; with
/// another reader of the quantized result it stays a node.
#[test]
fn residuals_are_part_of_the_convolution() {
    let registry = registry();
    for (between, sum, outputs, expected) in [
        (true, "%cd, %xd", "%y", [1, 0]),
        (true, "%xd, %cd", "%y", [1, 0]),
        (false, "%c, %xd", "%y", [1, 0]),
        (false, "%x, %c", "%y", [1, 0]),
        (true, "%cd, %xd", "%y, %cq", [1, 1]),
        (true, "%cd, %cd", "%y", [1, 1]),
    ] {
        let conversions = if between {
            "    %cq: u8[1, 6, 9, 9] = QuantizeLinear(%c, %cs, %cz)
    %cd: f32[1, 6, 9, 9] = DequantizeLinear(%cq, %cs, %cz)\n"
        } else {
            ""
        };
        let text = format!(
            "graph \"g\" (%x: f32[1, 6, 9, 9]) -> ({outputs}) {{
    const %xs: f32[] = [0.0078125]
    const %xz: u8[] = [128]
    const %cs: f32[] = [0.01]
    const %cz: u8[] = [120]
    const %ws: f32[] = [0.01]
    const %ys: f32[] = [0.02]
    const %yz: i8[] = [-100]\n{}    %xq: u8[1, 6, 9, 9] = QuantizeLinear(%x, %xs, %xz)
    %xd: f32[1, 6, 9, 9] = DequantizeLinear(%xq, %xs, %xz)
    %wd: f32[6, 6, 3, 3] = DequantizeLinear(%w, %ws)
    %c: f32[1, 6, 9, 9] = Conv(%xd, %wd) {{pads = [1, 1, 1, 1]}}
{conversions}    %s: f32[1, 6, 9, 9] = Add({sum})
    %r: f32[1, 6, 9, 9] = Relu(%s)
    %y: i8[1, 6, 9, 9] = QuantizeLinear(%r, %ys, %yz)\n}}",
            integers("w", "i8[6, 6, 3, 3]", [-127, 127]),
        );
        let graph: Graph = text
            .parse()
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        let compiled = compiled(&graph, &registry, &["CpuAcc", "CpuRef"], 0.03);
        let found = operators(&compiled);
        let count = |name: &str| found.iter().filter(|found| **found == name).count();
        let found = ["tenon.QuantizedConv", "tenon.Elementwise"].map(count);
        assert_eq!(found, expected, "{}", compiled.graph);
    }
}

#[test]
fn a_backend_without_the_operators_computes_as_before() {
    let graph = images();
    let mut registry = Registry::new();
    let other = TestBackend {
        refuses: |node| {
            node.op
                .name
                .starts_with("tenon.Quantized")
                .then_some(Reason::UnknownOperator)
        },
        ..TEST_BACKEND
    };
    registry.register(Arc::new(other)).unwrap();
    registry.register(Arc::new(CpuRef)).unwrap();
    let compiled = compiled(&graph, &registry, &["TestBackend", "CpuRef"], 1e-5);
    let found = operators(&compiled);
    assert!(found.contains(&"Conv"), "{}", compiled.graph);
    assert!(
        !found.iter().any(|name| name.starts_with("tenon.Quantized")),
        "{}",
        compiled.graph
    );
    // All weights are folded into f32.
    assert!(float_constants(&compiled) > 6 * 6 * 9, "{}", compiled.graph);
}

#[test]
fn matmuls_between_quantizations_are_one_operator_each() {
    let text = [
        "graph \"g\" (%x: f32[3, 16]) -> (%y0: i8[3, 5], %y1: f32[3, 5], %y2: u8[3, 5], %y3: f32[3, 5]) {
    const %xs: f32[] = [0.0078125]
    const %xz: i8[] = [-3]
    const %s: f32[] = [0.01]
    const %each: f32[5] = [0.01, 0.02, 0.03, 0.04, 0.005]
    const %zeros: u8[5] = [128, 127, 0, 255, 3]
    const %c: f32[5] = [1, -2, 3, -4, 0]
    const %row: f32[1, 1] = [0.5]
    const %ys: f32[] = [0.05]
    const %yz: i8[] = [7]\n",
        &integers("w0", "i8[16, 5]", [-127, 127]),
        &integers("w1", "u8[16, 5]", [0, 255]),
        &integers("w2", "i8[5, 16]", [-127, 127]),
        "    %xq: i8[3, 16] = QuantizeLinear(%x, %xs, %xz)
    %xd: f32[3, 16] = DequantizeLinear(%xq, %xs, %xz)
    %d0: f32[16, 5] = DequantizeLinear(%w0, %s)
    %m0: f32[3, 5] = MatMul(%xd, %d0)
    %a0: f32[3, 5] = Add(%m0, %c)
    %t0: f32[3, 5] = Tanh(%a0)
    %y0: i8[3, 5] = QuantizeLinear(%t0, %s, %yz)
    %d1: f32[16, 5] = DequantizeLinear(%w1, %each, %zeros) {axis = -1}
    %y1: f32[3, 5] = MatMul(%xd, %d1)
    %d2: f32[5, 16] = DequantizeLinear(%w2, %each) {axis = 0}
    %g2: f32[3, 5] = Gemm(%xd, %d2, %row) {transB = 1}
    %y2: u8[3, 5] = QuantizeLinear(%g2, %ys)
    %t2: f32[16, 5] = Transpose(%d2)
    %y3: f32[3, 5] = MatMul(%xd, %t2)
}",
    ];
    let graph: Graph = text.concat().parse().unwrap();
    let registry = registry();
    let compiled = compiled(&graph, &registry, &["CpuRef"], 1e-4);
    let found = operators(&compiled);
    let mut expected = vec!["QuantizeLinear"];
    expected.extend(["tenon.QuantizedMatMul"; 4]);
    assert_eq!(found, expected, "{}", compiled.graph);
    assert!(float_constants(&compiled) < 40, "{}", compiled.graph);
}

#[test]
fn operators_in_qoperator_form_become_the_same() {
    let text = [
        "graph \"g\" (%x: f32[1, 4, 6, 6]) -> (%y: u8[1, 6, 6, 6], %z: i8[6, 6, 5]) {
    const %xs: f32[] = [0.0078125]
    const %xz: u8[] = [128]
    const %each: f32[6] = [0.01, 0.02, 0.005, 0.01, 0.03, 0.01]
    const %zeros: i8[6] = [0, 0, 0, 0, 0, 0]
    const %s: f32[] = [0.01]
    const %i8: i8[] = [5]
    const %axes: i64[1] = [0]
    const %ys: f32[] = [0.03]
    const %yz: u8[] = [100]\n",
        &integers("w", "i8[6, 4, 3, 3]", [-127, 127]),
        &integers("b", "i32[6]", [-9000, 9000]),
        &integers("v", "i8[6, 5]", [-127, 127]),
        "    %xq: u8[1, 4, 6, 6] = QuantizeLinear(%x, %xs, %xz)
    %y: u8[1, 6, 6, 6] = QLinearConv(%xq, %xs, %xz, %w, %each, %zeros, %ys, %yz, %b) {pads = [1, 1, 1, 1]}
    %flat: u8[6, 6, 6] = Squeeze(%y, %axes)
    %z: i8[6, 6, 5] = QLinearMatMul(%flat, %ys, %yz, %v, %s, %i8, %ys, %i8)
}",
    ];
    let graph: Graph = text.concat().parse().unwrap();
    let registry = registry();
    let compiled = compiled(&graph, &registry, &["CpuRef"], 0.0);
    let expected = [
        "QuantizeLinear",
        "tenon.QuantizedConv",
        "tenon.QuantizedMatMul",
    ];
    assert_eq!(operators(&compiled), expected, "{}", compiled.graph);
}

/// Models whose matmul, of `%x` in f32 with a result in f32, is not one of quantized tensors, with its operator.
const OTHERS: &[(&str, &str, &str)] = &[
    (
        "scales that are no constants",
        "tenon.WeightOnlyMatMul",
        "    %xq: u8[3, 16] = QuantizeLinear(%x, %scale)
    %xd: f32[3, 16] = DequantizeLinear(%xq, %scale)
    %wd: f32[16, 5] = DequantizeLinear(%w, %s)
    %y: f32[3, 5] = MatMul(%xd, %wd)",
    ),
    (
        "a scale for each row",
        "tenon.MatMul",
        "    %xq: u8[3, 16] = QuantizeLinear(%x, %s)
    %xd: f32[3, 16] = DequantizeLinear(%xq, %s)
    %wd: f32[16, 5] = DequantizeLinear(%w, %rows) {axis = 0}
    %y: f32[3, 5] = MatMul(%xd, %wd)",
    ),
    (
        "weights alone",
        "tenon.WeightOnlyMatMul",
        "    %wd: f32[16, 5] = DequantizeLinear(%w, %s)
    %y: f32[3, 5] = MatMul(%x, %wd)",
    ),
    (
        "a factor",
        "tenon.MatMul",
        "    %xq: u8[3, 16] = QuantizeLinear(%x, %s)
    %xd: f32[3, 16] = DequantizeLinear(%xq, %s)
    %wd: f32[16, 5] = DequantizeLinear(%w, %s)
    %y: f32[3, 5] = Gemm(%xd, %wd) {alpha = 0.5}",
    ),
];

#[test]
fn other_products_are_of_floats() {
    let registry = registry();
    for (what, operator, nodes) in OTHERS {
        let text = [
            "graph \"g\" (%x: f32[3, 16]",
            if nodes.contains("%scale") {
                ", %scale: f32[]"
            } else {
                ""
            },
            ") -> (%y: f32[3, 5]) {
    const %s: f32[] = [0.0078125]
    const %rows: f32[16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]\n",
            &integers("w", "i8[16, 5]", [-127, 127]),
            nodes,
            "\n}",
        ];
        let graph: Graph = text.concat().parse().unwrap();
        let mut options = Options::new(&registry);
        options.backends = vec![BackendId::new("CpuRef")];
        let compiled = compile(graph.clone(), &options).unwrap();
        assert!(
            operators(&compiled).contains(operator),
            "{what}\n{}",
            compiled.graph
        );
        let has_float_weights = float_constants(&compiled) >= 80;
        assert_eq!(has_float_weights, *operator == "tenon.MatMul", "{what}");
        let mut inputs = common::inputs(&graph, 5);
        if let Some(scale) = inputs.get_mut(1) {
            *scale = Tensor::scalar(0.01f32).unwrap();
        }
        let expected = common::run(&graph, &inputs);
        let found = common::execute(&compiled, &registry, &inputs);
        common::assert_close(&expected, &found, 1e-5, what);
    }
}

#[test]
fn other_parameters_behind_a_movement_are_computed() {
    let text = "graph \"g\" (%x: f32[2, 6]) -> (%y0: u8[3, 4], %y1: u8[6, 2], %y2: u8[2, 12], %y3: u8[2, 12], %y4: u8[2, 6]) {
    const %s: f32[] = [0.0078125]
    const %other: f32[] = [0.01]
    const %z: u8[] = [128]
    const %shape: i64[2] = [3, 4]
    %q: u8[2, 6] = QuantizeLinear(%x, %s, %z)
    %d: f32[2, 6] = DequantizeLinear(%q, %s, %z)
    %r: f32[3, 4] = Reshape(%d, %shape)
    %y0: u8[3, 4] = QuantizeLinear(%r, %s, %z)
    %t: f32[6, 2] = Transpose(%d)
    %y1: u8[6, 2] = QuantizeLinear(%t, %other, %z)
    %n: f32[2, 6] = Neg(%d)
    %nq: u8[2, 6] = QuantizeLinear(%n, %s, %z)
    %nd: f32[2, 6] = DequantizeLinear(%nq, %s, %z)
    %c: f32[2, 12] = Concat(%d, %nd) {axis = 1}
    %y2: u8[2, 12] = QuantizeLinear(%c, %s, %z)
    %e: f32[2, 12] = Concat(%d, %n) {axis = 1}
    %y3: u8[2, 12] = QuantizeLinear(%e, %s, %z)
    %y4: u8[2, 6] = QuantizeLinear(%d, %s, %z)
}";
    let graph: Graph = text.parse().unwrap();
    let registry = registry();
    let compiled = compiled(&graph, &registry, &["CpuRef"], 0.0);
    let found = operators(&compiled);
    let count = |name: &str| found.iter().filter(|found| **found == name).count();
    // %q, %y1, %nq and %y3; %d of two users remains.
    assert_eq!(count("QuantizeLinear"), 4, "{}", compiled.graph);
    assert_eq!(count("DequantizeLinear"), 1, "{}", compiled.graph);
}

#[test]
fn tensors_with_other_parameters_are_quantized_before_they_are_joined() {
    let text = "graph \"g\" (%x: f32[2, 6]) -> (%y: i8[2, 18]) {
    const %s: f32[] = [0.02]
    const %s1: f32[] = [0.0078125]
    const %s2: f32[] = [0.01]
    const %z: i8[] = [-3]
    const %z1: u8[] = [128]
    %a: i8[2, 6] = QuantizeLinear(%x, %s, %z)
    %b: u8[2, 6] = QuantizeLinear(%x, %s1, %z1)
    %c: i8[2, 6] = QuantizeLinear(%x, %s2)
    %da: f32[2, 6] = DequantizeLinear(%a, %s, %z)
    %db: f32[2, 6] = DequantizeLinear(%b, %s1, %z1)
    %dc: f32[2, 6] = DequantizeLinear(%c, %s2)
    %all: f32[2, 18] = Concat(%da, %db, %dc) {axis = 1}
    %y: i8[2, 18] = QuantizeLinear(%all, %s, %z)
}";
    let graph: Graph = text.parse().unwrap();
    let registry = registry();
    let compiled = compiled(&graph, &registry, &["CpuRef"], 0.0);
    let concat = compiled
        .graph
        .nodes
        .iter()
        .find(|node| node.op.name == "Concat");
    let inputs = concat.unwrap().inputs.iter().flatten();
    let types: Vec<_> = inputs
        .map(|&value| compiled.graph.value(value).ty.clone().unwrap().dtype())
        .collect();
    assert_eq!(types, [DataType::I8; 3], "{}", compiled.graph);
    let count = |name: &str| {
        operators(&compiled)
            .iter()
            .filter(|found| **found == name)
            .count()
    };
    assert_eq!(count("QuantizeLinear"), 5, "{}", compiled.graph);
    assert_eq!(count("DequantizeLinear"), 2, "{}", compiled.graph);
}

#[test]
fn scales_that_are_none_are_refused() {
    let graph = |scale: &str| -> Graph {
        let text = format!(
            "graph \"g\" (%x: f32[2, 6]) -> (%y: u8[2, 6]) {{
    const %s: f32[] = [{scale}]
    %y: u8[2, 6] = QuantizeLinear(%x, %s) @quantize\n}}"
        );
        text.parse().unwrap()
    };
    let registry = registry();
    let options = Options::new(&registry);
    for scale in ["0", "-0.5", "nan", "inf"] {
        let error = compile(graph(scale), &options).unwrap_err().to_string();
        assert!(
            error.starts_with("node 'quantize': input 'y_scale' "),
            "{error}"
        );
    }
    assert!(compile(graph("0.5"), &options).is_ok());
}

/// Weights with scales of columns, of blocks and of the tensor, as stored and transposed.
#[test]
fn matmuls_of_floats_have_an_operator_on_their_quantized_weights() {
    let registry = registry();
    let types = |columns_first: bool| match columns_first {
        true => ("[6, 32]", "[6, 2]"),
        false => ("[32, 6]", "[2, 6]"),
    };
    // The type, the scales (of blocks if `None`), whether columns are the first dimension, and what computes.
    for (dtype, scales, columns_first, nodes) in [
        ("u4", None, false, "%y: f32[3, 6] = MatMul(%x, %d)"),
        (
            "i4",
            None,
            true,
            "%t: f32[32, 6] = Transpose(%d) {perm = [1, 0]}\n    %y: f32[3, 6] = MatMul(%x, %t)",
        ),
        (
            "i8",
            Some("f32[6]"),
            true,
            "%y: f32[3, 6] = Gemm(%x, %d, %b) {transB = 1}",
        ),
        (
            "u8",
            Some("f32[]"),
            false,
            "%m: f32[3, 6] = MatMul(%x, %d)
    %a: f32[3, 6] = Add(%m, %b)\n    %y: f32[3, 6] = Relu(%a)",
        ),
        (
            "u2",
            Some("f32[]"),
            false,
            "%m: f32[3, 6] = MatMul(%x, %d)\n    %y: f32[3, 6] = Add(%m, %r)",
        ),
    ] {
        let (shape, blocks) = types(columns_first);
        let signed = dtype.starts_with('i');
        let whole = if signed { "i8" } else { "u8" };
        let range = match dtype {
            "i8" => [-128, 127],
            "i4" => [-8, 7],
            "u4" => [0, 15],
            "u2" => [0, 3],
            _ => [0, 255],
        };
        let of_scales = scales.map_or_else(|| format!("f32{blocks}"), str::to_owned);
        let of_zeros = of_scales.replace("f32", whole);
        let zero = if of_zeros.ends_with("[]") {
            format!("    const %z8: {of_zeros} = [1]\n")
        } else {
            integers("z8", &of_zeros, range)
        };
        let extents = of_scales.split(['[', ',', ' ', ']']);
        let count: usize = extents.filter_map(|it| it.parse::<usize>().ok()).product();
        let attributes = match scales {
            None => format!("block_size = 16, axis = {}", u8::from(columns_first)),
            Some(_) => format!("axis = {}", u8::from(!columns_first)),
        };
        let text = format!(
            "graph \"weights\" (%x: f32[3, 32], %r: f32[3, 6]) -> (%y) {{\n{}{zero}    const %ws: {of_scales} = [{}]
    const %b: f32[6] = [1, 2, 3, 4, 5, 6]
    %w: {dtype}{shape} = Cast(%w8) {{to = \"{dtype}\"}}
    %z: {} = Cast(%z8) {{to = \"{dtype}\"}}
    %d: f32{shape} = DequantizeLinear(%w, %ws, %z) {{{attributes}}}\n    {nodes}\n}}",
            integers("w8", &format!("{whole}{shape}"), range),
            vec!["-0.01"; count].join(", "),
            of_zeros.replace(whole, dtype),
        );
        let graph: Graph = text
            .parse()
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        let compiled = compiled(&graph, &registry, &["CpuRef"], 1e-4);
        let found = operators(&compiled);
        assert_eq!(found, ["tenon.WeightOnlyMatMul"], "{}", compiled.graph);
    }
}

/// Rows that are quantized when the model runs, with weights per tensor and per channel.
#[test]
fn products_of_rows_quantized_when_the_model_runs_are_one_operator() {
    let registry = registry();
    let quantize = "    %q: u8[1, 4, 6], %qs: f32[], %qz: u8[] = DynamicQuantizeLinear(%x)\n";
    let images = quantize.replace("[1, 4, 6]", "[1, 4, 6, 6]");
    for (shape, weights, text) in [
        (
            "[1, 4, 6]",
            "i8[6, 5]",
            format!(
                "{quantize}    const %ws: f32[5] = [0.01, 0.02, 0.03, 0.04, 0.05]
    const %wz: i8[5] = [0, 1, 2, 3, -4]
    const %b: f32[5] = [1, 2, 3, 4, 5]
    %i: i32[1, 4, 5] = MatMulInteger(%q, %w, %qz, %wz)
    %f: f32[1, 4, 5] = Cast(%i) {{to = \"f32\"}}
    %s: f32[5] = Mul(%qs, %ws)
    %m: f32[1, 4, 5] = Mul(%f, %s)
    %a: f32[1, 4, 5] = Add(%b, %m)
    %y: f32[1, 4, 5] = Relu(%a)"
            ),
        ),
        (
            "[1, 4, 6]",
            "u8[6, 5]",
            format!(
                "{quantize}    const %ws: f32[1, 1] = [0.01]
    const %wz: u8[] = [128]
    %i: i32[1, 4, 5] = MatMulInteger(%q, %w, %qz, %wz)
    %f: f32[1, 4, 5] = Cast(%i) {{to = \"f32\"}}
    %s: f32[1, 1] = Mul(%ws, %qs)
    %y: f32[1, 4, 5] = Mul(%s, %f)"
            ),
        ),
        (
            "[1, 4, 6, 6]",
            "i8[5, 4, 3, 3]",
            format!(
                "{images}    const %ws: f32[1, 5, 1, 1] = [0.01, 0.02, 0.03, 0.04, 0.05]
    %i: i32[1, 5, 6, 6] = ConvInteger(%q, %w, %qz) {{pads = [1, 1, 1, 1]}}
    %f: f32[1, 5, 6, 6] = Cast(%i) {{to = \"f32\"}}
    %s: f32[1, 5, 1, 1] = Mul(%qs, %ws)
    %y: f32[1, 5, 6, 6] = Mul(%f, %s)"
            ),
        ),
    ] {
        let range = if weights.starts_with('u') {
            [0, 255]
        } else {
            [-127, 127]
        };
        let text = format!(
            "graph \"dynamic\" (%x: f32{shape}) -> (%y) {{\n{}{text}\n}}",
            integers("w", weights, range)
        );
        let graph: Graph = text
            .parse()
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        let compiled = compiled(&graph, &registry, &["CpuAcc", "CpuRef"], 1e-4);
        let product = if shape == "[1, 4, 6]" {
            "tenon.QuantizedMatMul"
        } else {
            "tenon.QuantizedConv"
        };
        let found = operators(&compiled);
        assert_eq!(
            found,
            ["DynamicQuantizeLinear", product],
            "{}",
            compiled.graph
        );
    }
}

/// The product of both scales is a constant.
#[test]
fn products_of_integers_with_known_scales_are_one_operator() {
    let registry = registry();
    let text = format!(
        "graph \"known\" (%x: f32[4, 6]) -> (%y) {{
    const %xs: f32[] = [0.0078125]
    const %xz: u8[] = [128]
    const %s: f32[5] = [0.01, 0.02, 0.03, 0.04, 0.05]\n{}    %q: u8[4, 6] = QuantizeLinear(%x, %xs, %xz)
    %i: i32[4, 5] = MatMulInteger(%q, %w, %xz)
    %f: f32[4, 5] = Cast(%i) {{to = \"f32\"}}
    %y: f32[4, 5] = Mul(%f, %s)\n}}",
        integers("w", "i8[6, 5]", [-127, 127])
    );
    let graph: Graph = text.parse().unwrap();
    let compiled = compiled(&graph, &registry, &["CpuAcc", "CpuRef"], 1e-4);
    assert_eq!(
        operators(&compiled),
        ["QuantizeLinear", "tenon.QuantizedMatMul"]
    );
}
