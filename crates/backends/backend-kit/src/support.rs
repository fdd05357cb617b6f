//! Support queries: valid nodes, invalid operands, and optimised subgraphs.

use crate::report::Report;
use crate::samples::{Sample, samples, values};
use std::collections::BTreeSet;
use tenon_backend::{
    Backend, CpuLevel, DYNAMIC_SHAPES, MAX_TARGET, NodeView, Reason, Subgraph, Tolerance,
    WorkloadSpec, evaluate, supports,
};
use tenon_base::{Error, ErrorKind, Result};
use tenon_cpu_ref::CpuRef;
use tenon_graph::operator::OperatorClass;
use tenon_graph::{Attributes, Graph, NodeId, OperatorDef};
use tenon_tensor::{DataType, Tensor, TensorType};

/// An operator that no backend supports.
static UNKNOWN: OperatorDef = OperatorDef {
    name: "kit.Unknown",
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
    unknown_operator(report, backend);
    wrong_operands(report, backend);
    capabilities(report, backend);
    tolerances(report, backend);
    target(report, backend);
    ranges(report, backend);
    subgraphs(report, backend);
}

/// The supported samples, and whether every refusal has a reason.
fn support(report: &mut Report, backend: &dyn Backend) {
    let all = samples();
    let mut supported = BTreeSet::new();
    let mut silent = Vec::new();
    for sample in &all {
        match sample.with_view(backend, |backend, view| backend.supports(view)) {
            Ok(()) => drop(supported.insert(sample.node.op.name)),
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
            format!(
                "supports {}",
                supported.into_iter().collect::<Vec<_>>().join(", ")
            ),
        )
    } else {
        report.failed(
            "support, and reasons of refusals",
            format!("refused without a reason: {}", silent.join(", ")),
        )
    }
}

fn unknown_operator(report: &mut Report, backend: &dyn Backend) {
    let view = NodeView {
        op: &UNKNOWN,
        attributes: &Attributes::new(),
        inputs: &[],
        constants: &[],
        outputs: &[],
        ranges: None,
    };
    match backend.supports(&view).map_err(|refusal| refusal.reason) {
        Err(Reason::UnknownOperator) => report.passed("an unknown operator", "refused as unknown"),
        Err(other) => report.passed("an unknown operator", format!("refused: {}", other.code())),
        Ok(()) => report.failed("an unknown operator", "it is supported"),
    }
}

/// The tolerances that the other checks apply.
fn tolerances(report: &mut Report, backend: &dyn Backend) {
    const NAME: &str = "numeric tolerances";
    let all = backend.tolerances();
    if all.is_empty() {
        return report.skipped(NAME, "it states none");
    }
    let texts: Vec<String> = all.iter().map(Tolerance::to_string).collect();
    report.result(NAME, Tolerance::check(&all).map(|()| texts.join("; ")));
}

/// The target, which must be the same in each query: a package is compared with it.
fn target(report: &mut Report, backend: &dyn Backend) {
    const NAME: &str = "target";
    match backend.target() {
        None => report.skipped(NAME, "it states none"),
        Some(target) if target.is_empty() || target.len() > MAX_TARGET => {
            let text = format!("{} bytes: expected 1 to {MAX_TARGET}", target.len());
            report.failed(NAME, text)
        }
        Some(target) if backend.target().as_ref() != Some(&target) => {
            report.failed(NAME, "two queries differ")
        }
        Some(target) => report.passed(NAME, target),
    }
}

/// Supported samples without their last input and without operands: the query and the creation of
/// the workload must be refused without a crash.
fn wrong_operands(report: &mut Report, backend: &dyn Backend) {
    let mut problems = Vec::new();
    let mut count = 0;
    for sample in samples()
        .iter()
        .filter(|sample| sample.is_supported(backend))
    {
        count += 1;
        let fewer = &sample.inputs[..sample.inputs.len() - 1];
        for (what, keep) in [("without its last input", fewer), ("without inputs", &[])] {
            if is_supported_with(backend, sample, keep) {
                problems.push(format!("{} {what} is supported", sample.name));
            }
        }
    }
    report.problems("wrong operands", count, &problems);
}

