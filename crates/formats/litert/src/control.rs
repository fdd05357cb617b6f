//! Control flow: operators whose bodies are subgraphs.

use crate::convert::Scope;
use crate::interface::subgraph;
use crate::model::{invalid, unsupported};
use crate::node::Operation;
use crate::proto;
use tenon_base::Result;
use tenon_onnx::proto::{GraphProto, data_type};

/// Runs one of two subgraphs: input 0 is the condition, the others are the arguments.
pub(crate) fn branch(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_if_options();
    let options = options.ok_or_else(|| invalid("the options of the operator are missing"))?;
    let condition = scalar_condition(op)?;
    let arguments = values(op, 1)?;
    let count = op.outputs.len();
    let mut attributes = Vec::with_capacity(2);
    let branches = [
        ("then_branch", options.then_subgraph_index()),
        ("else_branch", options.else_subgraph_index()),
    ];
    for (name, index) in branches {
        let label = format!("{}/{name}", op.label);
        op.conversion.begin_graph(&label);
        let results = inlined(op, index.into(), &arguments, &format!("{label}/"));
        let results = results.and_then(|results| outputs(op, results, count));
        let mut graph = op.conversion.end_graph();
        for name in results? {
            graph.output.push(untyped(&name));
        }
        attributes.push(proto::graph(name, graph));
    }
    let results = op.emit_many("If", &[&condition], attributes, count)?;
    set_all(op, results)
}

/// Runs a subgraph as long as another one returns true; the inputs are the first states, the outputs the last.
pub(crate) fn repeat(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_while_options();
    let options = options.ok_or_else(|| invalid("the options of the operator are missing"))?;
    let (condition, body) = (options.cond_subgraph_index(), options.body_subgraph_index());
    let states = values(op, 0)?;
    let label = op.label.clone();
    let first = inlined(op, condition.into(), &states, &format!("{label}/first/"))?;
    let first = one_bool(op, first)?;
    op.conversion.begin_graph(&format!("{label}/body"));
    let graph = repeat_body(op, condition.into(), body.into(), states.len());
    let ended = op.conversion.end_graph();
    let (inputs, results) = graph?;
    let graph = GraphProto {
        input: inputs,
        output: results.iter().map(|name| untyped(name)).collect(),
        ..ended
    };
    let mut operands = vec!["", first.as_str()];
    operands.extend(states.iter().map(String::as_str));
    let results = op.emit_many(
        "Loop",
        &operands,
        vec![proto::graph("body", graph)],
        states.len(),
    )?;
    set_all(op, results)
}

type LoopBody = (Vec<tenon_onnx::proto::ValueInfoProto>, Vec<String>);

/// The body of a loop: its inputs, and its results, of which the first is the condition.
fn repeat_body(
    op: &mut Operation<'_, '_>,
    condition: i64,
    body: i64,
    count: usize,
) -> Result<LoopBody> {
    let label = op.label.clone();
    let step = op.conversion.unique(&format!("{label}/step"));
    let given = op.conversion.unique(&format!("{label}/condition"));
    let states: Vec<String> = (0..count)
        .map(|_| op.conversion.unique(&format!("{label}/state")))
        .collect();
    let mut inputs = vec![
        proto::value(&step, data_type::INT64, Some(&[])),
        proto::value(&given, data_type::BOOL, Some(&[])),
    ];
    for (index, state) in states.iter().enumerate() {
        let info = op.info(index)?;
        inputs.push(proto::value(state, info.dtype, None));
    }
    let next = inlined(op, body, &states, &format!("{label}/body/"))?;
    let next = outputs(op, next, count)?;
    let again = inlined(op, condition, &next, &format!("{label}/condition/"))?;
    let again = one_bool(op, again)?;
    let results = outputs(op, vec![again], 1)?
        .into_iter()
        .chain(next)
        .collect();
    Ok((inputs, results))
}

