//! Types of the values of control flow, from those of its bodies.

use crate::data_sizes::{Definition, define, extents};
use crate::specialise::{Specialiser, identity};
use std::collections::BTreeSet;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::control::IF;
use tenon_graph::{DataSizeSource, Graph, List, ListType, Node, ValueId};
use tenon_tensor::size::{SizeExpr, SymbolId};
use tenon_tensor::{DataType, Shape, Tensor, TensorType};

/// A data type and extents.
type SymbolicType = (DataType, Vec<SizeExpr>);

/// The type of a state of a Loop, or of a result of a branch.
#[derive(Clone, PartialEq)]
enum ControlType {
    Tensor(SymbolicType),
    List(ListType),
}

/// Extents of states that change from iteration to iteration: state and dimension.
type Changing = BTreeSet<(usize, usize)>;

impl Specialiser<'_> {
    /// Infers the types of a node of control flow and of its bodies. Returns whether the node is kept, else the nodes
    /// that replace it.
    pub(crate) fn control_flow(
        &mut self,
        graph: &mut Graph,
        node: &Node,
    ) -> Result<(bool, Vec<Node>)> {
        let bodies = node.bodies();
        let known = bodies.iter().all(|&body| body < graph.bodies.len());
        match (&bodies[..], *node.op == IF) {
            (&[then, otherwise], true) if known => self.branches(graph, node, [then, otherwise]),
            (&[body], false) if known => {
                self.iterations(graph, node, body)?;
                Ok((true, Vec::new()))
            }
            _ => Err(Error::new(ErrorKind::Internal, "a node without its bodies")),
        }
    }

    /// If: a constant condition chooses a body, whose nodes replace the node.
    fn branches(
        &mut self,
        graph: &mut Graph,
        node: &Node,
        bodies: [usize; 2],
    ) -> Result<(bool, Vec<Node>)> {
        let condition = node.inputs.first().copied().flatten();
        let condition = condition.ok_or_else(|| invalid("an If without a condition"))?;
        let constant = graph.value(condition).constant.as_ref();
        if let Some(truth) = constant.and_then(truth) {
            let body = std::mem::take(&mut graph.bodies[bodies[usize::from(!truth)]]);
            let mut nodes = body.nodes;
            for (&from, to) in body.outputs.iter().zip(&node.outputs) {
                nodes.extend(to.and_then(|to| identity(graph, from, to)));
            }
            return Ok((false, self.visit_all(graph, nodes)?));
        }
        let outer = graph.symbols.len();
        for body in bodies {
            self.body(graph, body)?;
        }
        for (index, output) in node.outputs.iter().enumerate() {
            let Some(output) = *output else { continue };
            let of = |body: usize| -> Result<Option<ControlType>> {
                let id = graph.bodies[body].outputs.get(index).copied();
                let id = id.ok_or_else(|| invalid("a branch without this output"))?;
                Ok(control_type(graph, id))
            };
            let (then, otherwise) = match (of(bodies[0])?, of(bodies[1])?) {
                (Some(ControlType::Tensor(then)), Some(ControlType::Tensor(otherwise))) => {
                    (then, otherwise)
                }
                (Some(ControlType::List(then)), Some(ControlType::List(otherwise))) => {
                    set_list(graph, output, then.join(&otherwise)?, outer);
                    continue;
                }
                (Some(_), Some(_)) => {
                    let text =
                        "the branches of an If are a tensor and a sequence or optional value";
                    return Err(Error::new(ErrorKind::Unsupported, text));
                }
                _ => {
                    self.fail(output);
                    continue;
                }
            };
            let joined = join(&then, &otherwise)?;
            let examples = [example(graph, &then.1)?, example(graph, &otherwise.1)?];
            let [then_example, else_example] = &examples;
            let largest = then_example.iter().zip(else_example.iter());
            let largest: Vec<usize> = largest.map(|(a, b)| *a.max(b)).collect();
            set_type(graph, output, then.0, joined, (outer, &largest))?;
        }
        Ok((true, Vec::new()))
    }

    /// Loop: an extent of a state that the body changes is a new symbol in each iteration.
    fn iterations(&mut self, graph: &mut Graph, node: &Node, body: usize) -> Result<()> {
        let count = usize::try_from(node.attributes.int("states", 0)?).unwrap_or(0);
        let states = node.inputs.iter().skip(2).take(count).copied();
        let states = states.map(|state| control_type(graph, state?));
        let states = states.collect::<Option<Vec<ControlType>>>();
        let mut states = states.ok_or_else(|| invalid("a state without a type"))?;
        let outer = graph.symbols.len();
        let mut changing = Changing::new();
        loop {
            let (symbols, sizes) = (graph.symbols.clone(), graph.data_sizes.len());
            let (bodies, problems) = (graph.bodies.clone(), self.problems.len());
            set_arguments(graph, body, &states, &changing)?;
            self.body(graph, body)?;
            let more = changed(graph, body, &states, &changing)?;
            let joined = joined_lists(graph, body, &states, outer)?;
            if more.is_empty() && joined == states {
                break;
            }
            changing.extend(more);
            states = joined;
            // Once more, with these extents as symbols.
            graph.symbols = symbols;
            graph.example_sizes.truncate(graph.symbols.len());
            graph.data_sizes.truncate(sizes);
            graph.bodies = bodies;
            let repeated = self.problems.split_off(problems);
            drop(repeated);
            self.forget(graph, body);
        }
        self.results(graph, node, body, &states, &changing, outer)
    }

    /// The types of the outputs of a Loop.
    fn results(
        &mut self,
        graph: &mut Graph,
        node: &Node,
        body: usize,
        states: &[ControlType],
        changing: &Changing,
        outer: usize,
    ) -> Result<()> {
        let mut steps = None;
        for (index, output) in node.outputs.iter().enumerate() {
            let Some(output) = *output else { continue };
            if let Some(ControlType::List(ty)) = states.get(index) {
                set_list(graph, output, ty.clone(), outer);
                continue;
            }
            if let Some(ControlType::Tensor((dtype, extents))) = states.get(index) {
                let extents = extents.iter().enumerate().map(|(axis, extent)| {
                    let changes = changing.contains(&(index, axis));
                    (!changes).then(|| extent.clone())
                });
                set_type(graph, output, *dtype, extents.collect(), (outer, &[]))?;
                continue;
            }
            let id = graph.bodies[body].outputs.get(index + 1).copied();
            let id = id.ok_or_else(|| invalid("a body without this output"))?;
            let Some((dtype, row)) = symbolic_type(graph, id) else {
                self.fail(output);
                continue;
            };
            let count = match &steps {
                Some(steps) => Some(SizeExpr::clone(steps)),
                None => trip_count(graph, node, body)?,
            };
            let extents = [count].into_iter().chain(row.into_iter().map(Some));
            set_type(graph, output, dtype, extents.collect(), (outer, &[]))?;
            let extents = graph.value(output).extents.as_ref();
            steps = extents.and_then(|extents| extents.first().cloned());
        }
        Ok(())
    }

    /// Infers the types of a body.
    fn body(&mut self, graph: &mut Graph, position: usize) -> Result<()> {
        let nodes = std::mem::take(&mut graph.bodies[position].nodes);
        let mut nodes = self.nodes(graph, nodes)?;
        let outputs = graph.bodies[position].outputs.iter();
        let sizes = graph.data_sizes.iter().map(|size| &size.value);
        let mut used: BTreeSet<ValueId> = outputs.chain(sizes).copied().collect();
        let mut kept = Vec::with_capacity(nodes.len());
        while let Some(node) = nodes.pop() {
            let mut outputs = node.outputs.iter().flatten();
            if outputs.any(|id| used.contains(id)) {
                used.extend(node.inputs.iter().flatten());
                let inner = graph.bodies_of(&node).flat_map(|body| &body.outputs);
                used.extend(inner);
                kept.push(node);
            }
        }
        kept.reverse();
        graph.bodies[position].nodes = kept;
        Ok(())
    }

    /// Removes what was inferred of the values of a body.
    fn forget(&mut self, graph: &mut Graph, position: usize) {
        let nodes = graph.bodies[position].nodes.clone();
        for node in &nodes {
            for id in node.outputs.iter().flatten() {
                let value = graph.value_mut(*id);
                value.ty = None;
                value.extents = None;
                value.sizes = None;
                value.constant = None;
                value.list = None;
                self.recover(*id);
            }
            for inner in node.bodies() {
                self.forget(graph, inner);
            }
        }
    }
}

