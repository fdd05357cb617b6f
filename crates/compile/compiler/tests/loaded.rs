//! A plug-in backend, from the graph to the outputs: the example in C fuses three nodes.

mod common;

use common::{execute, run};
use tenon_backend::{BackendId, Registry};
use tenon_compiler::{Options, compile};
use tenon_cpu_ref::CpuRef;
use tenon_graph::{Graph, Tensor};

#[test]
fn three_nodes_are_placed_packed_loaded_and_executed_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let library = tenon_test_libraries::example_in_c(folder.path(), "Example_C_backend.so");
    let mut registry = Registry::new();
    registry.load_backend(&library).unwrap();
    registry.register(std::sync::Arc::new(CpuRef)).unwrap();
    let mut options = Options::new(&registry);
    options.backends = vec![BackendId::new("ExampleC"), BackendId::new("CpuRef")];
    let mut graph: Graph = r#"graph "g" (%a: f32[2, 3], %b: f32[2, 3], %c: f32[2, 3]) -> (%y, %e) {
          %m = Mul(%a, %b)
          %s = Add(%m, %c)
          %r = Relu(%s)
          %e = Exp(%r)
          %y = Add(%e, %a)
        }"#
    .parse()
    .unwrap();
    graph.infer_types().unwrap();
    let tensor = |scale: f32| {
        let all: Vec<f32> = (0..6).map(|index| (index as f32 - 2.5) * scale).collect();
        Tensor::from_slice([2, 3], &all).unwrap()
    };
    let inputs = [tensor(1.0), tensor(0.5), tensor(-0.25)];
    let expected = run(&graph, &inputs);
    let compiled = compile(graph, &options).unwrap();
    let ops: Vec<&str> = compiled
        .graph
        .nodes
        .iter()
        .map(|node| node.op.name)
        .collect();
    assert_eq!(ops, ["tenon.Precompiled", "Exp", "Add"]);
    let found = execute(&compiled, &registry, &inputs);
    common::assert_close(&expected, &found, 1e-6, "loaded");
}
