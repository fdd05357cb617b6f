//! The time of placement: support queries, subgraphs and their optimisation.
//!
//! Prints the table of docs/benchmarks.md (`cargo xtask bench --placement`).

#![allow(clippy::print_stdout, reason = "a program that prints a table")]

use std::time::{Duration, Instant};
use tenon_compiler::{Options, Placement, place_graph};
use tenon_graph::operator::operator;
use tenon_graph::{Attribute, Attributes, DataType, Graph, Node, TensorType, ValueId};

/// The target for 10,000 nodes.
const TARGET: Duration = Duration::from_millis(200);

/// Runs, of which the fastest is printed.
const RUNS: usize = 7;

/// The edges between the nodes.
#[derive(Clone, Copy)]
enum Kind {
    /// A chain on one backend.
    Chain,
    /// A chain on alternating backends.
    Alternating,
    /// Two inputs among the preceding thirty nodes, a third of the nodes on the other backend.
    Random,
    /// Two inputs among all preceding nodes.
    Wide,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Chain, "chain of one backend"),
    (Kind::Alternating, "chain, backends in turn"),
    (Kind::Random, "random, near"),
    (Kind::Wide, "random, anywhere"),
];

fn main() {
    println!(
        "| graph | nodes | time | a node | subgraphs | crossings | target | met |\n\
         |---|---|---|---|---|---|---|---|"
    );
    for (kind, name) in KINDS {
        for nodes in [1_000, 10_000, 100_000] {
            let (time, placement) = measure(kind, nodes);
            let subgraphs = placement
                .nodes
                .iter()
                .filter_map(|node| node.subgraph)
                .max();
            let (target, met) = match nodes {
                10_000 if time <= TARGET => ("≤ 200 ms", "yes"),
                10_000 => ("≤ 200 ms", "**no**"),
                _ => ("–", "–"),
            };
            println!(
                "| {name} | {nodes} | {:.1} ms | {:.0} ns | {} | {} | {target} | {met} |",
                time.as_secs_f64() * 1e3,
                time.as_nanos() as f64 / f64::from(nodes),
                subgraphs.map_or(0, |last| last + 1),
                placement.crossings.len(),
            );
        }
    }
}

/// The fastest of several runs.
fn measure(kind: Kind, nodes: u32) -> (Duration, Placement) {
    let graph = graph(kind, nodes);
    let registry = tenon_builtin::registry();
    let options = Options::new(&registry);
    let mut best: Option<(Duration, Placement)> = None;
    for _ in 0..RUNS {
        let mut graph = graph.clone();
        let start = Instant::now();
        let placement = place_graph(&mut graph, &options).expect("every node has a backend");
        let time = start.elapsed();
        if best.as_ref().is_none_or(|(fastest, _)| time < *fastest) {
            best = Some((time, placement));
        }
    }
    best.expect("there are runs")
}

/// A graph of additions, which both backends take, and of nodes that only CpuRef takes.
fn graph(kind: Kind, nodes: u32) -> Graph {
    let mut state = 1u64;
    let mut random = |below: u32| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(below)) as u32
    };
    let mut graph = Graph::new("bench");
    let ty = TensorType::new(DataType::F32, [16]).expect("a type");
    graph.add_input("x", ty.clone());
    for index in 0..nodes {
        let (a, b) = match kind {
            Kind::Chain | Kind::Alternating => (index, index),
            Kind::Random => {
                let near = index.min(29) + 1;
                (index - random(near), index - random(near))
            }
            Kind::Wide => (random(index + 1), random(index + 1)),
        };
        let other = match kind {
            Kind::Chain => false,
            Kind::Alternating => index % 2 == 1,
            Kind::Random | Kind::Wide => random(3) == 0,
        };
        let output = graph.add_value(format!("v{index}"), Some(ty.clone()));
        graph.add_node(Node {
            name: format!("node{index}"),
            op: operator(if other { "Mod" } else { "Add" }).expect("an operator"),
            attributes: if other {
                Attributes::from_iter([("fmod".to_owned(), Attribute::Int(1))])
            } else {
                Attributes::new()
            },
            inputs: vec![Some(ValueId(a)), Some(ValueId(b))],
            outputs: vec![Some(output)],
        });
    }
    graph.outputs.push(ValueId(nodes));
    graph
}
