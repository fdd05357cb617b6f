//! Operators with removed, renamed or added attributes.

use crate::draft::{Draft, DraftNode};
use tenon_base::{Error, ErrorKind, Result};
use tenon_graph::Attribute;

/// `spatial` must be 1: statistics for each channel.
pub(super) fn batch_normalization_per_channel(
    _: &mut Draft,
    mut node: DraftNode,
) -> Result<DraftNode> {
    if !node.attributes.flag("spatial", true)? {
        return Err(
            Error::new(ErrorKind::Unsupported, "0 (statistics for each element)")
                .at(crate::attribute::place("spatial")),
        );
    }
    node.attributes.remove("spatial");
    Ok(node)
}

/// The names of two modes.
pub(super) fn grid_sample(_: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let mode = match node.attributes.string("mode", "bilinear")? {
        "bilinear" => "linear",
        "bicubic" => "cubic",
        other => other,
    };
    let mode = Attribute::String(mode.to_owned());
    node.attributes.set("mode", mode);
    Ok(node)
}

/// Old coordinates are without the offset of half a pixel.
pub(super) fn roi_align(_: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let mode = Attribute::String("output_half_pixel".into());
    node.attributes.set("coordinate_transformation_mode", mode);
    Ok(node)
}

/// Scatter was renamed in operator set 11.
pub(super) fn scatter(_: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    node.operator = "ScatterElements".into();
    node.version = 11;
    Ok(node)
}

/// Without `split`, the number of outputs is the number of equal parts.
pub(super) fn split(_: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    if node.inputs.get(1).copied().flatten().is_none() {
        let parts = Attribute::Int(node.outputs.len() as i64);
        node.attributes.set("num_outputs", parts);
    }
    Ok(node)
}

/// onnxruntime's name for RMSNormalization, in the domain of ONNX.
pub(super) fn simplified_layer_normalization(
    _: &mut Draft,
    mut node: DraftNode,
) -> Result<DraftNode> {
    node.operator = "RMSNormalization".into();
    node.version = super::NEWEST;
    Ok(node)
}
