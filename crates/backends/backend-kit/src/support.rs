//! Asking for support: with sense, without sense, and what a subgraph becomes.

use crate::report::Report;
use crate::samples::{Sample, samples, values};
use std::collections::BTreeSet;
use tenon_backend::{Backend, NodeView, Reason, Subgraph, WorkloadSpec, evaluate, supports};
use tenon_base::{Error, ErrorKind, Result};
use tenon_cpu_ref::CpuRef;
use tenon_graph::operator::OperatorClass;
use tenon_graph::{Attributes, Graph, NodeId, OperatorDef};
use tenon_tensor::{DataType, Tensor, TensorType};

/// An operator that no backend can know.
static UNHEARD: OperatorDef = OperatorDef {
    name: "kit.Unheard",
    family: "kit",
    doc: "",
    class: OperatorClass::Compute,
    inputs: &[],
    outputs: &[],
    attributes: &[],
    infer: |_| Ok(Vec::new()),
};

pub(crate) fn check(report: &mut Report, backend: &dyn Backend) {
    support(report, backend);
    unheard(report, backend);
    wrong_operands(report, backend);
    capabilities(report, backend);
    subgraphs(report, backend);
}

/// How much of the samples it supports, and whether every refusal says why.
fn support(report: &mut Report, backend: &dyn Backend) {
    let all = samples();
    let mut taken = BTreeSet::new();
    let mut silent = Vec::new();
    for sample in &all {
        match sample.asked(backend, |backend, view| backend.supports(view)) {
            Ok(()) => drop(taken.insert(sample.node.op.name)),
            Err(refusal) => {
                let text = refusal.to_string();
                let is_silent = text.is_empty() || text == "no reason given";
                silent.extend(is_silent.then(|| sample.name.clone()));
            }
        }
    }
    if silent.is_empty() {
        report.passed(
            "support, and reasons of refusals",
            format!("takes {}", taken.into_iter().collect::<Vec<_>>().join(", ")),
        )
    } else {
        report.failed(
            "support, and reasons of refusals",
            format!("refused without a reason: {}", silent.join(", ")),
        )
    }
}

fn unheard(report: &mut Report, backend: &dyn Backend) {
    let view = NodeView {
        op: &UNHEARD,
        attributes: &Attributes::new(),
        inputs: &[],
        constants: &[],
        outputs: &[],
    };
    match backend.supports(&view).map_err(|refusal| refusal.reason) {
        Err(Reason::UnknownOperator) => report.passed("an unknown operator", "refused as unknown"),
        Err(other) => report.passed("an unknown operator", format!("refused: {}", other.code())),
        Ok(()) => report.failed("an unknown operator", "it was taken"),
    }
}

/// Each sample that is taken, with an input too few and with operands left out: refused when asked
/// and when made, not crashed on.
fn wrong_operands(report: &mut Report, backend: &dyn Backend) {
    let mut problems = Vec::new();
    let mut count = 0;
    for sample in samples().iter().filter(|sample| sample.is_taken(backend)) {
        count += 1;
        let fewer = &sample.inputs[..sample.inputs.len() - 1];
        for (what, keep) in [("without its last input", fewer), ("without inputs", &[])] {
            if is_taken_with(backend, sample, keep) {
                problems.push(format!("{} {what} was taken", sample.name));
            }
        }
    }
    report.problems("wrong operands", count, &problems);
}

fn is_taken_with(backend: &dyn Backend, sample: &Sample, inputs: &[Tensor]) -> bool {
    let types: Vec<_> = inputs.iter().map(|input| Some(input.ty())).collect();
    let constants: Vec<_> = inputs.iter().map(Some).collect();
    let outputs: Vec<_> = sample.outputs.iter().map(Some).collect();
    let taken = backend.supports(&NodeView {
        op: sample.node.op,
        attributes: &sample.node.attributes,
        inputs: &types,
        constants: &constants,
        outputs: &outputs,
    });
    // Bias and such may be left out.
    let last = sample.node.op.input(inputs.len());
    let optional = last.is_none_or(|row| row.arity != tenon_graph::operator::Arity::Required);
    let spec = WorkloadSpec {
        op: sample.node.op,
        attributes: sample.node.attributes.clone(),
        inputs: Vec::new(),
        outputs: sample.wanted(),
    };
    let made = inputs.is_empty() && backend.workload(&spec).is_ok();
    (taken.is_ok() && !optional) || made
}

