//! Image layouts and element types depend on the backend that executes a node.

mod common;

use common::{TEST_BACKEND, TestBackend, with_test_backend};
use tenon_backend::{BackendId, Reason};
use tenon_compiler::{Compiled, Options, Target, compile};
use tenon_graph::{DataType, Graph, Tensor, TensorType};
use tenon_tensor::convert;

/// Two convolutions with typical operators between them.
const IMAGES: &str = "graph \"g\" (%x: f32[1, 3, 12, 12]) -> (%e: f32[1, 4, 4, 4]) {
    const %w: f32[4, 3, 3, 3] = fill 0.1
    const %v: f32[4, 4, 3, 3] = fill 0.05
    %a: f32[1, 4, 12, 12] = Conv(%x, %w) {pads = [1, 1, 1, 1]} @first
    %b: f32[1, 4, 12, 12] = Relu(%a) @relu
    %c: f32[1, 4, 6, 6] = MaxPool(%b) {kernel_shape = [2, 2], strides = [2, 2]} @pool
    %d: f32[1, 4, 4, 4] = Conv(%c, %v) @second
    %e: f32[1, 4, 4, 4] = Sigmoid(%d) @sigmoid
}";

fn compiled(graph: &Graph, other: TestBackend, backends: &[&'static str]) -> Compiled {
    let registry = with_test_backend(other);
    let mut options = Options::new(&registry);
    options.backends = backends.iter().map(|id| BackendId::new(id)).collect();
    let compiled = compile(graph.clone(), &options).unwrap();
    let inputs = common::inputs(graph, 5);
    let expected = common::run(graph, &inputs);
    let found = common::execute(&compiled, &registry, &inputs);
    common::assert_close(&expected, &found, 1e-5, &graph.name);
    compiled
}

fn target<'a>(compiled: &'a Compiled, node: &str) -> (&'static str, &'a Target) {
    let mut nodes = compiled.placement.nodes.iter();
    let found = nodes.find(|placement| placement.node == node);
    let found = found.unwrap_or_else(|| panic!("no node '{node}' in {}", compiled.graph));
    (found.operator, &found.target)
}

fn on(backend: &'static str) -> Target {
    Target::Backend(BackendId::new(backend))
}

#[test]
fn a_preferred_backend_for_one_operator_leaves_the_layout_to_the_others() {
    let graph = IMAGES.parse().unwrap();
    let only_relu = TestBackend {
        refuses: |node| (node.op.name != "Relu").then_some(Reason::UnknownOperator),
        ..TEST_BACKEND
    };
    let compiled = compiled(&graph, only_relu, &["TestBackend", "CpuAcc", "CpuRef"]);
    assert_eq!(target(&compiled, "first"), ("tenon.Conv", &on("CpuAcc")));
    assert_eq!(target(&compiled, "second"), ("tenon.Conv", &on("CpuAcc")));
    assert_eq!(target(&compiled, "pool"), ("tenon.MaxPool", &on("CpuAcc")));
    // It was preferred, so it is not fused into a convolution of another backend.
    assert_eq!(target(&compiled, "relu"), ("Relu", &on("TestBackend")));
    // One transpose at each end: none around the operator that works in any layout.
    assert_eq!(compiled.placement.count(&Target::Dma), 2);
}

/// Convolutions of one dimension with typical operators between them.
const SIGNALS: &str = "graph \"g\" (%x: f32[1, 3, 20]) -> (%y: f32[1, 6, 9]) {
    const %w: f32[4, 3, 3] = fill 0.1
    const %v: f32[4, 4, 3] = fill 0.05
    const %u: f32[6, 4, 2] = fill 0.2
    const %s: f32[4, 1] = fill 0.5
    %a: f32[1, 4, 20] = Conv(%x, %w) {pads = [1, 1]} @first
    %b: f32[1, 4, 20] = Erf(%a) @erf
    %c: f32[1, 4, 20] = Mul(%b, %s) @scale
    %d: f32[1, 4, 20] = Conv(%c, %v) {dilations = [2], pads = [2, 2]} @second
    %e: f32[1, 4, 20] = Add(%d, %c) @residual
    %y: f32[1, 6, 9] = Conv(%e, %u) {strides = [2], dilations = [3]} @third
}";

/// The same in three dimensions.
const VOLUMES: &str = "graph \"g\" (%x: f32[1, 3, 4, 5, 6]) -> (%e: f32[1, 6, 2, 3, 4]) {
    const %w: f32[4, 3, 3, 3, 3] = fill 0.1
    const %v: f32[6, 4, 3, 3, 3] = fill 0.05
    %a: f32[1, 4, 4, 5, 6] = Conv(%x, %w) {pads = [1, 1, 1, 1, 1, 1]} @first
    %b: f32[1, 4, 4, 5, 6] = Erf(%a) @erf
    %e: f32[1, 6, 2, 3, 4] = Conv(%b, %v) @second
}";

