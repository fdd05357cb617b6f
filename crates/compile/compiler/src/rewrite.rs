//! Rewriting a graph node by node: rules look backwards from a node and replace it.
//!
//! Nodes are visited in topological order; a rule may inspect the nodes already visited. It returns
//! a replacement node with the same outputs, or existing values that replace the outputs. Dead nodes
//! are removed at once. The order stays topological, because a new node takes the old one's position.

use crate::infer::infer_node;
use crate::place::{Assignment, BackendSelector};
use crate::specialise::set_sizes;
use std::cell::OnceCell;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::operator::OperatorClass;
use tenon_graph::{
    Attribute, Attributes, Graph, Node, OperatorDef, SizeElements, UniqueNames, ValueId,
    extents_of_example, operator,
};
use tenon_tensor::{DataType, Shape, Tensor, TensorType};

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
    changed: bool,
}

/// The state to return to when a rule's result is undone.
struct Checkpoint {
    nodes: usize,
    values: usize,
    changed: bool,
}

/// The limit for rules that replace each other's results without end, which would be a defect.
const MAX_REPLACEMENTS: usize = 100;

/// Applies rules to every node of `graph` once; returns whether anything changed. The guards query
/// `selector`.
pub(crate) fn rewrite(
    graph: &mut Graph,
    sets: &[RuleSet],
    selector: &BackendSelector<'_>,
) -> Result<bool> {
    let names = UniqueNames::of(graph);
    let unvisited = std::mem::take(&mut graph.nodes);
    let mut rewriter = Rewriter::new(graph, &unvisited, names);
    for node in unvisited {
        rewriter.visit(node, sets, selector)?;
    }
    Ok(rewriter.finish())
}

