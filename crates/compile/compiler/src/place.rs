//! Placement: which backend each node runs on, and why not on others.
//!
//! Each node is offered to the backend of a matching hint, then to the backends in order of
//! preference; where a backend lacks only the data type, the node runs in a wider one between casts.
//! A subgraph that would receive its values from the memory of another backend and return them there
//! stays there if it computes little. Backends then optimise their subgraphs; nodes that they reject are
//! offered to the other backends.

mod convert;
mod crossings;
mod groups;
mod optimise;
mod report;
mod selector;
mod transfers;

pub use crossings::Crossing;
pub(crate) use groups::groups;
pub(crate) use selector::{Assignment, BackendSelector};

use crate::{memory, traffic};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tenon_backend::{BackendId, Refusal};
use tenon_base::{Control, Error, ErrorKind, Pattern, Result};
use tenon_graph::operator::OperatorClass;
use tenon_graph::{Cost, DataType, Graph, NodeId};
use tenon_neff::MemoryTraffic;

/// The executor of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A workload of a backend.
    Backend(BackendId),
    /// DMA descriptors.
    Dma,
    /// None: the same bytes with another shape.
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

/// A preference for some nodes: those whose names match are offered to this backend first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The pattern of node names.
    pub pattern: Pattern,
    /// The preferred backend.
    pub backend: BackendId,
}

/// The reason why a backend received a support query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryReason {
    /// It is in the list of backends.
    Preference,
    /// A hint of this pattern names it.
    Hint(Pattern),
    /// It optimised a subgraph.
    Optimisation,
    /// It was selected, but the values around the node's subgraph are in other memory.
    Transfer,
}

impl fmt::Display for QueryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryReason::Preference => f.write_str("preference"),
            QueryReason::Hint(pattern) => write!(f, "hint {pattern}"),
            QueryReason::Optimisation => f.write_str("optimisation"),
            QueryReason::Transfer => f.write_str("transfer"),
        }
    }
}

/// A refusal of a node by a backend (or by `dma`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRefusal {
    /// The backend.
    pub backend: BackendId,
    /// Its reason.
    pub refusal: Refusal,
    /// Why it was queried.
    pub query: QueryReason,
}

/// The placement of one node.
#[derive(Debug, Clone)]
pub struct NodePlacement {
    /// The node's name.
    pub node: String,
    /// Its operator.
    pub operator: &'static str,
    /// Its executor.
    pub target: Target,
    /// The hint that chose the backend.
    pub hint: Option<Pattern>,
    /// The node's data type and the wider one in which it runs, between casts.
    pub converted: Option<(DataType, DataType)>,
    /// The type of its weights, if it is narrower than that of its other operands.
    pub weights: Option<DataType>,
    /// Its subgraph, numbered over all backends; `None` for data movement and views outside of a
    /// subgraph.
    pub subgraph: Option<u32>,
    /// The cost of an execution; `None` for views, and where sizes are symbolic.
    pub cost: Option<Cost>,
    /// The refusals of the candidates before its executor.
    pub refusals: Vec<NodeRefusal>,
    /// The nodes that its backend replaced with this one, or the node with weights of f32.
    pub replaced: Option<Arc<Graph>>,
}

/// The placement report of a graph.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Backends in order of preference.
    pub backends: Vec<BackendId>,
    /// The named backends that cannot run on this machine, each with the reason.
    pub unavailable: Vec<(BackendId, String)>,
    /// One entry a node, in the graph's order.
    pub nodes: Vec<NodePlacement>,
    /// Values that one backend produces and another consumes, one entry for each consumer, in the
    /// order of their first use.
    pub crossings: Vec<Crossing>,
    /// Optimisations that were left out because they hold for the example sizes alone, with the reasons.
    pub notes: Vec<String>,
    /// What an execution reads and writes.
    pub traffic: MemoryTraffic,
}

impl Placement {
    /// The executor of a node.
    pub fn target(&self, node: NodeId) -> Option<&Target> {
        self.nodes
            .get(node.index())
            .map(|placement| &placement.target)
    }

    /// The number of nodes with an executor.
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
    /// One line, as for [`tenon_neff::PlacementReport`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report().fmt(f)
    }
}

/// Places every node. Inserts casts around nodes in a wider type, and the substitutions of backends.
/// Nodes that no backend supports are reported together.
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
    transfers::keep_in_memory(graph, &mut placed, selector);
    let notes = optimise::optimise(graph, &mut placed, selector, control)?;
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
        notes,
        traffic: MemoryTraffic::default(),
    };
    traffic::measure(graph, &mut placement);
    number_subgraphs(graph, &mut placement);
    crossings::find(graph, &mut placement, selector);
    Ok(placement)
}

/// Enumerates the subgraphs of backends in topological order.
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

/// The owner of each node: the number of a backend, or 0 for data movement. The owner of a view is
/// that of its source's producer, or else that of its first consumer.
pub(crate) fn owners(graph: &Graph, targets: &[&Target]) -> Vec<u32> {
    let mut indices: BTreeMap<&str, u32> = BTreeMap::new();
    let mut owners: Vec<Option<u32>> = Vec::with_capacity(targets.len());
    let producers = graph.producers();
    for (node, target) in graph.nodes.iter().zip(targets) {
        owners.push(match target {
            Target::Dma => Some(0),
            Target::Backend(id) => {
                let next = indices.len() as u32 + 1;
                Some(*indices.entry(id.as_str()).or_insert(next))
            }
            Target::View => {
                let source = node.inputs.first().copied().flatten();
                let producer = source.and_then(|id| producers[id.index()]);
                producer.and_then(|producer| owners[producer.index()])
            }
        });
    }
    // In reverse order: the owner of a view's consumer is known before the view's.
    let mut first_consumer: Vec<Option<usize>> = vec![None; graph.values.len()];
    for (index, node) in graph.nodes.iter().enumerate().rev() {
        let consumer = node
            .outputs
            .iter()
            .flatten()
            .find_map(|id| first_consumer[id.index()]);
        let consumer = consumer.and_then(|consumer| owners[consumer]);
        owners[index] = owners[index].or(consumer);
        for input in node.inputs.iter().flatten() {
            first_consumer[input.index()] = Some(index);
        }
    }
    owners.into_iter().map(|owner| owner.unwrap_or(0)).collect()
}

/// Whether a node is a view, which no backend executes.
fn is_view(class: OperatorClass) -> bool {
    class == OperatorClass::View
}
