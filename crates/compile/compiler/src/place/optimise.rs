//! Optimisation of subgraphs by their backends.

use super::selector::Operands;
use super::{BackendSelector, NodePlacement, NodeRefusal, QueryReason, Target, groups, owners};
use crate::symbolic::{OtherSizes, complete_node};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use tenon_backend::{Backend, BackendId, NodeRanges, OptimisationViews, Subgraph};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_graph::{Graph, NodeId};

/// Placements by the names of their nodes.
type Placed = BTreeMap<String, NodePlacement>;

/// Has each backend optimise its subgraphs, in order of preference, and applies the result: nodes are
/// substituted or deleted, and rejected parts are offered to the other backends.
///
/// In a graph with symbols, substitutions and deletions that hold for the example sizes alone are left out. Returns
/// these, with the reasons.
pub(super) fn optimise(
    graph: &mut Graph,
    placed: &mut Placed,
    selector: &BackendSelector<'_>,
    control: &Control,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
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
        for (mut part, names, views) in results {
            find_nodes(graph, &mut part, &names)?;
            let (views, left_out) = holding(graph, backend, &part, views)?;
            notes.extend(left_out);
            apply(graph, placed, backend, &part, &views)?;
            place_rejected(graph, placed, selector, &id, &names, &views)?;
        }
    }
    Ok(notes)
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

/// Finds the nodes of a subgraph by their names, because earlier substitutions move them.
fn find_nodes(graph: &Graph, part: &mut Subgraph, names: &[String]) -> Result<()> {
    let ids: HashMap<&str, NodeId> = graph
        .ids()
        .map(|id| (graph.node(id).name.as_str(), id))
        .collect();
    for (node, name) in part.nodes.iter_mut().zip(names) {
        *node = *ids.get(name.as_str()).ok_or_else(|| {
            Error::new(ErrorKind::Internal, format!("node '{name}' does not exist"))
        })?;
    }
    Ok(())
}

/// The views without the substitutions and deletions that hold for the example sizes alone, and a note for each of
/// these.
fn holding(
    graph: &Graph,
    backend: &Arc<dyn Backend>,
    part: &Subgraph,
    views: OptimisationViews,
) -> Result<(OptimisationViews, Vec<String>)> {
    let is_changed = !views.substitutions.is_empty() || !views.deleted.is_empty();
    let sizes = match is_changed {
        true => OtherSizes::accepted_by(graph),
        false => OtherSizes::none(),
    };
    if sizes.is_empty() {
        return Ok((views, Vec::new()));
    }
    // Without deletions, after which nodes would have other operands.
    let substituted = OptimisationViews {
        untouched: [&views.untouched[..], &views.deleted].concat(),
        deleted: Vec::new(),
        ..views.clone()
    };
    let mut applied = graph.clone();
    let added = part.apply(&substituted, &mut applied);
    let mut added = added
        .map_err(|error| wrong(backend, part, &error))?
        .into_iter();
    applied.infer_types()?;
    let mut notes = Vec::new();
    let mut note = |nodes: &[NodeId], error: Error| {
        let names = nodes
            .iter()
            .map(|id| format!("'{}'", part.graph.node(*id).name));
        notes.push(format!(
            "an optimisation of {} by {} holds for the example sizes alone: {error}",
            names.collect::<Vec<_>>().join(", "),
            backend.id()
        ));
    };
    let OptimisationViews {
        substitutions,
        failed,
        untouched,
        deleted,
    } = views;
    let mut kept = OptimisationViews {
        failed,
        untouched,
        ..OptimisationViews::default()
    };
    for substitution in substitutions {
        let count = substitution.replacement.nodes.len();
        let new: HashSet<String> = added.by_ref().take(count).collect();
        match check_nodes(&mut applied, &new, &sizes) {
            Ok(()) => kept.substitutions.push(substitution),
            Err(error) => {
                note(&substitution.nodes, error);
                kept.untouched.extend(substitution.nodes);
            }
        }
    }
    for id in deleted {
        let node = graph.node(part.nodes[id.index()]);
        let checked = match (node.inputs.first(), node.outputs.first()) {
            (Some(&Some(from)), Some(&Some(to))) => sizes.check_equal(graph, to, from),
            _ => Ok(()),
        };
        match checked {
            Ok(()) => kept.deleted.push(id),
            Err(error) => {
                note(&[id], error);
                kept.untouched.push(id);
            }
        }
    }
    Ok((kept, notes))
}

/// Infers the extents of these nodes, and checks them for other sizes.
fn check_nodes(graph: &mut Graph, names: &HashSet<String>, sizes: &OtherSizes) -> Result<()> {
    for index in 0..graph.nodes.len() {
        if names.contains(&graph.nodes[index].name) {
            complete_node(graph, index)?;
            sizes.check_node(graph, &graph.nodes[index])?;
        }
    }
    Ok(())
}

/// Applies substitutions and deletions.
fn apply(
    graph: &mut Graph,
    placed: &mut Placed,
    backend: &Arc<dyn Backend>,
    part: &Subgraph,
    views: &OptimisationViews,
) -> Result<()> {
    let added = part
        .apply(views, graph)
        .map_err(|error| wrong(backend, part, &error))?;
    graph.infer_types()?;
    let mut replaced = replaced(part, views, &added);
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
            weights: None,
            subgraph: None,
            cost: None,
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