/// Runs a subgraph.
pub(crate) fn call(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_call_options();
    let options = options.ok_or_else(|| invalid("the options of the operator are missing"))?;
    let arguments = values(op, 0)?;
    let prefix = format!("{}/", op.label);
    let results = inlined(op, options.subgraph().into(), &arguments, &prefix)?;
    set_all(op, results)
}

/// Runs a subgraph once, to set variables: one without operators has no effect.
pub(crate) fn call_once(op: &mut Operation<'_, '_>) -> Result<()> {
    let options = op.operator.builtin_options_as_call_once_options();
    let index = options.map_or(-1, |options| options.init_subgraph_index());
    let initial = subgraph(op.conversion.model, index.into())?;
    match initial.operators().map_or(0, |list| list.len()) {
        0 => Ok(()),
        _ => Err(unsupported(
            "a subgraph that sets variables is not supported",
        )),
    }
}

/// The values of the inputs from `first` on, as they are stored.
fn values(op: &mut Operation<'_, '_>, first: usize) -> Result<Vec<String>> {
    (first..op.inputs.len())
        .map(|index| op.stored(index))
        .collect()
}

/// Adds the nodes of a subgraph with these inputs, and returns its outputs.
fn inlined(
    op: &mut Operation<'_, '_>,
    index: i64,
    arguments: &[String],
    prefix: &str,
) -> Result<Vec<String>> {
    let graph = subgraph(op.conversion.model, index)?;
    let inputs: Vec<i32> = graph.inputs().into_iter().flatten().collect();
    if inputs.len() != arguments.len() {
        return Err(
            invalid("a subgraph is called with the wrong number of inputs")
                .expected(inputs.len())
                .found(arguments.len()),
        );
    }
    let mut scope: Scope<'_> = op.conversion.scope(graph, prefix.to_owned())?;
    for (&tensor, argument) in inputs.iter().zip(arguments) {
        op.conversion
            .set_input(&mut scope, tensor as usize, argument.clone())?;
    }
    op.conversion.subgraph(&mut scope)?;
    let mut results = Vec::new();
    for tensor in graph.outputs().into_iter().flatten() {
        results.push(op.conversion.value(&mut scope, tensor as usize)?);
    }
    Ok(results)
}

/// The outputs of a body, each a separate value that the body computes.
fn outputs(op: &mut Operation<'_, '_>, results: Vec<String>, count: usize) -> Result<Vec<String>> {
    if results.len() != count {
        return Err(invalid("a subgraph has the wrong number of outputs")
            .expected(count)
            .found(results.len()));
    }
    let results = results.iter();
    results
        .map(|result| op.emit("Identity", &[result], Vec::new()))
        .collect()
}

/// The condition of input 0.
fn scalar_condition(op: &mut Operation<'_, '_>) -> Result<String> {
    let condition = op.stored(0)?;
    let shape = op.i64_constant(&[]);
    op.emit("Reshape", &[&condition, &shape], Vec::new())
}

/// The only result of a subgraph that is a condition.
fn one_bool(op: &mut Operation<'_, '_>, results: Vec<String>) -> Result<String> {
    let [condition] = results.as_slice() else {
        return Err(
            invalid("the condition of a loop has the wrong number of outputs")
                .expected(1)
                .found(results.len()),
        );
    };
    let shape = op.i64_constant(&[]);
    op.emit("Reshape", &[condition, &shape], Vec::new())
}

fn untyped(name: &str) -> tenon_onnx::proto::ValueInfoProto {
    tenon_onnx::proto::ValueInfoProto {
        name: name.to_owned(),
        r#type: None,
    }
}

/// Sets all outputs to stored values.
fn set_all(op: &mut Operation<'_, '_>, results: Vec<String>) -> Result<()> {
    if results.len() != op.outputs.len() {
        return Err(invalid("a subgraph has the wrong number of outputs")
            .expected(op.outputs.len())
            .found(results.len()));
    }
    for (index, result) in results.into_iter().enumerate() {
        op.set_stored(index, result)?;
    }
    Ok(())
}
