//! The result of optimising a subgraph: four lists that partition its nodes.

use crate::{Reason, Refusal};
use std::collections::{BTreeMap, BTreeSet};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::{Graph, Node, NodeId, ValueId, verify};

/// The result of [`crate::Optimiser::optimise`]: every node of the subgraph is in exactly one list
/// (backends 7.3). Ids are those of the subgraph.
#[derive(Debug, Clone, Default)]
pub struct OptimisationViews {
    /// Replaced parts with their replacements.
    pub substitutions: Vec<Substitution>,
    /// Parts that the backend refuses after all; only these are placed again.
    pub failed: Vec<FailedPart>,
    /// Unchanged nodes.
    pub untouched: Vec<NodeId>,
    /// Deleted nodes: uses of their output are replaced by their first input.
    pub deleted: Vec<NodeId>,
}

/// A replaced part of a subgraph, and its replacement.
#[derive(Debug, Clone)]
pub struct Substitution {
    /// The replaced nodes.
    pub nodes: Vec<NodeId>,
    /// The values of the replacement's inputs, in order.
    pub inputs: Vec<ValueId>,
    /// The values of the replacement's outputs, in order.
    pub outputs: Vec<ValueId>,
    /// The replacement.
    pub replacement: Graph,
}

/// A part of a subgraph that a backend rejects.
#[derive(Debug, Clone)]
pub struct FailedPart {
    /// Its nodes.
    pub nodes: Vec<NodeId>,
    /// The reason.
    pub refusal: Refusal,
}

impl FailedPart {
    /// A part refused with a sentence.
    pub fn new(nodes: Vec<NodeId>, text: impl Into<String>) -> Self {
        let refusal = Reason::Other { text: text.into() }.into();
        Self { nodes, refusal }
    }
}

impl OptimisationViews {
    /// All nodes unchanged.
    pub fn untouched(subgraph: &Graph) -> Self {
        Self {
            untouched: subgraph.ids().collect(),
            ..Self::default()
        }
    }

    /// Checks the lists against `subgraph`: every node occurs once; the inputs and outputs of
    /// substitutions match their replacements in number and type; replacements verify and introduce
    /// no cycle; the output of a deleted node has the type of its input. All problems are reported
    /// together.
    pub fn check(&self, subgraph: &Graph) -> Result<()> {
        let mut checker = Checker {
            subgraph,
            producers: subgraph.producers(),
            uses: uses(subgraph),
            problems: Vec::new(),
        };
        if checker.every_node_once(self) {
            for (index, substitution) in self.substitutions.iter().enumerate() {
                let place = Location::field(format!("substitution {index}"));
                let before = checker.problems.len();
                checker.substitution(substitution);
                let new = checker.problems.split_off(before);
                let placed = new.into_iter().map(|error| error.at(place.clone()));
                checker.problems.extend(placed);
            }
            for &id in &self.deleted {
                checker.deleted(id);
            }
            // Without substitutions, the existing order remains valid.
            if checker.problems.is_empty() && !self.substitutions.is_empty() {
                checker.acyclic(self);
            }
        }
        Error::from_all(checker.problems).map_or(Ok(()), Err)
    }
}

struct Checker<'a> {
    subgraph: &'a Graph,
    producers: Vec<Option<NodeId>>,
    /// Number of uses of each value by nodes and as output of the subgraph.
    uses: Vec<u32>,
    problems: Vec<Error>,
}

fn uses(subgraph: &Graph) -> Vec<u32> {
    let mut uses = vec![0; subgraph.values.len()];
    let inputs = subgraph.nodes.iter().flat_map(|node| &node.inputs);
    for id in inputs.flatten().chain(&subgraph.outputs) {
        if let Some(count) = uses.get_mut(id.index()) {
            *count += 1;
        }
    }
    uses
}

