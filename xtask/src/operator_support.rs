//! The types and ranks for which `CpuAcc` computes an operator, measured by compiling random nodes of it:
//! the kernels' own selection decides.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tenon_backend::{BackendId, Registry};
use tenon_compiler::{Options, Target, compile};
use tenon_graph::{DataType, Graph, Node, OperatorDef};
use tenon_random_nodes::{Choices, RandomNode, choice_bytes};

/// Random nodes that are tried for each type of an operator.
const SEEDS: u64 = 240;

/// Nodes of a type after which no more are tried.
const NODES: usize = 12;

/// Nodes of a rank that must be refused before the rank counts as refused.
const REFUSED: usize = 2;

/// Types that no kernel computes, and that the page leaves out.
const LEFT_OUT: [DataType; 4] = [
    DataType::F32r,
    DataType::Tf32,
    DataType::C64,
    DataType::C128,
];

/// Where the nodes of a compiled graph run.
#[derive(Clone, Copy, PartialEq)]
enum Placement {
    Own,
    /// By descriptors alone, or as views.
    Moved,
    Reference,
}

/// The nodes of one type that ran on the backend or by descriptors, and the others, by rank.
#[derive(Default)]
struct Ranks {
    covered: BTreeMap<usize, usize>,
    refused: BTreeMap<usize, usize>,
    /// Whether a node ran on the backend.
    own: bool,
}

/// The measurement.
pub(crate) struct OperatorSupport {
    registry: Registry,
    backends: Vec<BackendId>,
}

impl OperatorSupport {
    pub(crate) fn new() -> Self {
        let registry = tenon_builtin::registry();
        let backends = ["CpuAcc", "CpuRef"].map(BackendId::new).to_vec();
        Self { registry, backends }
    }

    /// The lines of an operator.
    pub(crate) fn lines(&self, op: &'static OperatorDef) -> String {
        let types = self.measured(op);
        let covered = |own: bool| {
            let types = types
                .iter()
                .filter(move |(_, ranks)| ranks.own == own && !ranks.covered.is_empty());
            types.collect::<Vec<_>>()
        };
        let mut text = String::new();
        for (name, list) in [("CpuAcc", covered(true)), ("descriptors", covered(false))] {
            if !list.is_empty() {
                let _ = writeln!(text, "- {name}: {}", groups(&list));
            }
        }
        let refused = types.iter().filter(|(_, ranks)| ranks.covered.is_empty());
        let names: Vec<&str> = refused.map(|(dtype, _)| dtype.name()).collect();
        if !names.is_empty() {
            let _ = writeln!(text, "- CpuRef: {}", names.join(", "));
        }
        text
    }

    /// The measured types, in the order of the type table.
    fn measured(&self, op: &'static OperatorDef) -> Vec<(DataType, Ranks)> {
        let mut found: Vec<(DataType, Ranks)> = Vec::new();
        let candidates = DataType::ALL.iter().copied();
        let candidates = candidates.filter(|dtype| !LEFT_OUT.contains(dtype));
        let candidates = candidates.filter(|&dtype| match op.inputs.first() {
            Some(first) => first.types.contains(dtype),
            None => dtype == DataType::F32,
        });
        for dtype in candidates {
            let mut ranks = Ranks::default();
            let mut nodes = 0;
            for seed in 0..SEEDS {
                let choices = choice_bytes(seed << 16 | op.name.len() as u64);
                let node = RandomNode::of_type(op, dtype, &mut Choices::new(&choices));
                let Some((graph, rank)) = node.and_then(|node| graph_of(&node, dtype)) else {
                    continue;
                };
                let Some(place) = self.place(graph) else {
                    continue;
                };
                let table = match place {
                    Placement::Reference => &mut ranks.refused,
                    Placement::Own | Placement::Moved => &mut ranks.covered,
                };
                *table.entry(rank).or_default() += 1;
                ranks.own |= place == Placement::Own;
                nodes += 1;
                if nodes == NODES {
                    break;
                }
            }
            if nodes > 0 {
                found.push((dtype, ranks));
            }
        }
        found
    }

    /// Where a graph runs; `None` where it is not compiled, or folded.
    fn place(&self, graph: Graph) -> Option<Placement> {
        let mut options = Options::new(&self.registry);
        options.backends.clone_from(&self.backends);
        let compiled = compile(graph, &options).ok()?;
        let mut place = None;
        for node in &compiled.placement.nodes {
            place = Some(match &node.target {
                Target::Backend(id) if *id == self.backends[0] => Placement::Own,
                Target::Backend(_) => return Some(Placement::Reference),
                Target::Dma | Target::View => place.unwrap_or(Placement::Moved),
            });
        }
        place
    }
}

/// A graph of one node, with the rank of its first input, or of its output where it has none. Inputs that
/// may be variable are. `None` where the first input has another type.
fn graph_of(node: &RandomNode, dtype: DataType) -> Option<(Graph, usize)> {
    let mut graph = Graph::new("node");
    let first = node.inputs.first().and_then(Option::as_ref);
    let first = first.map(|input| input.tensor.ty());
    if first.is_some_and(|ty| ty.dtype() != dtype) {
        return None;
    }
    let rank = first.or(node.outputs.first()?.as_ref())?.shape().len();
    let mut inputs = Vec::new();
    for (index, input) in node.inputs.iter().enumerate() {
        inputs.push(input.as_ref().map(|input| {
            let name = format!("x{index}");
            if node.op.input(index).is_some_and(|def| def.compile_time) {
                graph.add_constant(name, input.tensor.clone())
            } else {
                graph.add_input(name, input.tensor.ty().clone())
            }
        }));
    }
    let mut outputs = Vec::new();
    for (index, ty) in node.outputs.iter().enumerate() {
        let output = graph.add_value(format!("y{index}"), ty.clone());
        graph.outputs.push(output);
        outputs.push(Some(output));
    }
    graph.nodes.push(Node {
        name: "node".into(),
        op: node.op,
        attributes: node.attributes.clone(),
        inputs,
        outputs,
    });
    Some((graph, rank))
}

/// `f32, f16 of 1 to 5 dimensions; f64 of 2 dimensions`: types with the same refused ranks together.
fn groups(types: &[&(DataType, Ranks)]) -> String {
    let covered = types.iter().flat_map(|(_, ranks)| ranks.covered.keys());
    let all: BTreeSet<usize> = covered.copied().collect();
    let mut groups: Vec<(BTreeSet<usize>, Vec<&str>)> = Vec::new();
    for (dtype, ranks) in types {
        let is_refused = |rank: &usize| {
            let refused = ranks
                .refused
                .get(rank)
                .is_some_and(|&count| count >= REFUSED);
            refused && !ranks.covered.contains_key(rank)
        };
        let own: BTreeSet<usize> = all
            .iter()
            .copied()
            .filter(|rank| !is_refused(rank))
            .collect();
        match groups.iter_mut().find(|(known, _)| *known == own) {
            Some((_, names)) => names.push(dtype.name()),
            None => groups.push((own, vec![dtype.name()])),
        }
    }
    let one = |(ranks, names): &(BTreeSet<usize>, Vec<&str>)| {
        format!("{} of {} dimensions", names.join(", "), span(ranks))
    };
    groups.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// `1 to 3`, or `2, 4`.
fn span(ranks: &BTreeSet<usize>) -> String {
    match (ranks.first(), ranks.last()) {
        (Some(first), Some(last)) if first < last && last - first + 1 == ranks.len() => {
            format!("{first} to {last}")
        }
        _ => {
            let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
            ranks.join(", ")
        }
    }
}