/// Makes the values from outside that the bodies of a node read its last inputs.
pub(crate) fn capture(graph: &Graph, node: &mut Node) {
    let formal = match node.is_control() {
        true if *node.op == IF => 1,
        true => {
            2 + node
                .attributes
                .int("states", 0)
                .map_or(0, |states| states.max(0) as usize)
        }
        false => return,
    };
    let mut read = BTreeSet::new();
    for body in graph.bodies_of(node) {
        let made = body.nodes.iter().flat_map(|node| &node.outputs).flatten();
        let made: BTreeSet<&ValueId> = made.chain(&body.inputs).collect();
        let inputs = body.nodes.iter().flat_map(|node| &node.inputs).flatten();
        let used = inputs.chain(&body.outputs);
        let unknown = |id: &&ValueId| graph.value(**id).known().is_none();
        read.extend(
            used.filter(|id| !made.contains(id))
                .filter(unknown)
                .copied(),
        );
    }
    node.inputs.truncate(formal);
    node.inputs.resize(formal, None);
    node.inputs.extend(read.into_iter().map(Some));
}

/// Sets the types of the arguments of a loop's body: the number of the iteration, the condition, the states.
fn set_arguments(
    graph: &mut Graph,
    body: usize,
    states: &[ControlType],
    changing: &Changing,
) -> Result<()> {
    let arguments = graph.bodies[body].inputs.clone();
    let fixed = [DataType::I64, DataType::Bool];
    let fixed = fixed.map(|dtype| ControlType::Tensor((dtype, Vec::new())));
    let types = fixed.iter().chain(states).enumerate();
    for (&id, (index, ty)) in arguments.iter().zip(types) {
        let (dtype, shape) = match ty {
            ControlType::Tensor(ty) => ty,
            ControlType::List(ty) => {
                graph.value_mut(id).list = Some(List::of_type(ty.clone()));
                continue;
            }
        };
        let mut shape = shape.clone();
        for (axis, extent) in shape.iter_mut().enumerate() {
            if index >= 2 && changing.contains(&(index - 2, axis)) {
                let definition = Definition {
                    value: id,
                    source: DataSizeSource::Extent(axis),
                    example: None,
                };
                *extent = define(graph, definition)?;
            }
        }
        let ty = TensorType::new(*dtype, example(graph, &shape)?)?;
        let value = graph.value_mut(id);
        value.ty = Some(ty);
        value.extents = Some(shape);
    }
    Ok(())
}

