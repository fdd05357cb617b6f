//! Branches and trip counts that are evaluated at import.

use crate::build::*;
use tenon_base::{Control, Error, ErrorKind, Result};
use tenon_graph::Graph;
use tenon_onnx::proto::*;
use tenon_onnx::{Evaluator, ImportOptions};
use tenon_tensor::Tensor;

/// An evaluator of addition and comparison.
fn evaluate(graph: &mut Graph, control: &Control) -> Result<()> {
    control.check()?;
    for node in graph.nodes.clone() {
        let operands: Vec<f32> = node
            .inputs
            .iter()
            .flatten()
            .filter_map(|&input| graph.value(input).constant.as_ref()?.as_slice::<f32>())
            .map(|elements| elements[0])
            .collect();
        let (&[a, b], Some(output)) = (&operands[..], node.outputs[0]) else {
            continue;
        };
        graph.value_mut(output).constant = Some(match node.op.name {
            "Add" => Tensor::scalar(a + b)?,
            "Less" => Tensor::from_bools([], &[a < b])?,
            other => return Err(Error::new(ErrorKind::Unsupported, other)),
        });
    }
    Ok(())
}

fn import(build: &Build, evaluator: Evaluator) -> Result<Graph, String> {
    build.import_with(&ImportOptions {
        evaluator: Some(evaluator),
        ..ImportOptions::default()
    })
}

/// Doubles 1 as long as it is less than `limit`.
fn doubled(limit: f32) -> Build {
    let body = GraphProto {
        input: vec![
            info("step", data_type::INT64, &[]),
            info("open", data_type::BOOL, &[]),
            info("number", data_type::FLOAT, &[]),
        ],
        node: vec![
            node("Add", &["number", "number"], &["next"], &[]),
            node("Less", &["next", "limit"], &["still"], &[]),
        ],
        output: vec![
            info("still", data_type::BOOL, &[]),
            info("next", data_type::FLOAT, &[]),
        ],
        ..Default::default()
    };
    model(17)
        .input("x", &["2"])
        .floats("one", &[], &[1.0])
        .floats("limit", &[], &[limit])
        .node(node(
            "Loop",
            &["", "", "one"],
            &["last"],
            &[graph("body", body)],
        ))
        .node(node("Mul", &["x", "last"], &["y"], &[]))
        .output("y")
}

fn count(graph: &Graph, operator: &str) -> usize {
    let named = |node: &&tenon_graph::Node| node.op.name == operator;
    graph.nodes.iter().filter(named).count()
}

#[test]
fn a_loop_ends_with_its_condition() {
    for (limit, steps) in [(100.0, 7), (2.0, 1), (5.0, 3)] {
        let graph = import(&doubled(limit), Evaluator::new(evaluate)).unwrap();
        assert_eq!(count(&graph, "Add"), steps, "{limit}");
    }
}

#[test]
fn a_loop_with_an_endless_condition_is_not_unrolled() {
    let forever = |_: &mut Graph, _: &Control| Ok(());
    let mut build = doubled(1.0);
    let attribute = &mut build.graph().node[0].attribute[0];
    let body = attribute.g.as_mut().unwrap();
    body.node[1] = node("Identity", &["open"], &["still"], &[]);
    let graph = import(&build, Evaluator::new(forever)).unwrap();
    assert!(graph.nodes[0].is_control());
}

#[test]
fn a_condition_that_is_not_evaluated_is_one_of_a_loop() {
    let refuses = |_: &mut Graph, _: &Control| Err(Error::new(ErrorKind::Unsupported, "no"));
    for graph in [
        import(&doubled(9.0), Evaluator::new(refuses)).unwrap(),
        doubled(9.0).import().unwrap(),
    ] {
        assert!(graph.nodes[0].is_control());
        assert_eq!(graph.bodies.len(), 1);
    }
}

#[test]
fn an_if_is_the_branch_of_its_evaluated_condition() {
    let branch = |operator: &str| GraphProto {
        node: vec![node(operator, &["x"], &["r"], &[])],
        output: vec![info("r", data_type::FLOAT, &["2"])],
        ..Default::default()
    };
    for (a, expected) in [(1.0, "Neg"), (3.0, "Abs")] {
        let build = model(17)
            .input("x", &["2"])
            .floats("a", &[], &[a])
            .floats("b", &[], &[2.0])
            .node(node("Less", &["a", "b"], &["less"], &[]))
            .node(node(
                "If",
                &["less"],
                &["y"],
                &[
                    graph("then_branch", branch("Neg")),
                    graph("else_branch", branch("Abs")),
                ],
            ))
            .output("y");
        let graph = import(&build, Evaluator::new(evaluate)).unwrap();
        assert_eq!(count(&graph, expected), 1, "{graph}");
        assert_eq!(count(&graph, "Neg") + count(&graph, "Abs"), 1, "{graph}");
    }
}

/// Statistics of the batch in training, and running statistics.
#[test]
fn training_outputs_are_separate_nodes() {
    let build = model(17)
        .input("x", &["2", "3", "4"])
        .input("scale", &["3"])
        .input("bias", &["3"])
        .input("mean", &["3"])
        .input("variance", &["3"])
        .node(node(
            "BatchNormalization",
            &["x", "scale", "bias", "mean", "variance"],
            &["y", "new_mean", "new_variance"],
            &[int("training_mode", 1)],
        ))
        .node(node("Dropout", &["y"], &["z", "mask"], &[]))
        .output("z")
        .output("mask")
        .output("new_mean")
        .output("new_variance");
    let graph = build.import().unwrap();
    assert_eq!(count(&graph, "BatchNormalization"), 1);
    assert_eq!(count(&graph, "ReduceMean"), 2);
    assert_eq!(graph.outputs.len(), 4);
}
