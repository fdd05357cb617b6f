//! Specialisation: constants of the caller, shape inference and constant folding, in one traversal,
//! because a shape may depend on folded constants.

use crate::control::capture;
use crate::data_sizes;
use crate::infer::infer_node;
use crate::lists::is_list_node;
use crate::quantize::is_weight_type;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tenon_backend::{Backend, NodeView, Registry, evaluate};
use tenon_base::{Control, Error, ErrorKind, Location, Result};
use tenon_graph::operator::{Arity, operator};
use tenon_graph::{
    Attribute, Attributes, Graph, Node, SizeElements, UniqueNames, ValueId, infer_symbolic,
    size_tensor,
};
use tenon_tensor::size::SizeExpr;
use tenon_tensor::{DataType, Tensor, TensorType};

/// A result larger than this is folded only up to [`MAX_GROWTH`] times the size of its inputs: an
/// Expand or ConstantOfShape must not inflate the package.
const MAX_FOLDED_BYTES: usize = 64 << 20;
const MAX_GROWTH: usize = 4;

/// Operators whose result differs from run to run.
const RANDOM: &[&str] = &[
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
];

/// Replaces inputs by constants. All unknown names and wrong types are reported together.
pub(crate) fn set_constants(graph: &mut Graph, constants: &BTreeMap<String, Tensor>) -> Result<()> {
    let mut problems = Vec::new();
    for (name, tensor) in constants {
        let found = graph
            .inputs
            .iter()
            .position(|&id| graph.value(id).name == *name);
        let Some(position) = found else {
            let names: Vec<&str> = graph
                .inputs
                .iter()
                .map(|&id| graph.value(id).name.as_str())
                .collect();
            problems.push(
                Error::new(
                    ErrorKind::InvalidArgument,
                    "a constant is given for no input of the model",
                )
                .expected(names.join(", "))
                .found(name),
            );
            continue;
        };
        let id = graph.inputs[position];
        match &graph.value(id).ty {
            Some(ty) if ty != tensor.ty() => problems.push(
                Error::new(
                    ErrorKind::InvalidArgument,
                    format!("the constant given for input '{name}' has the wrong type"),
                )
                .expected(ty)
                .found(tensor.ty()),
            ),
            _ => {
                graph.inputs.remove(position);
                let value = graph.value_mut(id);
                value.ty = Some(tensor.ty().clone());
                value.constant = Some(tensor.clone());
            }
        }
    }
    Error::from_all(problems).map_or(Ok(()), Err)
}

/// Names nodes without a name after their first output, so that reports can refer to them.
pub(crate) fn name_nodes(graph: &mut Graph) {
    let mut names = UniqueNames::of(graph);
    for index in 0..graph.nodes.len() {
        if graph.nodes[index].name.is_empty() {
            let output = graph.nodes[index].outputs.iter().flatten().next();
            let stem = output.map_or("node", |&output| graph.value(output).name.as_str());
            graph.nodes[index].name = names.node(stem);
        }
    }
}

/// Infers the type of every value and folds nodes with constant inputs. Errors of independent nodes are
/// reported together.
pub fn specialise(graph: &mut Graph, registry: &Registry, control: &Control) -> Result<()> {
    specialise_with(graph, registry, control, (false, Folding::All))
}

/// The nodes with constant inputs that are folded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Folding {
    /// All.
    All,
    /// All but the DequantizeLinear of weights, which the rules in [`crate::quantize`] read.
    ExceptWeights,
}

/// The same; `open_extents`: whether extents without a rule become sizes that depend on data, else they are errors.
pub(crate) fn specialise_with(
    graph: &mut Graph,
    registry: &Registry,
    control: &Control,
    (open_extents, folding): (bool, Folding),
) -> Result<()> {
    remove_unused(graph);
    let weights = match folding {
        Folding::All => BTreeSet::new(),
        Folding::ExceptWeights => dequantized_weights(graph),
    };
    let mut specialiser = Specialiser {
        open_extents,
        weights,
        ..Specialiser::new(registry, control)
    };
    let nodes = std::mem::take(&mut graph.nodes);
    let total = nodes.len() as u64;
    for (index, node) in nodes.into_iter().enumerate() {
        if index % 64 == 0 {
            control.progress("infer shapes", index as u64, total)?;
        }
        let kept = specialiser.node(graph, node)?;
        graph.nodes.extend(kept);
    }
    if let Some(error) = Error::from_all(specialiser.problems) {
        return Err(error);
    }
    remove_unused(graph);
    Ok(())
}

