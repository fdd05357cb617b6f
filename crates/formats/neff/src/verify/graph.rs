//! The rules of `neff.json`, the kelfs and `info.json`.

use super::Check;
use crate::graph::NeffGraph;
use crate::{Architecture, INFO_JSON, KeyPath, NEFF_JSON, rule};
use std::collections::{HashMap, HashSet};

fn key(name: &str) -> KeyPath {
    KeyPath::default().key(name)
}

/// The rules of the graph.
pub(super) fn graph(check: &mut Check<'_>) {
    let structure = check.structure;
    if let Some(graph) = &structure.graph {
        if !graph.nodes.iter().any(|node| node.kelf().is_some()) {
            check.report(&rule::GRAPH_KELF, NEFF_JSON, key("nodes"), "");
        }
        nodes(check, graph);
        ends(check, graph);
        lists(check, graph);
        outputs(check, graph);
        signature(check, graph);
    }
    if let Some(info) = &structure.info {
        let header = check.package.header();
        let pairs = [
            ("num_tpb", info.num_tpb, header.num_tpb),
            (
                "num_tpb_requested",
                info.num_tpb_requested,
                header.requested_tpb_count,
            ),
        ];
        for (name, declared, expected) in pairs {
            if let Some(found) = declared.filter(|&declared| declared != expected) {
                let detail = format!("expected {expected}, found {found}");
                check.report(&rule::INFO_CORES, INFO_JSON, key(name), detail);
            }
        }
    }
}

fn nodes(check: &mut Check<'_>, graph: &NeffGraph) {
    for (index, node) in graph.nodes.iter().enumerate() {
        let place = key("nodes").index(index);
        if !matches!(&*node.op, "null" | "tvm_op") {
            let detail = format!("found '{}'", node.op);
            check.report(&rule::GRAPH_OP, NEFF_JSON, place.key("op"), detail);
        }
        for (position, &[from, output, _]) in node.inputs.iter().enumerate() {
            let before = (from as usize) < index;
            let named = graph
                .nodes
                .get(from as usize)
                .map_or(0, |from| from.output_names.len());
            if !before || output as usize >= named {
                let detail = format!("found output {output} of node {from}");
                let place = place.key("inputs").index(position);
                check.report(&rule::GRAPH_INPUTS, NEFF_JSON, place, detail);
            }
        }
        let counts = [
            ("num_inputs", node.inputs.len()),
            ("num_outputs", node.output_names.len()),
        ];
        for (name, count) in counts {
            let declared = node
                .attrs
                .as_ref()
                .and_then(|attrs| attrs.find(name)?.as_str());
            if let Some(declared) = declared.filter(|declared| declared.parse() != Ok(count)) {
                let detail = format!("expected {count}, found {declared}");
                let place = place.key("attrs").key(name);
                check.report(&rule::GRAPH_COUNTS, NEFF_JSON, place, detail);
            }
        }
    }
}

/// The rules of `arg_nodes` and `heads`.
fn ends(check: &mut Check<'_>, graph: &NeffGraph) {
    let is_input = |node: u32| {
        graph
            .nodes
            .get(node as usize)
            .is_some_and(|n| *n.op == *"null")
    };
    let mut seen = HashSet::new();
    for (position, &node) in graph.arg_nodes.iter().enumerate() {
        if !is_input(node) || !seen.insert(node) {
            let place = key("arg_nodes").index(position);
            check.report(
                &rule::GRAPH_ARG_NODES,
                NEFF_JSON,
                place,
                format!("found {node}"),
            );
        }
    }
    let count = graph
        .nodes
        .iter()
        .filter(|node| *node.op == *"null")
        .count();
    if seen.len() < count {
        let detail = format!("expected {count} of them, found {}", seen.len());
        check.report(&rule::GRAPH_ARG_NODES, NEFF_JSON, key("arg_nodes"), detail);
    }
    for (position, &[node, output, _]) in graph.heads.iter().enumerate() {
        let named = graph
            .nodes
            .get(node as usize)
            .map_or(0, |node| node.output_names.len());
        if output as usize >= named {
            let place = key("heads").index(position);
            let detail = format!("found output {output} of node {node}");
            check.report(&rule::GRAPH_HEADS, NEFF_JSON, place, detail);
        }
    }
}

