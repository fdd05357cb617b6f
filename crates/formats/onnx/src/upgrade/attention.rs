//! Operators of `com.microsoft` that compute attention: `Attention` with its projections and `MultiHeadAttention`, rewritten
//! into Attention of ONNX, and `RotaryEmbedding`. See
//! <https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MultiHeadAttention>.
//!
//! Masks of integers are added to the scores as `mask_filter_value` (-10000), as in onnxruntime: where no key is left,
//! all keys are.

use super::microsoft::{operand, remove_flags, renamed};
use crate::attribute::place;
use crate::draft::{Draft, DraftNode};
use crate::import::invalid;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::{DataType, Tensor};

/// The scores of masked keys unless the node says otherwise.
const MASK_FILTER: f32 = -10000.0;

/// The operands of Attention, and those that its mask is made of.
struct Operands {
    query: ValueId,
    key: ValueId,
    value: ValueId,
    past: [Option<ValueId>; 2],
    /// Integers that are greater than 0 for keys that are not masked, or how many keys are not.
    mask: Option<ValueId>,
    /// What is added to the scores.
    bias: Option<ValueId>,
}

/// MultiHeadAttention of projected queries, keys and values.
pub(super) fn multi_head(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    refuse_inputs(&node, 8, &["past_sequence_length", "cache_indirection"])?;
    refuse_output(&node, 3, "qk")?;
    let [mut query, mut key, mut value] = unpacked(draft, &node)?;
    let ranks = [query, key, value].map(|operand| rank(draft, operand));
    if let Some(bias) = operand(&node, 3) {
        if ranks.contains(&Some(4)) {
            return Err(unsupported("input 'bias' with keys of four dimensions"));
        }
        let parts = split(draft, &node, bias, 0, None)?;
        for (operand, part) in [&mut query, &mut key, &mut value].into_iter().zip(parts) {
            let inputs = [Some(*operand), Some(part)];
            *operand = draft.step(&node, "Add", Attributes::new(), &inputs);
        }
    }
    for (operand, rank) in [(&mut key, ranks[1]), (&mut value, ranks[2])] {
        if rank == Some(4) {
            *operand = heads_concatenated(draft, &node, *operand)?;
        }
    }
    let operands = Operands {
        query,
        key,
        value,
        past: [operand(&node, 6), operand(&node, 7)],
        mask: operand(&node, 4),
        bias: operand(&node, 5),
    };
    let outputs = node.outputs.iter().take(3).copied().collect();
    attention(draft, node, operands, outputs)
}

/// Queries, keys and values: three operands, queries beside keys and values in one, [B, L, N, 2, H], or all in one,
/// [B, S, N, 3, H].
fn unpacked(draft: &mut Draft, node: &DraftNode) -> Result<[ValueId; 3]> {
    let query = operand(node, 0).ok_or_else(|| invalid("input 'query' is missing"))?;
    match (operand(node, 1), operand(node, 2)) {
        (Some(key), Some(value)) => Ok([query, key, value]),
        (Some(both), None) => {
            let [key, value] = parts_of_heads(draft, node, both)?;
            Ok([query, key, value])
        }
        (None, None) => parts_of_heads(draft, node, query),
        (None, Some(_)) => Err(invalid("input 'key' is missing")),
    }
}

/// The N parts of each head, [B, L, heads, N, size] as N tensors [B, L, heads size].
fn parts_of_heads<const N: usize>(
    draft: &mut Draft,
    node: &DraftNode,
    packed: ValueId,
) -> Result<[ValueId; N]> {
    if let Some(found) = rank(draft, packed).filter(|&rank| rank != 5) {
        let error = invalid("packed queries, keys and values do not have five dimensions");
        return Err(error.expected(5).found(found));
    }
    let parts = along(3).with("num_outputs", Attribute::Int(N as i64));
    let parts: [ValueId; N] = draft.step_outputs(node, "Split", parts, &[Some(packed)]);
    let mut joined = parts;
    for (joined, part) in joined.iter_mut().zip(parts) {
        *joined = heads_joined(draft, node, part)?;
    }
    Ok(joined)
}

/// Attention of quantised inputs and weights.
pub(super) fn quantised(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let mut dequantised = |tensor: usize, scale: usize, zero: usize| {
        let mut inputs: Vec<_> = [tensor, scale, zero].map(|at| operand(&node, at)).into();
        if inputs[2].is_none() {
            inputs.pop();
        }
        Some(draft.step(&node, "DequantizeLinear", Attributes::new(), &inputs))
    };
    let mut inputs = vec![dequantised(0, 3, 6), dequantised(1, 4, 7)];
    inputs.extend([2, 5, 8].map(|at| operand(&node, at)));
    with_projection(draft, DraftNode { inputs, ..node })
}