fn capabilities(report: &mut Report, backend: &dyn Backend) {
    let all = backend.capabilities();
    let mut seen = BTreeSet::new();
    let twice: Vec<&str> = all
        .iter()
        .map(|capability| &*capability.name)
        .filter(|name| name.is_empty() || !seen.insert(*name))
        .collect();
    match twice.as_slice() {
        [] => report.passed("capabilities", format!("{} named", all.len())),
        twice => report.failed(
            "capabilities",
            format!("twice or unnamed: {}", twice.join(", ")),
        ),
    }
}

/// What the backend makes of a chain of nodes that it takes must add up, verify, and compute the
/// same.
fn subgraphs(report: &mut Report, backend: &dyn Backend) {
    for text in CHAINS {
        let answer = subgraph(backend, text);
        report.told("an optimised subgraph", answer);
    }
}

/// Chains of nodes that backends may take as one.
const CHAINS: [&str; 3] = [
    "(%a: f32[2, 3], %b: f32[2, 3], %c: f32[2, 3]) -> (%y) {\n\
     %m = Mul(%a, %b)\n%s = Add(%m, %c)\n%y = Relu(%s)\n}",
    "(%a: f32[2, 3], %b: f32[2, 3]) -> (%y, %s) {\n\
     %s = Add(%a, %b)\n%n = Neg(%s)\n%y = Abs(%n)\n}",
    "(%a: f32[4, 6], %b: f32[6, 5], %c: f32[5]) -> (%y) {\n\
     %m = MatMul(%a, %b)\n%s = Add(%m, %c)\n%y = Softmax(%s)\n}",
];

/// The first of them.
pub(crate) fn chain() -> Result<Graph> {
    whole(CHAINS[0])
}

fn whole(text: &str) -> Result<Graph> {
    let mut whole: Graph = format!("graph \"chain\" {text}").parse()?;
    whole.infer_types()?;
    Ok(whole)
}

fn subgraph(backend: &dyn Backend, text: &str) -> Result<String> {
    let whole = whole(text)?;
    let nodes: Vec<NodeId> = whole.ids().collect();
    let part = Subgraph::of(&whole, &nodes);
    let views = backend.optimise(&part.graph)?;
    let mut after = whole.clone();
    part.apply(&views, &mut after)?;
    after.infer_types()?;
    tenon_graph::verify(&after)?;
    let expected = run(&whole, &CpuRef)?;
    let found = run(&after, backend)?;
    for (expected, found) in expected.iter().zip(&found) {
        if let Some(difference) = crate::compare::difference(expected, found)? {
            let error = Error::new(ErrorKind::ExecutionFailed, "it computes something else");
            return Err(error.found(difference));
        }
    }
    Ok(format!(
        "{} nodes became {}",
        whole.nodes.len(),
        after.nodes.len()
    ))
}

/// The outputs of a graph, node by node: on the backend, or on the reference what it does not take.
fn run(graph: &Graph, backend: &dyn Backend) -> Result<Vec<Tensor>> {
    let mut known: Vec<Option<Tensor>> = graph
        .values
        .iter()
        .map(|value| value.constant.clone())
        .collect();
    for (index, id) in graph.inputs.iter().enumerate() {
        let ty = graph.value(*id).ty.as_ref();
        let ty = ty.cloned().unwrap_or(TensorType::new(DataType::F32, [0])?);
        known[id.index()] = Some(values(&ty, index)?);
    }
    for node in &graph.nodes {
        let inputs: Vec<Option<&Tensor>> = node
            .inputs
            .iter()
            .map(|id| id.and_then(|id| known[id.index()].as_ref()))
            .collect();
        let wanted: Vec<Option<TensorType>> = node
            .outputs
            .iter()
            .map(|id| id.and_then(|id| graph.value(id).ty.clone()))
            .collect();
        let taken = supports(backend, node.op, &node.attributes, &inputs, &wanted);
        let chosen: &dyn Backend = match taken {
            Ok(()) => backend,
            Err(_) => &CpuRef,
        };
        let made = evaluate(chosen, node.op, &node.attributes, &inputs, &wanted)?;
        for (id, tensor) in node.outputs.iter().zip(made) {
            if let Some(id) = id {
                known[id.index()] = tensor;
            }
        }
    }
    let missing = || Error::new(ErrorKind::Internal, "an output was not made");
    let outputs = graph.outputs.iter();
    outputs
        .map(|id| known[id.index()].clone().ok_or_else(missing))
        .collect()
}
