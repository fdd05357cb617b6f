//! Changes of a graph: topological order, replacement, removal, unique names.

use crate::{Graph, Node, NodeId, ValueId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use tenon_base::{Error, ErrorKind, Location, Result};

impl Graph {
    /// The ids of all nodes, in order.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(|index| NodeId(index as u32))
    }

    /// Adds a node at the end.
    pub fn add_node(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Inserts a node before node `at`, or at the end if there is none. Ids from `at` on increase by one.
    pub fn insert_node(&mut self, at: NodeId, node: Node) -> NodeId {
        let at = at.index().min(self.nodes.len());
        self.nodes.insert(at, node);
        NodeId(at as u32)
    }

    /// Sorts the nodes topologically by Kahn's algorithm (1962), stable: independent nodes keep their
    /// order. A cycle is an error that names its nodes; the graph is unchanged then.
    pub fn sort(&mut self) -> Result<()> {
        let producers = self.producers();
        let mut waiting = vec![0usize; self.nodes.len()];
        let mut users = vec![Vec::new(); self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for input in node.inputs.iter().flatten() {
                if let Some(maker) = producers.get(input.index()).copied().flatten() {
                    users[maker.index()].push(index);
                    waiting[index] += 1;
                }
            }
        }
        // The first ready node next, so that the result is unique and stable.
        let mut ready: BinaryHeap<Reverse<usize>> = (0..waiting.len())
            .filter(|&index| waiting[index] == 0)
            .map(Reverse)
            .collect();
        let mut order = Vec::with_capacity(waiting.len());
        while let Some(Reverse(index)) = ready.pop() {
            order.push(index);
            for &user in &users[index] {
                waiting[user] -= 1;
                if waiting[user] == 0 {
                    ready.push(Reverse(user));
                }
            }
        }
        if order.len() < waiting.len() {
            return Err(self.cycle(&waiting));
        }
        let mut nodes: Vec<Option<Node>> = self.nodes.drain(..).map(Some).collect();
        self.nodes = order
            .into_iter()
            .filter_map(|index| nodes[index].take())
            .collect();
        Ok(())
    }

    /// The error about the remaining nodes: those of cycles and their dependents.
    fn cycle(&self, waiting: &[usize]) -> Error {
        let stuck = self.ids().filter(|id| waiting[id.index()] > 0);
        let mut labels = stuck.map(|id| self.node(id).label(id));
        let first = labels.next().unwrap_or_default();
        let shown: Vec<String> = labels.by_ref().take(5).collect();
        let more = if labels.next().is_some() { ", ..." } else { "" };
        Error::new(
            ErrorKind::InvalidModel,
            "the graph has a cycle: the node needs its own result",
        )
        .found(format_args!("also waiting: {}{more}", shown.join(", ")))
        .at(Location::node(first))
    }

    /// Replaces all uses of `value` by `by`, in nodes and as an output of the graph. An output keeps its
    /// name: `value` and `by` exchange names. If `by` cannot be that output (it is an input, a
    /// constant or an output), `value` remains it. Returns whether `value` has no use left.
    pub fn replace_uses(&mut self, value: ValueId, by: ValueId) -> bool {
        if value == by {
            return false;
        }
        let inputs = self
            .nodes
            .iter_mut()
            .flat_map(|node| node.inputs.iter_mut().flatten());
        inputs
            .filter(|input| **input == value)
            .for_each(|input| *input = by);
        if !self.outputs.contains(&value) {
            return true;
        }
        let fixed = self.inputs.contains(&by)
            || self.value(by).known().is_some()
            || self.outputs.contains(&by);
        if fixed {
            return false;
        }
        let outputs = self.outputs.iter_mut();
        outputs
            .filter(|output| **output == value)
            .for_each(|output| *output = by);
        let name = std::mem::take(&mut self.value_mut(value).name);
        let other = std::mem::replace(&mut self.value_mut(by).name, name);
        self.value_mut(value).name = other;
        true
    }

    /// Removes dead nodes and values, and unused optional outputs of live nodes; inputs remain. Nodes may
    /// be in any order. All ids change. Returns the number of removed nodes.
    pub fn remove_dead(&mut self) -> usize {
        let producers = self.producers();
        let mut used = vec![false; self.values.len()];
        let mut alive = vec![false; self.nodes.len()];
        let mut open: Vec<ValueId> = self.outputs.clone();
        while let Some(value) = open.pop() {
            let Some(seen) = used.get_mut(value.index()) else {
                continue;
            };
            if std::mem::replace(seen, true) {
                continue;
            }
            let Some(maker) = producers[value.index()] else {
                continue;
            };
            if !std::mem::replace(&mut alive[maker.index()], true) {
                open.extend(self.nodes[maker.index()].inputs.iter().flatten());
            }
        }
        let before = self.nodes.len();
        let mut flags = alive.into_iter();
        self.nodes.retain(|_| flags.next().unwrap_or(true));
        for node in &mut self.nodes {
            drop_unused_outputs(node, &used);
        }
        self.compact();
        before - self.nodes.len()
    }

    /// Removes unreferenced values. Ids of values change.
    fn compact(&mut self) {
        let mut kept = vec![false; self.values.len()];
        let bodies = || self.bodies.iter();
        let nodes = self
            .nodes
            .iter()
            .chain(bodies().flat_map(|body| &body.nodes));
        let operands = nodes.flat_map(|node| node.inputs.iter().chain(&node.outputs));
        let ports = bodies().flat_map(|body| body.inputs.iter().chain(&body.outputs));
        let sizes = self.data_sizes.iter().map(|size| &size.value);
        let all = operands.flatten().chain(&self.inputs).chain(&self.outputs);
        let all = all.chain(ports).chain(sizes);
        for value in all {
            if let Some(flag) = kept.get_mut(value.index()) {
                *flag = true;
            }
        }
        let mut next = 0;
        let moved: Vec<ValueId> = kept
            .iter()
            .map(|&kept| {
                let id = ValueId(next);
                next += u32::from(kept);
                id
            })
            .collect();
        let mut flags = kept.into_iter();
        self.values.retain(|_| flags.next().unwrap_or(true));
        let renumber = |value: &mut ValueId| {
            if let Some(new) = moved.get(value.index()) {
                *value = *new;
            }
        };
        let renumber_nodes = |nodes: &mut Vec<Node>| {
            let operands = nodes
                .iter_mut()
                .flat_map(|node| node.inputs.iter_mut().chain(&mut node.outputs));
            operands.flatten().for_each(renumber);
        };
        renumber_nodes(&mut self.nodes);
        for body in &mut self.bodies {
            renumber_nodes(&mut body.nodes);
            let ports = body.inputs.iter_mut().chain(&mut body.outputs);
            ports.for_each(renumber);
        }
        let sizes = self.data_sizes.iter_mut().map(|size| &mut size.value);
        let ports = self.inputs.iter_mut().chain(&mut self.outputs);
        ports.chain(sizes).for_each(renumber);
    }
}

/// Removes unused optional outputs; required ones keep their value.
fn drop_unused_outputs(node: &mut Node, used: &[bool]) {
    for (index, output) in node.outputs.iter_mut().enumerate() {
        let optional = node
            .op
            .output(index)
            .is_some_and(|row| row.arity == crate::operator::Arity::Optional);
        let unused = output.is_some_and(|id| !used.get(id.index()).copied().unwrap_or(true));
        if optional && unused {
            *output = None;
        }
    }
    while node.outputs.last() == Some(&None) {
        node.outputs.pop();
    }
}

/// The names of a graph, for the creation of new unique ones.
pub struct UniqueNames {
    values: HashSet<String>,
    nodes: HashSet<String>,
}

impl UniqueNames {
    /// The current names of `graph`.
    pub fn of(graph: &Graph) -> Self {
        Self {
            values: graph
                .values
                .iter()
                .map(|value| value.name.clone())
                .collect(),
            nodes: graph.nodes.iter().map(|node| node.name.clone()).collect(),
        }
    }

    /// A new name for a value: `stem`, or `stem.1`, `stem.2` and so on.
    pub fn value(&mut self, stem: &str) -> String {
        fresh(&mut self.values, stem)
    }

    /// A new name for a node: `stem`, or `stem.1`, `stem.2` and so on.
    pub fn node(&mut self, stem: &str) -> String {
        fresh(&mut self.nodes, stem)
    }
}

fn fresh(taken: &mut HashSet<String>, stem: &str) -> String {
    let mut name = stem.to_owned();
    let mut number = 0u64;
    while !taken.insert(name.clone()) {
        number += 1;
        name = format!("{stem}.{number}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::operator;
    use crate::{Attributes, DataType, TensorType, verify};

    /// x -> relu -> a -> neg -> b, and x -> neg -> c, which has no use.
    fn graph() -> (Graph, [ValueId; 4]) {
        let mut graph = Graph::new("g");
        let x = graph.add_input("x", TensorType::new(DataType::F32, [2]).unwrap());
        let [a, b, c] = ["a", "b", "c"].map(|name| graph.add_value(name, None));
        for (name, op, input, output) in
            [("1", "Relu", x, a), ("2", "Neg", a, b), ("3", "Neg", x, c)]
        {
            graph.add_node(Node {
                name: name.into(),
                op: operator(op).unwrap(),
                attributes: Attributes::new(),
                inputs: vec![Some(input)],
                outputs: vec![Some(output)],
            });
        }
        graph.outputs.push(b);
        graph.infer_types().unwrap();
        (graph, [x, a, b, c])
    }

    fn order(graph: &Graph) -> String {
        graph.nodes.iter().map(|node| &*node.name).collect()
    }

    #[test]
    fn sorting_is_stable() {
        let (mut graph, _) = graph();
        graph.nodes.swap(0, 1);
        assert!(verify(&graph).is_err());
        graph.sort().unwrap();
        assert_eq!(order(&graph), "123");
        verify(&graph).unwrap();
    }

    #[test]
    fn a_cycle_is_named() {
        let (mut graph, [_, _, b, _]) = graph();
        graph.nodes[0].inputs[0] = Some(b);
        let text = graph.sort().unwrap_err().to_string();
        assert_eq!(
            text,
            "node '1': the graph has a cycle: the node needs its own result: found also waiting: 2"
        );
        assert_eq!(order(&graph), "123");
    }

    #[test]
    fn an_output_that_is_replaced_keeps_its_name() {
        let (mut graph, [x, a, b, _]) = graph();
        assert!(graph.replace_uses(b, a));
        assert_eq!(graph.value(graph.outputs[0]).name, "b");
        assert_eq!(graph.value(b).name, "a");
        assert!(
            !graph.replace_uses(a, x),
            "an input cannot become an output"
        );
        assert_eq!(graph.outputs, [a]);
        graph.remove_dead();
        verify(&graph).unwrap();
        assert_eq!(order(&graph), "1");
    }

    #[test]
    fn dead_nodes_and_values_are_removed() {
        let (mut graph, _) = graph();
        assert_eq!(graph.remove_dead(), 1);
        assert_eq!((order(&graph), graph.values.len()), ("12".into(), 3));
        verify(&graph).unwrap();
        assert_eq!(graph.remove_dead(), 0);
    }

    #[test]
    fn new_names_are_unique() {
        let (graph, _) = graph();
        let mut names = UniqueNames::of(&graph);
        assert_eq!(names.value("a"), "a.1");
        assert_eq!(names.value("a"), "a.2");
        assert_eq!(names.node("a"), "a");
    }
}