/// Attention, whose queries, keys and values are one product of the input.
pub(super) fn with_projection(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    refuse_inputs(&node, 6, &["past_sequence_length"])?;
    remove_flags(&mut node, &["do_rotary", "past_present_share_buffer"])?;
    let inputs = [operand(&node, 0), operand(&node, 1)];
    let mut sum = draft.step(&node, "MatMul", Attributes::new(), &inputs);
    if let Some(bias) = operand(&node, 2) {
        sum = draft.step(&node, "Add", Attributes::new(), &[Some(sum), Some(bias)]);
    }
    let sizes = match node.attributes.ints("qkv_hidden_sizes")? {
        None | Some([]) => None,
        Some(&[q, k, v]) => Some([q, k, v]),
        Some(found) => {
            return Err(
                invalid("attribute 'qkv_hidden_sizes' does not have three sizes")
                    .found(found.len()),
            );
        }
    };
    let [query, key, value] = split(draft, &node, sum, -1, sizes)?;
    let mut past = [None; 2];
    if let Some(both) = operand(&node, 4) {
        let halves: [ValueId; 2] = draft.step_outputs(
            &node,
            "Split",
            along(0).with("num_outputs", Attribute::Int(2)),
            &[Some(both)],
        );
        let first = draft.ints_for(&node, "first", &[0])?;
        for (past, half) in past.iter_mut().zip(halves) {
            let inputs = [Some(half), Some(first)];
            *past = Some(draft.step(&node, "Squeeze", Attributes::new(), &inputs));
        }
    }
    let operands = Operands {
        query,
        key,
        value,
        past,
        mask: operand(&node, 3),
        bias: operand(&node, 5),
    };
    let [output, present] = [0, 1].map(|index| node.outputs.get(index).copied().flatten());
    let Some(present) = present else {
        return attention(draft, node, operands, vec![output]);
    };
    let step = attention(draft, node.clone(), operands, Vec::new())?;
    let [output, key, value] =
        draft.step_outputs(&node, &step.operator, step.attributes, &step.inputs);
    // Keys and values, one after the other.
    let first = draft.ints_for(&node, "first", &[0])?;
    let parts = [key, value].map(|part| {
        let inputs = [Some(part), Some(first)];
        Some(draft.step(&node, "Unsqueeze", Attributes::new(), &inputs))
    });
    draft.step_into(&node, "Concat", along(0), &parts, present);
    let node = DraftNode {
        outputs: node.outputs.iter().take(1).copied().collect(),
        ..node
    };
    Ok(renamed(
        node,
        "Identity",
        Attributes::new(),
        vec![Some(output)],
    ))
}

/// RotaryEmbedding, whose positions are before the caches, and may be that of the first row alone.
pub(super) fn rotary(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    remove_flags(&mut node, &["is_packed_batching"])?;
    let scale = node.attributes.float("scale", 1.0)?;
    if scale != 1.0 {
        let error = Error::new(ErrorKind::Unsupported, scale.to_string());
        return Err(error.at(place("scale")));
    }
    node.attributes.remove("scale");
    let [x, given, cos, sin] = [0, 1, 2, 3].map(|index| operand(&node, index));
    let (Some(x), Some(mut given)) = (x, given) else {
        return Err(invalid("input 'input' or 'position_ids' is missing"));
    };
    match rank(draft, given) {
        Some(2) => {}
        Some(1) => {
            // [1], the position of the first row of each batch element.
            let is_split = rank(draft, x) == Some(4);
            let steps = extent(draft, &node, x, if is_split { 2 } else { 1 });
            let rows = range(draft, &node, steps, DataType::I64)?;
            let inputs = [Some(given), Some(rows)];
            let row = draft.step(&node, "Add", Attributes::new(), &inputs);
            given = positions(draft, &node, x, steps, row);
        }
        _ => return Err(unsupported("input 'position_ids' of unknown rank")),
    }
    node.operator = "RotaryEmbedding".into();
    node.inputs = vec![Some(x), cos, sin, Some(given)];
    Ok(node)
}

/// A row of positions for each batch element of `x`, [B, S].
pub(super) fn positions(
    draft: &mut Draft,
    node: &DraftNode,
    x: ValueId,
    steps: ValueId,
    row: ValueId,
) -> ValueId {
    let batch = extent(draft, node, x, 0);
    let sizes = draft.step(node, "Concat", along(0), &[Some(batch), Some(steps)]);
    let inputs = [Some(row), Some(sizes)];
    draft.step(node, "Expand", Attributes::new(), &inputs)
}

