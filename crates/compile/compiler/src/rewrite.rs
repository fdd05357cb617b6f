//! Rewriting a graph node by node: rules look backwards from a node and replace it.
//!
//! Nodes are visited in order; those already visited are what a rule may look at. A rule answers
//! another node for the same outputs, or values that stand for the outputs. What is no longer used
//! goes away by itself, and order holds because a new node stands where the old one stood.

use crate::infer::infer_node;
use crate::place::{Asker, Assignment};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::operator::OperatorClass;
use tenon_graph::{
    Attribute, Attributes, Graph, Node, OperatorDef, UniqueNames, ValueId, operator,
};
use tenon_tensor::{DataType, Shape, Tensor, TensorType};

/// What a rule makes of a node.
pub(crate) enum Outcome {
    /// Nothing: the next rule is asked.
    Keep,
    /// Another node with the same outputs; it is shown to all rules again.
    Replace(Node),
    /// Values that stand for the outputs from here on.
    Forward(Vec<Option<ValueId>>),
}

/// A rule; see the module.
pub(crate) type Rule = fn(&mut Rewriter<'_>, &Node) -> Result<Outcome>;

/// Which backends a rule's results are held against.
#[derive(Clone, Copy)]
pub(crate) enum Guard {
    /// The result is kept on every backend.
    None,
    /// The result is undone when a less preferred backend would execute it than what it replaces.
    Backend,
    /// The same, and the backend that executes it prefers channels-last images.
    Layout,
}

/// Rules of one guard.
pub(crate) type RuleSet = (&'static [Rule], Guard);

/// A graph while rules change it.
pub(crate) struct Rewriter<'g> {
    graph: &'g mut Graph,
    /// Nodes visited or made so far; `None` once nobody uses them.
    nodes: Vec<Option<Node>>,
    /// For each value the position in `nodes` of the node that makes it.
    producer: Vec<Option<usize>>,
    /// For each value the number of uses by living nodes, nodes to come and the graph's outputs.
    uses: Vec<u32>,
    /// What stands for a value from here on.
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

/// Rules that make each other applicable for ever would be a defect; this bounds them.
const MAX_REPLACEMENTS: usize = 100;

/// Applies rules to every node of `graph` once; answers whether anything changed. `asker` knows
/// which backend would execute a node.
pub(crate) fn rewrite(graph: &mut Graph, sets: &[RuleSet], asker: &Asker<'_>) -> Result<bool> {
    let names = UniqueNames::of(graph);
    let todo = std::mem::take(&mut graph.nodes);
    let mut rewriter = Rewriter::new(graph, &todo, names);
    for node in todo {
        rewriter.visit(node, sets, asker)?;
    }
    Ok(rewriter.finish())
}

impl<'g> Rewriter<'g> {
    fn new(graph: &'g mut Graph, todo: &[Node], names: UniqueNames) -> Self {
        let mut uses = vec![0u32; graph.values.len()];
        for value in todo.iter().flat_map(|node| node.inputs.iter().flatten()) {
            uses[value.index()] += 1;
        }
        for value in &graph.outputs {
            uses[value.index()] += 1;
        }
        Self {
            nodes: Vec::with_capacity(todo.len()),
            producer: vec![None; graph.values.len()],
            forward: vec![None; graph.values.len()],
            uses,
            names,
            graph,
            changed: false,
        }
    }

    fn visit(&mut self, mut node: Node, sets: &[RuleSet], asker: &Asker<'_>) -> Result<()> {
        for index in 0..node.inputs.len() {
            if let Some(value) = node.inputs[index] {
                node.inputs[index] = Some(self.resolve(value));
            }
        }
        let rules = || {
            let all = sets.iter();
            all.flat_map(|(rules, guard)| rules.iter().map(move |rule| (rule, *guard)))
        };
        let mut replacements = 0;
        'again: loop {
            for (rule, guard) in rules() {
                let before = self.checkpoint();
                let outcome =
                    rule(self, &node).map_err(|e| e.at(Location::node(node.name.as_str())))?;
                if !self.is_allowed(guard, &node, &outcome, &before, asker) {
                    self.undo(before);
                    continue;
                }
                match outcome {
                    Outcome::Keep => {}
                    Outcome::Replace(new) => {
                        self.changed = true;
                        self.exchange_uses(&new, &node);
                        node = new;
                        replacements += 1;
                        if replacements > MAX_REPLACEMENTS {
                            return Err(Error::new(
                                ErrorKind::Internal,
                                format!("rules replace node '{}' for ever", node.name),
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
        self.push(node);
        Ok(())
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            nodes: self.nodes.len(),
            values: self.graph.values.len(),
            changed: self.changed,
        }
    }

    /// Takes back what a rule emitted since `checkpoint`.
    fn undo(&mut self, checkpoint: Checkpoint) {
        for node in self.nodes.drain(checkpoint.nodes..).flatten() {
            for input in node.inputs.iter().flatten() {
                self.uses[input.index()] = self.uses[input.index()].saturating_sub(1);
            }
        }
        self.graph.values.truncate(checkpoint.values);
        self.grow();
        self.changed = checkpoint.changed;
    }

    /// Whether the guard of a rule allows its result: the node that takes over the work of `node`
    /// (its name, or its outputs) must not fall to a less preferred backend than `node` and the
    /// nodes that it absorbs.
    fn is_allowed(
        &self,
        guard: Guard,
        node: &Node,
        outcome: &Outcome,
        before: &Checkpoint,
        asker: &Asker<'_>,
    ) -> bool {
        let new = match outcome {
            Outcome::Keep => return true,
            Outcome::Replace(new) => Some(new),
            Outcome::Forward(_) => None,
        };
        if matches!(guard, Guard::None) {
            return true;
        }
        let mut emitted = self.nodes[before.nodes..].iter().flatten().chain(new);
        let Some(main) = emitted.find(|emitted| emitted.name == node.name).or(new) else {
            return true;
        };
        let assignment = asker.assignment(self.graph, main);
        let rank = Assignment::rank(assignment.as_ref());
        let absorbed = node
            .inputs
            .iter()
            .flatten()
            .filter(|input| self.uses(**input) == 1 && !main.inputs.contains(&Some(**input)));
        let absorbed = absorbed.filter_map(|&input| self.producer(input));
        let absorbed = absorbed.filter(|node| node.op.class == OperatorClass::Compute);
        let mut replaced = std::iter::once(node).chain(absorbed);
        let before = |node| Assignment::rank(asker.assignment(self.graph, node).as_ref());
        replaced.all(|node| rank <= before(node))
            && match guard {
                Guard::Layout => {
                    assignment.is_some_and(|assignment| assignment.prefers_channels_last())
                }
                Guard::None | Guard::Backend => true,
            }
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

    /// One use less; nodes that nobody uses any more go, and with them their uses.
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

    fn push(&mut self, node: Node) {
        for output in node.outputs.iter().flatten() {
            self.producer[output.index()] = Some(self.nodes.len());
        }
        self.nodes.push(Some(node));
    }

    fn finish(mut self) -> bool {
        for index in 0..self.graph.outputs.len() {
            self.graph.outputs[index] = self.resolve(self.graph.outputs[index]);
        }
        // Backwards, so that whole unused chains go.
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

/// What rules ask.
impl Rewriter<'_> {
    /// The node that makes a value, unless it is an input or a constant.
    pub fn producer(&self, value: ValueId) -> Option<&Node> {
        let position = self.producer.get(value.index()).copied().flatten()?;
        self.nodes.get(position)?.as_ref()
    }

    /// The node that makes input `index` of `node`, if its operator is `op`.
    pub fn made_by(&self, node: &Node, index: usize, op: &str) -> Option<&Node> {
        let value = node.inputs.get(index).copied().flatten()?;
        self.producer(value)
            .filter(|producer| producer.op.name == op)
    }

    /// The same, if nobody else uses the value and the node makes nothing else.
    pub fn absorbs(&self, node: &Node, index: usize, op: &str) -> Option<&Node> {
        let value = node.inputs.get(index).copied().flatten()?;
        let producer = self.made_by(node, index, op)?;
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

    /// The shape of a value.
    pub fn shape(&self, value: ValueId) -> Result<&Shape> {
        Ok(self.ty(value)?.shape())
    }

    /// Whether a value's elements are f32, what the fused operators are made for.
    pub fn is_f32(&self, value: ValueId) -> bool {
        self.ty(value).is_ok_and(|ty| ty.dtype() == DataType::F32)
    }

    /// Whether a value's elements are f32, or of a type that a backend may compute in f32.
    pub fn is_float(&self, value: ValueId) -> bool {
        let types = [DataType::F32, DataType::F16, DataType::BF16];
        self.ty(value).is_ok_and(|ty| types.contains(&ty.dtype()))
    }

    /// The number that a constant of one f32 element holds.
    pub fn scalar(&self, value: Option<ValueId>) -> Option<f32> {
        match self.constant(value)?.as_slice::<f32>()? {
            [number] => Some(*number),
            _ => None,
        }
    }

    /// Of a node with two inputs: the input that is a constant of one element, its number, and the
    /// other input.
    pub fn scalar_side(&self, node: &Node) -> Option<(ValueId, f32)> {
        match node.inputs.as_slice() {
            &[Some(a), Some(b)] => {
                let left = self.scalar(Some(a)).map(|number| (b, number));
                self.scalar(Some(b)).map(|number| (a, number)).or(left)
            }
            _ => None,
        }
    }
}

/// What rules make.
impl Rewriter<'_> {
    /// Adds a constant; `base` names it, made unique.
    pub fn add_constant(&mut self, base: &str, tensor: Tensor) -> ValueId {
        let name = self.names.value(base);
        let id = self.graph.add_constant(name, tensor);
        self.grow();
        id
    }

    /// Adds a node before the one being visited and answers its only output.
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

    /// Adds a node that takes over the name `node` has, which is called `NAME.suffix` from here on,
    /// with as many outputs. It stands before `node`.
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
        for ty in types.into_iter().take(outputs) {
            let name = self.names.value(&node.name);
            node.outputs
                .push(Some(self.graph.add_value(name, Some(ty))));
        }
        self.grow();
        for value in inputs.iter().flatten() {
            self.uses[value.index()] += 1;
        }
        let made = node.outputs.iter().flatten().copied().collect();
        self.push(node);
        self.changed = true;
        Ok(made)
    }

    /// The constant shape of a Reshape.
    pub fn shape_constant(&mut self, base: &str, shape: &[usize]) -> Result<ValueId> {
        let extents: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
        let tensor = Tensor::from_slice([extents.len()], &extents)?;
        Ok(self.add_constant(&format!("{base}.shape"), tensor))
    }

    /// A Reshape before the node being visited.
    pub fn reshape(&mut self, base: &str, value: ValueId, shape: &[usize]) -> Result<ValueId> {
        let extents = self.shape_constant(base, shape)?;
        self.emit(
            base,
            "Reshape",
            reshape_attributes(shape),
            &[Some(value), Some(extents)],
        )
    }

    /// A node with the outputs and the name of `node` that does something else.
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
        let extents = self.shape_constant(&node.name, shape)?;
        let inputs = vec![Some(value), Some(extents)];
        self.node_like(node, "Reshape", reshape_attributes(shape), inputs)
    }

    /// A Transpose before the node being visited.
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

/// The row of an operator that the compiler makes.
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
    match shape.contains(&0) {
        true => Attributes::new().with("allowzero", Attribute::Int(1)),
        false => Attributes::new(),
    }
}

/// Attributes of a Transpose.
pub(crate) fn perm_attributes(perm: &[usize]) -> Attributes {
    let perm = perm.iter().map(|&axis| axis as i64).collect();
    Attributes::new().with("perm", Attribute::Ints(perm))
}
