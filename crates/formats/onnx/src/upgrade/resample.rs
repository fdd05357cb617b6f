//! Upsample, and Resize without coordinate modes.

use crate::draft::{Draft, DraftNode};
use crate::import::invalid;
use tenon_base::Result;
use tenon_graph::Attribute;
use tenon_tensor::Tensor;

/// `scales` became an input.
pub(super) fn upsample_scales(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let scales = match node.attributes.remove("scales") {
        Some(Attribute::Floats(scales)) => scales,
        _ => {
            return Err(invalid(
                "attribute 'scales' is missing or no list of floats",
            ));
        }
    };
    let tensor = Tensor::from_slice([scales.len()], &scales)?;
    let value = draft.constant_for(&node, "scales", tensor);
    node.inputs.truncate(1);
    node.inputs.push(Some(value));
    Ok(node)
}

/// Upsample became Resize.
pub(super) fn upsample(_: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    node.operator = "Resize".into();
    node.version = 10;
    Ok(node)
}

/// Resize of operator set 10: scales only, asymmetric coordinates. The rounding of `nearest` is
/// unspecified; runtimes round down, or up for downsampling.
pub(super) fn resize(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    let scales = node.inputs.get(1).copied().flatten();
    let shrinks = draft
        .constant(scales)
        .and_then(Tensor::as_slice::<f32>)
        .is_some_and(|scales| {
            scales.iter().all(|&scale| scale <= 1.0) && scales.iter().any(|&scale| scale < 1.0)
        });
    let mode = match node.attributes.string("mode", "nearest")? {
        "bilinear" => "linear",
        other => other,
    };
    let texts = [
        ("mode", mode.to_owned()),
        ("coordinate_transformation_mode", "asymmetric".to_owned()),
        (
            "nearest_mode",
            if shrinks { "ceil" } else { "floor" }.to_owned(),
        ),
    ];
    for (name, text) in texts {
        node.attributes.set(name, Attribute::String(text));
    }
    node.inputs.truncate(1);
    node.inputs.extend([None, scales]);
    Ok(node)
}