/// Attention of ONNX.
fn attention(
    draft: &mut Draft,
    node: DraftNode,
    operands: Operands,
    outputs: Vec<Option<ValueId>>,
) -> Result<DraftNode> {
    let heads = node.attributes.int("num_heads", 0)?;
    if heads <= 0 {
        return Err(invalid("attribute 'num_heads' is not positive").found(heads));
    }
    let mask = mask(draft, &node, &operands)?;
    let mut attributes = Attributes::new()
        .with("q_num_heads", Attribute::Int(heads))
        .with("kv_num_heads", Attribute::Int(heads));
    // 0 is the default, as if it were not there.
    let scale = node.attributes.float("scale", 0.0)?;
    if scale != 0.0 {
        attributes.set("scale", Attribute::Float(scale));
    }
    if node.attributes.flag("unidirectional", false)? {
        attributes.set("is_causal", Attribute::Int(1));
    }
    let Operands {
        query, key, value, ..
    } = operands;
    let [past_key, past_value] = operands.past;
    let mut inputs = vec![
        Some(query),
        Some(key),
        Some(value),
        mask,
        past_key,
        past_value,
    ];
    while inputs.last() == Some(&None) {
        inputs.pop();
    }
    Ok(DraftNode {
        outputs,
        ..renamed(node, "Attention", attributes, inputs)
    })
}

/// What is added to the scores: the mask's filter and the bias.
fn mask(draft: &mut Draft, node: &DraftNode, operands: &Operands) -> Result<Option<ValueId>> {
    let Some(mask) = operands.mask else {
        return Ok(operands.bias);
    };
    let (keep, dimensions): (ValueId, &[i64]) = match rank(draft, mask) {
        Some(1) => (first_keys(draft, node, mask, operands)?, &[1, 2]),
        Some(2) => (is_positive(draft, node, mask)?, &[1, 2]),
        Some(3) => (is_positive(draft, node, mask)?, &[1]),
        Some(rank) => return Err(unsupported(&format!("a mask of {rank} dimensions"))),
        None => return Err(unsupported("a mask of unknown rank")),
    };
    let dimensions = draft.ints_for(node, "dimensions", dimensions)?;
    let inputs = [Some(keep), Some(dimensions)];
    let keep = draft.step(node, "Unsqueeze", Attributes::new(), &inputs);
    let filter = node.attributes.float("mask_filter_value", MASK_FILTER)?;
    let [none, filter] = [0.0, filter].map(|value| Tensor::from_slice([0; 0], &[value]));
    let none = draft.constant_for(node, "none", none?);
    let filter = draft.constant_for(node, "filter", filter?);
    let inputs = [Some(keep), Some(none), Some(filter)];
    let floats = draft.step(node, "Where", Attributes::new(), &inputs);
    let inputs = [Some(floats), Some(operands.query)];
    let mask = draft.step(node, "CastLike", Attributes::new(), &inputs);
    Ok(Some(match operands.bias {
        None => mask,
        Some(bias) => draft.step(node, "Add", Attributes::new(), &[Some(mask), Some(bias)]),
    }))
}

/// Whether each element of a mask is positive.
fn is_positive(draft: &mut Draft, node: &DraftNode, mask: ValueId) -> Result<ValueId> {
    let zero = draft.constant_for(node, "zero", Tensor::from_slice([0; 0], &[0i32])?);
    let inputs = [Some(mask), Some(zero)];
    Ok(draft.step(node, "Greater", Attributes::new(), &inputs))
}

/// Whether each key of each batch element is among the first ones, of which `counts` says how many there are.
fn first_keys(
    draft: &mut Draft,
    node: &DraftNode,
    counts: ValueId,
    operands: &Operands,
) -> Result<ValueId> {
    let mut keys = extent(draft, node, operands.key, 1);
    if let Some(past) = operands.past[0] {
        let past = extent(draft, node, past, 2);
        keys = draft.step(node, "Add", Attributes::new(), &[Some(keys), Some(past)]);
    }
    let positions = range(draft, node, keys, DataType::I32)?;
    let last = draft.ints_for(node, "last", &[1])?;
    let counts = draft.step(
        node,
        "Unsqueeze",
        Attributes::new(),
        &[Some(counts), Some(last)],
    );
    let inputs = [Some(positions), Some(counts)];
    Ok(draft.step(node, "Less", Attributes::new(), &inputs))
}

