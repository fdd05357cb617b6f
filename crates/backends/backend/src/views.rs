//! What a backend makes of a subgraph: four lists that must add up to it.

use crate::{Reason, Refusal};
use std::collections::{BTreeMap, BTreeSet};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::{Graph, Node, NodeId, ValueId, verify};

/// The answer to [`crate::Backend::optimise`]: every node of the subgraph stands in exactly one
/// list (facts, armnn.md 1.3). Ids are those of the subgraph.
#[derive(Debug, Clone, Default)]
pub struct OptimisationViews {
    /// Parts with what takes their place.
    pub substitutions: Vec<Substitution>,
    /// Parts that the backend does not take after all; they alone are placed again.
    pub failed: Vec<FailedPart>,
    /// Nodes that stay as they are.
    pub untouched: Vec<NodeId>,
    /// Nodes that go: who uses their output uses their first input instead.
    pub deleted: Vec<NodeId>,
}

/// A part of a subgraph and what takes its place.
#[derive(Debug, Clone)]
pub struct Substitution {
    /// The nodes that go.
    pub nodes: Vec<NodeId>,
    /// The values that the replacement's inputs are, in their order.
    pub inputs: Vec<ValueId>,
    /// The values that the replacement's outputs are, in their order.
    pub outputs: Vec<ValueId>,
    /// What comes.
    pub replacement: Graph,
}

/// A part of a subgraph that a backend rejects.
#[derive(Debug, Clone)]
pub struct FailedPart {
    /// Its nodes.
    pub nodes: Vec<NodeId>,
    /// Why.
    pub refusal: Refusal,
}

impl FailedPart {
    /// A part rejected in a sentence.
    pub fn new(nodes: Vec<NodeId>, text: impl Into<String>) -> Self {
        let refusal = Reason::Other { text: text.into() }.into();
        Self { nodes, refusal }
    }
}

impl OptimisationViews {
    /// Everything stays as it is.
    pub fn untouched(subgraph: &Graph) -> Self {
        Self {
            untouched: subgraph.ids().collect(),
            ..Self::default()
        }
    }

    /// Checks that the lists add up to `subgraph`: every node once; substitutions whose inputs and
    /// outputs fit in number, type and place, whose replacement is a graph that verifies, and which
    /// make no cycle; deleted nodes whose output is of their input's type. All problems together.
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
            // What changes nothing keeps the order that there is.
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
    /// How often nodes use each value, and the subgraph's outputs name it.
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

    /// Whether the lists name every node of the subgraph once, and nothing else.
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
                0 => "the node stands in none of the lists",
                1 => continue,
                _ => "the node stands in the lists more than once",
            };
            let label = self.subgraph.node(id).label(id);
            self.problems.push(invalid(what).at(Location::node(label)));
        }
        self.problems.is_empty()
    }

    fn substitution(&mut self, part: &Substitution) {
        let nodes: BTreeSet<NodeId> = part.nodes.iter().copied().collect();
        if nodes.is_empty() {
            self.report("it takes the place of no node");
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
                    self.report(format!("{what} {index} is {id}, no value of the subgraph"));
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

    /// Every value that its nodes make and others use must be an output.
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
            self.report(format!("others use value '{name}', which is not an output"));
        }
    }

    fn deleted(&mut self, id: NodeId) {
        let node = self.subgraph.node(id);
        let ty = |ids: &[Option<ValueId>]| {
            let first = ids.first().copied().flatten()?;
            self.subgraph.value(first).ty.clone()
        };
        let wanted = node.outputs.iter().flatten().count();
        let same = ty(&node.inputs).is_some_and(|input| Some(input) == ty(&node.outputs));
        if wanted != 1 || !same {
            let error = invalid("a deleted node must hand its first input on unchanged in type");
            self.problems.push(error.at(Location::node(node.label(id))));
        }
    }

    /// Whether the subgraph with each substituted part drawn together still has an order.
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

/// One node with the inputs and outputs of all of them, but those between them.
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
