use super::*;

fn subgraph() -> Graph {
    let mut graph: Graph = r#"
        graph "g" (%x: f32[2]) -> (%y, %z) {
          %a = Abs(%x) @abs
          %b = Neg(%a) @neg
          %y = Add(%a, %b) @add
          %z = Cast(%y) {to = "i32"} @cast
        }"#
    .parse()
    .unwrap();
    graph.infer_types().unwrap();
    graph
}

fn value(graph: &Graph, name: &str) -> ValueId {
    let index = graph.values.iter().position(|value| value.name == name);
    ValueId(index.unwrap() as u32)
}

fn replacement(text: &str) -> Graph {
    let mut graph: Graph = text.parse().unwrap();
    graph.infer_types().unwrap();
    graph
}

fn ids(list: &[u32]) -> Vec<NodeId> {
    list.iter().copied().map(NodeId).collect()
}

/// The problems of views, one per line.
fn problems(views: &OptimisationViews) -> String {
    views.check(&subgraph()).unwrap_err().to_string()
}

#[test]
fn all_nodes_untouched_is_valid() {
    OptimisationViews::untouched(&subgraph())
        .check(&subgraph())
        .unwrap();
}

#[test]
fn missing_duplicate_and_unknown_nodes_are_reported_together() {
    let views = OptimisationViews {
        untouched: ids(&[0, 1, 1, 9]),
        failed: vec![FailedPart::new(ids(&[2]), "no")],
        ..OptimisationViews::default()
    };
    assert_eq!(
        problems(&views),
        "node9 is not a node of the subgraph\n\
         node 'neg': the node is in the lists more than once\n\
         node 'cast': the node is in none of the lists"
    );
}

#[test]
fn inputs_and_outputs_of_a_substitution_must_match() {
    let graph = subgraph();
    let views = OptimisationViews {
        substitutions: vec![Substitution {
            nodes: ids(&[1, 2]),
            inputs: vec![value(&graph, "a"), value(&graph, "b")],
            outputs: vec![ValueId(77)],
            replacement: replacement("graph \"r\" (%p: f32[3]) -> (%q) {\n%q = Neg(%p)\n}"),
        }],
        untouched: ids(&[0, 3]),
        ..OptimisationViews::default()
    };
    let text = problems(&views);
    for expected in [
        "it and its replacement differ in inputs: expected 2, found 1",
        "input 0 changes its type: expected f32[2], found f32[3]",
        "input 1 is made by its nodes",
        "output 0 is %77, which is not a value of the subgraph",
        "value 'y' is used outside, but is not an output",
    ] {
        assert!(
            text.contains(&format!("substitution 0: {expected}")),
            "{text}"
        );
    }
}

#[test]
fn a_part_that_depends_on_its_own_result_is_a_cycle() {
    let graph = subgraph();
    let views = OptimisationViews {
        substitutions: vec![Substitution {
            nodes: ids(&[0, 2]),
            inputs: vec![value(&graph, "x"), value(&graph, "b")],
            outputs: vec![value(&graph, "a"), value(&graph, "y")],
            replacement: replacement(
                "graph \"r\" (%p: f32[2], %q: f32[2]) -> (%s, %t) {\n%s = Abs(%p)\n%t = Add(%s, %q)\n}",
            ),
        }],
        untouched: ids(&[1, 3]),
        ..OptimisationViews::default()
    };
    assert!(problems(&views).contains("cycle"), "{}", problems(&views));
}

#[test]
fn a_deleted_node_must_not_change_the_type() {
    let views = OptimisationViews {
        untouched: ids(&[0, 1, 2]),
        deleted: ids(&[3]),
        ..OptimisationViews::default()
    };
    assert_eq!(
        problems(&views),
        "node 'cast': the output of a deleted node must have the type of its first input"
    );
}