/// Keys or values [B, N, L, D] as [B, L, N D].
fn heads_concatenated(draft: &mut Draft, node: &DraftNode, value: ValueId) -> Result<ValueId> {
    let order = Attributes::new().with("perm", Attribute::Ints(vec![0, 2, 1, 3]));
    let steps_first = draft.step(node, "Transpose", order, &[Some(value)]);
    heads_joined(draft, node, steps_first)
}

/// [B, L, …] as [B, L, N], for any dimensions after the second.
pub(super) fn heads_joined(draft: &mut Draft, node: &DraftNode, value: ValueId) -> Result<ValueId> {
    let shape = draft.ints_for(node, "shape", &[0, 0, -1])?;
    let inputs = [Some(value), Some(shape)];
    Ok(draft.step(node, "Reshape", Attributes::new(), &inputs))
}

/// Three parts along a dimension: of these sizes, or of one.
fn split(
    draft: &mut Draft,
    node: &DraftNode,
    value: ValueId,
    axis: i64,
    sizes: Option<[i64; 3]>,
) -> Result<[ValueId; 3]> {
    let (attributes, sizes) = match sizes {
        None => (along(axis).with("num_outputs", Attribute::Int(3)), None),
        Some(sizes) => (along(axis), Some(draft.ints_for(node, "sizes", &sizes)?)),
    };
    let inputs: &[Option<ValueId>] = match sizes {
        None => &[Some(value)],
        Some(_) => &[Some(value), sizes],
    };
    Ok(draft.step_outputs(node, "Split", attributes, inputs))
}

/// The extent of a dimension, [1].
pub(super) fn extent(
    draft: &mut Draft,
    node: &DraftNode,
    value: ValueId,
    dimension: i64,
) -> ValueId {
    let span = Attributes::new()
        .with("start", Attribute::Int(dimension))
        .with("end", Attribute::Int(dimension + 1));
    draft.step(node, "Shape", span, &[Some(value)])
}

/// The integers below `count`, which is [1].
pub(super) fn range(
    draft: &mut Draft,
    node: &DraftNode,
    count: ValueId,
    dtype: DataType,
) -> Result<ValueId> {
    let first = draft.ints_for(node, "first", &[0])?;
    let inputs = [Some(count), Some(first)];
    let count = draft.step(node, "Squeeze", Attributes::new(), &inputs);
    let [start, step] = [0i64, 1].map(|value| Tensor::from_slice([0; 0], &[value]));
    let start = draft.constant_for(node, "start", start?);
    let step = draft.constant_for(node, "step", step?);
    let inputs = [Some(start), Some(count), Some(step)];
    let integers = draft.step(node, "Range", Attributes::new(), &inputs);
    if dtype == DataType::I64 {
        return Ok(integers);
    }
    let to = Attributes::new().with("to", Attribute::String(dtype.to_string()));
    Ok(draft.step(node, "Cast", to, &[Some(integers)]))
}

pub(super) fn along(axis: i64) -> Attributes {
    Attributes::new().with("axis", Attribute::Int(axis))
}

/// The rank of a value: as declared, or that of the operand that the few operators before a mask keep or reduce.
fn rank(draft: &Draft, mut value: ValueId) -> Option<usize> {
    const MOST_OPERATORS: usize = 4;
    let mut reduced = 0;
    for _ in 0..=MOST_OPERATORS {
        if let Some(rank) = draft.info(value).rank {
            return rank.checked_sub(reduced);
        }
        let mut nodes = draft.nodes.iter().rev();
        let producer = nodes.find(|node| node.outputs.contains(&Some(value)))?;
        match producer.operator.as_str() {
            "Cast" | "Identity" => {}
            "ReduceSum" if !producer.attributes.flag("keepdims", true).ok()? => {
                let axes = draft.constant(operand(producer, 1))?;
                reduced += axes.as_slice::<i64>()?.len();
            }
            _ => return None,
        }
        value = operand(producer, 0)?;
    }
    None
}

pub(super) fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, what)
}

/// Refuses the inputs from `first` on.
pub(super) fn refuse_inputs(node: &DraftNode, first: usize, names: &[&str]) -> Result<()> {
    let mut given = (first..).zip(names);
    match given.find(|&(index, _)| operand(node, index).is_some()) {
        None => Ok(()),
        Some((_, name)) => Err(unsupported(&format!("input '{name}'"))),
    }
}

pub(super) fn refuse_output(node: &DraftNode, index: usize, name: &str) -> Result<()> {
    match node.outputs.get(index).copied().flatten() {
        None => Ok(()),
        Some(_) => Err(unsupported(&format!("output '{name}'"))),
    }
}