/// A decoder's transposed convolutions, with SAME padding, output padding and a declared output.
const DECODER: &str = "graph \"g\" (%x: f32[1, 3, 5, 6]) -> (%e: f32[1, 2, 21, 30]) {
    const %w: f32[3, 4, 3, 3] = fill 0.1
    const %b: f32[4] = fill 0.5
    const %v: f32[4, 1, 4, 3] = fill 0.05
    %a: f32[1, 4, 10, 12] = ConvTranspose(%x, %w, %b) {auto_pad = \"SAME_UPPER\", strides = [2, 2]} @first
    %c: f32[1, 4, 10, 12] = Relu(%a) @relu
    %d: f32[1, 2, 21, 30] = ConvTranspose(%c, %v) {group = 2, output_shape = [21, 30], strides = [2, 3]} @second
    %e: f32[1, 2, 21, 30] = Sigmoid(%d) @sigmoid
}";

#[test]
fn convolutions_of_every_kind_have_no_transposes_between_them() {
    for text in [SIGNALS, VOLUMES, DECODER] {
        let graph = text.parse().unwrap();
        let none = TestBackend {
            refuses: |_| Some(Reason::UnknownOperator),
            ..TEST_BACKEND
        };
        let compiled = compiled(&graph, none, &["CpuAcc", "CpuRef"]);
        let op = match text {
            DECODER => "tenon.ConvTranspose",
            _ => "tenon.Conv",
        };
        assert_eq!(target(&compiled, "first"), (op, &on("CpuAcc")));
        assert_eq!(target(&compiled, "second"), (op, &on("CpuAcc")));
        assert_eq!(
            compiled.placement.count(&Target::Dma),
            2,
            "{}",
            compiled.graph
        );
    }
}

#[test]
fn a_backend_keeps_its_convolutions_in_the_layout_that_it_supports() {
    let graph = IMAGES.parse().unwrap();
    let only_conv = TestBackend {
        refuses: |node| (node.op.name != "Conv").then_some(Reason::UnknownOperator),
        ..TEST_BACKEND
    };
    let compiled = compiled(&graph, only_conv, &["TestBackend", "CpuAcc", "CpuRef"]);
    assert_eq!(target(&compiled, "first"), ("Conv", &on("TestBackend")));
    assert_eq!(target(&compiled, "second"), ("Conv", &on("TestBackend")));
    // Between convolutions with the channels first a pool has them first: no transposes.
    assert_eq!(target(&compiled, "pool"), ("MaxPool", &on("CpuAcc")));
    assert_eq!(target(&compiled, "relu"), ("Relu", &on("CpuAcc")));
    assert_eq!(compiled.placement.count(&Target::Dma), 0);
}

#[test]
fn a_backend_without_a_preferred_layout_gets_the_layout_of_the_model() {
    let graph = IMAGES.parse().unwrap();
    let compiled = compiled(&graph, TEST_BACKEND, &["TestBackend", "CpuAcc"]);
    assert_eq!(target(&compiled, "first"), ("Conv", &on("TestBackend")));
    assert_eq!(compiled.placement.count(&Target::Dma), 0);
}

