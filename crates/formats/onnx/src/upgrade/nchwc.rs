//! Operators of `com.microsoft.nchwc`, which onnxruntime's optimiser writes for convolutions: values have their channels in
//! blocks, padded with zeros. They become the operators of ONNX on the padded channels in the order of ONNX.
//!
//! The length of a block is a property of the CPU where onnxruntime optimised the model, and is not in the file.

use super::microsoft::{DOMAIN as MICROSOFT, fused_conv, operand};
use crate::draft::{Draft, DraftNode};
use crate::import::invalid;
use crate::proto::{GraphProto, TensorProto};
use std::collections::HashMap;
use tenon_base::Result;
use tenon_graph::{Attribute, Attributes};
use tenon_tensor::{BufferMut, Tensor};

pub(super) const DOMAIN: &str = "com.microsoft.nchwc";

#[rustfmt::skip]
const ADAPTERS: &[(&str, super::Adapter)] = &[
    ("AveragePool",       |_, node| Ok(node)),
    ("Conv",              conv),
    ("GlobalAveragePool", |_, node| Ok(node)),
    ("GlobalMaxPool",     |_, node| Ok(node)),
    ("MaxPool",           |_, node| Ok(node)),
    ("ReorderInput",      reorder_input),
    ("ReorderOutput",     reorder_output),
    ("Upsample",          upsample),
];

/// The node with operators of ONNX; unchanged for other operators.
pub(super) fn newest(draft: &mut Draft, node: DraftNode) -> Result<DraftNode> {
    match ADAPTERS.iter().find(|row| row.0 == node.operator) {
        Some((_, adapter)) => Ok(DraftNode {
            domain: String::new(),
            version: super::NEWEST,
            ..adapter(draft, node)?
        }),
        None => Ok(node),
    }
}

/// The number of channels in a block: 8 or 16. Channels that are no multiple of 16 show 8, eight channels of padding
/// show 16. Otherwise it is what onnxruntime takes on this CPU, which reads such models in no other way.
pub(crate) fn block_length(graph: &GraphProto) -> usize {
    let constants = graph.initializer.iter();
    let constants: HashMap<&str, &TensorProto> = constants
        .map(|tensor| (tensor.name.as_str(), tensor))
        .collect();
    let mut channels = HashMap::new();
    let mut is_padded = false;
    for node in graph.node.iter().filter(|node| node.domain == DOMAIN) {
        let input = |index: usize| constants.get(node.input.get(index)?.as_str());
        match node.op_type.as_str() {
            "Conv" => {
                let Some([outputs, inputs, ..]) = input(1).map(|it| it.dims.as_slice()) else {
                    continue;
                };
                if outputs % 16 != 0 || (*inputs >= 16 && inputs % 16 != 0) {
                    return 8;
                }
                is_padded |= input(2).is_some_and(|bias| ends_with_zeros(bias));
                channels.extend(node.output.iter().map(|name| (name.as_str(), *outputs)));
            }
            "ReorderOutput" => {
                let from = node
                    .input
                    .first()
                    .and_then(|name| channels.get(name.as_str()));
                let to = node.attribute.iter().find(|it| it.name == "channels");
                let padding = from.zip(to.and_then(|it| it.i));
                is_padded |= padding.is_some_and(|(from, to)| from.saturating_sub(to) >= 8);
            }
            _ => {}
        }
    }
    match is_padded {
        true => 16,
        false => length_of_this_cpu(),
    }
}

/// Whether the last eight elements are zeros, and not all are.
fn ends_with_zeros(bias: &TensorProto) -> bool {
    let is_zero = |value: &f32| *value == 0.0;
    let tensor = crate::tensor::tensor(bias).ok();
    let values = tensor.as_ref().and_then(Tensor::as_slice::<f32>);
    values.is_some_and(|values| {
        let last = values.last_chunk::<8>();
        last.is_some_and(|last| last.iter().all(is_zero)) && !values.iter().all(is_zero)
    })
}

fn length_of_this_cpu() -> usize {
    #[cfg(target_arch = "x86_64")]
    if !std::arch::is_x86_feature_detected!("avx512f") {
        return 8;
    }
    16
}

/// FusedConv, with the weights in the order of ONNX.
fn conv(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let block = draft.channel_block;
    let weights = super::microsoft::constant(draft, &node, 1, "W")?;
    let plain = plain(weights, block)?;
    node.inputs[1] = Some(draft.constant_for(&node, "W", plain));
    fused_conv(
        draft,
        DraftNode {
            domain: MICROSOFT.into(),
            ..node
        },
    )
}

/// The weights in the order of ONNX. Their output channels are in blocks, and inside of these the input channels too, unless these are fewer than
/// a block.
fn plain(weights: &Tensor, block: usize) -> Result<Tensor> {
    let refused = || {
        let error = invalid("weights that are not in blocks of channels");
        error
            .expected(format_args!(
                "f32 with 4 dimensions, channels in multiples of {block}"
            ))
            .found(weights.ty())
    };
    let (&[outputs, inputs, height, width], Some(from)) =
        (&weights.shape()[..], weights.as_slice::<f32>())
    else {
        return Err(refused());
    };
    let of_inputs = if inputs < block { 1 } else { block };
    if outputs % block != 0 || inputs % of_inputs != 0 {
        return Err(refused());
    }
    let points = height * width;
    let mut plain = BufferMut::zeroed(weights.ty().bytes())?;
    let to = plain.as_slice_mut::<f32>().ok_or_else(refused)?;
    for (at, &value) in from.iter().enumerate() {
        let (rest, output) = (at / block, at % block);
        let (rest, input) = (rest / of_inputs, rest % of_inputs);
        let (rest, point) = (rest / points, rest % points);
        let blocks = inputs / of_inputs;
        let output = rest / blocks * block + output;
        let input = rest % blocks * of_inputs + input;
        to[(output * inputs + input) * points + point] = value;
    }
    Tensor::new(weights.ty().clone(), plain.freeze())
}

