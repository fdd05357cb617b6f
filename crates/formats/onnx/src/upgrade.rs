//! Upgrade of older and foreign operators to the newest ONNX operator set.
//!
//! An adapter is an operator, the first operator set with the resulting form, and a function. All
//! adapters of a node's operator above its version are applied in order. Compatible extensions of an
//! operator (more types, a new attribute with the old behaviour as default, negative axes) need none.

mod attention;
mod embedding;
mod gather;
mod grouped;
mod inputs;
mod integers;
mod microsoft;
mod ml;
mod nchwc;
mod normalize;
mod optimizers;
mod original;
mod packed;
mod quantized;
mod recurrent;
mod resample;
mod simple;
mod training;
mod weights;

use crate::draft::{Draft, DraftNode};
use tenon_base::Result;

pub(crate) use nchwc::block_length;

/// The oldest version of ONNX's operator set that is supported as a whole (the first with NumPy broadcasting). Of older
/// versions, the operators that it has in the same form are supported.
pub const OLDEST: i64 = 7;

/// The newest supported version of ONNX's operator set.
pub const NEWEST: i64 = 28;

/// The version for adapters of operators that ONNX removed.
const REMOVED: i64 = i64::MAX;

/// An adapter; nodes before the result are appended to the draft.
type Adapter = fn(&mut Draft, DraftNode) -> Result<DraftNode>;

#[rustfmt::skip]
const ADAPTERS: &[(&str, i64, Adapter)] = &[
    ("BatchNormalization",   9, simple::batch_normalization_per_channel),
    ("Clip",                11, inputs::clip),
    ("DFT",                 20, inputs::dft),
    ("Dropout",             12, inputs::dropout),
    ("GridSample",          20, simple::grid_sample),
    ("GroupNormalization",  21, normalize::group_normalization),
    ("Hardmax",             13, normalize::flattened),
    ("LogSoftmax",          13, normalize::flattened),
    ("Softmax",             13, normalize::flattened),
    ("Pad",                 11, inputs::pad),
    ("ReduceSum",           13, inputs::reduction),
    ("ReduceL1",            18, inputs::reduction),
    ("ReduceL2",            18, inputs::reduction),
    ("ReduceLogSum",        18, inputs::reduction),
    ("ReduceLogSumExp",     18, inputs::reduction),
    ("ReduceMax",           18, inputs::reduction),
    ("ReduceMean",          18, inputs::reduction),
    ("ReduceMin",           18, inputs::reduction),
    ("ReduceProd",          18, inputs::reduction),
    ("ReduceSumSquare",     18, inputs::reduction),
    ("Resize",              11, resample::resize),
    ("RoiAlign",            16, simple::roi_align),
    ("Scatter",             REMOVED, simple::scatter),
    ("SimplifiedLayerNormalization", REMOVED, simple::simplified_layer_normalization),
    ("Slice",               10, inputs::slice),
    ("Split",               13, inputs::split),
    ("Split",               18, simple::split),
    ("Squeeze",             13, inputs::squeeze),
    ("TopK",                10, inputs::top_k),
    ("Unsqueeze",           13, inputs::unsqueeze),
    ("Upsample",             9, resample::upsample_scales),
    ("Upsample",            REMOVED, resample::upsample),
];

/// Adapters for every version, of nodes that are left as they are unless they have training outputs or groups.
const OF_ALL_VERSIONS: &[(&str, Adapter)] = &[
    ("BatchNormalization", training::batch_normalization),
    ("Dropout", training::dropout),
    ("QLinearConv", quantized::grouped_convolution),
];

/// The node in its newest form.
pub(crate) fn newest(draft: &mut Draft, mut node: DraftNode) -> Result<DraftNode> {
    if node.domain == microsoft::DOMAIN {
        return microsoft::newest(draft, node);
    }
    if node.domain == nchwc::DOMAIN {
        return nchwc::newest(draft, node);
    }
    if node.domain == ml::DOMAIN {
        return ml::newest(draft, node);
    }
    if node.domain == optimizers::DOMAIN {
        return optimizers::newest(draft, node);
    }
    if !node.domain.is_empty() {
        return Ok(node);
    }
    original::check(&node)?;
    let next = |node: &DraftNode| {
        ADAPTERS
            .iter()
            .find(|row| row.0 == node.operator && node.version < row.1)
    };
    while let Some(&(_, version, adapter)) = next(&node) {
        node.version = version;
        node = adapter(draft, node)?;
    }
    match OF_ALL_VERSIONS.iter().find(|row| row.0 == node.operator) {
        Some((_, adapter)) => adapter(draft, node),
        None => Ok(node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_graph::operator::operator;

    #[test]
    fn adapters_are_sorted_and_name_known_operators() {
        for (index, (name, version, _)) in ADAPTERS.iter().enumerate() {
            assert!(
                *version > OLDEST && (*version <= NEWEST || *version == REMOVED),
                "{name}"
            );
            let given_up = ADAPTERS
                .iter()
                .any(|row| row.0 == *name && row.1 == REMOVED);
            assert_ne!(operator(name).is_some(), given_up, "{name}");
            let before = ADAPTERS[..index].iter().rev().find(|row| row.0 == *name);
            assert!(before.is_none_or(|row| row.1 < *version), "{name}");
        }
    }
}