/// Folds the weights that [`Folding::ExceptWeights`] kept, in a graph that is specialised.
pub(crate) fn fold_weights(
    graph: &mut Graph,
    registry: &Registry,
    control: &Control,
) -> Result<()> {
    let mut specialiser = Specialiser::new(registry, control);
    for node in std::mem::take(&mut graph.nodes) {
        let kept = match node.op.name {
            "DequantizeLinear" | "Transpose" => specialiser.node(graph, node)?,
            _ => vec![node],
        };
        graph.nodes.extend(kept);
    }
    Error::from_all(specialiser.problems).map_or(Ok(()), Err)
}

/// The state of the traversal.
pub(crate) struct Specialiser<'a> {
    open_extents: bool,
    /// Values that are not folded.
    weights: BTreeSet<ValueId>,
    registry: &'a Registry,
    reference: Option<&'a Arc<dyn Backend>>,
    control: &'a Control,
    pub(crate) problems: Vec<Error>,
    /// Values of nodes with errors: dependent nodes are not reported.
    failed: BTreeSet<ValueId>,
    /// Nodes of the graph or body that is visited whose results have counted extents: equal nodes have equal ones.
    counted: Vec<Node>,
    /// The nodes that remain of those before the visited one, in the bodies around it.
    inner: Vec<Node>,
}

impl<'a> Specialiser<'a> {
    fn new(registry: &'a Registry, control: &'a Control) -> Self {
        Self {
            open_extents: false,
            weights: BTreeSet::new(),
            registry,
            reference: registry.reference(),
            control,
            problems: Vec::new(),
            failed: BTreeSet::new(),
            counted: Vec::new(),
            inner: Vec::new(),
        }
    }

    /// Infers the types of the values of `node`, and returns the nodes that remain of it; an error is recorded.
    ///
    /// # Errors
    /// Those of [`Control::check`].
    pub(crate) fn node(&mut self, graph: &mut Graph, mut node: Node) -> Result<Vec<Node>> {
        let inputs = node.inputs.iter().flatten();
        if inputs.into_iter().any(|input| self.failed.contains(input)) {
            self.failed.extend(node.outputs.iter().flatten());
            return Ok(vec![node]);
        }
        let equal = self.counted.iter().find(|other| is_equal(other, &node));
        if let Some(equal) = equal {
            let pairs = equal.outputs.iter().zip(&node.outputs);
            let copies = pairs.filter_map(|(from, to)| identity(graph, (*from)?, (*to)?));
            let copies: Vec<Node> = copies.collect();
            return self.visit_all(graph, copies);
        }
        let done = if node.is_control() {
            self.control_flow(graph, &node)
        } else if is_list_node(graph, &node) {
            self.list_node(graph, &mut node)
        } else {
            self.visit(graph, &mut node).map(|kept| (kept, Vec::new()))
        };
        match done {
            Ok((true, _)) => {
                capture(graph, &mut node);
                Ok(vec![node])
            }
            Ok((false, others)) => Ok(others),
            Err(error) => {
                self.control.check()?;
                let place = Location::node(node.name.as_str());
                self.problems.push(error.at(place));
                self.failed.extend(node.outputs.iter().flatten());
                Ok(vec![node])
            }
        }
    }

    /// Records that a value has no type because of an error that is reported.
    pub(crate) fn fail(&mut self, id: ValueId) {
        self.failed.insert(id);
    }

    /// The opposite, before nodes are inferred again.
    pub(crate) fn recover(&mut self, id: ValueId) {
        self.failed.remove(&id);
    }

    /// The same for the nodes of a body, in order.
    pub(crate) fn nodes(&mut self, graph: &mut Graph, nodes: Vec<Node>) -> Result<Vec<Node>> {
        let outside = std::mem::take(&mut self.counted);
        let kept = self.visit_all(graph, nodes);
        self.counted = outside;
        kept
    }

