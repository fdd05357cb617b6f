use crate::{OptimisationViews, Subgraph, Substitution};
use tenon_graph::{Graph, NodeId, ValueId, verify};

fn chain() -> Graph {
    let mut graph: Graph = r#"
        graph "chain" (%x: f32[2, 3]) -> (%y) {
          const %b: f32[3] = fill 1
          %a = Abs(%x) @abs
          %s = Add(%a, %b) @add
          %r = Relu(%s) @relu
          %y = Neg(%r) @neg
        }"#
    .parse()
    .unwrap();
    graph.infer_types().unwrap();
    graph
}

fn two_negations() -> Graph {
    let mut graph: Graph = "graph \"r\" (%x: f32[2, 3]) -> (%y) {
          %m = Neg(%x)
          %y = Neg(%m)
        }"
    .parse()
    .unwrap();
    graph.infer_types().unwrap();
    graph
}

#[test]
fn extracted_nodes_are_a_separate_graph() {
    let whole = chain();
    let part = Subgraph::of(&whole, &[NodeId(1), NodeId(2)]);
    let name = |id: &ValueId| part.graph.value(*id).name.clone();
    assert_eq!(
        part.graph.inputs.iter().map(name).collect::<Vec<_>>(),
        ["a"]
    );
    assert_eq!(
        part.graph.outputs.iter().map(name).collect::<Vec<_>>(),
        ["r"]
    );
    verify(&part.graph).unwrap();
}

#[test]
fn a_substitution_replaces_its_nodes() {
    let mut whole = chain();
    let part = Subgraph::of(&whole, &[NodeId(1), NodeId(2), NodeId(3)]);
    let (a, r) = (part.graph.inputs[0], part.graph.nodes[1].outputs[0]);
    let views = OptimisationViews {
        substitutions: vec![Substitution {
            nodes: vec![NodeId(0), NodeId(1)],
            inputs: vec![a],
            outputs: vec![r.unwrap()],
            replacement: two_negations(),
        }],
        untouched: vec![NodeId(2)],
        ..OptimisationViews::default()
    };
    let came = part.apply(&views, &mut whole).unwrap();
    verify(&whole).unwrap();
    let ops: Vec<&str> = whole.nodes.iter().map(|node| node.op.name).collect();
    assert_eq!(ops, ["Abs", "Neg", "Neg", "Neg"]);
    assert_eq!(came.len(), 2);
    assert!(
        came.iter()
            .all(|name| whole.nodes.iter().any(|node| node.name == *name))
    );
}

#[test]
fn a_deleted_node_forwards_its_input() {
    let mut whole = chain();
    let part = Subgraph::of(&whole, &[NodeId(2), NodeId(3)]);
    let views = OptimisationViews {
        untouched: vec![NodeId(0)],
        deleted: vec![NodeId(1)],
        ..OptimisationViews::default()
    };
    part.apply(&views, &mut whole).unwrap();
    verify(&whole).unwrap();
    assert_eq!(whole.nodes.len(), 3);
    assert_eq!(whole.value(whole.outputs[0]).name, "y");
}
