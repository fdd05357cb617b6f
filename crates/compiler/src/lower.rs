//! Lowering: the host program of a placed and planned graph, one kernel a node.

use crate::memory::Memory;
use crate::movement;
use crate::place::{Placement, Target};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::{Attribute, Function, FunctionKind, Kernel, Module};
use tenon_graph::{Attribute as GraphAttribute, Graph, Node, NodeId, ValueId};
use tenon_neff::Movement;

/// The queue set that all descriptors run on (docs/package.md).
pub(crate) const QUEUE: &str = "qTenon";

/// The program and its data movements.
pub(crate) fn lower(
    graph: &Graph,
    placement: &Placement,
    memory: &Memory,
) -> Result<(Module, Vec<Movement>)> {
    let mut kernels = Vec::new();
    let mut movements = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let lowered = match placement.target(NodeId(index as u32)) {
            Some(Target::Backend(id)) => {
                workload(graph, node, id.as_str(), index, memory).map(Some)
            }
            Some(Target::Dma) => movement(graph, node, memory, &mut movements),
            Some(Target::View) => Ok(None),
            None => Err(Error::new(ErrorKind::Internal, "a node without placement")),
        };
        kernels.extend(lowered.map_err(|error| error.at(Location::node(node.name.as_str())))?);
    }
    let main = Function {
        name: "main".into(),
        kind: FunctionKind::Sync,
        kernels,
        ..Function::default()
    };
    Ok((Module::from(main), movements))
}

fn workload(
    graph: &Graph,
    node: &Node,
    backend: &str,
    index: usize,
    memory: &Memory,
) -> Result<Kernel> {
    let ids = |values: &[Option<ValueId>]| -> Result<Attribute> {
        let ids = values.iter().map(|value| match value {
            None => Ok(-1),
            Some(id) => memory
                .of_value
                .get(id.index())
                .copied()
                .flatten()
                .map(|variable| variable as i32)
                .ok_or_else(|| no_memory(graph, *id)),
        });
        Ok(i32s(ids.collect::<Result<_>>()?))
    };
    let own = memory.nodes.get(index);
    let optional = |variable: Option<u32>| variable.map_or(-1, |variable| variable as i32);
    let prepared = (0..node.inputs.len())
        .map(|input| optional(own.and_then(|own| own.prepared.get(input).copied().flatten())))
        .collect();
    let mut attributes = vec![
        ("backend".to_owned(), Attribute::String(backend.to_owned())),
        (
            "operator".to_owned(),
            Attribute::String(node.op.name.to_owned()),
        ),
        ("node".to_owned(), Attribute::String(node.name.clone())),
        ("inputs".to_owned(), ids(&node.inputs)?),
        ("outputs".to_owned(), ids(&node.outputs)?),
        ("prepared".to_owned(), i32s(prepared)),
        (
            "scratch".to_owned(),
            Attribute::I32(optional(own.and_then(|own| own.scratch))),
        ),
    ];
    for (name, value) in node.attributes.iter() {
        attributes.push((format!("op.{name}"), lower_attribute(name, value)?));
    }
    Ok(kernel("tenon.workload", attributes))
}

/// A kernel that moves, unless there is nothing to move.
fn movement(
    graph: &Graph,
    node: &Node,
    memory: &Memory,
    movements: &mut Vec<Movement>,
) -> Result<Option<Kernel>> {
    let of_value = |id: ValueId| memory.of_value.get(id.index()).copied().flatten();
    let descriptors = movement::descriptors(graph, node, &of_value)
        .map_err(|text| Error::new(ErrorKind::Internal, text))?;
    if descriptors.is_empty() {
        return Ok(None);
    }
    let bytes = movement::bytes_written(&descriptors);
    let id = movements.len() as u32;
    movements.push(Movement { id, descriptors });
    Ok(Some(kernel(
        "tenon.dma",
        vec![
            ("id".to_owned(), Attribute::I32(id as i32)),
            ("queue".to_owned(), Attribute::String(QUEUE.to_owned())),
            ("node".to_owned(), Attribute::String(node.name.clone())),
            ("bytes".to_owned(), Attribute::I64(bytes as i64)),
        ],
    )))
}

fn kernel(name: &str, mut attributes: Vec<(String, Attribute)>) -> Kernel {
    attributes.sort_by(|(a, _), (b, _)| a.cmp(b));
    Kernel {
        name: name.to_owned(),
        attributes,
        ..Kernel::default()
    }
}

fn i32s(list: Vec<i32>) -> Attribute {
    Attribute::Array(list.into_iter().map(Attribute::I32).collect())
}

fn lower_attribute(name: &str, value: &GraphAttribute) -> Result<Attribute> {
    Ok(match value {
        GraphAttribute::Int(value) => Attribute::I64(*value),
        GraphAttribute::Float(value) => Attribute::F32(*value),
        GraphAttribute::String(value) => Attribute::String(value.clone()),
        GraphAttribute::Ints(list) => {
            Attribute::Array(list.iter().copied().map(Attribute::I64).collect())
        }
        GraphAttribute::Floats(list) => {
            Attribute::Array(list.iter().copied().map(Attribute::F32).collect())
        }
        // An empty list has no type and is BEF's empty array.
        GraphAttribute::Strings(list) => {
            Attribute::list(list.iter().cloned().map(Attribute::String).collect())
        }
        GraphAttribute::Tensor(_) => {
            let text = format!("attribute '{name}' is a tensor, which a kernel cannot hold");
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
    })
}

fn no_memory(graph: &Graph, id: ValueId) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("value '{}' has no memory", graph.value(id).name),
    )
}
