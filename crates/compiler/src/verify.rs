//! Checks between stages: a pass that breaks the graph is a defect found at once.

use crate::infer::infer_node;
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::Graph;

/// Checks order, single definition and types of a specialised graph. `stage` names what ran last.
pub(crate) fn verify(graph: &Graph, stage: &str) -> Result<()> {
    let wrong = |text: String| Error::new(ErrorKind::Internal, format!("after {stage}: {text}"));
    let mut known = vec![false; graph.values.len()];
    for (index, value) in graph.values.iter().enumerate() {
        known[index] = value.constant.is_some();
    }
    for input in &graph.inputs {
        known[input.index()] = true;
    }
    for node in &graph.nodes {
        let at = |error: Error| error.at(Location::node(node.name.as_str()));
        for input in node.inputs.iter().flatten() {
            if !known.get(input.index()).copied().unwrap_or(false) {
                return Err(at(wrong(format!(
                    "value {input} is used before it is made"
                ))));
            }
        }
        let types = infer_node(graph, node, node.outputs.len())?;
        for (output, ty) in node.outputs.iter().zip(types) {
            let Some(output) = output else { continue };
            if std::mem::replace(&mut known[output.index()], true) {
                return Err(at(wrong(format!("value {output} is made twice"))));
            }
            if graph.value(*output).ty.as_ref() != Some(&ty) {
                let found = graph.value(*output).ty.as_ref().map(ToString::to_string);
                return Err(at(wrong("a value changed its type".into())
                    .expected(found.unwrap_or_default())
                    .found(ty)));
            }
        }
    }
    match graph.outputs.iter().find(|output| !known[output.index()]) {
        Some(output) => Err(wrong(format!("output {output} is not made"))),
        None => Ok(()),
    }
}
