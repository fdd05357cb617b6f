//! The last step of an import: nodes of the draft get their operator definitions; unsupported ones are
//! reported.

use crate::draft::{CONTROL, Draft, DraftNode};
use crate::dtype::data_type;
use crate::unsupported::Unsupported;
use std::collections::HashSet;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::control::{Body, IF, LOOP};
use tenon_graph::host::host_operator;
use tenon_graph::operator::operator;
use tenon_graph::{
    Attribute, AttributeKind, Attributes, Graph, Node, OperatorDef, TensorType, ValueId,
    check_attributes, check_inputs, check_outputs, check_types,
};

/// Attributes that are element types: integers in ONNX, names in the operator table.
const ELEMENT_TYPES: &[&str] = &[
    "to",
    "dtype",
    "output_dtype",
    "output_datatype",
    "precision",
    "softmax_precision",
];

/// The graph of a draft, and the errors of its nodes; unsupported features are added to
/// `unsupported`.
pub(crate) fn graph(mut draft: Draft, unsupported: &mut Unsupported) -> (Graph, Vec<Error>) {
    let used = used(&draft);
    let mut errors = Vec::new();
    for node in std::mem::take(&mut draft.nodes) {
        let name = node.name.clone();
        match resolve(&draft, node, &used, unsupported) {
            Ok(node) => draft.graph.nodes.extend(node),
            Err(error) => errors.push(error.at(Location::node(name))),
        }
    }
    for body in std::mem::take(&mut draft.bodies) {
        let mut nodes = Vec::with_capacity(body.nodes.len());
        for node in body.nodes {
            let name = node.name.clone();
            match resolve(&draft, node, &used, unsupported) {
                Ok(node) => nodes.extend(node),
                Err(error) => errors.push(error.at(Location::node(name))),
            }
        }
        draft.graph.bodies.push(Body {
            nodes,
            inputs: body.inputs,
            outputs: body.outputs,
        });
    }
    // Unused nodes and initialisers, and the constant conditions of If nodes.
    if errors.is_empty() {
        draft.graph.remove_dead();
    }
    (draft.graph, errors)
}

/// The values that nodes use, and the outputs.
fn used(draft: &Draft) -> HashSet<ValueId> {
    let bodies = || draft.bodies.iter();
    let nodes = draft
        .nodes
        .iter()
        .chain(bodies().flat_map(|body| &body.nodes));
    let inputs = nodes.flat_map(|node| node.inputs.iter().flatten());
    let outputs = bodies().flat_map(|body| &body.outputs);
    let outputs = outputs.chain(&draft.graph.outputs);
    inputs.chain(outputs).copied().collect()
}

/// The node with its operator definition, when it is supported.
pub(crate) fn known(draft: &Draft, node: DraftNode, used: &HashSet<ValueId>) -> Option<Node> {
    let resolved = resolve(draft, node, used, &mut Unsupported::default());
    resolved.ok().flatten()
}

/// The node with its operator definition; `None` when a part of it is unsupported.
fn resolve(
    draft: &Draft,
    mut node: DraftNode,
    used: &HashSet<ValueId>,
    unsupported: &mut Unsupported,
) -> Result<Option<Node>> {
    let row = match (node.domain.as_str(), node.operator.as_str()) {
        ("", name) => operator(name).or_else(|| host_operator(name)),
        (CONTROL, "If") => Some(&IF),
        (CONTROL, _) => Some(&LOOP),
        _ => None,
    };
    let Some(op) = row else {
        unsupported.add(&node.origin, "unknown operator");
        return Ok(None);
    };
    if node.domain == CONTROL {
        let DraftNode {
            name,
            attributes,
            inputs,
            outputs,
            ..
        } = node;
        return Ok(Some(Node {
            name,
            op,
            attributes,
            inputs,
            outputs,
        }));
    }
    let mut problems = Vec::new();
    let attributes = element_types(op, node.attributes.clone(), &mut problems);
    trim(&mut node, op, used);
    problems.extend(check_attributes(op, &attributes));
    problems.extend(check_inputs(op, &present(&node.inputs)));
    problems.extend(check_outputs(op, &present(&node.outputs)));
    problems.extend(check_types(op, &types(draft, &node)?.each()));
    let (lacking, wrong): (Vec<_>, Vec<_>) = problems
        .into_iter()
        .partition(|problem| problem.kind() == ErrorKind::Unsupported);
    for problem in &lacking {
        unsupported.add(&node.origin, problem.to_string());
    }
    if let Some(error) = Error::from_all(wrong) {
        return Err(error);
    }
    let DraftNode {
        name,
        inputs,
        outputs,
        ..
    } = node;
    Ok(lacking.is_empty().then_some(Node {
        name,
        op,
        attributes,
        inputs,
        outputs,
    }))
}

/// The attributes, with element types as names.
fn element_types(
    op: &OperatorDef,
    mut attributes: Attributes,
    problems: &mut Vec<Error>,
) -> Attributes {
    for &name in ELEMENT_TYPES {
        let Some(row) = op
            .attribute(name)
            .filter(|row| row.kind == AttributeKind::String)
        else {
            continue;
        };
        let Some(&Attribute::Int(number)) = attributes.value(name) else {
            continue;
        };
        match data_type(number) {
            Ok(dtype) => attributes.set(name, Attribute::String(dtype.name().into())),
            // 0 is an absent type.
            Err(_) if number == 0 && !row.required => drop(attributes.remove(name)),
            Err(error) => {
                let message = format!("attribute '{name}': {}", error.message());
                problems.push(Error::new(error.kind(), message));
                attributes.set(name, Attribute::String(String::new()));
            }
        }
    }
    attributes
}

/// Removes unused outputs that the definition does not have, and omitted operands at the end of the
/// lists.
fn trim(node: &mut DraftNode, op: &OperatorDef, used: &HashSet<ValueId>) {
    for (index, output) in node.outputs.iter_mut().enumerate() {
        if op.output(index).is_none() && output.is_some_and(|value| !used.contains(&value)) {
            *output = None;
        }
    }
    for operands in [&mut node.inputs, &mut node.outputs] {
        while operands.last() == Some(&None) {
            operands.pop();
        }
    }
}

fn present(operands: &[Option<ValueId>]) -> Vec<bool> {
    operands.iter().map(Option::is_some).collect()
}

/// The types of a node's inputs; only the element types are meaningful.
struct InputTypes(Vec<Option<TensorType>>);

impl InputTypes {
    fn each(&self) -> Vec<Option<&TensorType>> {
        self.0.iter().map(Option::as_ref).collect()
    }
}

fn types(draft: &Draft, node: &DraftNode) -> Result<InputTypes> {
    let dtype = |input: &Option<ValueId>| input.and_then(|value| draft.info(value).dtype);
    let scalar = |dtype| TensorType::new(dtype, []);
    let types = node
        .inputs
        .iter()
        .map(|input| dtype(input).map(scalar).transpose());
    Ok(InputTypes(types.collect::<Result<_>>()?))
}
