//! Softmax operators over several dimensions, and group normalization with one scale for each group:
//! forms that are several nodes of the newest operator set.

use crate::draft::{Draft, DraftNode};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes};

/// Old Softmax, LogSoftmax and Hardmax flatten the input to a matrix at `axis`. That equals the newest
/// form when `axis` is the last dimension; otherwise reshapes are added.
pub(super) fn flattened(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let axis = node.attributes.int("axis", 1)?;
    let input = node.inputs.first().copied().flatten();
    let rank = input.and_then(|value| draft.info(value).rank);
    let last =
        axis == -1 || rank.is_some_and(|rank| axis.checked_add(1) == i64::try_from(rank).ok());
    node.attributes.set("axis", Attribute::Int(-1));
    if last || input.is_none() {
        return Ok(node);
    }
    let shape = draft.step(&node, "Shape", Attributes::new(), &[input]);
    let by_axis = Attributes::new().with("axis", Attribute::Int(axis));
    let matrix = draft.step(&node, "Flatten", by_axis, &[input]);
    let operator = node.operator.clone();
    let result = draft.step(&node, &operator, node.attributes.clone(), &[Some(matrix)]);
    Ok(reshape(node, result, shape))
}

/// Old scale and bias are per group, not per channel: an instance normalization of the input with its
/// groups as channels.
pub(super) fn group_normalization(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let groups = node.attributes.int("num_groups", 0)?;
    let epsilon = Attribute::Float(node.attributes.float("epsilon", 1e-5)?);
    let input = node.inputs.first().copied().flatten();
    let operand = |index: usize| node.inputs.get(index).copied().flatten();
    let shape = draft.step(&node, "Shape", Attributes::new(), &[input]);
    // 0 keeps the batch's extent, -1 is the remaining extent.
    let grouped = draft.ints_for(&node, "groups", &[0, groups, -1])?;
    let grouped = draft.step(&node, "Reshape", Attributes::new(), &[input, Some(grouped)]);
    let result = draft.step(
        &node,
        "InstanceNormalization",
        Attributes::new().with("epsilon", epsilon),
        &[Some(grouped), operand(1), operand(2)],
    );
    Ok(reshape(node, result, shape))
}

/// The last node: `value` reshaped to `shape`.
fn reshape(node: DraftNode, value: tenon_graph::ValueId, shape: tenon_graph::ValueId) -> DraftNode {
    DraftNode {
        operator: "Reshape".into(),
        version: super::NEWEST,
        attributes: Attributes::new(),
        inputs: vec![Some(value), Some(shape)],
        ..node
    }
}
