//! A graph that came in.

use super::incoming::{Keep, array, attributes, ids, invalid, list, records, tensor, text};
use tenon_backend_abi as abi;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::operator::operator;
use tenon_graph::{Graph, Node, Value, ValueId};

/// The graph; its values are called `v0`, `v1` and so on. Whether it is one that later steps can
/// take is the verifier's to say.
///
/// # Safety
/// What it points to is as the header says.
pub(crate) unsafe fn graph(told: &abi::Graph, keep: Keep) -> Result<Graph> {
    // SAFETY: the caller vouches.
    unsafe {
        let mut graph = Graph::new("subgraph");
        let values = list(told.values, told.value_count, "the values of a graph")?;
        for (index, told) in values.into_iter().enumerate() {
            let told = told.map(|told| tensor(&told, keep)).transpose()?;
            let (ty, constant) = told.map_or((None, None), |told| (Some(told.ty), told.constant));
            graph.values.push(Value {
                name: format!("v{index}"),
                ty,
                constant,
            });
        }
        let ends = |told, what| -> Result<Vec<ValueId>> {
            let all = ids(told, what)?.into_iter();
            all.map(|id| known(&graph, id, what)).collect()
        };
        let inputs = ends(told.inputs, "the inputs of a graph")?;
        let outputs = ends(told.outputs, "the outputs of a graph")?;
        (graph.inputs, graph.outputs) = (inputs, outputs);
        for told in records(told.nodes, told.node_count, "the nodes of a graph")? {
            let node = node(&graph, &told)?;
            graph.nodes.push(node);
        }
        Ok(graph)
    }
}

/// # Safety
/// What it points to is as the header says.
unsafe fn node(graph: &Graph, told: &abi::Node) -> Result<Node> {
    // SAFETY: the caller vouches.
    unsafe {
        let op = text(told.op, "the operator of a node")?;
        let op = operator(&op).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("operator '{op}' is not known"))
        })?;
        let operands = |start, count, what| -> Result<Vec<Option<ValueId>>> {
            let all = array(start, count, what)?.iter();
            all.map(|&id| match id {
                abi::NO_VALUE => Ok(None),
                id => known(graph, id, what).map(Some),
            })
            .collect()
        };
        Ok(Node {
            name: text(told.name, "the name of a node")?,
            op,
            attributes: attributes(told)?,
            inputs: operands(told.input_values, told.input_count, "the inputs of a node")?,
            outputs: operands(
                told.output_values,
                told.output_count,
                "the outputs of a node",
            )?,
        })
    }
}

fn known(graph: &Graph, id: u32, what: &str) -> Result<ValueId> {
    let there = (id as usize) < graph.values.len();
    there.then_some(ValueId(id)).ok_or_else(|| {
        invalid(format!("{what} name a value that is not there"))
            .expected(format_args!("less than {}", graph.values.len()))
            .found(id)
    })
}
