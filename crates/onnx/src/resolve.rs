//! The last step of an import: nodes of a draft become rows of the operator table, and what the
//! table lacks is told.

use crate::draft::{Draft, DraftNode};
use crate::dtype::data_type;
use crate::unsupported::Unsupported;
use std::collections::HashSet;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::operator::{Arity, operator};
use tenon_graph::{Attribute, AttributeKind, Attributes, Graph, Node, OperatorDef, ValueId};

/// Attributes in which ONNX numbers an element type and the operator table names one.
const ELEMENT_TYPES: &[&str] = &[
    "to",
    "dtype",
    "output_dtype",
    "output_datatype",
    "precision",
];

/// The graph of a draft; what is wrong or unsupported is added to `errors` and `unsupported`.
pub(crate) fn graph(
    mut draft: Draft,
    errors: &mut Vec<Error>,
    unsupported: &mut Unsupported,
) -> Graph {
    let used = used(&draft);
    for node in std::mem::take(&mut draft.nodes) {
        let name = node.name.clone();
        match resolve(&draft, node, &used, unsupported) {
            Ok(node) => draft.graph.nodes.extend(node),
            Err(error) => errors.push(error.at(Location::node(name))),
        }
    }
    draft.graph
}

/// Values that a node or the caller uses.
fn used(draft: &Draft) -> HashSet<ValueId> {
    let inputs = draft
        .nodes
        .iter()
        .flat_map(|node| node.inputs.iter().flatten());
    inputs.chain(&draft.graph.outputs).copied().collect()
}

/// The node as a row of the table; `None` when something about it is unsupported.
fn resolve(
    draft: &Draft,
    mut node: DraftNode,
    used: &HashSet<ValueId>,
    unsupported: &mut Unsupported,
) -> Result<Option<Node>> {
    let row = if node.domain.is_empty() {
        operator(&node.operator)
    } else {
        None
    };
    let Some(op) = row else {
        unsupported.add(&node.origin, "unknown operator");
        return Ok(None);
    };
    let mut reasons = Vec::new();
    let attributes = attributes(op, &node.attributes, &mut reasons)?;
    trim(&mut node, op, used);
    inputs(draft, op, &node, &mut reasons)?;
    outputs(op, &node, &mut reasons)?;
    let supported = reasons.is_empty();
    for reason in reasons {
        unsupported.add(&node.origin, reason);
    }
    let DraftNode {
        name,
        inputs,
        outputs,
        ..
    } = node;
    Ok(supported.then_some(Node {
        name,
        op,
        attributes,
        inputs,
        outputs,
    }))
}

/// The attributes as the table wants them.
fn attributes(
    op: &OperatorDef,
    given: &Attributes,
    reasons: &mut Vec<String>,
) -> Result<Attributes> {
    let mut attributes = Attributes::new();
    for (name, value) in given.iter() {
        let Some(def) = op.attribute(name) else {
            reasons.push(format!("unknown attribute '{name}'"));
            continue;
        };
        let value = match value {
            Attribute::Int(number) if names_element_type(def.kind, name) => {
                // 0 stands for "not given".
                if *number == 0 && !def.required {
                    continue;
                }
                match data_type(*number) {
                    Ok(dtype) => Attribute::String(dtype.name().into()),
                    Err(error) if error.kind() == ErrorKind::Unsupported => {
                        reasons.push(format!(
                            "unsupported value of attribute '{name}': {}",
                            error.message()
                        ));
                        continue;
                    }
                    Err(error) => return Err(error.at(crate::attribute::place(name))),
                }
            }
            other => other.clone(),
        };
        if value.kind() != def.kind {
            return Err(invalid("an attribute of the wrong kind")
                .expected(def.kind)
                .found(value.kind())
                .at(crate::attribute::place(name)));
        }
        attributes.set(name, value);
    }
    let missing = |def: &&tenon_graph::operator::AttributeDef| {
        def.required && given.value(def.name).is_none()
    };
    match op.attributes.iter().find(missing) {
        Some(def) => Err(invalid(format!("attribute '{}' is missing", def.name))),
        None => Ok(attributes),
    }
}

fn names_element_type(kind: AttributeKind, name: &str) -> bool {
    kind == AttributeKind::String && ELEMENT_TYPES.contains(&name)
}

/// Drops optional outputs that nobody uses, and names of operands left out at the end.
fn trim(node: &mut DraftNode, op: &OperatorDef, used: &HashSet<ValueId>) {
    for (index, output) in node.outputs.iter_mut().enumerate().skip(1) {
        let optional = op
            .output(index)
            .is_none_or(|def| def.arity == Arity::Optional);
        if optional && output.is_some_and(|value| !used.contains(&value)) {
            *output = None;
        }
    }
    for operands in [&mut node.inputs, &mut node.outputs] {
        while operands.last() == Some(&None) {
            operands.pop();
        }
    }
}

fn inputs(
    draft: &Draft,
    op: &OperatorDef,
    node: &DraftNode,
    reasons: &mut Vec<String>,
) -> Result<()> {
    for index in 0..node.inputs.len().max(op.inputs.len()) {
        let Some(def) = op.input(index) else {
            reasons.push(format!("unknown input {index}"));
            continue;
        };
        let Some(value) = node.inputs.get(index).copied().flatten() else {
            if def.arity != Arity::Optional {
                return Err(invalid(format!("input '{}' is missing", def.name)));
            }
            continue;
        };
        if let Some(dtype) = draft.known(value).dtype
            && !def.types.contains(dtype)
        {
            reasons.push(format!("unsupported type {dtype} of input '{}'", def.name));
        }
    }
    Ok(())
}

fn outputs(op: &OperatorDef, node: &DraftNode, reasons: &mut Vec<String>) -> Result<()> {
    for index in 0..node.outputs.len().max(op.outputs.len()) {
        let wanted = node.outputs.get(index).copied().flatten().is_some();
        match op.output(index) {
            None if wanted => reasons.push(format!("unknown output {index}")),
            Some(def) if !wanted && index == 0 && def.arity == Arity::Required => {
                return Err(invalid(format!("output '{}' has no name", def.name)));
            }
            _ => {}
        }
    }
    Ok(())
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidModel, message)
}
