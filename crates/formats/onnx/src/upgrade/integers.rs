//! Products of integers of `com.microsoft` whose result is f32: MatMulInteger, Cast, and Mul by both scales.

use super::microsoft::{operand, renamed};
use crate::draft::{Draft, DraftNode};
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, ValueId};

/// Integers, their scale and their zero point.
type Quantized = [Option<ValueId>; 3];

/// DynamicQuantizeMatMul: A is quantized when the model runs.
pub(super) fn dynamic_matmul(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let a = [operand(&node, 0)];
    let a = draft.step_outputs(&node, "DynamicQuantizeLinear", Attributes::new(), &a);
    let b = [1, 2, 3].map(|index| operand(&node, index));
    let bias = operand(&node, 4);
    Ok(product(draft, node, [a.map(Some), b], bias))
}

/// MatMulIntegerToFloat.
pub(super) fn matmul_to_float(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let a = [0, 2, 4].map(|index| operand(&node, index));
    let b = [1, 3, 5].map(|index| operand(&node, index));
    let bias = operand(&node, 6);
    Ok(product(draft, node, [a, b], bias))
}

/// The matmul of A and B, plus the bias.
fn product(
    draft: &mut Draft,
    node: DraftNode,
    [a, b]: [Quantized; 2],
    bias: Option<ValueId>,
) -> DraftNode {
    let mut integers = vec![a[0], b[0], a[2], b[2]];
    while integers.last().is_some_and(Option::is_none) {
        integers.pop();
    }
    let none = Attributes::new();
    let sums = draft.step(&node, "MatMulInteger", none.clone(), &integers);
    let to = Attributes::new().with("to", Attribute::String("f32".into()));
    let sums = draft.step(&node, "Cast", to, &[Some(sums)]);
    let scale = draft.step(&node, "Mul", none.clone(), &[a[1], b[1]]);
    let scaled = vec![Some(sums), Some(scale)];
    if bias.is_none() {
        return renamed(node, "Mul", none, scaled);
    }
    let scaled = draft.step(&node, "Mul", none.clone(), &scaled);
    renamed(node, "Add", none, vec![Some(scaled), bias])
}
