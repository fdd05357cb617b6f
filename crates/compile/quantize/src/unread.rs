//! Parts of a model that the reader skips, so that a copy of the model would lack them.

use crate::index::subgraphs;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_onnx::proto::{GraphProto, ModelProto, NodeProto, TypeValue, attribute_type};

/// Checks that a model can be written again.
///
/// # Errors
/// Values that are sparse or opaque, and attributes with several tensors or graphs, or with sparse tensors; all
/// together.
pub(crate) fn check(model: &ModelProto) -> Result<()> {
    let mut problems = Vec::new();
    let functions = model.functions.iter();
    nodes(functions.flat_map(|function| &function.node), &mut problems);
    if let Some(main) = &model.graph {
        graph(main, &mut problems);
    }
    Error::from_all(problems).map_or(Ok(()), Err)
}

fn graph(graph: &GraphProto, problems: &mut Vec<Error>) {
    for value in graph.input.iter().chain(&graph.output) {
        let ty = value.r#type.as_deref().and_then(|ty| ty.value.as_ref());
        let is_unread = matches!(ty, Some(TypeValue::Opaque(_) | TypeValue::SparseTensor(_)));
        if is_unread {
            let place = Location::field(format!("value '{}'", value.name));
            problems.push(unsupported("a sparse or an opaque value").at(place));
        }
    }
    nodes(graph.node.iter(), problems);
}

fn nodes<'a>(nodes: impl Iterator<Item = &'a NodeProto>, problems: &mut Vec<Error>) {
    for node in nodes {
        for attribute in &node.attribute {
            let is_unread = matches!(
                attribute.r#type,
                attribute_type::TENSORS
                    | attribute_type::GRAPHS
                    | attribute_type::SPARSE_TENSOR
                    | attribute_type::SPARSE_TENSORS
                    | attribute_type::TYPE_PROTOS
            );
            if is_unread {
                let what = format!("the attribute '{}'", attribute.name);
                problems.push(unsupported(&what).at(Location::node(&node.name)));
            }
        }
        subgraphs(node).for_each(|subgraph| graph(subgraph, problems));
    }
}

fn unsupported(what: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("a model cannot be quantised with {what}"),
    )
}
