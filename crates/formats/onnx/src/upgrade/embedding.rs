//! `EmbedLayerNormalization` of `com.microsoft`: the sum of the embeddings of words, positions and segments, normalised. See
//! <https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.EmbedLayerNormalization>.

use super::attention::extent;
use super::microsoft::{operand, renamed};
use crate::draft::{Draft, DraftNode};
use crate::import::invalid;
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, ValueId};
use tenon_tensor::Tensor;

/// The inputs.
const WORDS: usize = 0;
const SEGMENTS: usize = 1;
const WORD_TABLE: usize = 2;
const POSITION_TABLE: usize = 3;
const SEGMENT_TABLE: usize = 4;
const GAMMA: usize = 5;
const BETA: usize = 6;
const MASK: usize = 7;
const POSITIONS: usize = 8;

/// EmbedLayerNormalization.
pub(super) fn normalized(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let gather = |draft: &mut Draft, table: usize, indices: Option<ValueId>| {
        let inputs = [operand(&node, table), indices];
        draft.step(&node, "Gather", Attributes::new(), &inputs)
    };
    let words = operand(&node, WORDS);
    let mut parts = vec![gather(draft, WORD_TABLE, words)];
    parts.push(match operand(&node, POSITIONS) {
        Some(positions) => gather(draft, POSITION_TABLE, Some(positions)),
        None => first_rows(draft, &node)?,
    });
    if operand(&node, SEGMENT_TABLE).is_some() {
        parts.push(gather(draft, SEGMENT_TABLE, operand(&node, SEGMENTS)));
    }
    let [mask_index, sum_output] = [1, 2].map(|index| node.outputs.get(index).copied().flatten());
    if let Some(output) = mask_index {
        count_of_mask(draft, &node, output)?;
    }
    let last = parts.len() - 1;
    let mut sum = parts[0];
    for (index, &part) in parts.iter().enumerate().skip(1) {
        let inputs = [Some(sum), Some(part)];
        sum = match sum_output.filter(|_| index == last) {
            None => draft.step(&node, "Add", Attributes::new(), &inputs),
            Some(output) => {
                draft.step_into(&node, "Add", Attributes::new(), &inputs, output);
                output
            }
        };
    }
    let attributes = Attributes::new().with("axis", Attribute::Int(-1)).with(
        "epsilon",
        Attribute::Float(node.attributes.float("epsilon", 1e-12)?),
    );
    let inputs = vec![Some(sum), operand(&node, GAMMA), operand(&node, BETA)];
    node.outputs.truncate(1);
    Ok(renamed(node, "LayerNormalization", attributes, inputs))
}

/// QEmbedLayerNormalization: the same with quantised tables.
pub(super) fn quantised(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    /// The scale of the first table, and its zero point.
    const SCALES: usize = 8;
    const ZEROS: usize = 13;
    let mut inputs = node.inputs.clone();
    inputs.resize(MASK + 1, None);
    inputs.truncate(MASK + 1);
    for (at, table) in inputs[WORD_TABLE..MASK].iter_mut().enumerate() {
        if table.is_none() {
            continue;
        }
        let operands = [
            *table,
            operand(&node, SCALES + at),
            operand(&node, ZEROS + at),
        ];
        let dequantised = draft.step(&node, "DequantizeLinear", Attributes::new(), &operands);
        *table = Some(dequantised);
    }
    normalized(draft, DraftNode { inputs, ..node })
}

/// The first rows of the table of positions, one for each word of a batch element.
fn first_rows(draft: &mut Draft, node: &DraftNode) -> Result<ValueId> {
    let words = operand(node, WORDS).ok_or_else(|| invalid("input 'input_ids' is missing"))?;
    let count = extent(draft, node, words, 1);
    let first = draft.ints_for(node, "first", &[0])?;
    let table = operand(node, POSITION_TABLE);
    let inputs = [table, Some(first), Some(count), Some(first)];
    Ok(draft.step(node, "Slice", Attributes::new(), &inputs))
}

/// How many words of each batch element have the mask 1; 0 without a mask.
fn count_of_mask(draft: &mut Draft, node: &DraftNode, output: ValueId) -> Result<()> {
    let mask = operand(node, MASK);
    let of = |value: i32| Tensor::from_slice([0; 0], &[value]);
    // Without a mask no word has it: the value is never that of a word.
    let (from, value) = match mask {
        Some(_) => (mask, 1),
        None => (operand(node, WORDS), i32::MIN),
    };
    let one = draft.constant_for(node, "one", of(value)?);
    let is_one = draft.step(node, "Equal", Attributes::new(), &[from, Some(one)]);
    let to = Attributes::new().with("to", Attribute::String("i32".into()));
    let ones = draft.step(node, "Cast", to, &[Some(is_one)]);
    let axis = draft.ints_for(node, "axis", &[1])?;
    let sums = Attributes::new().with("keepdims", Attribute::Int(0));
    draft.step_into(node, "ReduceSum", sums, &[Some(ones), Some(axis)], output);
    Ok(())
}
