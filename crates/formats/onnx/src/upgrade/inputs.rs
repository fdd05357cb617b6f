//! Operators whose attributes became inputs.

use crate::draft::{Draft, DraftNode};
use crate::import::invalid;
use half::{bf16, f16};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::ValueId;
use tenon_graph::{Attribute, Attributes};
use tenon_tensor::{DataType, Tensor};

/// Removes a list of integers from the attributes.
fn take_ints(attributes: &mut Attributes, name: &str) -> Result<Option<Vec<i64>>> {
    let ints = attributes.ints(name)?.map(<[i64]>::to_vec);
    attributes.remove(name);
    Ok(ints)
}

/// Removes a float from the attributes.
fn take_float(attributes: &mut Attributes, name: &str) -> Result<Option<f32>> {
    let number = match attributes.value(name) {
        None => None,
        Some(_) => Some(attributes.float(name, 0.0)?),
    };
    attributes.remove(name);
    Ok(number)
}

/// Sets input `index` to `value`.
fn set_input(node: &mut DraftNode, index: usize, value: Option<ValueId>) {
    if node.inputs.len() <= index {
        node.inputs.resize(index + 1, None);
    }
    node.inputs[index] = value;
}

/// Moves the list of integers `name` from the attributes to input `index`; returns whether it existed.
fn move_ints(draft: &mut Draft, node: &mut DraftNode, name: &str, index: usize) -> Result<bool> {
    let Some(ints) = take_ints(&mut node.attributes, name)? else {
        return Ok(false);
    };
    let value = draft.ints_for(node, name, &ints)?;
    set_input(node, index, Some(value));
    Ok(true)
}

/// The same for a required list.
fn move_required(draft: &mut Draft, node: &mut DraftNode, name: &str, index: usize) -> Result<()> {
    if move_ints(draft, node, name, index)? {
        Ok(())
    } else {
        Err(invalid(format!("attribute '{name}' is missing")))
    }
}

/// A scalar of the type of input 0, f32 when that is unknown.
pub(super) fn scalar_like(draft: &Draft, node: &DraftNode, number: f32) -> Result<Tensor> {
    let data = node.inputs.first().copied().flatten();
    match data.and_then(|value| draft.info(value).dtype) {
        Some(DataType::F32) | None => Tensor::scalar(number),
        Some(DataType::F64) => Tensor::scalar(f64::from(number)),
        Some(DataType::F16) => Tensor::scalar(f16::from_f32(number)),
        Some(DataType::BF16) => Tensor::scalar(bf16::from_f32(number)),
        Some(other) => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "unsupported type {other} in operator set {}",
                node.origin.version
            ),
        )),
    }
}

/// `min` and `max`; their defaults, the limits of f32, are omitted.
pub(super) fn clip(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    for (index, name) in [(1, "min"), (2, "max")] {
        if let Some(bound) = take_float(&mut node.attributes, name)?
            && bound.abs() < f32::MAX
        {
            let tensor = scalar_like(draft, &node, bound)?;
            let value = draft.constant_for(&node, name, tensor);
            set_input(&mut node, index, Some(value));
        }
    }
    Ok(node)
}

/// `axis`, with default 1.
pub(super) fn dft(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let axis = node.attributes.int("axis", 1)?;
    node.attributes.remove("axis");
    let value = draft.constant_for(&node, "axis", Tensor::scalar(axis)?);
    set_input(&mut node, 2, Some(value));
    Ok(node)
}

/// `ratio`; it has no effect in inference, and is removed.
pub(super) fn dropout(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    if let Some(ratio) = take_float(&mut node.attributes, "ratio")? {
        let value = draft.constant_for(&node, "ratio", Tensor::scalar(ratio)?);
        set_input(&mut node, 1, Some(value));
    }
    Ok(node)
}

/// `pads` and `value`.
pub(super) fn pad(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    move_required(draft, &mut node, "pads", 1)?;
    if let Some(number) = take_float(&mut node.attributes, "value")?
        && number != 0.0
    {
        let tensor = scalar_like(draft, &node, number)?;
        let value = draft.constant_for(&node, "value", tensor);
        set_input(&mut node, 2, Some(value));
    }
    Ok(node)
}

/// `axes`; by default all.
pub(super) fn reduction(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    move_ints(draft, &mut node, "axes", 1)?;
    Ok(node)
}

/// `starts`, `ends` and `axes`.
pub(super) fn slice(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    move_required(draft, &mut node, "starts", 1)?;
    move_required(draft, &mut node, "ends", 2)?;
    move_ints(draft, &mut node, "axes", 3)?;
    Ok(node)
}

/// `split`; by default equal parts.
pub(super) fn split(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    move_ints(draft, &mut node, "split", 1)?;
    Ok(node)
}

/// `axes`; by default all dimensions of extent 1.
pub(super) fn squeeze(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    move_ints(draft, &mut node, "axes", 1)?;
    Ok(node)
}

/// `axes`.
pub(super) fn unsqueeze(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    move_required(draft, &mut node, "axes", 1)?;
    Ok(node)
}

/// `k`.
pub(super) fn top_k(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    match node.attributes.remove("k") {
        Some(Attribute::Int(k)) => {
            let value = draft.ints_for(&node, "k", &[k])?;
            set_input(&mut node, 1, Some(value));
            Ok(node)
        }
        _ => Err(invalid("attribute 'k' is missing or no integer")),
    }
}