/// Zeros behind the channels, up to a whole block.
fn reorder_input(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    if channels_last(&mut node)? {
        let order = Attribute::Ints(vec![0, 3, 1, 2]);
        let order = Attributes::new().with("perm", order);
        let first = draft.step(&node, "Transpose", order, &node.inputs.clone());
        node.inputs = vec![Some(first)];
    }
    let range = Attributes::new()
        .with("start", Attribute::Int(1))
        .with("end", Attribute::Int(2));
    let channels = draft.step(&node, "Shape", range, &node.inputs.clone());
    let negated = draft.step(&node, "Neg", Attributes::new(), &[Some(channels)]);
    let block = draft.ints_for(&node, "block", &[draft.channel_block as i64])?;
    let inputs = [Some(negated), Some(block)];
    // With the sign of the divisor.
    let missing = draft.step(&node, "Mod", Attributes::new(), &inputs);
    let before = draft.ints_for(&node, "before", &[0; 5])?;
    let after = draft.ints_for(&node, "after", &[0; 2])?;
    let axis = Attributes::new().with("axis", Attribute::Int(0));
    let parts = [Some(before), Some(missing), Some(after)];
    let pads = draft.step(&node, "Concat", axis, &parts);
    node.inputs.push(Some(pads));
    Ok(DraftNode {
        operator: "Pad".into(),
        ..node
    })
}

/// The channels without those of padding.
fn reorder_output(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let is_last = channels_last(&mut node)?;
    let channels = match node.attributes.remove("channels") {
        Some(Attribute::Int(channels)) => channels,
        _ => return Err(invalid("attribute 'channels' is missing or no integer")),
    };
    for (name, value) in [("starts", 0), ("ends", channels), ("axes", 1)] {
        let value = draft.ints_for(&node, name, &[value])?;
        node.inputs.push(Some(value));
    }
    let slice = DraftNode {
        operator: "Slice".into(),
        ..node
    };
    if !is_last {
        return Ok(slice);
    }
    let sliced = draft.step(&slice, "Slice", Attributes::new(), &slice.inputs.clone());
    let order = Attribute::Ints(vec![0, 2, 3, 1]);
    Ok(DraftNode {
        operator: "Transpose".into(),
        attributes: Attributes::new().with("perm", order),
        inputs: vec![Some(sliced)],
        ..slice
    })
}

/// Whether the value outside of the blocks has its channels in the last dimension.
fn channels_last(node: &mut DraftNode) -> Result<bool> {
    match node.attributes.remove("channels_last") {
        None | Some(Attribute::Int(0)) => Ok(false),
        Some(Attribute::Int(1)) => Ok(true),
        Some(_) => Err(invalid("attribute 'channels_last' is neither 0 nor 1")),
    }
}

/// Resize by whole factors.
fn upsample(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let scales = match node.attributes.remove("scales") {
        Some(Attribute::Ints(scales)) => scales,
        _ => {
            return Err(invalid(
                "attribute 'scales' is missing or no list of integers",
            ));
        }
    };
    let scales: Vec<f32> = scales.iter().map(|&scale| scale as f32).collect();
    let scales = Tensor::from_slice([scales.len()], &scales)?;
    let scales = draft.constant_for(&node, "scales", scales);
    let x = operand(&node, 0);
    node.inputs = vec![x, None, Some(scales)];
    if node.attributes.string("mode", "nearest")? == "nearest" {
        node.attributes
            .set("nearest_mode", Attribute::String("floor".into()));
    }
    let name = "coordinate_transformation_mode";
    if node.attributes.value(name).is_none() {
        node.attributes
            .set(name, Attribute::String("asymmetric".into()));
    }
    Ok(DraftNode {
        operator: "Resize".into(),
        ..node
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weights in blocks, as the description of the layout says: outputs, inputs, points, inputs in a block, outputs in a block.
    #[test]
    fn weights_return_to_the_order_of_onnx() {
        for (inputs, of_inputs) in [(3, 1), (16, 8)] {
            let (outputs, points) = (16, 6);
            let mut blocked = Vec::new();
            for output in (0..outputs).step_by(8) {
                for input in (0..inputs).step_by(of_inputs) {
                    for point in 0..points {
                        for input in input..input + of_inputs {
                            for output in output..output + 8 {
                                blocked.push(((output * inputs + input) * points + point) as f32);
                            }
                        }
                    }
                }
            }
            let weights = Tensor::from_slice([outputs, inputs, 2, 3], &blocked).unwrap();
            let plain = plain(&weights, 8).unwrap();
            let values = plain.as_slice::<f32>().unwrap().iter().enumerate();
            assert!(values.into_iter().all(|(at, &value)| value == at as f32));
        }
        let odd = Tensor::from_slice([12, 1, 1, 1], &[0.0f32; 12]).unwrap();
        assert!(plain(&odd, 8).is_err());
    }
}
