//! Rewriting a graph node by node: rules look backwards from a node and replace it.
//!
//! Nodes are visited in topological order; a rule may inspect the nodes already visited. It returns
//! a replacement node with the same outputs, or existing values that replace the outputs. Dead nodes
//! are removed at once. The order stays topological, because a new node takes the old one's position.

mod emit;
mod inspect;

pub(crate) use emit::reshape_attributes;

use crate::place::{Assignment, BackendSelector};
use crate::symbolic::OtherSizes;
use crate::traffic::Containment;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_graph::operator::OperatorClass;
use tenon_graph::{
    Attribute, Attributes, Graph, Node, OperatorDef, UniqueNames, ValueId, operator,
};

/// The result of a rule.
pub(crate) enum Outcome {
    /// The rule does not match: the next one is tried.
    Keep,
    /// Another node with the same outputs; all rules are tried on it again.
    Replace(Node),
    /// Values that replace the outputs in all later nodes.
    Forward(Vec<Option<ValueId>>),
}

/// A rewrite rule, see the module.
pub(crate) type Rule = fn(&mut Rewriter<'_>, &Node) -> Result<Outcome>;

/// A condition on the backend that would execute a rule's result.
#[derive(Clone, Copy)]
pub(crate) enum Guard {
    /// Any backend.
    None,
    /// A backend at least as preferred as those of the replaced nodes; otherwise the result is undone.
    Backend,
    /// As `Backend`, and the backend prefers channels-last images.
    Layout,
    /// As `Backend`, all nodes have the same hint, and the backend is not a reference implementation, which
    /// executes the operators of a fused node one after the other.
    Fast,
}

/// Rules of one guard.
pub(crate) type RuleSet = (&'static [Rule], Guard);

/// The backend of a node, queried at most once in a pass: a node's operands do not change in it.
type CachedAssignment = OnceCell<Option<Assignment>>;

/// A graph during one pass of rules over it.
pub(crate) struct Rewriter<'g> {
    graph: &'g mut Graph,
    /// The sizes for which results of rules are checked.
    sizes: &'g OtherSizes,
    /// The results that were undone because they hold for the example sizes alone.
    undone: BTreeSet<String>,
    /// Nodes visited or emitted so far; `None` for dead ones.
    nodes: Vec<Option<Node>>,
    /// The assignments of `nodes`.
    assignments: Vec<CachedAssignment>,
    /// For each value the position in `nodes` of its producer.
    producer: Vec<Option<usize>>,
    /// For each value the number of uses by live nodes, nodes not yet visited and graph outputs.
    uses: Vec<u32>,
    /// For each value its replacement.
    forward: Vec<Option<ValueId>>,
    names: UniqueNames,
    /// Values whose elements are in others, by the nodes visited and emitted.
    contained: Containment,
    changed: bool,
}

/// The state to return to when a rule's result is undone.
struct Checkpoint {
    nodes: usize,
    values: usize,
    contained: usize,
    changed: bool,
}

/// The limit for rules that replace each other's results without end, which would be a defect.
const MAX_REPLACEMENTS: usize = 100;

/// The result of one pass.
pub(crate) struct Rewritten {
    /// Whether anything changed.
    pub changed: bool,
    /// The results of rules that were undone because they hold for the example sizes alone, with the reasons.
    pub undone: BTreeSet<String>,
    /// Values whose elements are in others.
    pub contained: Containment,
}

/// Applies rules to every node of `graph` once. The guards query `selector`; a result that does not hold for `sizes` is
/// undone.
pub(crate) fn rewrite(
    graph: &mut Graph,
    sets: &[RuleSet],
    selector: &BackendSelector<'_>,
    (sizes, control): (&OtherSizes, &Control),
) -> Result<Rewritten> {
    let names = UniqueNames::of(graph);
    let unvisited = std::mem::take(&mut graph.nodes);
    let mut rewriter = Rewriter::new(graph, &unvisited, names, sizes);
    for node in unvisited {
        // Composing long chains of operators takes seconds.
        control.check()?;
        rewriter.visit(node, sets, selector)?;
    }
    Ok(rewriter.finish())
}

impl<'g> Rewriter<'g> {
    fn new(
        graph: &'g mut Graph,
        unvisited: &[Node],
        names: UniqueNames,
        sizes: &'g OtherSizes,
    ) -> Self {
        let mut uses = vec![0u32; graph.values.len()];
        for value in unvisited
            .iter()
            .flat_map(|node| node.inputs.iter().flatten())
        {
            uses[value.index()] += 1;
        }
        for value in &graph.outputs {
            uses[value.index()] += 1;
        }
        Self {
            nodes: Vec::with_capacity(unvisited.len()),
            assignments: Vec::with_capacity(unvisited.len()),
            producer: vec![None; graph.values.len()],
            forward: vec![None; graph.values.len()],
            uses,
            names,
            graph,
            sizes,
            undone: BTreeSet::new(),
            contained: Containment::default(),
            changed: false,
        }
    }

    fn visit(
        &mut self,
        mut node: Node,
        sets: &[RuleSet],
        selector: &BackendSelector<'_>,
    ) -> Result<()> {
        for index in 0..node.inputs.len() {
            if let Some(value) = node.inputs[index] {
                node.inputs[index] = Some(self.resolve(value));
            }
        }
        let rules = || {
            let all = sets.iter();
            all.flat_map(|(rules, guard)| rules.iter().map(move |rule| (rule, *guard)))
        };
        let mut assignment = CachedAssignment::new();
        let mut replacements = 0;
        'again: loop {
            for (rule, guard) in rules() {
                let before = self.checkpoint();
                let outcome =
                    rule(self, &node).map_err(|e| e.at(Location::node(node.name.as_str())))?;
                let current = (&node, &assignment);
                let replacement = CachedAssignment::new();
                let result = (&outcome, &replacement);
                if !self.is_allowed(guard, current, result, &before, selector) {
                    self.undo(before);
                    continue;
                }
                if let Err(error) = self.check_sizes(&node, &outcome, &before) {
                    self.undone.insert(format!(
                        "a rewrite of node '{}' ({}) holds for the example sizes alone: {error}",
                        node.name, node.op.name
                    ));
                    self.undo(before);
                    continue;
                }
                match outcome {
                    Outcome::Keep => {}
                    Outcome::Replace(new) => {
                        self.changed = true;
                        self.contained.add(&new);
                        self.exchange_uses(&new, &node);
                        (node, assignment) = (new, replacement);
                        replacements += 1;
                        if replacements > MAX_REPLACEMENTS {
                            return Err(Error::new(
                                ErrorKind::Internal,
                                format!("rules replace node '{}' without end", node.name),
                            ));
                        }
                        continue 'again;
                    }
                    Outcome::Forward(values) => {
                        self.changed = true;
                        self.forward_outputs(&node, &values);
                        return Ok(());
                    }
                }
            }
            break;
        }
        self.push(node, assignment);
        Ok(())
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            nodes: self.nodes.len(),
            values: self.graph.values.len(),
            contained: self.contained.len(),
            changed: self.changed,
        }
    }

    /// Removes the nodes and values that a rule emitted since `checkpoint`.
    fn undo(&mut self, checkpoint: Checkpoint) {
        for node in self.nodes.drain(checkpoint.nodes..).flatten() {
            for input in node.inputs.iter().flatten() {
                self.uses[input.index()] = self.uses[input.index()].saturating_sub(1);
            }
        }
        self.assignments.truncate(checkpoint.nodes);
        self.graph.values.truncate(checkpoint.values);
        self.contained.truncate(checkpoint.contained);
        self.grow();
        self.changed = checkpoint.changed;
    }

    /// Whether the guard of a rule allows its result: the backend of the main result (the node with
    /// the name of `node`, or else with its outputs) must be at least as preferred as the backends of
    /// `node` and of the nodes that it absorbs.
    fn is_allowed(
        &self,
        guard: Guard,
        (node, assignment): (&Node, &CachedAssignment),
        (outcome, replacement): (&Outcome, &CachedAssignment),
        before: &Checkpoint,
        selector: &BackendSelector<'_>,
    ) -> bool {
        let new = match outcome {
            Outcome::Keep => return true,
            Outcome::Replace(new) => Some(new),
            Outcome::Forward(_) => None,
        };
        if matches!(guard, Guard::None) {
            return true;
        }
        let emitted = before.nodes..self.nodes.len();
        let mut emitted = emitted.filter_map(|position| self.visited(position));
        let main = emitted.find(|(emitted, _)| emitted.name == node.name);
        let Some(main) = main.or(new.map(|new| (new, replacement))) else {
            return true;
        };
        let query = |(node, cache): (&Node, &CachedAssignment)| {
            *cache.get_or_init(|| selector.assignment(self.graph, node))
        };
        let main_assignment = query(main);
        let rank = Assignment::rank(main_assignment);
        let absorbed = node
            .inputs
            .iter()
            .flatten()
            .filter(|input| self.uses(**input) == 1 && !main.0.inputs.contains(&Some(**input)));
        let absorbed = absorbed.filter_map(|&input| self.visited(self.position(input)?));
        let absorbed = absorbed.filter(|(node, _)| node.op.class == OperatorClass::Compute);
        let mut replaced = std::iter::once((node, assignment)).chain(absorbed);
        let is_fast = |other: Option<Assignment>| {
            main_assignment
                .zip(other)
                .is_some_and(|(main, other)| !main.is_reference() && main.has_hint_of(other))
        };
        replaced.all(|node| {
            let other = query(node);
            rank <= Assignment::rank(other)
                && match guard {
                    Guard::Layout => main_assignment.is_some_and(Assignment::prefers_channels_last),
                    Guard::Fast => is_fast(other),
                    Guard::None | Guard::Backend => true,
                }
        })
    }

    /// Checks that the result of a rule has the shapes of the outputs of `node` for other sizes than the examples.
    fn check_sizes(&self, node: &Node, outcome: &Outcome, before: &Checkpoint) -> Result<()> {
        if self.sizes.is_empty() {
            return Ok(());
        }
        let emitted = self.nodes[before.nodes..].iter().flatten();
        match outcome {
            Outcome::Keep => Ok(()),
            Outcome::Replace(new) => {
                let mut nodes = emitted.chain([new]);
                nodes.try_for_each(|node| self.sizes.check_node(self.graph, node))
            }
            Outcome::Forward(values) => {
                let mut nodes = emitted;
                nodes.try_for_each(|node| self.sizes.check_node(self.graph, node))?;
                let mut pairs = node.outputs.iter().zip(values);
                pairs.try_for_each(|pair| match pair {
                    (Some(output), Some(value)) => {
                        self.sizes.check_equal(self.graph, *output, *value)
                    }
                    _ => Ok(()),
                })
            }
        }
    }

    /// The node at a position of `nodes`, unless it is dead.
    fn visited(&self, position: usize) -> Option<(&Node, &CachedAssignment)> {
        let node = self.nodes.get(position)?.as_ref()?;
        Some((node, self.assignments.get(position)?))
    }

    /// The position of the producer of a value.
    fn position(&self, value: ValueId) -> Option<usize> {
        self.producer.get(value.index()).copied().flatten()
    }

    fn resolve(&self, mut value: ValueId) -> ValueId {
        while let Some(next) = self.forward.get(value.index()).copied().flatten() {
            value = next;
        }
        value
    }

    fn exchange_uses(&mut self, new: &Node, old: &Node) {
        for value in new.inputs.iter().flatten() {
            self.uses[value.index()] += 1;
        }
        for &value in old.inputs.iter().flatten() {
            self.release(value);
        }
    }

    fn forward_outputs(&mut self, node: &Node, values: &[Option<ValueId>]) {
        for (output, value) in node.outputs.iter().zip(values) {
            if let (Some(output), Some(value)) = (output, value) {
                self.forward[output.index()] = Some(*value);
                self.contained.add_equal(*output, *value);
                self.uses[value.index()] += self.uses[output.index()];
                self.uses[output.index()] = 0;
            }
        }
        for &value in node.inputs.iter().flatten() {
            self.release(value);
        }
    }

    /// Removes one use, and recursively the nodes without uses.
    fn release(&mut self, value: ValueId) {
        let mut stack = vec![value];
        while let Some(value) = stack.pop() {
            let uses = &mut self.uses[value.index()];
            *uses = uses.saturating_sub(1);
            if *uses > 0 {
                continue;
            }
            let Some(position) = self.producer[value.index()] else {
                continue;
            };
            let unused = self.nodes[position].as_ref().is_some_and(|node| {
                node.outputs
                    .iter()
                    .flatten()
                    .all(|output| self.uses[output.index()] == 0)
            });
            if unused && let Some(node) = self.nodes[position].take() {
                stack.extend(node.inputs.iter().flatten());
            }
        }
    }

    fn push(&mut self, node: Node, assignment: CachedAssignment) {
        self.contained.add(&node);
        for output in node.outputs.iter().flatten() {
            self.producer[output.index()] = Some(self.nodes.len());
        }
        self.nodes.push(Some(node));
        self.assignments.push(assignment);
    }

    fn finish(mut self) -> Rewritten {
        for index in 0..self.graph.outputs.len() {
            self.graph.outputs[index] = self.resolve(self.graph.outputs[index]);
        }
        // In reverse order, so that whole dead chains are removed.
        for position in (0..self.nodes.len()).rev() {
            let unused = self.nodes[position].as_ref().is_some_and(|node| {
                node.outputs
                    .iter()
                    .flatten()
                    .all(|output| self.uses[output.index()] == 0)
            });
            if unused && let Some(node) = self.nodes[position].take() {
                self.changed = true;
                for input in node.inputs.iter().flatten() {
                    self.uses[input.index()] = self.uses[input.index()].saturating_sub(1);
                }
            }
        }
        self.graph.nodes = self.nodes.into_iter().flatten().collect();
        Rewritten {
            changed: self.changed,
            undone: self.undone,
            contained: self.contained,
        }
    }
}

/// The definition of an operator that the compiler emits.
pub(crate) fn operator_of(name: &str) -> Result<&'static OperatorDef> {
    operator::operator(name).ok_or_else(|| {
        Error::new(
            ErrorKind::Internal,
            format!("the operator table lacks {name}"),
        )
    })
}

/// Attributes of a Transpose.
pub(crate) fn perm_attributes(perm: &[usize]) -> Attributes {
    let perm = perm.iter().map(|&axis| axis as i64).collect();
    Attributes::new().with("perm", Attribute::Ints(perm))
}

#[cfg(test)]
mod tests;
