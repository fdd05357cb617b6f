//! Optimisation of subgraphs by their backends.

use super::selector::Operands;
use super::{BackendSelector, NodePlacement, NodeRefusal, QueryReason, Target, groups, owners};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use tenon_backend::{Backend, BackendId, NodeRanges, OptimisationViews, Subgraph};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_graph::{Graph, NodeId};

/// Placements by the names of their nodes.
type Placed = BTreeMap<String, NodePlacement>;

/// Has each backend optimise its subgraphs, in order of preference, and applies the result: nodes are
/// substituted or deleted, and rejected parts are offered to the other backends.
pub(super) fn optimise(
    graph: &mut Graph,
    placed: &mut Placed,
    selector: &BackendSelector<'_>,
    control: &Control,
) -> Result<()> {
    for backend in selector.all() {
        control.progress("optimise", 0, 1)?;
        let id = backend.id();
        let mut parts = subgraphs(graph, placed, &id);
        // A backend without ranges would take the example sizes for those of all executions.
        if !backend.takes_dynamic_shapes() {
            parts.retain(|part| part.nodes.iter().all(|&id| has_fixed_sizes(graph, id)));
        }
        let mut results = Vec::new();
        for part in parts.drain(..) {
            let views = backend
                .optimise(&part.graph)
                .and_then(|views| views.check(&part.graph).map(|()| views))
                .map_err(|error| wrong(backend, &part, &error))?;
            let unchanged = views.substitutions.is_empty() && views.deleted.is_empty();
            if !unchanged || !views.failed.is_empty() {
                let names = part.nodes.iter().map(|&node| graph.node(node).name.clone());
                let names: Vec<String> = names.collect();
                results.push((part, names, views));
            }
        }
        for (part, names, views) in results {
            apply(graph, placed, backend, part, &names, &views)?;
            place_rejected(graph, placed, selector, &id, &names, &views)?;
        }
    }
    Ok(())
}

/// Whether the operands of a node have one size in all executions.
fn has_fixed_sizes(graph: &Graph, id: NodeId) -> bool {
    NodeRanges::of(graph, graph.node(id)).is_none()
}

/// The subgraphs of a backend.
fn subgraphs(graph: &Graph, placed: &Placed, id: &BackendId) -> Vec<Subgraph> {
    let targets: Vec<&Target> = graph
        .nodes
        .iter()
        .map(|node| placed.get(&node.name).map_or(&Target::Dma, |p| &p.target))
        .collect();
    let is_on_backend = |node: &NodeId| *targets[node.index()] == Target::Backend(id.clone());
    let mut found = groups(graph, &owners(graph, &targets));
    found.retain(|group| group.iter().any(is_on_backend));
    Subgraph::all(graph, &found)
}

/// Applies substitutions and deletions. The nodes of the subgraph are found by their names, because
/// earlier substitutions move them.
fn apply(
    graph: &mut Graph,
    placed: &mut Placed,
    backend: &Arc<dyn Backend>,
    mut part: Subgraph,
    names: &[String],
    views: &OptimisationViews,
) -> Result<()> {
    let ids: HashMap<&str, NodeId> = graph
        .ids()
        .map(|id| (graph.node(id).name.as_str(), id))
        .collect();
    for (node, name) in part.nodes.iter_mut().zip(names) {
        *node = *ids.get(name.as_str()).ok_or_else(|| {
            Error::new(ErrorKind::Internal, format!("node '{name}' does not exist"))
        })?;
    }
    let added = part
        .apply(views, graph)
        .map_err(|error| wrong(backend, &part, &error))?;
    graph.infer_types()?;
    let mut replaced = replaced(&part, views, &added);
    let new: HashSet<String> = added.into_iter().collect();
    for node in graph.nodes.iter().filter(|node| new.contains(&node.name)) {
        let target = if super::is_view(node.op.class) {
            Target::View
        } else {
            let answer = Operands::of(graph, node).query(&**backend, node);
            answer.map_err(|refusal| {
                let text = format!(
                    "backend {} does not support its own substitution, {}: {refusal}",
                    backend.id(),
                    node.op.name
                );
                Error::new(ErrorKind::InvalidArgument, text).at(Location::node(node.name.as_str()))
            })?;
            Target::Backend(backend.id())
        };
        let placement = NodePlacement {
            node: node.name.clone(),
            operator: node.op.name,
            target,
            hint: None,
            converted: None,
            subgraph: None,
            refusals: Vec::new(),
            replaced: replaced.remove(&node.name),
        };
        placed.insert(node.name.clone(), placement);
    }
    Ok(())
}

/// For each substitution of a single node the nodes that it replaces.
fn replaced(
    part: &Subgraph,
    views: &OptimisationViews,
    added: &[String],
) -> HashMap<String, Arc<Graph>> {
    let (mut names, mut groups) = (Vec::new(), Vec::new());
    let mut added = added.iter();
    for substitution in &views.substitutions {
        let count = substitution.replacement.nodes.len();
        let nodes: Vec<&String> = added.by_ref().take(count).collect();
        if let [name] = nodes[..] {
            let mut nodes = substitution.nodes.clone();
            nodes.sort();
            names.push(name.clone());
            groups.push(nodes);
        }
    }
    let graphs = Subgraph::all(&part.graph, &groups);
    let graphs = graphs.into_iter().map(|original| Arc::new(original.graph));
    names.into_iter().zip(graphs).collect()
}

/// Offers the nodes of rejected parts to the other backends.
fn place_rejected(
    graph: &Graph,
    placed: &mut Placed,
    selector: &BackendSelector<'_>,
    id: &BackendId,
    names: &[String],
    views: &OptimisationViews,
) -> Result<()> {
    if views.failed.is_empty() {
        return Ok(());
    }
    let ids: HashMap<&str, NodeId> = graph
        .ids()
        .map(|id| (graph.node(id).name.as_str(), id))
        .collect();
    let mut problems = Vec::new();
    for part in &views.failed {
        for node in &part.nodes {
            let name = &names[node.index()];
            let (Some(&id_now), Some(before)) = (ids.get(name.as_str()), placed.get(name)) else {
                continue;
            };
            if before.target != Target::Backend(id.clone()) {
                continue;
            }
            let mut without: Vec<BackendId> = before
                .refusals
                .iter()
                .map(|refused| refused.backend.clone())
                .collect();
            without.push(id.clone());
            let mut refusals = before.refusals.clone();
            refusals.push(NodeRefusal {
                backend: id.clone(),
                refusal: part.refusal.clone(),
                query: QueryReason::Optimisation,
            });
            match selector.decide(graph, graph.node(id_now), &without, false) {
                Ok(decision) => {
                    let mut placement = decision.placement;
                    refusals.append(&mut placement.refusals);
                    placement.refusals = refusals;
                    placed.insert(name.clone(), placement);
                }
                Err(error) => problems.push(error),
            }
        }
    }
    Error::from_all(problems).map_or(Ok(()), Err)
}

/// The error about an invalid result of a backend.
fn wrong(backend: &Arc<dyn Backend>, part: &Subgraph, error: &Error) -> Error {
    let first = part.graph.nodes.first();
    let first = first.map_or("", |node| node.name.as_str());
    let text = format!(
        "backend {} returned an invalid optimisation of the subgraph of {} nodes that starts here: {error}",
        backend.id(),
        part.graph.nodes.len()
    );
    Error::new(ErrorKind::InvalidArgument, text).at(Location::node(first))
}
