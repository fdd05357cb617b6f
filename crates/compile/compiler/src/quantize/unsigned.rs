//! Activations of i8 become u8 for backends that prefer it: the instructions of x86-64 that multiply bytes take one operand
//! of u8, so that i8 costs an operation for each word that is read. With a zero point that is greater by 128 each element is
//! greater by 128, and the dequantized tensor is the same.

use super::movement::works_on_bytes;
use std::collections::{BTreeMap, BTreeSet};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Attribute, DataType, Graph, Node, UniqueNames, ValueId};
use tenon_tensor::{Shape, Tensor, TensorType};

/// The positions of the inputs of QuantizeLinear and DequantizeLinear.
const SCALE: usize = 1;
const ZERO: usize = 2;

/// The type of QuantizeLinear's output, where no zero point has it.
const OUTPUT_TYPE: &str = "output_dtype";

/// Changes the tensors between a QuantizeLinear and nodes that only dequantize them, with constant zero points.
pub(crate) fn activations(graph: &mut Graph) -> Result<()> {
    let changed = changed(graph);
    if changed.is_empty() {
        return Ok(());
    }
    let mut names = UniqueNames::of(graph);
    let mut zeros = BTreeMap::new();
    for index in 0..graph.nodes.len() {
        let node = &graph.nodes[index];
        if bytes(node).is_none_or(|bytes| !changed.contains(&bytes)) {
            continue;
        }
        let (scale, zero) = (input(node, SCALE), input(node, ZERO));
        let is_quantization = node.op.name == "QuantizeLinear";
        let new = match zeros.get(&(scale, zero)) {
            Some(&new) => new,
            None => {
                let name = names.value(&format!("{}.zero", node.name));
                let new = unsigned_zero(graph, name, scale, zero)?;
                zeros.insert((scale, zero), new);
                new
            }
        };
        let node = &mut graph.nodes[index];
        node.inputs.resize(node.inputs.len().max(ZERO + 1), None);
        node.inputs[ZERO] = Some(new);
        if is_quantization && node.attributes.remove(OUTPUT_TYPE).is_some() {
            let name = DataType::U8.to_string();
            node.attributes.set(OUTPUT_TYPE, Attribute::String(name));
        }
    }
    for id in changed {
        let value = graph.value_mut(id);
        if let Some(ty) = &value.ty {
            value.ty = Some(TensorType::new(DataType::U8, ty.shape().clone())?);
        }
    }
    Ok(())
}

/// Adds the zero point of u8 for that of i8, which is 0 where it is omitted.
fn unsigned_zero(
    graph: &mut Graph,
    name: String,
    scale: Option<ValueId>,
    zero: Option<ValueId>,
) -> Result<ValueId> {
    let of = |value: Option<ValueId>| value.map(|value| graph.value(value));
    let tensor = match (of(zero), of(scale)) {
        (Some(zero), _) => {
            let zero = zero.constant.as_ref();
            let bytes =
                zero.map(|zero| Vec::from_iter(zero.bytes().iter().map(|byte| byte ^ 0x80)));
            zero.zip(bytes)
                .map(|(zero, bytes)| Tensor::from_slice(zero.shape().clone(), &bytes))
        }
        (None, scale) => scale.and_then(|scale| scale.ty.as_ref()).map(|ty| {
            let shape: Shape = ty.shape().clone();
            Tensor::from_slice(shape, &vec![0x80u8; ty.elements()])
        }),
    };
    let missing = || Error::new(ErrorKind::Internal, "a quantization has no zero point");
    Ok(graph.add_constant(name, tensor.ok_or_else(missing)??))
}

/// The tensors that can be changed.
fn changed(graph: &Graph) -> BTreeSet<ValueId> {
    let (consumers, producers) = (graph.consumers(), graph.producers());
    let outputs: BTreeSet<ValueId> = graph.outputs.iter().copied().collect();
    let has_constant_zero = |node: &Node| {
        input(node, ZERO).is_none_or(|zero| graph.value(zero).constant.is_some())
            && input(node, SCALE).is_some_and(|scale| graph.value(scale).ty.is_some())
    };
    let is_alone = |value: ValueId| {
        consumers[value.index()].iter().all(|&user| {
            let user = graph.node(user);
            let uses = user.inputs.iter().flatten().filter(|&&it| it == value);
            user.op.name == "DequantizeLinear"
                && bytes(user) == Some(value)
                && uses.count() == 1
                && has_constant_zero(user)
        })
    };
    let quantizations = graph
        .nodes
        .iter()
        .filter(|node| node.op.name == "QuantizeLinear" && has_constant_zero(node));
    let mut changed: BTreeSet<ValueId> = quantizations
        .filter_map(bytes)
        .filter(|value| !outputs.contains(value) && is_alone(*value))
        .filter(|&value| {
            let ty = graph.value(value).ty.as_ref();
            ty.is_some_and(|ty| ty.dtype() == DataType::I8)
        })
        .collect();
    let groups: Vec<Vec<ValueId>> = (graph.nodes.iter().filter(|node| works_on_bytes(node)))
        .map(|node| {
            let sources = node.inputs.iter().flatten();
            let sources = sources.filter_map(|value| producers[value.index()]);
            let outputs = node.outputs.iter().flatten();
            let targets = outputs.flat_map(|value| &consumers[value.index()]).copied();
            let ends = sources.chain(targets).map(|id| graph.node(id));
            ends.filter_map(bytes).collect()
        })
        .collect();
    loop {
        let before = changed.len();
        for group in &groups {
            if !group.iter().all(|value| changed.contains(value)) {
                changed.retain(|value| !group.contains(value));
            }
        }
        if changed.len() == before {
            return changed;
        }
    }
}

/// The tensor of bytes of a QuantizeLinear or DequantizeLinear.
fn bytes(node: &Node) -> Option<ValueId> {
    match node.op.name {
        "QuantizeLinear" => node.outputs.first().copied().flatten(),
        "DequantizeLinear" => input(node, 0),
        _ => None,
    }
}

fn input(node: &Node, index: usize) -> Option<ValueId> {
    node.inputs.get(index).copied().flatten()
}