impl<'g> Rewriter<'g> {
    fn new(graph: &'g mut Graph, unvisited: &[Node], names: UniqueNames) -> Self {
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
                match outcome {
                    Outcome::Keep => {}
                    Outcome::Replace(new) => {
                        self.changed = true;
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
        for output in node.outputs.iter().flatten() {
            self.producer[output.index()] = Some(self.nodes.len());
        }
        self.nodes.push(Some(node));
        self.assignments.push(assignment);
    }

    fn finish(mut self) -> bool {
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
        self.changed
    }
}

/// What rules inspect.
impl Rewriter<'_> {
    /// The node that produces a value, unless it is an input or a constant.
    pub fn producer(&self, value: ValueId) -> Option<&Node> {
        self.nodes.get(self.position(value)?)?.as_ref()
    }

    /// The producer of input `index` of `node`, if its operator is `op`.
    pub fn producer_of(&self, node: &Node, index: usize, op: &str) -> Option<&Node> {
        let value = node.inputs.get(index).copied().flatten()?;
        self.producer(value)
            .filter(|producer| producer.op.name == op)
    }

    /// The same producer, if `node` is the only user of its only output.
    pub fn sole_producer_of(&self, node: &Node, index: usize, op: &str) -> Option<&Node> {
        let value = node.inputs.get(index).copied().flatten()?;
        let producer = self.producer_of(node, index, op)?;
        (self.uses(value) == 1 && producer.outputs.iter().flatten().count() == 1)
            .then_some(producer)
    }

    /// The value of input `index` of `node`.
    pub fn input(&self, node: &Node, index: usize) -> Option<ValueId> {
        node.inputs.get(index).copied().flatten()
    }

    /// Number of uses of a value, the graph's outputs included.
    pub fn uses(&self, value: ValueId) -> u32 {
        self.uses[value.index()]
    }

    /// The elements of a constant.
    pub fn constant(&self, value: Option<ValueId>) -> Option<&Tensor> {
        self.graph.value(value?).constant.as_ref()
    }

    /// The elements of a value that are known for the example sizes: of a constant, or of sizes.
    pub fn known(&self, value: Option<ValueId>) -> Option<&Tensor> {
        self.graph.value(value?).known()
    }

    /// Whether the extent of a dimension, counted from the end, is the same for all sizes.
    pub fn is_fixed(&self, value: ValueId, from_end: usize) -> bool {
        let extents = self.graph.value(value).extents.as_ref();
        let extent = extents.and_then(|extents| extents.iter().rev().nth(from_end));
        extent.is_none_or(|extent| extent.constant().is_some())
    }

    /// The type of a value; every value has one after specialising.
    pub fn ty(&self, value: ValueId) -> Result<&TensorType> {
        let value = self.graph.value(value);
        value.ty.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                format!("value '{}' has no type", value.name),
            )
        })
    }

    /// Whether two values have the same type for all sizes.
    pub fn same_type(&self, a: ValueId, b: ValueId) -> Result<bool> {
        let extents = |value| self.graph.value(value).extents.as_ref();
        // Different expressions may have the same value for the example sizes: a size, and its minimum with another.
        let same = match (extents(a), extents(b)) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        Ok(same && self.ty(a)? == self.ty(b)?)
    }

    /// The shape of a value.
    pub fn shape(&self, value: ValueId) -> Result<&Shape> {
        Ok(self.ty(value)?.shape())
    }

    /// Whether a value's elements are f32, the type of the fused operators.
    pub fn is_f32(&self, value: ValueId) -> bool {
        self.ty(value).is_ok_and(|ty| ty.dtype() == DataType::F32)
    }

    /// Whether a value's elements are f32, or of a type that a backend may compute in f32.
    pub fn is_float(&self, value: ValueId) -> bool {
        let types = [DataType::F32, DataType::F16, DataType::BF16];
        self.ty(value).is_ok_and(|ty| types.contains(&ty.dtype()))
    }

    /// The element of a constant of one f32 element.
    pub fn scalar(&self, value: Option<ValueId>) -> Option<f32> {
        match self.constant(value)?.as_slice::<f32>()? {
            [element] => Some(*element),
            _ => None,
        }
    }

    /// For a node with two inputs of which one is a constant of one element: the other input, and
    /// that element.
    pub fn scalar_operand(&self, node: &Node) -> Option<(ValueId, f32)> {
        match node.inputs.as_slice() {
            &[Some(a), Some(b)] => {
                let left = self.scalar(Some(a)).map(|element| (b, element));
                self.scalar(Some(b)).map(|element| (a, element)).or(left)
            }
            _ => None,
        }
    }
}

