//! Specialisation of graphs whose sizes are known only when the model runs.

use tenon_backend::Registry;
use tenon_base::Control;
use tenon_compiler::specialise;
use tenon_graph::Graph;
use tenon_tensor::size::SizeExpr;

/// A graph whose inputs have the symbols `batch` (example 7) and `seq` (example 11).
fn graph(text: &str) -> Graph {
    let mut graph: Graph = text.parse().unwrap();
    let batch = graph.symbols.add("batch", 1..=64).unwrap();
    let seq = graph.symbols.add("seq", 1..=2048).unwrap();
    graph.example_sizes = vec![7, 11];
    for id in graph.inputs.clone() {
        let value = graph.value_mut(id);
        let shape = value.ty.as_ref().unwrap().shape().clone();
        let extents = shape.iter().map(|&extent| match extent {
            7 => SizeExpr::from(batch),
            11 => SizeExpr::from(seq),
            fixed => SizeExpr::from(fixed as i64),
        });
        value.extents = Some(extents.collect());
    }
    graph
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    let reference = std::sync::Arc::new(tenon_cpu_ref::CpuRef);
    registry.register(reference).unwrap();
    registry
}

/// The operators that are left, and the extents of the outputs.
fn specialised(text: &str) -> (String, Vec<String>) {
    let mut graph = graph(text);
    specialise(&mut graph, &registry(), &Control::new()).unwrap();
    tenon_graph::verify(&graph).unwrap();
    let operators: Vec<&str> = graph.nodes.iter().map(|node| node.op.name).collect();
    let extents = graph.outputs.iter().map(|&id| {
        let extents = graph.value(id).extents.as_ref().unwrap();
        let extents: Vec<String> = extents
            .iter()
            .map(|extent| graph.symbols.text(extent))
            .collect();
        extents.join(", ")
    });
    (operators.join(" "), extents.collect())
}

#[test]
fn arithmetic_on_shapes_is_left_to_sizes() {
    // The heads of attention as PyTorch exports them.
    let (operators, extents) = specialised(
        "graph \"g\" (%x: f32[7, 11, 64]) -> (%y) {
           const %zero: i64[1] = [0]
           const %one: i64[1] = [1]
           const %heads: i64[2] = [4, 16]
           %s = Shape(%x)
           %n = Gather(%s, %zero)
           %m = Gather(%s, %one)
           %t = Concat(%n, %m, %heads) {axis = 0}
           %r = Reshape(%x, %t)
           %y = Transpose(%r) {perm = [0, 2, 1, 3]}
         }",
    );
    assert_eq!(operators, "Reshape Transpose");
    assert_eq!(extents, ["batch, 4, seq, 16"]);
}

#[test]
fn a_size_that_is_computed_with_stays_an_operand() {
    // A mean over the sequence: the size becomes a floating-point divisor.
    let (operators, extents) = specialised(
        "graph \"g\" (%x: f32[7, 11]) -> (%y) {
           const %axes: i64[1] = [1]
           %sum = ReduceSum(%x, %axes) {keepdims = 0}
           %s = Shape(%x) {start = 1}
           %f = Cast(%s) {to = \"f32\"}
           %y = Div(%sum, %f)
         }",
    );
    assert_eq!(operators, "ReduceSum Div");
    assert_eq!(extents, ["batch"]);
}

#[test]
fn fixed_extents_of_a_symbolic_graph_are_folded() {
    let (operators, extents) = specialised(
        "graph \"g\" (%x: f32[7, 64]) -> (%y) {
           const %one: i64[] = [1]
           %s = Shape(%x)
           %n = Gather(%s, %one)
           %f = Cast(%n) {to = \"f32\"}
           %r = Sqrt(%f)
           %y = Div(%x, %r)
         }",
    );
    assert_eq!(operators, "Div");
    assert_eq!(extents, ["batch, 64"]);
}
