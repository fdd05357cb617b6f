//! Placement: which backend each node runs on, and why not on others.
//!
//! Each node is offered to the backend that a hint names, then to the backends in order of
//! preference; where only the data type is missing, the node computes in a wider one between
//! casts. What a backend makes of its subgraphs comes last, and what it rejects then is offered to
//! the others again.

mod convert;
mod crossings;
mod groups;
mod optimise;
mod report;
mod selector;

pub use crossings::{Crossing, CrossingKind};
pub(crate) use groups::groups;
pub(crate) use selector::{Assignment, BackendSelector};

use crate::memory;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tenon_backend::{BackendId, Refusal};
use tenon_base::{Control, Error, ErrorKind, Pattern, Result};
use tenon_graph::operator::OperatorClass;
use tenon_graph::{DataType, Graph, NodeId};

/// Who executes a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A workload of a backend.
    Backend(BackendId),
    /// DMA descriptors.
    Dma,
    /// Nobody: the same bytes under another shape.
    View,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Backend(id) => id.fmt(f),
            Target::Dma => f.pad("dma"),
            Target::View => f.pad("view"),
        }
    }
}

/// A wish for nodes: those whose name is of the pattern are offered to this backend first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// Which nodes.
    pub pattern: Pattern,
    /// Who shall take them.
    pub backend: BackendId,
}

/// Why a backend was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryReason {
    /// It is among the preferred ones.
    Preference,
    /// A hint of this pattern names it.
    Hint(Pattern),
    /// It was to optimise a subgraph of its own.
    Optimisation,
}

impl fmt::Display for QueryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryReason::Preference => f.write_str("preference"),
            QueryReason::Hint(pattern) => write!(f, "hint {pattern}"),
            QueryReason::Optimisation => f.write_str("optimisation"),
        }
    }
}

/// A backend (or `dma`) that did not take a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRefusal {
    /// Who refused.
    pub backend: BackendId,
    /// Why.
    pub refusal: Refusal,
    /// Why it was asked.
    pub query: QueryReason,
}

/// Where one node runs.
#[derive(Debug, Clone)]
pub struct NodePlacement {
    /// The node's name.
    pub node: String,
    /// Its operator.
    pub operator: &'static str,
    /// Who executes it.
    pub target: Target,
    /// The hint that chose the backend.
    pub hint: Option<Pattern>,
    /// The type that the node computes in instead of its own, between casts.
    pub converted: Option<(DataType, DataType)>,
    /// The subgraph of its backend that it belongs to, counted over all backends; `None` for data
    /// movement and views outside of any.
    pub subgraph: Option<u32>,
    /// Who was asked before and why they did not take it.
    pub refusals: Vec<NodeRefusal>,
    /// The nodes that its backend took as this one.
    pub replaced: Option<Arc<Graph>>,
}

/// The placement report of a graph.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Backends in order of preference.
    pub backends: Vec<BackendId>,
    /// Backends that were named, but cannot compute here, each with the reason.
    pub unavailable: Vec<(BackendId, String)>,
    /// One entry a node, in the graph's order.
    pub nodes: Vec<NodePlacement>,
    /// Values that one backend makes and another uses, once a user, in the order of their first
    /// use.
    pub crossings: Vec<Crossing>,
}

impl Placement {
    /// Who executes a node.
    pub fn target(&self, node: NodeId) -> Option<&Target> {
        self.nodes
            .get(node.index())
            .map(|placement| &placement.target)
    }

    /// Number of nodes that a target executes.
    pub fn count(&self, target: &Target) -> usize {
        self.nodes
            .iter()
            .filter(|node| node.target == *target)
            .count()
    }

    /// Bytes that pass from one backend to another.
    pub fn crossing_bytes(&self) -> u64 {
        self.crossings.iter().map(|crossing| crossing.bytes).sum()
    }
}

impl fmt::Display for Placement {
    /// One line: what [`tenon_neff::PlacementReport`] says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report().fmt(f)
    }
}

/// Places every node. Casts are put into the graph where only a data type was missing, and what
/// backends make of their subgraphs. Nodes that nobody takes are reported together.
pub(crate) fn place(
    graph: &mut Graph,
    selector: &BackendSelector<'_>,
    control: &Control,
) -> Result<Placement> {
    let nodes = convert::place_nodes(graph, selector)?;
    let mut placed: BTreeMap<String, NodePlacement> = nodes
        .into_iter()
        .map(|placement| (placement.node.clone(), placement))
        .collect();
    selector.check_hints(graph)?;
    optimise::optimise(graph, &mut placed, selector, control)?;
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let found = placed.remove(&node.name);
        nodes.push(found.ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                format!("node '{}' is not placed", node.name),
            )
        })?);
    }
    for id in memory::copied_views(graph) {
        nodes[id.index()].target = Target::Dma;
    }
    let mut placement = Placement {
        backends: selector.preference(),
        unavailable: selector.unavailable().to_vec(),
        nodes,
        crossings: Vec::new(),
    };
    number_subgraphs(graph, &mut placement);
    crossings::find(graph, &mut placement, selector);
    Ok(placement)
}

/// Numbers the subgraphs of backends in their order.
fn number_subgraphs(graph: &Graph, placement: &mut Placement) {
    let targets: Vec<&Target> = placement.nodes.iter().map(|node| &node.target).collect();
    let owners = owners(graph, &targets);
    let mut number = 0;
    for group in groups(graph, &owners) {
        let mut nodes = group.iter().map(|id| &placement.nodes[id.index()].target);
        if !nodes.any(|target| matches!(target, Target::Backend(_))) {
            continue;
        }
        for id in group {
            placement.nodes[id.index()].subgraph = Some(number);
        }
        number += 1;
    }
}

/// A number for the owner of each node: a backend, or 0 for data movement. A view belongs to who
/// makes what it shows, and when nobody does, to who first uses it.
pub(crate) fn owners(graph: &Graph, targets: &[&Target]) -> Vec<u32> {
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    let mut owners: Vec<Option<u32>> = Vec::with_capacity(targets.len());
    let producers = graph.producers();
    for (node, target) in graph.nodes.iter().zip(targets) {
        owners.push(match target {
            Target::Dma => Some(0),
            Target::Backend(id) => {
                let next = numbers.len() as u32 + 1;
                Some(*numbers.entry(id.as_str()).or_insert(next))
            }
            Target::View => {
                let source = node.inputs.first().copied().flatten();
                let maker = source.and_then(|id| producers[id.index()]);
                maker.and_then(|maker| owners[maker.index()])
            }
        });
    }
    // Backwards, so that a view of a view asks one that has its answer.
    let mut first_user: Vec<Option<usize>> = vec![None; graph.values.len()];
    for (index, node) in graph.nodes.iter().enumerate().rev() {
        let user = node
            .outputs
            .iter()
            .flatten()
            .find_map(|id| first_user[id.index()]);
        let user = user.and_then(|user| owners[user]);
        owners[index] = owners[index].or(user);
        for input in node.inputs.iter().flatten() {
            first_user[input.index()] = Some(index);
        }
    }
    owners.into_iter().map(|owner| owner.unwrap_or(0)).collect()
}

/// Whether a node is offered to backends: views are nobody's.
fn is_view(class: OperatorClass) -> bool {
    class == OperatorClass::View
}
