//! Extraction of nodes as a subgraph for the backend they are placed on, and replacement by the
//! optimised result.

use crate::OptimisationViews;
use std::collections::{BTreeMap, BTreeSet};
use tenon_base::Result;
use tenon_graph::{Graph, Node, NodeId, UniqueNames, ValueId};

/// A subgraph: a separate graph, and the ids of its nodes and values in the whole graph.
///
/// Its inputs are the values defined outside, its outputs those used outside; it contains its
/// constants.
#[derive(Debug, Clone)]
pub struct Subgraph {
    /// The subgraph.
    pub graph: Graph,
    /// For each node, its id in the whole graph.
    pub nodes: Vec<NodeId>,
    /// For each value, its id in the whole graph.
    pub values: Vec<ValueId>,
}

impl Subgraph {
    /// Extracts `nodes` of `whole`, given in topological order.
    pub fn of(whole: &Graph, nodes: &[NodeId]) -> Self {
        let leaving = leaving(whole, std::slice::from_ref(&nodes));
        Self::taken(whole, nodes, &leaving)
    }

    /// Extracts several disjoint groups of nodes, in time linear in the graph.
    pub fn all(whole: &Graph, groups: &[Vec<NodeId>]) -> Vec<Self> {
        let leaving = leaving(whole, groups);
        groups
            .iter()
            .map(|nodes| Self::taken(whole, nodes, &leaving))
            .collect()
    }

    fn taken(whole: &Graph, nodes: &[NodeId], leaving: &[bool]) -> Self {
        let mut part = Self {
            graph: Graph::new(&*whole.name),
            nodes: nodes.to_vec(),
            values: Vec::new(),
        };
        let mut known = BTreeMap::new();
        for &id in nodes {
            let node = whole.node(id);
            let inputs = node.inputs.iter();
            let inputs = inputs
                .map(|input| input.map(|input| part.input(whole, input, &mut known)))
                .collect();
            let outputs = node.outputs.iter();
            let outputs = outputs
                .map(|output| output.map(|output| part.value(whole, output, &mut known)))
                .collect();
            let made = node.outputs.iter().flatten();
            let made = made.filter(|output| leaving[output.index()]);
            part.graph.outputs.extend(made.map(|output| known[output]));
            part.graph.nodes.push(Node {
                inputs,
                outputs,
                ..node.clone()
            });
        }
        part
    }

    /// Applies `views` to the whole graph: replaces substituted nodes, and deletes nodes by
    /// forwarding their first input. Returns the names of the new nodes, which are placed on the
    /// same backend; nodes of failed parts remain and are placed again.
    ///
    /// # Errors
    /// The problems of [`OptimisationViews::check`]; then nothing is changed. Ids of nodes change.
    pub fn apply(&self, views: &OptimisationViews, whole: &mut Graph) -> Result<Vec<String>> {
        views.check(&self.graph)?;
        let mut names = UniqueNames::of(whole);
        let mut gone = BTreeSet::new();
        let mut came = Vec::new();
        for substitution in &views.substitutions {
            gone.extend(
                substitution
                    .nodes
                    .iter()
                    .map(|node| self.nodes[node.index()]),
            );
            let part = &substitution.replacement;
            let ends = [
                (&part.inputs, &substitution.inputs),
                (&part.outputs, &substitution.outputs),
            ];
            let mut known: BTreeMap<ValueId, ValueId> = BTreeMap::new();
            for (theirs, ours) in ends {
                let ours = ours.iter().map(|value| self.values[value.index()]);
                known.extend(theirs.iter().copied().zip(ours));
            }
            for node in &part.nodes {
                came.push(splice(whole, part, node, &mut known, &mut names));
            }
        }
        for &id in &views.deleted {
            let id = self.nodes[id.index()];
            gone.insert(id);
            let node = whole.node(id);
            let (from, to) = (node.inputs.first(), node.outputs.first());
            if let (Some(&Some(from)), Some(&Some(to))) = (from, to) {
                whole.replace_uses(to, from);
            }
        }
        let mut index = 0;
        whole.nodes.retain(|_| {
            index += 1;
            !gone.contains(&NodeId(index - 1))
        });
        whole.sort()?;
        Ok(came)
    }

    fn input(
        &mut self,
        whole: &Graph,
        id: ValueId,
        known: &mut BTreeMap<ValueId, ValueId>,
    ) -> ValueId {
        let new = !known.contains_key(&id);
        let own = self.value(whole, id, known);
        if new && whole.value(id).constant.is_none() {
            self.graph.inputs.push(own);
        }
        own
    }

    fn value(
        &mut self,
        whole: &Graph,
        id: ValueId,
        known: &mut BTreeMap<ValueId, ValueId>,
    ) -> ValueId {
        *known.entry(id).or_insert_with(|| {
            self.graph.values.push(whole.value(id).clone());
            self.values.push(id);
            ValueId(self.values.len() as u32 - 1)
        })
    }
}

/// For each value, whether it is used outside of the group that defines it.
fn leaving(whole: &Graph, groups: &[impl AsRef<[NodeId]>]) -> Vec<bool> {
    let mut group_of: Vec<Option<usize>> = vec![None; whole.nodes.len()];
    for (index, group) in groups.iter().enumerate() {
        for node in group.as_ref() {
            group_of[node.index()] = Some(index);
        }
    }
    let producers = whole.producers();
    let mut leaving = vec![false; whole.values.len()];
    for (index, node) in whole.nodes.iter().enumerate() {
        for input in node.inputs.iter().flatten() {
            let maker = producers[input.index()].and_then(|maker| group_of[maker.index()]);
            leaving[input.index()] |= maker.is_some() && maker != group_of[index];
        }
    }
    for output in &whole.outputs {
        leaving[output.index()] = true;
    }
    leaving
}

/// Adds a node of a replacement, and the values that occur in it first.
fn splice(
    whole: &mut Graph,
    part: &Graph,
    node: &Node,
    known: &mut BTreeMap<ValueId, ValueId>,
    names: &mut UniqueNames,
) -> String {
    let mut value = |id: ValueId| {
        *known.entry(id).or_insert_with(|| {
            let mut value = part.value(id).clone();
            value.name = names.value(&value.name);
            whole.values.push(value);
            ValueId(whole.values.len() as u32 - 1)
        })
    };
    let inputs = node.inputs.iter().map(|id| id.map(&mut value)).collect();
    let outputs = node.outputs.iter().map(|id| id.map(&mut value)).collect();
    let stem = if node.name.is_empty() {
        node.op.name
    } else {
        &node.name
    };
    let name = names.node(stem);
    whole.nodes.push(Node {
        name: name.clone(),
        inputs,
        outputs,
        ..node.clone()
    });
    name
}

#[cfg(test)]
mod tests;