fn is_supported_with(backend: &dyn Backend, sample: &Sample, inputs: &[Tensor]) -> bool {
    let types: Vec<_> = inputs.iter().map(|input| Some(input.ty())).collect();
    let constants: Vec<_> = inputs.iter().map(Some).collect();
    let outputs: Vec<_> = sample.outputs.iter().map(Some).collect();
    let supported = backend.supports(&NodeView {
        op: sample.node.op,
        attributes: &sample.node.attributes,
        inputs: &types,
        constants: &constants,
        outputs: &outputs,
        ranges: None,
    });
    // Optional inputs, such as a bias, may be absent.
    let last = sample.node.op.input(inputs.len());
    let optional = last.is_none_or(|row| row.arity != tenon_graph::operator::Arity::Required);
    let spec = WorkloadSpec {
        op: sample.node.op,
        attributes: sample.node.attributes.clone(),
        inputs: Vec::new(),
        outputs: sample.output_types(),
        ranges: None,
    };
    let is_created = inputs.is_empty() && backend.workload(&spec).is_ok();
    (supported.is_ok() && !optional) || is_created
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

/// Of a backend with [`DYNAMIC_SHAPES`]: nodes for ranges of sizes are planned where they are supported, and refused with
/// a reason elsewhere.
fn ranges(report: &mut Report, backend: &dyn Backend) {
    const NAME: &str = "nodes for ranges of sizes";
    if !backend.takes_dynamic_shapes() {
        return report.skipped(NAME, format!("no capability {DYNAMIC_SHAPES}"));
    }
    let (mut problems, mut count) = (Vec::new(), 0);
    for sample in samples() {
        let ranges = sample.ranges();
        let supported = sample.with_view(backend, |backend, view| {
            backend.supports(&NodeView {
                ranges: Some(&ranges),
                constants: &vec![None; view.inputs.len()],
                ..view.clone()
            })
        });
        match supported {
            Ok(()) => {
                count += 1;
                let spec = WorkloadSpec {
                    ranges: Some(ranges),
                    ..sample.spec(false)
                };
                let planned = backend.plan(&spec, CpuLevel::Baseline);
                problems.extend(
                    planned
                        .err()
                        .map(|error| format!("{}: {error}", sample.name)),
                );
            }
            Err(refusal) if refusal.to_string().is_empty() => {
                problems.push(format!("{}: refused without a reason", sample.name));
            }
            Err(_) => {}
        }
    }
    report.problems(NAME, count, &problems);
}

/// The optimised form of a chain of supported nodes must be consistent, verify, and compute the
/// same.
fn subgraphs(report: &mut Report, backend: &dyn Backend) {
    for text in CHAINS {
        let result = subgraph(backend, text);
        report.result("an optimised subgraph", result);
    }
}

/// Chains of nodes that backends may fuse.
const CHAINS: [&str; 3] = [
    "(%a: f32[2, 3], %b: f32[2, 3], %c: f32[2, 3]) -> (%y) {\n\
     %m = Mul(%a, %b)\n%s = Add(%m, %c)\n%y = Relu(%s)\n}",
    "(%a: f32[2, 3], %b: f32[2, 3]) -> (%y, %s) {\n\
     %s = Add(%a, %b)\n%n = Neg(%s)\n%y = Abs(%n)\n}",
    "(%a: f32[4, 6], %b: f32[6, 5], %c: f32[5]) -> (%y) {\n\
     %m = MatMul(%a, %b)\n%s = Add(%m, %c)\n%y = Softmax(%s)\n}",
];

/// The first chain.
pub(crate) fn chain() -> Result<Graph> {
    parse(CHAINS[0])
}

fn parse(text: &str) -> Result<Graph> {
    let mut whole: Graph = format!("graph \"chain\" {text}").parse()?;
    whole.infer_types()?;
    Ok(whole)
}

fn subgraph(backend: &dyn Backend, text: &str) -> Result<String> {
    let whole = parse(text)?;
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
        let stated = backend.tolerance(expected.dtype());
        if let Some(difference) = crate::compare::difference(expected, found, stated.as_ref())? {
            let error = Error::new(ErrorKind::ExecutionFailed, "it computes another result");
            return Err(error.found(difference));
        }
    }
    Ok(format!(
        "{} nodes became {}",
        whole.nodes.len(),
        after.nodes.len()
    ))
}

/// The outputs of a graph, node by node: on the backend, or on `CpuRef` for unsupported nodes.
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
        let output_types: Vec<Option<TensorType>> = node
            .outputs
            .iter()
            .map(|id| id.and_then(|id| graph.value(id).ty.clone()))
            .collect();
        let supported = supports(backend, node.op, &node.attributes, &inputs, &output_types);
        let chosen: &dyn Backend = match supported {
            Ok(()) => backend,
            Err(_) => &CpuRef,
        };
        let outputs = evaluate(chosen, node.op, &node.attributes, &inputs, &output_types)?;
        for (id, tensor) in node.outputs.iter().zip(outputs) {
            if let Some(id) = id {
                known[id.index()] = tensor;
            }
        }
    }
    let missing = || Error::new(ErrorKind::Internal, "an output was not computed");
    let outputs = graph.outputs.iter();
    outputs
        .map(|id| known[id.index()].clone().ok_or_else(missing))
        .collect()
}
