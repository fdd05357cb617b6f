//! Types of the results of operators on strings, which the host program computes.

use crate::control::set_type;
use crate::data_sizes::extents;
use crate::infer::infer_node;
use crate::specialise::Specialiser;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::operator::operator;
use tenon_graph::{Attributes, Graph, Node, check_node, infer_symbolic};
use tenon_tensor::DataType;
use tenon_tensor::size::SizeExpr;

impl Specialiser<'_> {
    /// Sets the types of the outputs of an operator on strings. Extents that depend on the strings are new symbols.
    pub(crate) fn string_node(&mut self, graph: &mut Graph, node: &Node) -> Result<()> {
        let inputs = node.inputs.iter();
        let types = inputs.map(|id| id.and_then(|id| graph.value(id).ty.as_ref()));
        let types: Vec<_> = types.collect();
        let problems = check_node(node.op, &node.attributes, types.len(), &types);
        if let Some(error) = Error::from_all(problems) {
            return Err(error);
        }
        let first = node.inputs.first().copied().flatten();
        let shape = first.and_then(|id| extents(graph.value(id)));
        let shape =
            shape.ok_or_else(|| Error::new(ErrorKind::Internal, "strings without a type"))?;
        let known: Vec<Option<SizeExpr>> = shape.iter().cloned().map(Some).collect();
        let outputs = match node.op.name {
            "StringConcat" => vec![(DataType::String, broadcast(graph, node)?)],
            "RegexFullMatch" => vec![(DataType::Bool, known)],
            "StringSplit" => {
                let parts = known.iter().cloned().chain([None]).collect();
                vec![(DataType::String, parts), (DataType::I64, known)]
            }
            "tenon.Tokenizer" => {
                let tokens = known.into_iter().chain([None]).collect();
                vec![(DataType::String, tokens)]
            }
            _ => {
                let is_row = shape.len() == 2 && shape[0].constant().is_none_or(|rows| rows == 1);
                if shape.len() != 1 && !is_row {
                    let error = Error::new(ErrorKind::InvalidModel, "the shape of input 'X'");
                    return Err(error
                        .expected("one dimension, or two of which the first is 1")
                        .found(format_args!("{} dimensions", shape.len())));
                }
                let mut kept: Vec<Option<SizeExpr>> = vec![Some(1.into()); shape.len()];
                kept.pop();
                kept.push(None);
                vec![(DataType::String, kept)]
            }
        };
        for (id, (dtype, extents)) in node.outputs.iter().zip(outputs) {
            if let Some(id) = *id {
                set_type(graph, id, dtype, extents, (usize::MAX, &[]))?;
            }
        }
        Ok(())
    }
}

/// The extents of the inputs, broadcast: those of Equal.
fn broadcast(graph: &Graph, node: &Node) -> Result<Vec<Option<SizeExpr>>> {
    let equal = operator("Equal").ok_or_else(|| Error::new(ErrorKind::Internal, "no Equal"))?;
    let equal = Node {
        op: equal,
        attributes: Attributes::new(),
        ..node.clone()
    };
    let types = infer_node(graph, &equal, 1)?;
    let shape = types.first().map(|ty| ty.shape().len()).unwrap_or_default();
    if graph.symbols.is_empty() {
        let sizes = types.iter().flat_map(|ty| ty.shape().iter());
        return Ok(sizes.map(|&size| Some((size as i64).into())).collect());
    }
    // Extents without a rule are found by the operator.
    let outputs = infer_symbolic(graph, &equal, &types).ok();
    let extents = outputs.and_then(|outputs| Some(outputs.into_iter().next()?.extents));
    Ok(match extents {
        Some(extents) => extents.into_iter().map(Some).collect(),
        None => vec![None; shape],
    })
}
