//! Lowering: the host program of a placed and planned graph, one kernel for each node.

use crate::memory::Memory;
use crate::place::{Placement, Target};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::{Attribute, Dictionary, Function, FunctionKind, Kernel, Module};
use tenon_dma::VariableId;
use tenon_graph::{Attribute as GraphAttribute, Graph, Node, NodeId, ValueId};
use tenon_neff::Movement;
use tenon_plan::{MovementNode, MovementOperand, bytes_written, descriptors};

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
            Some(Target::Dma) if !graph.symbols.is_empty() => {
                symbolic_movement(graph, node, memory).map(Some)
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
    let ids = |values| variable_ids(graph, memory, values);
    let node_memory = memory.nodes.get(index);
    let optional = |variable: Option<u32>| variable.map_or(-1, |variable| variable as i32);
    let prepared = (0..node.inputs.len())
        .map(|input| {
            optional(node_memory.and_then(|memory| memory.prepared.get(input).copied().flatten()))
        })
        .collect();
    let mut attributes: Dictionary = vec![
        ("backend".into(), backend.into()),
        ("operator".into(), node.op.name.into()),
        ("node".into(), node.name.as_str().into()),
        ("inputs".into(), ids(&node.inputs)?),
        ("outputs".into(), ids(&node.outputs)?),
        ("prepared".into(), i32s(prepared)),
        (
            "scratch".into(),
            Attribute::I32(optional(node_memory.and_then(|memory| memory.scratch))),
        ),
    ];
    for (name, value) in node.attributes.iter() {
        attributes.push((format!("op.{name}").into(), lower_attribute(name, value)?));
    }
    Ok(kernel("tenon.workload", attributes))
}

/// The variables of operands, -1 for an omitted one.
fn variable_ids(graph: &Graph, memory: &Memory, values: &[Option<ValueId>]) -> Result<Attribute> {
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
}

/// The kernel of a data movement whose descriptors depend on sizes.
fn symbolic_movement(graph: &Graph, node: &Node, memory: &Memory) -> Result<Kernel> {
    let mut attributes: Dictionary = vec![
        ("operator".into(), node.op.name.into()),
        ("node".into(), node.name.as_str().into()),
        ("inputs".into(), variable_ids(graph, memory, &node.inputs)?),
        (
            "outputs".into(),
            variable_ids(graph, memory, &node.outputs)?,
        ),
    ];
    for (name, value) in node.attributes.iter() {
        attributes.push((format!("op.{name}").into(), lower_attribute(name, value)?));
    }
    Ok(kernel("tenon.movement", attributes))
}

/// A node as a data movement, with the variable of each value.
pub(crate) fn movement_node<'a>(
    graph: &'a Graph,
    node: &'a Node,
    variable_of: impl Fn(ValueId) -> Option<u32>,
) -> MovementNode<'a> {
    let operand = |id: &Option<ValueId>| {
        let value = graph.value((*id)?);
        Some(MovementOperand {
            variable: variable_of((*id)?).map(VariableId),
            ty: value.ty.as_ref()?,
            constant: value.known(),
        })
    };
    MovementNode {
        op: node.op,
        attributes: &node.attributes,
        inputs: node.inputs.iter().map(operand).collect(),
        outputs: node.outputs.iter().map(operand).collect(),
    }
}

/// The kernel of a data movement; `None` for a movement of zero bytes.
fn movement(
    graph: &Graph,
    node: &Node,
    memory: &Memory,
    movements: &mut Vec<Movement>,
) -> Result<Option<Kernel>> {
    let of_value = |id: ValueId| memory.of_value.get(id.index()).copied().flatten();
    let descriptors = descriptors(&movement_node(graph, node, of_value))
        .map_err(|text| Error::new(ErrorKind::Internal, text))?;
    if descriptors.is_empty() {
        return Ok(None);
    }
    let bytes = bytes_written(&descriptors);
    let id = movements.len() as u32;
    movements.push(Movement { id, descriptors });
    Ok(Some(kernel(
        "tenon.dma",
        vec![
            ("id".into(), Attribute::I32(id as i32)),
            ("queue".into(), QUEUE.into()),
            ("node".into(), node.name.as_str().into()),
            ("bytes".into(), Attribute::I64(bytes as i64)),
        ],
    )))
}

fn kernel(name: &str, mut attributes: Dictionary) -> Kernel {
    attributes.sort_by(|(a, _), (b, _)| a.cmp(b));
    Kernel {
        name: name.into(),
        attributes,
        ..Kernel::default()
    }
}

fn i32s(list: Vec<i32>) -> Attribute {
    Attribute::Array(list.into_iter().map(Attribute::I32).collect())
}

pub(crate) fn lower_attribute(name: &str, value: &GraphAttribute) -> Result<Attribute> {
    Ok(match value {
        GraphAttribute::Int(value) => Attribute::I64(*value),
        GraphAttribute::Float(value) => Attribute::F32(*value),
        GraphAttribute::String(value) => value.as_str().into(),
        GraphAttribute::Ints(list) => {
            Attribute::Array(list.iter().copied().map(Attribute::I64).collect())
        }
        GraphAttribute::Floats(list) => {
            Attribute::Array(list.iter().copied().map(Attribute::F32).collect())
        }
        // An empty list has no type and is BEF's empty array.
        GraphAttribute::Strings(list) => list.iter().map(String::as_str).collect::<Vec<_>>().into(),
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