impl Checker<'_> {
    fn report(&mut self, message: impl Into<String>) {
        self.problems.push(invalid(message));
    }

    /// Every node of the subgraph must occur in the lists exactly once.
    fn every_node_once(&mut self, views: &OptimisationViews) -> bool {
        let mut seen = vec![0u32; self.subgraph.nodes.len()];
        let parts = views.substitutions.iter().map(|part| &part.nodes);
        let parts = parts.chain(views.failed.iter().map(|part| &part.nodes));
        let all = parts.chain([&views.untouched, &views.deleted]).flatten();
        for &id in all {
            match seen.get_mut(id.index()) {
                Some(count) => *count += 1,
                None => self.report(format!("{id} is not a node of the subgraph")),
            }
        }
        for id in self.subgraph.ids() {
            let what = match seen[id.index()] {
                0 => "the node is in none of the lists",
                1 => continue,
                _ => "the node is in the lists more than once",
            };
            let label = self.subgraph.node(id).label(id);
            self.problems.push(invalid(what).at(Location::node(label)));
        }
        self.problems.is_empty()
    }

    fn substitution(&mut self, part: &Substitution) {
        let nodes: BTreeSet<NodeId> = part.nodes.iter().copied().collect();
        if nodes.is_empty() {
            self.report("it replaces no node");
        }
        let mut replacement = part.replacement.clone();
        let ends = [
            ("input", &part.inputs, &part.replacement.inputs),
            ("output", &part.outputs, &part.replacement.outputs),
        ];
        for (what, ours, theirs) in ends {
            if ours.len() != theirs.len() {
                let error = invalid(format!("it and its replacement differ in {what}s"));
                self.problems
                    .push(error.expected(ours.len()).found(theirs.len()));
            }
            for (index, &id) in ours.iter().enumerate() {
                if id.index() >= self.subgraph.values.len() {
                    self.report(format!(
                        "{what} {index} is {id}, which is not a value of the subgraph"
                    ));
                    continue;
                }
                let made_here = self.producers[id.index()].is_some_and(|by| nodes.contains(&by));
                if made_here != (what == "output") {
                    let by = if made_here { "" } else { " not" };
                    self.report(format!("{what} {index} is{by} made by its nodes"));
                }
                self.type_of_end(
                    what,
                    index,
                    id,
                    theirs.get(index).copied(),
                    &part.replacement,
                );
            }
        }
        self.outputs_left_out(part, &nodes);
        let verified = replacement
            .infer_types()
            .and_then(|()| verify(&replacement));
        if let Err(error) = verified {
            self.problems.push(error);
        }
    }

    fn type_of_end(
        &mut self,
        what: &str,
        index: usize,
        ours: ValueId,
        theirs: Option<ValueId>,
        replacement: &Graph,
    ) {
        let expected = self.subgraph.value(ours).ty.as_ref();
        let theirs = theirs.and_then(|id| replacement.values.get(id.index()));
        let found = theirs.and_then(|value| value.ty.as_ref());
        if let (Some(expected), Some(found)) = (expected, found)
            && expected != found
        {
            let error = invalid(format!("{what} {index} changes its type"));
            self.problems.push(error.expected(expected).found(found));
        }
    }

    /// Every value that is defined inside and used outside must be an output.
    fn outputs_left_out(&mut self, part: &Substitution, nodes: &BTreeSet<NodeId>) {
        let mut used_inside: BTreeMap<ValueId, u32> = BTreeMap::new();
        for &id in nodes {
            for input in self.subgraph.node(id).inputs.iter().flatten() {
                *used_inside.entry(*input).or_default() += 1;
            }
        }
        let used_outside = |id: &ValueId| {
            let inside = used_inside.get(id).copied().unwrap_or(0);
            self.uses[id.index()] > inside
        };
        let made = nodes
            .iter()
            .flat_map(|&id| self.subgraph.node(id).outputs.iter().flatten());
        let missing: Vec<ValueId> = made
            .filter(|id| used_outside(id) && !part.outputs.contains(id))
            .copied()
            .collect();
        for id in missing {
            let name = &self.subgraph.value(id).name;
            self.report(format!(
                "value '{name}' is used outside, but is not an output"
            ));
        }
    }

    fn deleted(&mut self, id: NodeId) {
        let node = self.subgraph.node(id);
        let ty = |ids: &[Option<ValueId>]| {
            let first = ids.first().copied().flatten()?;
            self.subgraph.value(first).ty.clone()
        };
        let outputs = node.outputs.iter().flatten().count();
        let same = ty(&node.inputs).is_some_and(|input| Some(input) == ty(&node.outputs));
        if outputs != 1 || !same {
            let error =
                invalid("the output of a deleted node must have the type of its first input");
            self.problems.push(error.at(Location::node(node.label(id))));
        }
    }

    /// Whether the subgraph with each substituted part contracted to one node is acyclic.
    fn acyclic(&mut self, views: &OptimisationViews) {
        let mut group: Vec<usize> = (0..self.subgraph.nodes.len()).collect();
        for part in &views.substitutions {
            let Some(first) = part.nodes.first() else {
                continue;
            };
            for node in &part.nodes {
                group[node.index()] = first.index();
            }
        }
        let mut members: BTreeMap<usize, Vec<&Node>> = BTreeMap::new();
        for (node, &group) in self.subgraph.nodes.iter().zip(&group) {
            members.entry(group).or_default().push(node);
        }
        let mut drawn = Graph {
            values: self.subgraph.values.clone(),
            nodes: members
                .values()
                .map(|nodes| drawn_together(nodes))
                .collect(),
            ..Graph::default()
        };
        if let Err(error) = drawn.sort() {
            self.problems.push(error);
        }
    }
}

/// One node with the external inputs and outputs of a part.
fn drawn_together(nodes: &[&Node]) -> Node {
    let outputs = nodes.iter().flat_map(|node| node.outputs.iter().flatten());
    let inner: BTreeSet<ValueId> = outputs.copied().collect();
    let inputs = nodes.iter().flat_map(|node| node.inputs.iter().flatten());
    Node {
        inputs: inputs
            .filter(|id| !inner.contains(id))
            .map(|&id| Some(id))
            .collect(),
        outputs: inner.iter().map(|&id| Some(id)).collect(),
        ..nodes[0].clone()
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

#[cfg(test)]
mod tests;