    /// The same for nodes that replace a node.
    pub(crate) fn visit_all(&mut self, graph: &mut Graph, nodes: Vec<Node>) -> Result<Vec<Node>> {
        let before = self.inner.len();
        for node in nodes {
            match self.node(graph, node) {
                Ok(kept) => self.inner.extend(kept),
                Err(error) => {
                    self.inner.truncate(before);
                    return Err(error);
                }
            }
        }
        Ok(self.inner.split_off(before))
    }

    /// Returns whether the node is kept.
    fn visit(&mut self, graph: &mut Graph, node: &mut Node) -> Result<bool> {
        if data_sizes::infer_counts(graph, node)? {
            self.counted.push(node.clone());
            return Ok(true);
        }
        if node.op.family == "strings" {
            self.string_node(graph, node)?;
            return Ok(true);
        }
        expand_constant(graph, node)?;
        let types = match check_known(graph, node) {
            Ok(()) => match infer_node(graph, node, node.outputs.len()) {
                Err(_) if data_sizes::fit_split(graph, node)? => {
                    infer_node(graph, node, node.outputs.len())?
                }
                // The examples of sizes that depend on data do not fit each other; the sizes may.
                Err(_) if self.open_extents && data_sizes::infer_open(graph, node)? => {
                    return Ok(true);
                }
                types => types?,
            },
            Err(unknown) => self.read_operands(graph, node).ok_or(unknown)?,
        };
        let inputs = node.inputs.iter().flatten();
        let mut inputs = inputs.filter_map(|&id| graph.value(id).ty.as_ref());
        let strings = inputs.any(is_string) || types.iter().any(is_string);
        if strings && !node.op.takes_strings() {
            let text = format!("{} does not take strings", node.op.name);
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        for (output, ty) in node.outputs.iter().zip(&types) {
            if let Some(output) = output {
                graph.value_mut(*output).ty = Some(ty.clone());
            }
        }
        if !graph.symbols.is_empty() {
            match set_sizes(graph, node, &types) {
                Ok(true) => return Ok(false),
                Ok(false) => {}
                Err(_) if self.open_extents => {
                    data_sizes::open_extents(graph, node, &types)?;
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
        }
        let Some(tensors) = self.fold(graph, node, &types)? else {
            return Ok(true);
        };
        for (output, tensor) in node.outputs.iter().zip(tensors) {
            if let (Some(output), Some(tensor)) = (output, tensor) {
                graph.value_mut(*output).constant = Some(tensor);
            }
        }
        Ok(false)
    }

    /// Reads the operands that decide the shape of the result from their values when the model runs. Returns the types of
    /// the outputs; `None`, with everything as before, if the shape function does not take such sizes.
    fn read_operands(&self, graph: &mut Graph, node: &mut Node) -> Option<Vec<TensorType>> {
        let reference = self.reference?;
        let before = (
            node.inputs.clone(),
            graph.symbols.clone(),
            graph.example_sizes.len(),
            graph.data_sizes.len(),
        );
        let mut read = || -> Result<Vec<TensorType>> {
            data_sizes::read_operands(graph, node, &self.inner, &**reference)?;
            check_known(graph, node)?;
            let types = infer_node(graph, node, node.outputs.len())?;
            infer_symbolic(graph, node, &types)?;
            Ok(types)
        };
        match read() {
            Ok(types) => Some(types),
            Err(_) => {
                let (inputs, symbols, examples, sizes) = before;
                node.inputs = inputs;
                graph.symbols = symbols;
                graph.example_sizes.truncate(examples);
                graph.data_sizes.truncate(sizes);
                None
            }
        }
    }

    fn fold(
        &self,
        graph: &Graph,
        node: &Node,
        types: &[TensorType],
    ) -> Result<Option<Vec<Option<Tensor>>>> {
        if let Some(tensor) = folded_from_types(graph, node)? {
            return Ok(Some(vec![Some(tensor)]));
        }
        let inputs = node.inputs.iter().flatten();
        let mut inputs = inputs.filter_map(|&id| graph.value(id).ty.as_ref());
        if inputs.any(is_string) || types.iter().any(is_string) {
            return Ok(None);
        }
        let mut outputs = node.outputs.iter().flatten();
        if outputs.all(|&output| is_empty(graph, output)) {
            let zeroed = |ty: &TensorType| Tensor::zeroed(ty.clone()).map(Some);
            return types.iter().map(zeroed).collect::<Result<_>>().map(Some);
        }
        let empty = empty_inputs(graph, node)?;
        let inputs: Vec<Option<&Tensor>> = node
            .inputs
            .iter()
            .zip(&empty)
            .map(|(input, empty)| {
                let constant = input.and_then(|id| graph.value(id).constant.as_ref());
                constant.or(empty.as_ref())
            })
            .collect();
        let known = node
            .inputs
            .iter()
            .zip(&inputs)
            .all(|(id, tensor)| id.is_some() == tensor.is_some());
        let is_weight = |output: &ValueId| {
            let x = inputs.first().copied().flatten();
            self.weights.contains(output) && x.is_some_and(|x| is_weight_type(x.dtype()))
        };
        let mut outputs = node.outputs.iter().flatten();
        if !known || RANDOM.contains(&node.op.name) || outputs.any(is_weight) {
            return Ok(None);
        }
        let outputs: Vec<Option<TensorType>> = node
            .outputs
            .iter()
            .zip(types)
            .map(|(output, ty)| output.map(|_| ty.clone()))
            .collect();
        let produced: usize = outputs.iter().flatten().map(TensorType::bytes).sum();
        let used: usize = inputs
            .iter()
            .flatten()
            .map(|tensor| tensor.bytes().len())
            .sum();
        if produced > MAX_FOLDED_BYTES && produced > used.saturating_mul(MAX_GROWTH) {
            return Ok(None);
        }
        let Some(backend) = self.evaluator(node, &inputs, &outputs) else {
            return Ok(None);
        };
        let evaluated =
            || evaluate(backend, node.op, &node.attributes, &inputs, &outputs).map(Some);
        self.control.run(evaluated)
    }

    /// The backend that folds the node: the reference implementation, which is exact, or another.
    fn evaluator(
        &self,
        node: &Node,
        inputs: &[Option<&Tensor>],
        outputs: &[Option<TensorType>],
    ) -> Option<&dyn Backend> {
        let types: Vec<Option<&TensorType>> =
            inputs.iter().map(|tensor| tensor.map(Tensor::ty)).collect();
        let outputs: Vec<Option<&TensorType>> = outputs.iter().map(Option::as_ref).collect();
        let view = NodeView {
            op: node.op,
            attributes: &node.attributes,
            inputs: &types,
            constants: inputs,
            outputs: &outputs,
            ranges: None,
        };
        let reference = self.reference;
        reference
            .into_iter()
            .chain(self.registry.iter())
            .find(|backend| backend.supports(&view).is_ok())
            .map(|backend| &**backend)
    }
}

/// The results of DequantizeLinear that only convolutions and matmuls read, directly or transposed.
fn dequantized_weights(graph: &Graph) -> BTreeSet<ValueId> {
    let all = || {
        let bodies = graph.bodies.iter().flat_map(|body| &body.nodes);
        graph.nodes.iter().chain(bodies)
    };
    let mut others: BTreeSet<ValueId> = graph.outputs.iter().copied().collect();
    others.extend(graph.bodies.iter().flat_map(|body| &body.outputs));
    for node in all() {
        if !matches!(node.op.name, "Conv" | "MatMul" | "Gemm" | "Transpose") {
            others.extend(node.inputs.iter().flatten());
        }
    }
    let nodes = graph.nodes.iter();
    nodes
        .filter(|node| node.op.name == "DequantizeLinear")
        .flat_map(|node| node.outputs.iter().flatten().copied())
        .filter(|output| !others.contains(output))
        .collect()
}

/// Sets the symbolic extents of the outputs. Returns whether all their elements are sizes, so that nothing is left
/// to compute when the model runs.
pub(crate) fn set_sizes(graph: &mut Graph, node: &Node, types: &[TensorType]) -> Result<bool> {
    let outputs = infer_symbolic(graph, node, types)?;
    let mut known = true;
    for ((id, ty), output) in node.outputs.iter().zip(types).zip(outputs) {
        let Some(id) = *id else { continue };
        let sizes = output.elements.map(|elements| sizes(graph, ty, elements));
        let sizes = sizes.transpose()?;
        known &= sizes.is_some();
        let value = graph.value_mut(id);
        value.extents = Some(output.extents);
        match sizes {
            Some(sizes) if sizes.elements.iter().all(|size| size.constant().is_some()) => {
                value.constant = Some(sizes.example);
            }
            sizes => value.sizes = sizes,
        }
    }
    Ok(known)
}

/// Elements with the tensor for the example sizes.
fn sizes(graph: &Graph, ty: &TensorType, elements: Vec<SizeExpr>) -> Result<SizeElements> {
    let example = size_tensor(ty, &elements, &graph.example_sizes)?;
    Ok(SizeElements { elements, example })
}

fn is_string(ty: &TensorType) -> bool {
    ty.dtype() == DataType::String
}

/// Whether a value has no elements, and the same shape for all sizes: a constant has one shape.
fn is_empty(graph: &Graph, id: ValueId) -> bool {
    let value = graph.value(id);
    match &value.extents {
        Some(extents) => {
            let sizes: Vec<Option<i64>> = extents.iter().map(SizeExpr::constant).collect();
            sizes.contains(&Some(0)) && !sizes.contains(&None)
        }
        None => value.ty.as_ref().is_some_and(|ty| ty.elements() == 0),
    }
}

/// The inputs of `node` without elements, which are known although they are no constants.
fn empty_inputs(graph: &Graph, node: &Node) -> Result<Vec<Option<Tensor>>> {
    let empty = |input: &Option<ValueId>| {
        let input = input.filter(|&id| is_empty(graph, id));
        let ty = input.and_then(|id| graph.value(id).ty.clone());
        ty.map(Tensor::zeroed).transpose()
    };
    node.inputs.iter().map(empty).collect()
}

/// The result of Shape, Size and Constant, which depends on no elements.
fn folded_from_types(graph: &Graph, node: &Node) -> Result<Option<Tensor>> {
    let ty = node
        .inputs
        .first()
        .copied()
        .flatten()
        .and_then(|id| graph.value(id).ty.as_ref());
    match (node.op.name, ty) {
        ("Shape", Some(ty)) => {
            let rank = ty.shape().len() as i64;
            let bound = |value: i64| (if value < 0 { value + rank } else { value }).clamp(0, rank);
            let start = bound(node.attributes.int("start", 0)?);
            let end = bound(node.attributes.int("end", rank)?).max(start);
            let extents: Vec<i64> = ty.shape()[start as usize..end as usize]
                .iter()
                .map(|&n| n as i64)
                .collect();
            Tensor::from_slice([extents.len()], &extents).map(Some)
        }
        ("Size", Some(ty)) => Tensor::scalar(ty.elements() as i64).map(Some),
        ("Constant", None) => constant_of(node),
        _ => Ok(None),
    }
}

/// The value of a Constant node, from one of its alternative attributes.
fn constant_of(node: &Node) -> Result<Option<Tensor>> {
    let attribute = |name: &str| node.attributes.value(name);
    match (
        attribute("value"),
        attribute("value_float"),
        attribute("value_int"),
    ) {
        (Some(Attribute::Tensor(tensor)), ..) => return Ok(Some(tensor.clone())),
        (_, Some(Attribute::Float(value)), _) => return Tensor::scalar(*value).map(Some),
        (.., Some(Attribute::Int(value))) => return Tensor::scalar(*value).map(Some),
        _ => {}
    }
    match (attribute("value_floats"), attribute("value_ints")) {
        (Some(Attribute::Floats(list)), _) => Tensor::from_slice([list.len()], list).map(Some),
        (_, Some(Attribute::Ints(list))) => Tensor::from_slice([list.len()], list).map(Some),
        _ => Ok(None),
    }
}

/// Whether two nodes have the same inputs, attributes and outputs that are requested.
fn is_equal(a: &Node, b: &Node) -> bool {
    let requested =
        |node: &Node| -> Vec<bool> { node.outputs.iter().map(Option::is_some).collect() };
    a.op == b.op
        && a.inputs == b.inputs
        && a.attributes == b.attributes
        && requested(a) == requested(b)
}

/// A copy of a value.
pub(crate) fn identity(graph: &Graph, from: ValueId, to: ValueId) -> Option<Node> {
    let name = UniqueNames::of(graph).node(&graph.value(to).name);
    Some(Node {
        name,
        op: operator("Identity")?,
        attributes: Attributes::new(),
        inputs: vec![Some(from)],
        outputs: vec![Some(to)],
    })
}

/// Replaces ConstantOfShape of a shape that is not constant by Expand: a program has no attributes that are tensors.
fn expand_constant(graph: &mut Graph, node: &mut Node) -> Result<()> {
    let Some(&Some(shape)) = node.inputs.first() else {
        return Ok(());
    };
    let Some(Attribute::Tensor(fill)) = node.attributes.value("value") else {
        return Ok(());
    };
    if node.op.name != "ConstantOfShape" || graph.value(shape).constant.is_some() {
        return Ok(());
    }
    let Some(expand) = operator("Expand") else {
        return Ok(());
    };
    let ty = TensorType::new(fill.dtype(), [])?;
    let fill = Tensor::new(ty, fill.buffer().clone())?;
    let name = UniqueNames::of(graph).value(&format!("{}.value", node.name));
    let fill = graph.add_constant(name, fill);
    node.op = expand;
    node.attributes = Attributes::new();
    node.inputs = vec![Some(fill), Some(shape)];
    Ok(())
}

/// Checks that shape-determining inputs are constant; the error names the model inputs they depend on.
fn check_known(graph: &Graph, node: &Node) -> Result<()> {
    let mut problems = Vec::new();
    for (index, input) in node.inputs.iter().enumerate() {
        let last = node
            .op
            .inputs
            .last()
            .filter(|def| def.arity == Arity::Variadic);
        let Some(def) = node.op.inputs.get(index).or(last) else {
            continue;
        };
        let Some(id) = *input else { continue };
        if !def.compile_time || graph.value(id).known().is_some() {
            continue;
        }
        let error = Error::new(
            ErrorKind::Unsupported,
            format!(
                "input '{}' (value '{}') decides the shape of the result, but is not known when compiling",
                def.name,
                graph.value(id).name
            ),
        );
        let from = inputs_behind(graph, id);
        problems.push(if from.is_empty() {
            error.help("it is too large to be computed when compiling")
        } else {
            let flags: Vec<String> = from
                .iter()
                .map(|name| format!("--const {name}=FILE"))
                .collect();
            error.help(format!("give it with {}", flags.join(" ")))
        });
    }
    Error::from_all(problems).map_or(Ok(()), Err)
}

/// The model's inputs that a value is computed from, in the model's order.
fn inputs_behind(graph: &Graph, id: ValueId) -> Vec<&str> {
    let producers = graph.producers();
    let mut seen = BTreeSet::from([id]);
    let mut stack = vec![id];
    while let Some(value) = stack.pop() {
        let Some(producer) = producers[value.index()] else {
            continue;
        };
        let inputs = graph.node(producer).inputs.iter().flatten();
        stack.extend(inputs.filter(|input| seen.insert(**input)));
    }
    let inputs = graph.inputs.iter().filter(|input| seen.contains(input));
    inputs
        .map(|&input| graph.value(input).name.as_str())
        .collect()
}

/// Removes dead nodes.
pub(crate) fn remove_unused(graph: &mut Graph) {
    let mut used = vec![false; graph.values.len()];
    for output in &graph.outputs {
        used[output.index()] = true;
    }
    for size in &graph.data_sizes {
        used[size.value.index()] = true;
    }
    let bodies = graph.bodies.iter();
    let body_inputs = bodies
        .clone()
        .flat_map(|body| &body.nodes)
        .flat_map(|node| node.inputs.iter().flatten());
    for id in body_inputs.chain(bodies.clone().flat_map(|body| &body.outputs)) {
        used[id.index()] = true;
    }
    let mut kept = Vec::with_capacity(graph.nodes.len());
    while let Some(node) = graph.nodes.pop() {
        if node
            .outputs
            .iter()
            .flatten()
            .any(|output| used[output.index()])
        {
            for input in node.inputs.iter().flatten() {
                used[input.index()] = true;
            }
            kept.push(node);
        }
    }
    kept.reverse();
    graph.nodes = kept;
}
