//! Conversion of a graph from C.

#![allow(
    unsafe_code,
    reason = "operands in raw memory and calls through the C interface"
)]

use super::from_c::{Ownership, array, attributes, ids, invalid, list, records, tensor, text};
use tenon_backend_abi as abi;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::operator::operator;
use tenon_graph::{Graph, Node, Value, ValueId};

/// The graph, with values called `v0`, `v1` and so on. It is not verified.
///
/// # Safety
/// `raw` is valid (see [`from_c`](super::from_c)).
pub(crate) unsafe fn graph(raw: &abi::Graph, ownership: Ownership) -> Result<Graph> {
    // SAFETY: `raw` is valid (requirement): its lists are null or of the stated lengths, with valid
    // structs.
    unsafe {
        let mut graph = Graph::new("subgraph");
        let values = list(raw.values, raw.value_count, "the values of a graph")?;
        for (index, raw) in values.into_iter().enumerate() {
            let raw = raw.map(|raw| tensor(&raw, ownership)).transpose()?;
            let (ty, constant) = raw.map_or((None, None), |raw| (Some(raw.ty), raw.constant));
            graph.values.push(Value {
                name: format!("v{index}"),
                ty,
                constant,
                extents: None,
                sizes: None,
                list: None,
            });
        }
        let ends = |raw, what| -> Result<Vec<ValueId>> {
            let all = ids(raw, what)?.into_iter();
            all.map(|id| value_id(&graph, id, what)).collect()
        };
        let inputs = ends(raw.inputs, "the inputs of a graph")?;
        let outputs = ends(raw.outputs, "the outputs of a graph")?;
        (graph.inputs, graph.outputs) = (inputs, outputs);
        for raw in records(raw.nodes, raw.node_count, "the nodes of a graph")? {
            let node = node(&graph, &raw)?;
            graph.nodes.push(node);
        }
        Ok(graph)
    }
}

/// # Safety
/// `raw` is valid (see [`from_c`](super::from_c)).
unsafe fn node(graph: &Graph, raw: &abi::Node) -> Result<Node> {
    // SAFETY: `raw` is valid (requirement): its texts and arrays of values are null or of the
    // stated lengths.
    unsafe {
        let op = text(raw.op, "the operator of a node")?;
        let op = operator(&op).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("operator '{op}' is not known"))
        })?;
        let operands = |start, count, what| -> Result<Vec<Option<ValueId>>> {
            let all = array(start, count, what)?.iter();
            all.map(|&id| match id {
                abi::NO_VALUE => Ok(None),
                id => value_id(graph, id, what).map(Some),
            })
            .collect()
        };
        Ok(Node {
            name: text(raw.name, "the name of a node")?,
            op,
            attributes: attributes(raw)?,
            inputs: operands(raw.input_values, raw.input_count, "the inputs of a node")?,
            outputs: operands(raw.output_values, raw.output_count, "the outputs of a node")?,
        })
    }
}

fn value_id(graph: &Graph, id: u32, what: &str) -> Result<ValueId> {
    let exists = (id as usize) < graph.values.len();
    exists.then_some(ValueId(id)).ok_or_else(|| {
        invalid(format!("{what} name an undefined value"))
            .expected(format_args!("less than {}", graph.values.len()))
            .found(id)
    })
}
