//! `DynamicQuantizeLSTM` of `com.microsoft`: LSTM with the weights of DequantizeLinear and Transpose, which are constants.
//! onnxruntime quantizes X and the hidden state to u8 in each step; here they stay f32.

use super::microsoft::{constant, operand, renamed};
use crate::draft::{Draft, DraftNode};
use crate::import::invalid;
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes, ValueId};

/// DynamicQuantizeLSTM.
pub(super) fn lstm(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    let mut inputs: Vec<_> = (0..8).map(|index| operand(&node, index)).collect();
    inputs[1] = Some(weights(draft, &node, "W", [1, 8, 9])?);
    inputs[2] = Some(weights(draft, &node, "R", [2, 10, 11])?);
    while inputs.last().is_some_and(Option::is_none) {
        inputs.pop();
    }
    let attributes = node.attributes.clone();
    Ok(renamed(node, "LSTM", attributes, inputs))
}

/// The weights `[directions, gates, features]` of those that are quantized, `[directions, features, gates]`. Their scale and
/// their zero point have an element for each direction, or one for each direction and gate.
fn weights(
    draft: &mut Draft,
    node: &DraftNode,
    name: &str,
    [at, scale_at, zero_at]: [usize; 3],
) -> Result<ValueId> {
    let integers = constant(draft, node, at, name)?;
    let &[directions, features, gates] = &integers.shape()[..] else {
        return Err(invalid(format!("input '{name}' has the wrong rank"))
            .expected(3)
            .found(integers.shape().len()));
    };
    let of_gates = directions.saturating_mul(gates);
    let scale_name = format!("{name}_scale");
    let scale = constant(draft, node, scale_at, &scale_name)?;
    let count = scale.ty().elements();
    if count != directions && count != of_gates {
        return Err(invalid(format!("input '{scale_name}' has the wrong size"))
            .expected(format_args!("{directions} or {of_gates} elements"))
            .found(scale.shape()));
    }
    // The features of a gate are a block.
    let (axis, block, shape) = match count == directions {
        true => (0, 0, vec![directions]),
        false => (1, features, vec![directions, 1, gates]),
    };
    let mut parameters = vec![(scale_name, scale.reshaped(shape.clone())?)];
    if operand(node, zero_at).is_some() {
        let name = format!("{name}_zero_point");
        let zero = constant(draft, node, zero_at, &name)?;
        if zero.ty().elements() != count {
            return Err(invalid(format!("input '{name}' has the wrong size"))
                .expected(format_args!("{count} elements"))
                .found(zero.shape()));
        }
        parameters.push((name, zero.reshaped(shape)?));
    }
    let mut inputs = vec![operand(node, at)];
    for (name, tensor) in parameters {
        inputs.push(Some(draft.constant_for(node, &name, tensor)));
    }
    let attributes = Attributes::new()
        .with("axis", Attribute::Int(axis))
        .with("block_size", Attribute::Int(block as i64));
    let wide = draft.step(node, "DequantizeLinear", attributes, &inputs);
    let perm = Attributes::new().with("perm", Attribute::Ints(vec![0, 2, 1]));
    Ok(draft.step(node, "Transpose", perm, &[Some(wide)]))
}