/// The extents of states that the body changes and that are not symbols yet.
fn changed(
    graph: &Graph,
    body: usize,
    states: &[ControlType],
    changing: &Changing,
) -> Result<Changing> {
    let mut more = Changing::new();
    let outputs = &graph.bodies[body].outputs;
    for (index, state) in states.iter().enumerate() {
        let ControlType::Tensor((dtype, before)) = state else {
            continue;
        };
        let id = outputs.get(index + 1).copied();
        let id = id.ok_or_else(|| invalid("a body without one of its states"))?;
        if graph.value(id).list.is_some() {
            return Err(invalid(
                "a state of a Loop that becomes a sequence or optional value",
            ));
        }
        // A failure is reported at its node; with other extents there may be none.
        let Some((after_dtype, after)) = symbolic_type(graph, id) else {
            let all = (0..before.len()).map(|axis| (index, axis));
            more.extend(all.filter(|place| !changing.contains(place)));
            continue;
        };
        if *dtype != after_dtype || before.len() != after.len() {
            let text = "a state of a Loop changes its data type or number of dimensions";
            let error = Error::new(ErrorKind::Unsupported, text);
            let shown = |dtype: DataType, rank: usize| format!("{dtype} with {rank} dimensions");
            return Err(error
                .expected(shown(*dtype, before.len()))
                .found(shown(after_dtype, after.len())));
        }
        let axes = before.iter().zip(&after).enumerate();
        let differing = axes.filter(|(_, (before, after))| before != after);
        let places = differing.map(|(axis, _)| (index, axis));
        more.extend(places.filter(|place| !changing.contains(place)));
    }
    Ok(more)
}

/// The types of the states, where those of lists include the values after an iteration.
fn joined_lists(
    graph: &Graph,
    body: usize,
    states: &[ControlType],
    outer: usize,
) -> Result<Vec<ControlType>> {
    let outputs = graph.bodies[body].outputs.iter().skip(1);
    let join = |(state, &id): (&ControlType, &ValueId)| match state {
        ControlType::Tensor(_) => Ok(state.clone()),
        ControlType::List(before) => match control_type(graph, id) {
            Some(ControlType::List(after)) => Ok(ControlType::List(
                before.join(&without_inner(after, outer))?,
            )),
            Some(ControlType::Tensor(_)) => Err(invalid(
                "a sequence or optional value that a Loop makes a tensor",
            )),
            // A failure is reported at its node.
            None => Ok(state.clone()),
        },
    };
    states.iter().zip(outputs).map(join).collect()
}

/// The type without extents of symbols that bodies define, which are those from `outer` on.
fn without_inner(ty: ListType, outer: usize) -> ListType {
    let is_outer = |extent: &SizeExpr| {
        let symbols = extent.symbols();
        symbols.iter().all(|symbol| symbol.index() < outer)
    };
    ListType {
        elements: ty.elements.retain(is_outer),
        ..ty
    }
}

