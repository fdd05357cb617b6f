//! `GroupQueryAttention` of `com.microsoft`, the attention of decoders that onnxruntime's builder of language models writes:
//! rotary embeddings, then Attention of ONNX with fewer heads of keys and values than of queries. See
//! <https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupQueryAttention>.
//!
//! The caches are as long as the tokens so far, in every batch element, and `seqlens_k` follows from them; or they have one
//! length that the model declares for past and present, and `seqlens_k` says how much of them is in use.
//! `total_sequence_length` is not read.

mod shared;

use super::attention::{
    along, extent, heads_joined, positions, range, refuse_inputs, refuse_output, unsupported,
};
use super::microsoft::{operand, renamed};
use crate::attribute::place;
use crate::draft::{Draft, DraftNode};
use crate::import::invalid;
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::DataType;

/// The inputs.
const QUERY: usize = 0;
const KEY: usize = 1;
const VALUE: usize = 2;
const PAST_KEY: usize = 3;
const PAST_VALUE: usize = 4;
const LENGTHS: usize = 5;
const COS: usize = 7;
const SIN: usize = 8;
const POSITIONS: usize = 9;
const BIAS: usize = 10;

pub(super) fn attention(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    refuse_inputs(&node, 11, &["head_sink", "k_scale", "v_scale"])?;
    refuse_output(&node, 3, "output_qk")?;
    for name in [
        "smooth_softmax",
        "qk_output",
        "k_quant_type",
        "v_quant_type",
    ] {
        refuse_attribute(&node, name)?;
    }
    let [query_heads, heads] = ["num_heads", "kv_num_heads"].map(|name| {
        let found = node.attributes.int(name, 0)?;
        let error = || invalid(format!("attribute '{name}' is not positive")).found(found);
        (found > 0).then_some(found).ok_or_else(error)
    });
    let heads = [query_heads?, heads?];
    let query = operand(&node, QUERY).ok_or_else(|| invalid("input 'query' is missing"))?;
    let [mut query, mut key, value] = match (operand(&node, KEY), operand(&node, VALUE)) {
        (Some(key), Some(value)) => [query, key, value],
        (None, None) => unpacked(draft, &node, query, heads)?,
        _ => return Err(invalid("one of inputs 'key' and 'value' is missing")),
    };
    let caches = match shared::has_fixed_length(draft, &node) {
        true => Some(shared::Caches::new(draft, &node, query)?),
        false => None,
    };
    if node.attributes.flag("do_rotary", false)? {
        let positions = query_positions(draft, &node, query, caches)?;
        query = rotated(draft, &node, query, heads[0], positions)?;
        key = rotated(draft, &node, key, heads[1], positions)?;
    }
    let mut attributes = Attributes::new();
    for name in ["scale", "softcap"] {
        // 0 is the default, as if it were not there.
        let value = node.attributes.float(name, 0.0)?;
        if value != 0.0 {
            attributes.set(name, Attribute::Float(value));
        }
    }
    // The window has the query's own key.
    let window = node.attributes.int("local_window_size", -1)?;
    if window > 0 {
        attributes.set("left_window_size", Attribute::Int(window - 1));
    }
    if let Some(caches) = caches {
        return caches.attention(draft, node, [query, key, value], heads, attributes);
    }
    attributes.set("is_causal", Attribute::Int(1));
    attributes.set("q_num_heads", Attribute::Int(heads[0]));
    attributes.set("kv_num_heads", Attribute::Int(heads[1]));
    let past = [PAST_KEY, PAST_VALUE].map(|index| operand(&node, index));
    let mut inputs = vec![Some(query), Some(key), Some(value), operand(&node, BIAS)];
    inputs.extend(past);
    while inputs.last() == Some(&None) {
        inputs.pop();
    }
    let outputs = node.outputs.iter().take(3).copied().collect();
    Ok(DraftNode {
        outputs,
        ..renamed(node, "Attention", attributes, inputs)
    })
}

/// Queries, keys and values, whose heads are concatenated in this order.
fn unpacked(
    draft: &mut Draft,
    node: &DraftNode,
    packed: ValueId,
    [query_heads, heads]: [i64; 2],
) -> Result<[ValueId; 3]> {
    let all = query_heads.saturating_add(heads.saturating_mul(2));
    let shape = draft.ints_for(node, "heads", &[0, 0, all, -1])?;
    let inputs = [Some(packed), Some(shape)];
    let by_head = draft.step(node, "Reshape", Attributes::new(), &inputs);
    let sizes = draft.ints_for(node, "sizes", &[query_heads, heads, heads])?;
    let inputs = [Some(by_head), Some(sizes)];
    let parts: [ValueId; 3] = draft.step_outputs(node, "Split", along(2), &inputs);
    let joined = parts.map(|part| heads_joined(draft, node, part));
    let [query, key, value] = joined;
    Ok([query?, key?, value?])
}

/// The position of each query, [B, S].
fn query_positions(
    draft: &mut Draft,
    node: &DraftNode,
    query: ValueId,
    caches: Option<shared::Caches>,
) -> Result<ValueId> {
    if let Some(given) = operand(node, POSITIONS) {
        return Ok(given);
    }
    if let Some(caches) = caches {
        return Ok(caches.positions);
    }
    let steps = extent(draft, node, query, 1);
    let mut row = range(draft, node, steps, DataType::I64)?;
    if let Some(past) = operand(node, PAST_KEY) {
        let past = extent(draft, node, past, 2);
        row = draft.step(node, "Add", Attributes::new(), &[Some(row), Some(past)]);
    }
    Ok(positions(draft, node, query, steps, row))
}

/// The heads of queries or keys, rotated by their positions.
fn rotated(
    draft: &mut Draft,
    node: &DraftNode,
    x: ValueId,
    heads: i64,
    positions: ValueId,
) -> Result<ValueId> {
    let (Some(cos), Some(sin)) = (operand(node, COS), operand(node, SIN)) else {
        return Err(invalid("input 'cos_cache' or 'sin_cache' is missing"));
    };
    let mut attributes = Attributes::new().with("num_heads", Attribute::Int(heads));
    if node.attributes.flag("rotary_interleaved", false)? {
        attributes.set("interleaved", Attribute::Int(1));
    }
    // The caches have a column for each pair of features that is rotated.
    let columns = draft.constant(Some(cos)).map(|cos| cos.shape().to_vec());
    if let Some(&[_, columns]) = columns.as_deref() {
        let features = columns as i64 * 2;
        attributes.set("rotary_embedding_dim", Attribute::Int(features));
    }
    let inputs = [Some(x), Some(cos), Some(sin), Some(positions)];
    Ok(draft.step(node, "RotaryEmbedding", attributes, &inputs))
}

/// Refuses an attribute that is not 0, -1 or NONE.
fn refuse_attribute(node: &DraftNode, name: &str) -> Result<()> {
    let found = match node.attributes.value(name) {
        Some(Attribute::Int(number)) if *number > 0 => number.to_string(),
        Some(Attribute::String(text)) if text != "NONE" => text.clone(),
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Unsupported, found).at(place(name)))
}

/// Attention over tokens without padding.
pub(super) fn packed(_: &mut Draft, _: DraftNode) -> Result<DraftNode> {
    Err(unsupported(
        "attention over batches without padding, which onnxruntime has for GPUs only; export the model with Attention or \
         MultiHeadAttention",
    ))
}
