//! Grouped attention with caches that are as long as the longest sequence: tokens are written into them, and keys behind
//! the last token are masked. onnxruntime calls this a shared buffer of past and present.

use super::super::attention::{along, extent, heads_joined, range, unsupported};
use super::super::microsoft::{operand, renamed};
use super::{BIAS, LENGTHS, PAST_KEY, PAST_VALUE};
use crate::draft::{Draft, DraftNode};
use crate::import::invalid;
use crate::signature::Dimension;
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::DataType;

/// Whether the model declares that past and present caches have one length.
pub(super) fn has_fixed_length(draft: &Draft, node: &DraftNode) -> bool {
    let length = |value: Option<ValueId>| draft.declared(value?, 2);
    let present = node.outputs.get(1).copied().flatten();
    match (length(operand(node, PAST_KEY)), length(present)) {
        (Some(Dimension::Unnamed), _) | (None, _) => false,
        (past, present) => past == present,
    }
}

/// How much of the caches is in use.
#[derive(Clone, Copy)]
pub(super) struct Caches {
    /// The tokens of each batch element before the new ones, [B].
    lengths: ValueId,
    /// The positions of the new tokens, [B, S].
    pub positions: ValueId,
}

impl Caches {
    /// Computes the lengths from `seqlens_k`, which is one less than those with the new tokens. The first tokens of a batch
    /// may have padding at their end.
    pub fn new(draft: &mut Draft, node: &DraftNode, query: ValueId) -> Result<Self> {
        let last = operand(node, LENGTHS).ok_or_else(|| invalid("input 'seqlens_k' is missing"))?;
        let to = Attributes::new().with("to", Attribute::String(DataType::I64.to_string()));
        let last = draft.step(node, "Cast", to, &[Some(last)]);
        let row = draft.ints_for(node, "row", &[-1])?;
        let last = draft.step(node, "Reshape", Attributes::new(), &[Some(last), Some(row)]);
        let one = draft.ints_for(node, "one", &[1])?;
        let total = draft.step(node, "Add", Attributes::new(), &[Some(last), Some(one)]);
        let steps = extent(draft, node, query, 1);
        let before = draft.step(node, "Sub", Attributes::new(), &[Some(total), Some(steps)]);
        let zero = draft.ints_for(node, "zero", &[0])?;
        let inputs = [Some(before), Some(zero)];
        let lengths = draft.step(node, "Max", Attributes::new(), &inputs);
        let steps = range(draft, node, steps, DataType::I64)?;
        let second = draft.ints_for(node, "second", &[1])?;
        let inputs = [Some(lengths), Some(second)];
        let column = draft.step(node, "Unsqueeze", Attributes::new(), &inputs);
        let inputs = [Some(column), Some(steps)];
        let positions = draft.step(node, "Add", Attributes::new(), &inputs);
        Ok(Self { lengths, positions })
    }

    /// Attention of the queries to the caches with the new keys and values.
    pub fn attention(
        self,
        draft: &mut Draft,
        node: DraftNode,
        [query, key, value]: [ValueId; 3],
        [query_heads, heads]: [i64; 2],
        mut attributes: Attributes,
    ) -> Result<DraftNode> {
        if operand(&node, BIAS).is_some() {
            return Err(unsupported(
                "input 'attention_bias' with caches of a fixed length",
            ));
        }
        let mut caches = [key, value];
        for (index, cache) in caches.iter_mut().enumerate() {
            let rows = by_head(draft, &node, *cache, heads)?;
            let past = operand(&node, [PAST_KEY, PAST_VALUE][index])
                .ok_or_else(|| invalid("one of inputs 'past_key' and 'past_value' is missing"))?;
            let inputs = [Some(past), Some(rows), Some(self.lengths)];
            let present = node.outputs.get(1 + index).copied().flatten();
            *cache = match present {
                Some(present) => {
                    draft.step_into(&node, "TensorScatter", along(2), &inputs, present);
                    present
                }
                None => draft.step(&node, "TensorScatter", along(2), &inputs),
            };
        }
        let window = attributes.remove("left_window_size");
        let mask = mask(draft, &node, caches[0], self.positions, window)?;
        let query = by_head(draft, &node, query, query_heads)?;
        let inputs = [query, caches[0], caches[1], mask].map(Some);
        let rows = draft.step(&node, "Attention", attributes, &inputs);
        let order = Attributes::new().with("perm", Attribute::Ints(vec![0, 2, 1, 3]));
        let rows = draft.step(&node, "Transpose", order, &[Some(rows)]);
        let joined = heads_joined(draft, &node, rows)?;
        let outputs = node.outputs.iter().take(1).copied().collect();
        let node = DraftNode { outputs, ..node };
        Ok(renamed(
            node,
            "Identity",
            Attributes::new(),
            vec![Some(joined)],
        ))
    }
}

/// [B, S, heads D] as [B, heads, S, D].
fn by_head(draft: &mut Draft, node: &DraftNode, rows: ValueId, heads: i64) -> Result<ValueId> {
    let shape = draft.ints_for(node, "heads", &[0, 0, heads, -1])?;
    let inputs = [Some(rows), Some(shape)];
    let rows = draft.step(node, "Reshape", Attributes::new(), &inputs);
    let order = Attributes::new().with("perm", Attribute::Ints(vec![0, 2, 1, 3]));
    Ok(draft.step(node, "Transpose", order, &[Some(rows)]))
}

/// Whether the query of each position may see a key, [B, 1, S, keys]: those up to its own, at most a window back.
fn mask(
    draft: &mut Draft,
    node: &DraftNode,
    cache: ValueId,
    positions: ValueId,
    window: Option<Attribute>,
) -> Result<ValueId> {
    let keys = extent(draft, node, cache, 2);
    let keys = range(draft, node, keys, DataType::I64)?;
    let dimensions = draft.ints_for(node, "dimensions", &[1, 3])?;
    let inputs = [Some(positions), Some(dimensions)];
    let own = draft.step(node, "Unsqueeze", Attributes::new(), &inputs);
    let inputs = [Some(keys), Some(own)];
    let seen = draft.step(node, "LessOrEqual", Attributes::new(), &inputs);
    let Some(Attribute::Int(window)) = window else {
        return Ok(seen);
    };
    let window = draft.ints_for(node, "window", &[window])?;
    let inputs = [Some(own), Some(window)];
    let first = draft.step(node, "Sub", Attributes::new(), &inputs);
    let inputs = [Some(keys), Some(first)];
    let near = draft.step(node, "GreaterOrEqual", Attributes::new(), &inputs);
    Ok(draft.step(node, "And", Attributes::new(), &[Some(seen), Some(near)]))
}