/// What rules emit.
impl Rewriter<'_> {
    /// Adds a constant with a unique name derived from `base`.
    pub fn add_constant(&mut self, base: &str, tensor: Tensor) -> ValueId {
        let name = self.names.value(base);
        let id = self.graph.add_constant(name, tensor);
        self.grow();
        id
    }

    /// Adds a node before the visited one and returns its only output.
    pub fn emit(
        &mut self,
        base: &str,
        op: &str,
        attributes: Attributes,
        inputs: &[Option<ValueId>],
    ) -> Result<ValueId> {
        let name = self.names.node(base);
        let outputs = self.emit_as(name, op, attributes, inputs, 1)?;
        outputs
            .first()
            .copied()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "no output"))
    }

    /// Adds a node before `node` with its name and number of outputs; `node` is renamed to
    /// `NAME.suffix`.
    pub fn emit_for(
        &mut self,
        node: &mut Node,
        suffix: &str,
        op: &str,
        attributes: Attributes,
        inputs: &[Option<ValueId>],
    ) -> Result<Vec<ValueId>> {
        let renamed = self.names.node(&format!("{}.{suffix}", node.name));
        let name = std::mem::replace(&mut node.name, renamed);
        self.emit_as(name, op, attributes, inputs, node.outputs.len())
    }

    fn emit_as(
        &mut self,
        name: String,
        op: &str,
        attributes: Attributes,
        inputs: &[Option<ValueId>],
        outputs: usize,
    ) -> Result<Vec<ValueId>> {
        let mut node = Node {
            name,
            op: operator_of(op)?,
            attributes,
            inputs: inputs.to_vec(),
            outputs: Vec::new(),
        };
        let types = infer_node(self.graph, &node, outputs)?;
        for ty in types.iter().take(outputs) {
            let name = self.names.value(&node.name);
            let value = self.graph.add_value(name, Some(ty.clone()));
            node.outputs.push(Some(value));
        }
        if !self.graph.symbols.is_empty() {
            set_sizes(self.graph, &node, &types)?;
        }
        self.grow();
        for value in inputs.iter().flatten() {
            self.uses[value.index()] += 1;
        }
        let outputs = node.outputs.iter().flatten().copied().collect();
        self.push(node, CachedAssignment::new());
        self.changed = true;
        Ok(outputs)
    }

    /// The shape of a Reshape, whose extents derive from those of `values`: a constant, or sizes if one is
    /// symbolic.
    fn target_shape(&mut self, base: &str, values: &[ValueId], shape: &[usize]) -> Result<ValueId> {
        let extents: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
        let tensor = Tensor::from_slice([extents.len()], &extents)?;
        let base = format!("{base}.shape");
        if self.graph.symbols.is_empty() {
            return Ok(self.add_constant(&base, tensor));
        }
        let extents = extents_of_example(self.graph, values, shape)?;
        if extents.iter().all(|extent| extent.constant().is_some()) {
            return Ok(self.add_constant(&base, tensor));
        }
        let name = self.names.value(&base);
        let id = self.graph.add_value(name, Some(tensor.ty().clone()));
        let value = self.graph.value_mut(id);
        value.extents = Some(vec![(shape.len() as i64).into()]);
        value.sizes = Some(SizeElements {
            elements: extents,
            example: tensor,
        });
        self.grow();
        Ok(id)
    }

    /// Adds a Reshape before the visited node.
    pub fn reshape(&mut self, base: &str, value: ValueId, shape: &[usize]) -> Result<ValueId> {
        let extents = self.target_shape(base, &[value], shape)?;
        self.emit(
            base,
            "Reshape",
            reshape_attributes(shape),
            &[Some(value), Some(extents)],
        )
    }

    /// A node with another operator, and the name and outputs of `node`.
    pub fn node_like(
        &self,
        node: &Node,
        op: &str,
        attributes: Attributes,
        inputs: Vec<Option<ValueId>>,
    ) -> Result<Node> {
        Ok(Node {
            name: node.name.clone(),
            op: operator_of(op)?,
            attributes,
            inputs,
            outputs: node.outputs.clone(),
        })
    }

    /// A Reshape to exactly `shape` with the outputs of `node`.
    pub fn reshaped_node(&mut self, node: &Node, value: ValueId, shape: &[usize]) -> Result<Node> {
        let outputs = node.outputs.iter().flatten().copied();
        let values: Vec<ValueId> = outputs.chain([value]).collect();
        let extents = self.target_shape(&node.name, &values, shape)?;
        let inputs = vec![Some(value), Some(extents)];
        self.node_like(node, "Reshape", reshape_attributes(shape), inputs)
    }

    /// Adds a Transpose before the visited node.
    pub fn transpose(&mut self, base: &str, value: ValueId, perm: &[usize]) -> Result<ValueId> {
        self.emit(base, "Transpose", perm_attributes(perm), &[Some(value)])
    }

    fn grow(&mut self) {
        let values = self.graph.values.len();
        self.uses.resize(values, 0);
        self.producer.resize(values, None);
        self.forward.resize(values, None);
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

/// Attributes of a Reshape to exactly `shape`.
pub(crate) fn reshape_attributes(shape: &[usize]) -> Attributes {
    // Without allowzero an extent of 0 means "as in the input".
    if shape.contains(&0) {
        Attributes::new().with("allowzero", Attribute::Int(1))
    } else {
        Attributes::new()
    }
}

/// Attributes of a Transpose.
pub(crate) fn perm_attributes(perm: &[usize]) -> Attributes {
    let perm = perm.iter().map(|&axis| axis as i64).collect();
    Attributes::new().with("perm", Attribute::Ints(perm))
}
