//! Layout propagation: images with channels last, for nodes whose backend prefers this layout.
//!
//! Each rule rewrites one node to [N, spatial..., C], followed by a transpose to [N, C, spatial...].
//! The rule of the next node moves that transpose behind it, so that transposes propagate to the
//! outputs and cancel where they meet their inverse. Images have one to three spatial dimensions.

mod flatten;
mod images;

mod propagate;

pub(crate) use images::{pads_vary, window};
pub(crate) use propagate::elementwise;

use crate::clean::perm_of;
use crate::rewrite::{Outcome, Rewriter, Rule, perm_attributes};
use std::sync::Arc;
use tenon_backend::{Backend, PropertyValue};
use tenon_base::Result;
use tenon_graph::{Attributes, Node, ValueId};

/// The ranks of images.
pub(crate) const RANKS: std::ops::RangeInclusive<usize> = 3..=5;

/// The permutation of [N, C, spatial...] to [N, spatial..., C].
fn to_last(rank: usize) -> Vec<usize> {
    let spatial = 2..rank;
    [0].into_iter().chain(spatial).chain([1]).collect()
}

/// The permutation of [N, spatial..., C] to [N, C, spatial...].
fn to_first(rank: usize) -> Vec<usize> {
    let spatial = 1..rank - 1;
    [0, rank - 1].into_iter().chain(spatial).collect()
}

/// Operators with a separate channels-last operator.
pub(crate) const IMAGES: &[Rule] = &[images::convolution, images::pool];

/// Operators that work in the layout of their inputs.
pub(crate) const RULES: &[Rule] = &[
    images::global_pool,
    propagate::elementwise,
    propagate::along_axes,
    propagate::reduction,
    propagate::split,
    propagate::softmax,
    flatten::flattened,
];

/// Whether a backend prefers images with channels last.
pub(crate) fn prefers_channels_last(backend: &Arc<dyn Backend>) -> bool {
    match backend.capability("PreferredLayout") {
        Some(PropertyValue::String(layout)) => layout.eq_ignore_ascii_case("nhwc"),
        _ => false,
    }
}

/// The channels-last value that `value` is the transpose of.
pub(crate) fn channels_last(rewriter: &Rewriter<'_>, value: ValueId) -> Result<Option<ValueId>> {
    let Some(node) = rewriter.producer(value) else {
        return Ok(None);
    };
    let Some(source) = rewriter.input(node, 0) else {
        return Ok(None);
    };
    let (from, to) = (rewriter.shape(source)?, rewriter.shape(value)?);
    let rank = to.len();
    if !RANKS.contains(&rank) || from.len() != rank {
        return Ok(None);
    }
    let is_back = match node.op.name {
        "Transpose" => perm_of(rewriter, node)? == to_first(rank),
        // With one channel or one pixel the transpose is a view.
        "Reshape" => {
            let moves = to_first(rank)
                .iter()
                .map(|&axis| from[axis])
                .eq(to.iter().copied());
            moves && (to[1] == 1 || to[2..].iter().all(|&extent| extent == 1))
        }
        _ => false,
    };
    Ok(is_back.then_some(source))
}

/// `value` with channels last: the source of its transpose, or a new transpose.
pub(crate) fn to_channels_last(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    value: ValueId,
) -> Result<ValueId> {
    match channels_last(rewriter, value)? {
        Some(source) => Ok(source),
        None => {
            let perm = to_last(rewriter.shape(value)?.len());
            rewriter.transpose(&format!("{}.nhwc", node.name), value, &perm)
        }
    }
}

/// The operator `op` on channels-last `inputs`, followed by a transpose for the output of `node`.
pub(crate) fn transposed_back(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    op: &str,
    attributes: Attributes,
    inputs: &[Option<ValueId>],
) -> Result<Outcome> {
    let rank = match node.outputs.first().copied().flatten() {
        Some(output) => rewriter.shape(output)?.len(),
        None => return Ok(Outcome::Keep),
    };
    let perm = perm_attributes(&to_first(rank));
    let mut back = rewriter.node_like(node, "Transpose", perm, Vec::new())?;
    back.outputs.truncate(1);
    let made = rewriter.emit_for(&mut back, "nchw", op, attributes, inputs)?;
    back.inputs = made.into_iter().map(Some).collect();
    Ok(Outcome::Replace(back))
}

/// The position of an axis of [N, C, spatial...] in [N, spatial..., C]; negative ones count from the
/// end.
fn moved_axis(axis: i64, rank: usize) -> Option<i64> {
    let last = i64::try_from(rank).ok()? - 1;
    match if axis < 0 { axis + last + 1 } else { axis } {
        0 => Some(0),
        1 => Some(last),
        axis if (2..=last).contains(&axis) => Some(axis - 1),
        _ => None,
    }
}