/// The rules of the lists over all outputs.
fn lists(check: &mut Check<'_>, graph: &NeffGraph) {
    let mut sums = vec![0u64];
    for node in &graph.nodes {
        sums.push(sums[sums.len() - 1] + node.output_names.len() as u64);
    }
    let total = sums[sums.len() - 1];
    if !graph
        .node_row_ptr
        .iter()
        .map(|&start| u64::from(start))
        .eq(sums)
    {
        let detail = format!("expected {} entries up to {total}", graph.nodes.len() + 1);
        check.report(&rule::GRAPH_ROW_PTR, NEFF_JSON, key("node_row_ptr"), detail);
    }
    let attrs = &graph.attrs;
    let counts = [
        ("shape", attrs.shape.as_ref().map(|(_, list)| list.len())),
        (
            "storage_id",
            attrs.storage_id.as_ref().map(|(_, list)| list.len()),
        ),
        ("dltype", attrs.dltype.as_ref().map(|(_, list)| list.len())),
    ];
    for (name, count) in counts {
        if count.is_none_or(|count| count as u64 != total) {
            let found = count.map_or("none".to_owned(), |count| count.to_string());
            let detail = format!("expected {total} entries, found {found}");
            check.report(
                &rule::GRAPH_ATTRS,
                NEFF_JSON,
                key("attrs").key(name),
                detail,
            );
        }
    }
}

fn outputs(check: &mut Check<'_>, graph: &NeffGraph) {
    let cores = check.package.header().lnc_size.max(1);
    let mut seen: HashMap<String, (u32, crate::PortType)> = HashMap::new();
    for (position, &[node, output, _]) in graph.heads.iter().enumerate() {
        let Some(port) = graph.port(node as usize, output as usize) else {
            continue;
        };
        let (count, first) = seen.entry(port.name.clone()).or_insert((0, port.clone()));
        *count += 1;
        if *count > cores || *first != port {
            let place = key("heads").index(position);
            let detail = format!("'{}' for the {count}. time", port.name);
            check.report(&rule::GRAPH_OUTPUTS, NEFF_JSON, place, detail);
        }
    }
}

fn signature(check: &mut Check<'_>, graph: &NeffGraph) {
    let Some(signature) = graph.metadata.signatures.find("default") else {
        return;
    };
    let place = key("metadata")
        .key("signatures")
        .key("default")
        .key("inputs");
    let ports = graph.inputs();
    let declared: HashMap<&str, _> = signature.inputs.iter().collect();
    let names: HashSet<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    for port in &ports {
        let same = declared
            .get(port.name.as_str())
            .map(|declared| *declared.dtype == *port.dtype && declared.shape == port.shape);
        if same != Some(true) {
            let what = if same.is_none() {
                "is missing"
            } else {
                "has another type"
            };
            let detail = format!("'{}' {what}", port.name);
            check.report(
                &rule::GRAPH_SIGNATURE,
                NEFF_JSON,
                place.key(&port.name),
                detail,
            );
        }
    }
    for (name, _) in signature.inputs.iter() {
        if !names.contains(name) {
            let detail = format!("'{name}' is no input");
            check.report(&rule::GRAPH_SIGNATURE, NEFF_JSON, place.key(name), detail);
        }
    }
}

/// The rules of the kelfs.
pub(super) fn kelfs(check: &mut Check<'_>) {
    let header = check.package.header();
    let mut names = HashSet::new();
    let structure = check.structure;
    for named in &structure.kelfs {
        let (member, kelf) = (named.member.as_str(), &named.kelf);
        if kelf.graphs.is_empty() {
            check.report(&rule::KELF_GRAPHS, member, key("graphs"), "found none");
        }
        for (index, graph) in kelf.graphs.iter().enumerate() {
            if !names.insert(graph.name.clone()) {
                let place = key("graphs").index(index).key("name");
                check.report(
                    &rule::KELF_GRAPHS,
                    member,
                    place,
                    format!("found '{}'", graph.name),
                );
            }
        }
        let target = kelf.target.as_deref();
        if let Some(target) = target
            && target != "tenon"
            && target.parse::<Architecture>().is_err()
        {
            let detail = format!("found '{target}'");
            check.report(&rule::KELF_TARGET, member, key("target"), detail);
        }
        // A kelf of INF1 may have several subgraphs, which run serially.
        let is_inf1 = target.and_then(|target| target.parse().ok()) == Some(Architecture::Inf1);
        let cores = header.lnc_size as usize;
        if !is_inf1 && cores > 0 && !kelf.graphs.is_empty() && kelf.graphs.len() != cores {
            let detail = format!("expected {cores}, found {}", kelf.graphs.len());
            check.report(&rule::HEADER_LNC, member, key("graphs"), detail);
        }
    }
}
