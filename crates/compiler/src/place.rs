//! Placement: which backend each node runs on, and why not on others.

use crate::movement;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tenon_backend::{Backend, BackendId, NodeView, Reason, Refusal, Registry};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::operator::OperatorClass;
use tenon_graph::{Graph, Node, NodeId, ValueId};
use tenon_tensor::{Tensor, TensorType};

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

/// Where one node runs.
#[derive(Debug, Clone)]
pub struct NodePlacement {
    /// The node's name.
    pub node: String,
    /// Its operator.
    pub operator: &'static str,
    /// Who executes it.
    pub target: Target,
    /// Who was asked before and why they did not take it: a backend's name, or `dma`.
    pub refusals: Vec<(BackendId, Refusal)>,
}

/// The placement report of a graph.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Backends in order of preference.
    pub backends: Vec<BackendId>,
    /// One entry a node, in the graph's order.
    pub nodes: Vec<NodePlacement>,
    /// Number of values that one target makes and another uses.
    pub crossings: u64,
    /// Their size in bytes.
    pub crossing_bytes: u64,
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
}

impl fmt::Display for Placement {
    /// One line, such as `10 of 12 ops on CpuAcc, 2 on CpuRef; 3 moves by dma`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moves = self.count(&Target::Dma);
        let total = self.nodes.len() - moves - self.count(&Target::View);
        let mut separator = "";
        for (index, id) in self.backends.iter().enumerate() {
            let count = self.count(&Target::Backend(id.clone()));
            if index == 0 {
                write!(f, "{count} of {total} ops on {id}")?;
                separator = ", ";
            } else if count > 0 {
                write!(f, "{separator}{count} on {id}")?;
            }
        }
        match moves {
            0 => Ok(()),
            1 => write!(f, "; 1 move by dma"),
            _ => write!(f, "; {moves} moves by dma"),
        }
    }
}

/// The backends of `ids`, in that order; all unknown names are reported together.
pub(crate) fn preferred<'r>(
    registry: &'r Registry,
    ids: &[BackendId],
) -> Result<Vec<&'r Arc<dyn Backend>>> {
    let mut problems = Vec::new();
    let mut backends = Vec::new();
    let mut seen = BTreeSet::new();
    for id in ids.iter().filter(|id| seen.insert(*id)) {
        match registry.find(id) {
            Some(backend) => backends.push(backend),
            None => problems.push(
                Error::new(ErrorKind::NotFound, "no backend has this name")
                    .expected(registry.names())
                    .found(id),
            ),
        }
    }
    if ids.is_empty() {
        problems.push(Error::new(
            ErrorKind::InvalidArgument,
            "no backend to place the model on",
        ));
    }
    Error::from_all(problems).map_or(Ok(backends), Err)
}

/// Asks the backends in order of preference for each node. `copied` are view nodes whose result
/// needs memory of its own. Nodes that nobody takes are reported together.
pub(crate) fn place(
    graph: &Graph,
    backends: &[&Arc<dyn Backend>],
    copied: &BTreeSet<NodeId>,
) -> Result<Placement> {
    let mut problems = Vec::new();
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for (index, node) in graph.nodes.iter().enumerate() {
        let copy = copied.contains(&NodeId(index as u32));
        match place_node(graph, node, backends, copy) {
            Ok(placement) => nodes.push(placement),
            Err(error) => problems.push(error),
        }
    }
    if let Some(error) = Error::from_all(problems) {
        return Err(error);
    }
    let backends = backends.iter().map(|backend| backend.id()).collect();
    let mut placement = Placement {
        backends,
        nodes,
        crossings: 0,
        crossing_bytes: 0,
    };
    count_crossings(graph, &mut placement);
    Ok(placement)
}

