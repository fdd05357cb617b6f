//! Rules and passes that take the example sizes for those of all executions.

use super::{Guard, Outcome, Rewriter, Rule, reshape_attributes};
use crate::optimise::{Pass, run_passes};
use crate::place::BackendSelector;
use std::sync::Arc;
use tenon_backend::{BackendId, Registry};
use tenon_base::{Control, Result};
use tenon_graph::{Attributes, Graph, Node};
use tenon_tensor::Tensor;

/// A graph whose input has the symbols `batch` (example 7) and `seq` (example 11).
fn graph(text: &str) -> Graph {
    let mut graph: Graph = text.parse().unwrap();
    let batch = graph.symbols.add("batch", 1..=64).unwrap();
    let seq = graph.symbols.add("seq", 1..=2048).unwrap();
    graph.example_sizes = vec![7, 11];
    let x = graph.inputs[0];
    graph.value_mut(x).extents = Some(vec![batch.into(), seq.into()]);
    graph
}

/// The operators after a pass of these rules, and the notes.
fn after(mut graph: Graph, rules: &'static [Rule]) -> (String, Vec<String>) {
    let mut registry = Registry::new();
    registry.register(Arc::new(tenon_cpu_ref::CpuRef)).unwrap();
    let backends = [BackendId::new("CpuRef")];
    let selector = BackendSelector::new(&registry, &backends, &[]).unwrap();
    let control = Control::new();
    crate::specialise(&mut graph, &registry, &control).unwrap();
    let passes = vec![Pass::new("test", vec![(rules, Guard::None)])];
    let (notes, _) = run_passes(&mut graph, passes, &registry, &selector, &control).unwrap();
    tenon_graph::verify(&graph).unwrap();
    let operators: Vec<&str> = graph.nodes.iter().map(|node| node.op.name).collect();
    (operators.join(" "), notes)
}

/// Relu becomes Abs, which holds for all sizes.
fn holds(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if node.op.name != "Relu" {
        return Ok(Outcome::Keep);
    }
    let inputs = node.inputs.clone();
    let new = rewriter.node_like(node, "Abs", Attributes::new(), inputs)?;
    Ok(Outcome::Replace(new))
}

/// Neg becomes a Reshape to the example sizes.
fn replaces(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let Some(x) = rewriter.input(node, 0).filter(|_| node.op.name == "Neg") else {
        return Ok(Outcome::Keep);
    };
    // Removed with the result.
    let copy = rewriter.emit("copy", "Abs", Attributes::new(), &[Some(x)])?;
    let shape = Tensor::from_slice([2], &[7i64, 11])?;
    let shape = rewriter.add_constant("shape", shape);
    let attributes = reshape_attributes(&[7, 11], None);
    let inputs = vec![Some(copy), Some(shape)];
    let new = rewriter.node_like(node, "Reshape", attributes, inputs)?;
    Ok(Outcome::Replace(new))
}

/// A Slice that returns its input for the example sizes.
fn forwards(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let input = rewriter.input(node, 0);
    Ok(match node.op.name {
        "Slice" => Outcome::Forward(vec![input]),
        _ => Outcome::Keep,
    })
}

/// Changes the limit of a Slice to the example size, as no rule may.
fn limits(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let limit = rewriter.input(node, 2).filter(|_| node.op.name == "Slice");
    if let Some(limit) = limit {
        rewriter.graph.value_mut(limit).constant = Some(Tensor::from_slice([1], &[11i64])?);
    }
    Ok(Outcome::Keep)
}

const TEXT: &str = "graph \"g\" (%x: f32[7, 11]) -> (%y) {
    const %zero: i64[1] = [0]
    const %limit: i64[1] = [300]
    const %one: i64[1] = [1]
    %a = Relu(%x)
    %b = Neg(%a) @negate
    %c = Slice(%b, %zero, %limit, %one) @limit
    %y = Relu(%c)
}";

#[test]
fn results_that_hold_for_the_examples_alone_are_undone_one_by_one() {
    let (operators, notes) = after(graph(TEXT), &[holds, replaces, forwards]);
    assert_eq!(operators, "Abs Neg Slice Abs");
    let starts = [
        "a rewrite of node 'limit' (Slice) holds for the example sizes alone: ",
        "a rewrite of node 'negate' (Neg) holds for the example sizes alone: ",
    ];
    assert_eq!(notes.len(), starts.len(), "{notes:?}");
    for (note, start) in notes.iter().zip(starts) {
        assert!(note.starts_with(start), "{note}");
        // The sizes for which it does not hold.
        assert!(note.contains("seq = "), "{note}");
    }
}

#[test]
fn results_that_hold_for_all_sizes_are_kept() {
    let fixed: Graph = TEXT.parse().unwrap();
    let (operators, notes) = after(fixed, &[holds, replaces, forwards]);
    assert_eq!((&*operators, notes.len()), ("Abs Abs Reshape Abs", 0));
}

#[test]
fn a_pass_after_which_other_sizes_fail_is_left_out() {
    let (operators, notes) = after(graph(TEXT), &[holds, limits]);
    assert_eq!(operators, "Relu Neg Slice Relu");
    let [note] = &notes[..] else {
        panic!("{notes:?}");
    };
    assert!(note.starts_with("the pass 'test' is left out: "), "{note}");
    assert!(
        note.contains("value 'y'") && note.contains("seq = "),
        "{note}"
    );
}
