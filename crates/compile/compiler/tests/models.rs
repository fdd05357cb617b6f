//! The small models of the repository: the operators of each after optimisation, and equal results.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use tenon_backend::BackendId;
use tenon_base::Control;
use tenon_compiler::{Compiled, Options, Target, compile};
use tenon_graph::{DataType, Graph, Tensor};
use tenon_onnx::{ImportOptions, Model};

fn import(name: &str) -> Graph {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models");
    let control = Control::new();
    let model = Model::open(models.join(name), &control).unwrap();
    model.graph(&ImportOptions::default(), &control).unwrap()
}

fn compiled(graph: &Graph) -> Compiled {
    let registry = tenon_builtin::registry();
    compile(graph.clone(), &Options::new(&registry)).unwrap()
}

/// The number of nodes of each operator.
fn count(graph: &Graph) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for node in &graph.nodes {
        *counts.entry(node.op.name).or_default() += 1;
    }
    counts
}

/// Inputs for a graph; integers are small enough for token ids and masks.
fn inputs(graph: &Graph) -> Vec<Tensor> {
    common::inputs(graph, 5)
}

/// Compares the graph as imported with the graph as placed, both by CpuRef.
fn assert_same(graph: &Graph, compiled: &Compiled, tolerance: f32) {
    let inputs = inputs(graph);
    let expected = common::run(graph, &inputs);
    let found = common::run(&compiled.graph, &inputs);
    common::assert_close(&expected, &found, tolerance, &graph.name);
}

/// The operators of nodes on other backends than CpuAcc.
fn left(compiled: &Compiled) -> Vec<&'static str> {
    let fast = Target::Backend(BackendId::new("CpuAcc"));
    let nodes = compiled.placement.nodes.iter();
    let others =
        nodes.filter(|n| n.target != fast && n.target != Target::View && n.target != Target::Dma);
    others.map(|node| node.operator).collect()
}

#[test]
fn convolutional_networks_have_one_transpose_at_most() {
    for name in ["resnet50", "mobilenetv2", "efficientnet-b0"] {
        let graph = import(&format!("small/{name}.onnx"));
        let compiled = compiled(&graph);
        let counts = count(&compiled.graph);
        assert!(
            counts.get("Transpose").copied().unwrap_or(0) <= 1,
            "{name}: {counts:?}"
        );
        for gone in [
            "Conv",
            "BatchNormalization",
            "Relu",
            "Add",
            "Clip",
            "Sigmoid",
            "Swish",
        ] {
            assert!(!counts.contains_key(gone), "{name}: {counts:?}");
        }
        assert_eq!(left(&compiled), [""; 0], "{name}");
        assert_same(&graph, &compiled, 1e-4);
    }
}

#[test]
fn the_digits_network_needs_no_movement() {
    let graph = import("digits/digits.onnx");
    let compiled = compiled(&graph);
    let counts = count(&compiled.graph);
    assert_eq!(compiled.placement.count(&Target::Dma), 0, "{counts:?}");
    assert_eq!(left(&compiled), [""; 0]);
    assert_same(&graph, &compiled, 1e-4);
}

#[test]
fn transformers_have_attention_without_transposes() {
    for name in ["bert", "gpt2"] {
        let graph = import(&format!("small/{name}.onnx"));
        let compiled = compiled(&graph);
        let counts = count(&compiled.graph);
        let softmax = count(&graph)["Softmax"];
        assert_eq!(
            counts.get("tenon.Attention"),
            Some(&softmax),
            "{name}: {counts:?}"
        );
        for gone in ["Softmax", "Erf", "Tanh", "MatMul", "Gemm", "Pow"] {
            assert!(!counts.contains_key(gone), "{name}: {counts:?}");
        }
        assert_same(&graph, &compiled, 1e-4);
    }
}

#[test]
fn the_others_compute_the_same() {
    for name in ["detector", "lstm", "mlp", "resnet50-int8"] {
        let graph = import(&format!("small/{name}.onnx"));
        let compiled = compiled(&graph);
        // A different rounding to int8 changes a result by one step.
        let tolerance = if name.ends_with("int8") { 0.05 } else { 1e-4 };
        assert_same(&graph, &compiled, tolerance);
        assert!(graph.outputs.iter().all(|&id| {
            graph
                .value(id)
                .ty
                .as_ref()
                .is_none_or(|ty| ty.dtype() != DataType::String)
        }));
    }
}