fn set_list(graph: &mut Graph, id: ValueId, ty: ListType, outer: usize) {
    graph.value_mut(id).list = Some(List::of_type(without_inner(ty, outer)));
}

fn control_type(graph: &Graph, id: ValueId) -> Option<ControlType> {
    let list = graph.value(id).list.as_ref();
    let list = list.map(|list| ControlType::List(list.ty.clone()));
    list.or_else(|| symbolic_type(graph, id).map(ControlType::Tensor))
}

/// The number of iterations, if it does not depend on data: the condition is always true and the limit is a size.
fn trip_count(graph: &Graph, node: &Node, body: usize) -> Result<Option<SizeExpr>> {
    let input = |index: usize| node.inputs.get(index).copied().flatten();
    let is_true = |id: ValueId| graph.value(id).constant.as_ref().and_then(truth) == Some(true);
    let body = &graph.bodies[body];
    let Some(&after) = body.outputs.first() else {
        return Ok(None);
    };
    // Through copies of the condition that the iteration got.
    let mut kept = after;
    for node in body.nodes.iter().rev() {
        if node.op.name == "Identity" && node.outputs.contains(&Some(kept)) {
            kept = node.inputs.first().copied().flatten().unwrap_or(kept);
        }
    }
    let begins = input(1).is_none_or(is_true);
    if !begins || !(is_true(kept) || body.inputs.get(1) == Some(&kept)) {
        return Ok(None);
    }
    let Some(limit) = input(0) else {
        return Ok(None);
    };
    let limit = graph.value(limit);
    let constant = limit.constant.as_ref().and_then(Tensor::to_i64s);
    let constant = constant.and_then(|elements| elements.first().copied());
    let sizes = limit
        .sizes
        .as_ref()
        .and_then(|sizes| sizes.elements.first());
    let limit = constant.map(SizeExpr::from).or(sizes.cloned());
    limit
        .map(|limit| graph.symbols.max(&limit, &0.into()))
        .transpose()
}

/// The extents in which both types agree.
fn join(a: &SymbolicType, b: &SymbolicType) -> Result<Vec<Option<SizeExpr>>> {
    let (dtype, extents) = a;
    if *dtype != b.0 || extents.len() != b.1.len() {
        let text = "the branches of an If differ in data type or rank";
        let shown = |ty: &SymbolicType| format!("{} with {} dimensions", ty.0, ty.1.len());
        let error = Error::new(ErrorKind::Unsupported, text);
        return Err(error.expected(shown(a)).found(shown(b)));
    }
    let pairs = extents.iter().zip(&b.1);
    Ok(pairs.map(|(a, b)| (a == b).then(|| a.clone())).collect())
}

/// Sets the type of an output. Extents that are unknown, or depend on symbols that the node's bodies define, which are
/// those from `outer` on, are new symbols, with these examples if there are any.
pub(crate) fn set_type(
    graph: &mut Graph,
    id: ValueId,
    dtype: DataType,
    extents: Vec<Option<SizeExpr>>,
    (outer, examples): (usize, &[usize]),
) -> Result<()> {
    let is_outer = |extent: &SizeExpr| {
        let symbols: Vec<SymbolId> = extent.symbols();
        symbols.iter().all(|symbol| symbol.index() < outer)
    };
    let mut shape = Vec::with_capacity(extents.len());
    for (axis, extent) in extents.into_iter().enumerate() {
        shape.push(match extent.filter(is_outer) {
            Some(extent) => extent,
            None => define(
                graph,
                Definition {
                    value: id,
                    source: DataSizeSource::Extent(axis),
                    example: examples.get(axis).map(|&size| size as i64),
                },
            )?,
        });
    }
    let ty = TensorType::new(dtype, example(graph, &shape)?)?;
    let value = graph.value_mut(id);
    value.ty = Some(ty);
    value.extents = Some(shape);
    Ok(())
}

fn symbolic_type(graph: &Graph, id: ValueId) -> Option<SymbolicType> {
    let value = graph.value(id);
    let constant = value.constant.as_ref().map(Tensor::ty);
    let ty = value.ty.as_ref().or(constant)?;
    Some((ty.dtype(), extents(value)?))
}

/// The shape for the example sizes.
fn example(graph: &Graph, extents: &[SizeExpr]) -> Result<Shape> {
    tenon_graph::shape_for(extents, &graph.example_sizes)
}

/// The truth value of a tensor of one element.
fn truth(tensor: &Tensor) -> Option<bool> {
    match (tensor.dtype(), tensor.bytes()) {
        (DataType::Bool, [truth]) => Some(*truth != 0),
        _ => None,
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidModel, message)
}