fn place_node(
    graph: &Graph,
    node: &Node,
    backends: &[&Arc<dyn Backend>],
    copy: bool,
) -> Result<NodePlacement> {
    let mut refusals = Vec::new();
    let target = match node.op.class {
        OperatorClass::View if !copy => Some(Target::View),
        OperatorClass::View => Some(Target::Dma),
        OperatorClass::Compute => ask(graph, node, backends, &mut refusals),
        OperatorClass::Movement => {
            // The first choice may claim a movement for its subgraph; then DMA, then the others.
            let (first, others) = backends.split_at(backends.len().min(1));
            let first = first
                .iter()
                .filter(|backend| backend.id().as_str() != "CpuRef");
            let first: Vec<_> = first.copied().collect();
            ask(graph, node, &first, &mut refusals).or_else(|| {
                match movement::descriptors(graph, node, &|_| Some(0)) {
                    Ok(_) => Some(Target::Dma),
                    Err(text) => {
                        let reason = Reason::Other { text };
                        refusals.push((BackendId::new("dma"), reason.into()));
                        let rest = if first.is_empty() { backends } else { others };
                        ask(graph, node, rest, &mut refusals)
                    }
                }
            })
        }
    };
    let Some(target) = target else {
        let reasons: Vec<String> = refusals
            .iter()
            .map(|(id, refusal)| format!("{id}: {refusal}"))
            .collect();
        let text = format!("no backend takes {}: {}", node.op.name, reasons.join("; "));
        return Err(Error::new(ErrorKind::Unsupported, text).at(Location::node(node.name.as_str())));
    };
    Ok(NodePlacement {
        node: node.name.clone(),
        operator: node.op.name,
        target,
        refusals,
    })
}

/// The first backend that takes the node.
fn ask(
    graph: &Graph,
    node: &Node,
    backends: &[&Arc<dyn Backend>],
    refusals: &mut Vec<(BackendId, Refusal)>,
) -> Option<Target> {
    let types = |ids: &[Option<ValueId>]| -> Vec<Option<TensorType>> {
        ids.iter()
            .map(|id| id.and_then(|id| graph.value(id).ty.clone()))
            .collect()
    };
    let (inputs, outputs) = (types(&node.inputs), types(&node.outputs));
    let inputs: Vec<Option<&TensorType>> = inputs.iter().map(Option::as_ref).collect();
    let outputs: Vec<Option<&TensorType>> = outputs.iter().map(Option::as_ref).collect();
    let constants: Vec<Option<&Tensor>> = node
        .inputs
        .iter()
        .map(|id| id.and_then(|id| graph.value(id).constant.as_ref()))
        .collect();
    let view = NodeView {
        op: node.op,
        attributes: &node.attributes,
        inputs: &inputs,
        constants: &constants,
        outputs: &outputs,
    };
    for backend in backends {
        match backend.supports(&view) {
            Ok(()) => return Some(Target::Backend(backend.id())),
            Err(refusal) => refusals.push((backend.id(), refusal)),
        }
    }
    None
}

/// Counts values that one target makes and another uses, once a user; views pass on whose value
/// they show.
fn count_crossings(graph: &Graph, placement: &mut Placement) {
    let mut maker: Vec<Option<&Target>> = vec![None; graph.values.len()];
    let mut crossed: BTreeSet<(ValueId, String)> = BTreeSet::new();
    for (node, placed) in graph.nodes.iter().zip(&placement.nodes) {
        let target = match placed.target {
            Target::View => node
                .inputs
                .first()
                .copied()
                .flatten()
                .and_then(|id| maker[id.index()]),
            _ => {
                let users = node.inputs.iter().flatten();
                crossed.extend(
                    users
                        .filter(|id| maker[id.index()].is_some_and(|made| *made != placed.target))
                        .map(|id| (*id, placed.target.to_string())),
                );
                Some(&placed.target)
            }
        };
        for output in node.outputs.iter().flatten() {
            maker[output.index()] = target;
        }
    }
    placement.crossings = crossed.len() as u64;
    let bytes = |id: ValueId| graph.value(id).ty.as_ref().map_or(0, TensorType::bytes) as u64;
    placement.crossing_bytes = crossed.iter().map(|(id, _)| bytes(*id)).sum();
}
