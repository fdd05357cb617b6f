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

/// The same while none of them is valid.
const MOST_SEEDS: u64 = 4000;

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
    /// The same, of nodes that needed constants as their inputs after the first, and of the others.
    constants: bool,
    variables: bool,
}

/// The measured types of an operator, in the order of the type table.
pub(crate) struct MeasuredTypes(Vec<(DataType, Ranks)>);

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

    /// Measures an operator.
    pub(crate) fn measured(&self, op: &'static OperatorDef) -> MeasuredTypes {
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
            for seed in 0..MOST_SEEDS {
                if seed >= SEEDS && nodes > 0 {
                    break;
                }
                let choices = choice_bytes(seed << 16 | op.name.len() as u64);
                let node = RandomNode::of_type(op, dtype, &mut Choices::new(&choices));
                let measured = node.and_then(|node| self.place_node(&node, dtype));
                let Some((rank, place, constants)) = measured else {
                    continue;
                };
                let table = match place {
                    Placement::Reference => &mut ranks.refused,
                    Placement::Own | Placement::Moved => &mut ranks.covered,
                };
                *table.entry(rank).or_default() += 1;
                let own = place == Placement::Own;
                ranks.own |= own;
                ranks.constants |= own && constants;
                ranks.variables |= own && !constants;
                nodes += 1;
                if nodes == NODES {
                    break;
                }
            }
            if nodes > 0 {
                found.push((dtype, ranks));
            }
        }
        MeasuredTypes(found)
    }

    /// The rank of a node, where it runs, and whether its inputs after the first must be constants for that.
    fn place_node(&self, node: &RandomNode, dtype: DataType) -> Option<(usize, Placement, bool)> {
        let (graph, rank) = graph_of(node, dtype, false)?;
        let place = self.place(graph)?;
        if place != Placement::Reference {
            return Some((rank, place, false));
        }
        let (graph, _) = graph_of(node, dtype, true)?;
        match self.place(graph) {
            Some(Placement::Own) => Some((rank, Placement::Own, true)),
            _ => Some((rank, place, false)),
        }
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

impl MeasuredTypes {
    /// The lines of the operator's section.
    pub(crate) fn lines(&self) -> String {
        let mut text = String::new();
        for (name, own) in [("CpuAcc", true), ("descriptors", false)] {
            let list: Vec<_> = self.covered(own).collect();
            if !list.is_empty() {
                let _ = writeln!(text, "- {name}: {}", groups(&list));
            }
        }
        let refused = self.types(|ranks| ranks.covered.is_empty());
        let names: Vec<&str> = refused.iter().map(|dtype| dtype.name()).collect();
        if !names.is_empty() {
            let _ = writeln!(text, "- CpuRef: {}", names.join(", "));
        }
        text
    }

    /// The types of which CpuAcc computes nodes.
    pub(crate) fn fast(&self) -> Vec<DataType> {
        self.types(|ranks| ranks.own)
    }

    /// The types of which only CpuRef computes nodes.
    pub(crate) fn slow(&self) -> Vec<DataType> {
        self.types(|ranks| !ranks.own && !ranks.refused.is_empty())
    }

    /// The types whose nodes need no backend.
    pub(crate) fn moved(&self) -> Vec<DataType> {
        self.types(|ranks| !ranks.own && ranks.refused.is_empty())
    }

    /// The types of which CpuAcc computes some nodes, and CpuRef the others.
    pub(crate) fn mixed(&self) -> Vec<DataType> {
        self.types(|ranks| ranks.own && (ranks.constants || !ranks.refused.is_empty()))
    }

    fn types(&self, is_listed: impl Fn(&Ranks) -> bool) -> Vec<DataType> {
        let types = self.0.iter().filter(|(_, ranks)| is_listed(ranks));
        types.map(|(dtype, _)| *dtype).collect()
    }

    /// The types with nodes that did not need CpuRef. `own`: with nodes on CpuAcc, or all by descriptors.
    fn covered(&self, own: bool) -> impl Iterator<Item = &(DataType, Ranks)> {
        let types = self.0.iter();
        types.filter(move |(_, ranks)| ranks.own == own && !ranks.covered.is_empty())
    }
}

/// A graph of one node, with the rank of its first input, or of its output where it has none. Inputs that
/// may be variable are, or with `constants` only the first. `None` where the first input has another type.
fn graph_of(node: &RandomNode, dtype: DataType, constants: bool) -> Option<(Graph, usize)> {
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
            let def = node.op.input(index);
            if constants && index > 0 || def.is_some_and(|def| def.compile_time) {
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

/// Types that are covered for the same ranks.
struct TypeGroup<'a> {
    ranks: BTreeSet<usize>,
    /// Whether all inputs after the first must be constants.
    needs_constants: bool,
    names: Vec<&'a str>,
}

/// `f32, f16 of 1 to 5 dimensions; f64 of 2 dimensions`: types with the same refused ranks together.
fn groups(types: &[&(DataType, Ranks)]) -> String {
    let covered = types.iter().flat_map(|(_, ranks)| ranks.covered.keys());
    let all: BTreeSet<usize> = covered.copied().collect();
    let mut groups: Vec<TypeGroup<'_>> = Vec::new();
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
        let needs_constants = ranks.constants && !ranks.variables;
        let is_same = |group: &&mut TypeGroup<'_>| {
            group.ranks == own && group.needs_constants == needs_constants
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.names.push(dtype.name()),
            None => groups.push(TypeGroup {
                ranks: own,
                needs_constants,
                names: vec![dtype.name()],
            }),
        }
    }
    let one = |group: &TypeGroup<'_>| {
        let (names, ranks) = (group.names.join(", "), span(&group.ranks));
        let condition = if group.needs_constants {
            ", if the other inputs are constants"
        } else {
            ""
        };
        format!("{names} of {ranks} dimensions{condition}")
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
