//! Unrolling of Loop and Scan.

use crate::build::*;
use tenon_onnx::proto::*;

fn number(name: &str, value: i64) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: data_type::INT64,
        int64_data: vec![value],
        ..Default::default()
    }
}

/// A Loop of `count` steps that adds x to a sum, which it also collects.
fn sums(count: i64) -> Build {
    let body = GraphProto {
        input: vec![
            info("step", data_type::INT64, &[]),
            info("open", data_type::BOOL, &[]),
            info("sum", data_type::FLOAT, &["2"]),
        ],
        node: vec![
            node("Identity", &["open"], &["still"], &[]),
            node("Add", &["sum", "x"], &["next"], &[]),
        ],
        output: vec![
            info("still", data_type::BOOL, &[]),
            info("next", data_type::FLOAT, &["2"]),
            info("next", data_type::FLOAT, &["2"]),
        ],
        ..Default::default()
    };
    let mut build = model(17)
        .input("x", &["2"])
        .node(node(
            "Loop",
            &["count", "", "x"],
            &["last", "all"],
            &[graph("body", body)],
        ))
        .output("last")
        .output("all");
    build.graph().initializer.push(number("count", count));
    build
}

fn operators(build: &Build) -> Vec<&'static str> {
    let graph = build.import().unwrap();
    graph.nodes.iter().map(|node| node.op.name).collect()
}

#[test]
fn a_loop_of_constant_trip_count_is_unrolled() {
    let expected = [
        "Add",
        "Add",
        "Add",
        "Unsqueeze",
        "Unsqueeze",
        "Unsqueeze",
        "Concat",
        "Identity",
        "Identity",
    ];
    assert_eq!(operators(&sums(3)), expected);
}

#[test]
fn a_long_loop_is_not_unrolled() {
    let graph = sums(i64::MAX).import().unwrap();
    assert!(graph.nodes[0].is_control());
}

#[test]
fn an_output_of_no_iterations_is_unsupported() {
    let error = sums(0).error();
    assert!(error.contains("an output of no iterations"), "{error}");
}

#[test]
fn a_loop_of_unknown_trip_count_has_a_body() {
    let mut build = sums(1).typed_input("other", data_type::INT64, &[]);
    build.graph().node[0].input[0] = "other".into();
    let graph = build.import().unwrap();
    let node = &graph.nodes[0];
    assert!(node.is_control());
    let body = graph.bodies_of(node).next().unwrap();
    // The number of the iteration, the condition, the states.
    let states = node.attributes.int("states", 0).unwrap() as usize;
    assert_eq!(body.inputs.len(), 2 + states);
    assert!(!body.nodes.is_empty());
}

#[test]
fn a_scan_is_unrolled_in_both_directions() {
    let body = GraphProto {
        input: vec![
            info("sum", data_type::FLOAT, &["2"]),
            info("part", data_type::FLOAT, &["2"]),
        ],
        node: vec![node("Add", &["sum", "part"], &["next"], &[])],
        output: vec![
            info("next", data_type::FLOAT, &["2"]),
            info("next", data_type::FLOAT, &["2"]),
        ],
        ..Default::default()
    };
    let attributes = [
        graph("body", body),
        int("num_scan_inputs", 1),
        ints("scan_input_axes", &[1]),
        ints("scan_input_directions", &[1]),
    ];
    let build = model(17)
        .input("start", &["2"])
        .input("x", &["2", "3"])
        .node(node("Scan", &["start", "x"], &["last", "all"], &attributes))
        .output("all");
    let graph = build.import().unwrap();
    let places: Vec<i64> = graph
        .nodes
        .iter()
        .filter(|node| node.op.name == "Gather")
        .filter_map(|node| graph.value(node.inputs[1]?).constant.as_ref()?.to_i64s())
        .flatten()
        .collect();
    assert_eq!(places, [2, 1, 0]);
}

/// A Scan of operator set 8, with lengths of sequences or without.
fn scan_of_a_batch(lengths: &str, dims: &[&str]) -> Build {
    let body = GraphProto {
        input: vec![
            info("sum", data_type::FLOAT, &["2"]),
            info("part", data_type::FLOAT, &["2"]),
        ],
        node: vec![node("Add", &["sum", "part"], &["next"], &[])],
        output: vec![info("next", data_type::FLOAT, &["2"])],
        ..Default::default()
    };
    let attributes = [
        graph("body", body),
        int("num_scan_inputs", 1),
        ints("directions", &[1]),
    ];
    model(8)
        .input("start", &["2", "2"])
        .typed_input("lengths", data_type::INT64, &["2"])
        .input("x", dims)
        .node(node(
            "Scan",
            &[lengths, "start", "x"],
            &["last"],
            &attributes,
        ))
        .output("last")
}

#[test]
fn a_scan_of_a_batch_is_unrolled() {
    let graph = scan_of_a_batch("", &["2", "3", "2"]).import().unwrap();
    let sums = graph.nodes.iter().filter(|node| node.op.name == "Add");
    assert_eq!(sums.count(), 2 * 3);
    let stacked = graph.nodes.iter().filter(|node| node.op.name == "Concat");
    let counts: Vec<usize> = stacked.map(|node| node.inputs.len()).collect();
    assert_eq!(counts, [2]);

    let error = scan_of_a_batch("lengths", &["2", "3", "2"]).error();
    assert!(
        error.contains("a Scan with lengths of sequences"),
        "{error}"
    );
    for dims in [["2", "n", "2"], ["2", "65", "2"]] {
        let error = scan_of_a_batch("", &dims).error();
        assert!(
            error.contains("of unknown extents or of more than 64"),
            "{error}"
        );
    }
}