/// Graphs of one node that CpuAcc supports in f32.
const OPERATORS: &[&str] = &[
    "(%x: f32[1, 4, 6, 6]) -> (%y: f32[1, 4, 4, 4]) { const %w: f32[4, 4, 3, 3] = fill 0.5\n %y: f32[1, 4, 4, 4] = Conv(%x, %w) }",
    "(%x: f32[1, 4, 6, 6]) -> (%y: f32[1, 4, 3, 3]) {
        %y: f32[1, 4, 3, 3] = MaxPool(%x) {kernel_shape = [2, 2], strides = [2, 2]} }",
    "(%x: f32[1, 4, 6, 6]) -> (%y: f32[1, 4, 3, 3]) {
        %y: f32[1, 4, 3, 3] = AveragePool(%x) {kernel_shape = [2, 2], strides = [2, 2]} }",
    "(%x: f32[1, 4, 6, 6]) -> (%y: f32[1, 4, 1, 1]) { %y: f32[1, 4, 1, 1] = GlobalAveragePool(%x) }",
    "(%x: f32[1, 4, 6, 6]) -> (%y: f32[1, 4, 1, 1]) { %y: f32[1, 4, 1, 1] = GlobalMaxPool(%x) }",
    "(%x: f32[8]) -> (%y: f32[8]) { const %l: f32[] = fill 0.0\n const %h: f32[] = fill 6.0\n %y: f32[8] = Clip(%x, %l, %h) }",
    "(%x: f32[8]) -> (%y: f32[8]) { %y: f32[8] = Relu(%x) }",
    "(%x: f32[8]) -> (%y: f32[8]) { %y: f32[8] = Gelu(%x) }",
    "(%x: f32[8]) -> (%y: f32[8]) { %y: f32[8] = HardSigmoid(%x) }",
    "(%x: f32[8]) -> (%y: f32[8]) { %y: f32[8] = LeakyRelu(%x) }",
    "(%x: f32[4, 8]) -> (%y: f32[4, 8]) { %y: f32[4, 8] = Softmax(%x) {axis = 0} }",
    "(%x: f32[4, 8], %s: f32[8]) -> (%y: f32[4, 8]) { %y: f32[4, 8] = LayerNormalization(%x, %s) }",
    "(%x: f32[4, 8], %w: f32[8, 3]) -> (%y: f32[4, 3]) { %y: f32[4, 3] = MatMul(%x, %w) }",
    "(%x: f32[4, 8], %w: f32[8, 3], %b: f32[3]) -> (%y: f32[4, 3]) { %y: f32[4, 3] = Gemm(%x, %w, %b) }",
    "(%x: f32[8, 4], %w: f32[3, 8], %c: f32[4, 1]) -> (%y: f32[4, 3]) {
        %y: f32[4, 3] = Gemm(%x, %w, %c) {alpha = 0.5, beta = 2.0, transA = 1, transB = 1} }",
    "(%x: f32[4, 8], %w: f32[8, 3], %c: f32[4, 3]) -> (%y: f32[4, 3]) {
        %y: f32[4, 3] = Gemm(%x, %w, %c) {beta = 0.5} }",
    "(%x: f32[4, 8], %w: f32[8, 3], %c: f32[1, 3]) -> (%y: f32[4, 3]) {
        %y: f32[4, 3] = Gemm(%x, %w, %c) {beta = 0.5} }",
    "(%x: f32[8], %w: f32[8, 3]) -> (%y: f32[3]) { %y: f32[3] = MatMul(%x, %w) }",
    "(%x: f32[1, 4, 6], %w: f32[5, 4, 3]) -> (%y: f32[1, 5, 4]) { %y: f32[1, 5, 4] = Conv(%x, %w) }",
    "(%x: f32[1, 4, 6], %w: f32[4, 2, 3]) -> (%y: f32[1, 4, 13]) {
        %y: f32[1, 4, 13] = ConvTranspose(%x, %w) {group = 2, strides = [2]} }",
    "(%x: f32[4, 8], %w: f32[4, 8]) -> (%y: f32[4, 8]) { %y: f32[4, 8] = Sub(%x, %w) }",
    "(%x: f32[4, 8]) -> (%y: f32[4, 1]) { const %a: i64[1] = [1]\n %y: f32[4, 1] = ReduceMean(%x, %a) }",
    "(%x: u8[8]) -> (%y: f32[8]) { const %s: f32[] = fill 0.5\n %y: f32[8] = DequantizeLinear(%x, %s) }",
    "(%x: f32[8]) -> (%y: u8[8]) { const %s: f32[] = fill 0.5\n %y: u8[8] = QuantizeLinear(%x, %s) }",
];

/// `graph` with elements of `dtype` in place of f32.
fn of_type(mut graph: Graph, dtype: DataType) -> Graph {
    for value in &mut graph.values {
        let ty = value.ty.as_ref().unwrap();
        if ty.dtype() == DataType::F32 {
            value.ty = Some(TensorType::new(dtype, ty.shape().clone()).unwrap());
            let constant = value.constant.take();
            value.constant = constant.map(|tensor| convert(&tensor, dtype).unwrap());
        }
    }
    graph
}

#[test]
fn every_operator_runs_in_f32_where_the_backend_lacks_only_its_type() {
    // Sums are in another order, and rounded to the model's type.
    for (dtype, tolerance) in [
        (DataType::F32, 1e-5),
        (DataType::F16, 2e-3),
        (DataType::BF16, 1e-2),
    ] {
        for text in OPERATORS {
            let graph: Graph = format!("graph \"g\" {text}").parse().unwrap();
            let graph = of_type(graph, dtype);
            let registry = tenon_builtin::registry();
            let compiled = compile(graph.clone(), &Options::new(&registry)).unwrap();
            let reference = compiled.placement.count(&on("CpuRef"));
            assert_eq!(reference, 0, "{graph}\n{}", compiled.placement);
            let inputs = inputs(&graph);
            let expected = common::run(&graph, &inputs);
            let found = common::execute(&compiled, &registry, &inputs);
            let wide = |list: &[Tensor]| -> Vec<Tensor> {
                let list = list.iter();
                let list = list.map(|tensor| convert(tensor, DataType::F32).unwrap());
                list.collect()
            };
            common::assert_close(&wide(&expected), &wide(&found), tolerance, text);
        }
    }
}

/// Inputs of any type: noise of f32, converted.
fn inputs(graph: &Graph) -> Vec<Tensor> {
    let input = |(seed, id): (usize, &tenon_graph::ValueId)| {
        let ty = graph.value(*id).ty.as_ref().unwrap();
        let wide = TensorType::new(DataType::F32, ty.shape().clone()).unwrap();
        convert(&common::noise(&wide, seed as u64 + 9), ty.dtype()).unwrap()
    };
    graph.inputs.iter().enumerate().map(input).collect()
}
