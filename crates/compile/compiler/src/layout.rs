//! Layout propagation: images with channels last, for nodes whose backend prefers this layout.
//!
//! Each rule rewrites one node to [N, H, W, C], followed by a transpose to [N, C, H, W]. The rule of
//! the next node moves that transpose behind it, so that transposes propagate to the outputs and
//! cancel where they meet their inverse.

mod flatten;
mod images;
mod propagate;

use crate::clean::perm_of;
use crate::rewrite::{Outcome, Rewriter, Rule, perm_attributes};
use std::sync::Arc;
use tenon_backend::{Backend, PropertyValue};
use tenon_base::Result;
use tenon_graph::{Attributes, Node, ValueId};

/// [N, C, H, W] to [N, H, W, C].
const TO_NHWC: [usize; 4] = [0, 2, 3, 1];
/// [N, H, W, C] to [N, C, H, W].
const TO_NCHW: [usize; 4] = [0, 3, 1, 2];

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
fn channels_last(rewriter: &Rewriter<'_>, value: ValueId) -> Result<Option<ValueId>> {
    let Some(node) = rewriter.producer(value) else {
        return Ok(None);
    };
    let Some(source) = rewriter.input(node, 0) else {
        return Ok(None);
    };
    let is_back = match node.op.name {
        "Transpose" => perm_of(rewriter, node)? == TO_NCHW,
        // With one channel or one pixel the transpose is a view.
        "Reshape" => match (&**rewriter.shape(source)?, &**rewriter.shape(value)?) {
            (&[n, h, w, c], &[n2, c2, h2, w2]) => {
                (n, h, w, c) == (n2, h2, w2, c2) && (c == 1 || h * w == 1)
            }
            _ => false,
        },
        _ => false,
    };
    Ok(is_back.then_some(source))
}

/// `value` with channels last: the source of its transpose, or a new transpose.
fn to_channels_last(rewriter: &mut Rewriter<'_>, node: &Node, value: ValueId) -> Result<ValueId> {
    match channels_last(rewriter, value)? {
        Some(source) => Ok(source),
        None => rewriter.transpose(&format!("{}.nhwc", node.name), value, &TO_NHWC),
    }
}

/// The operator `op` on channels-last `inputs`, followed by a transpose for the output of `node`.
fn transposed_back(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    op: &str,
    attributes: Attributes,
    inputs: &[Option<ValueId>],
) -> Result<Outcome> {
    let mut back = rewriter.node_like(node, "Transpose", perm_attributes(&TO_NCHW), Vec::new())?;
    back.outputs.truncate(1);
    let made = rewriter.emit_for(&mut back, "nchw", op, attributes, inputs)?;
    back.inputs = made.into_iter().map(Some).collect();
    Ok(Outcome::Replace(back))
}

/// The position of an axis of [N, C, H, W] in [N, H, W, C]; negative ones count from the end.
fn moved_axis(axis: i64) -> Option<i64> {
    let axis = if axis < 0 { axis + 4 } else { axis };
    [0, 3, 1, 2].get(usize::try_from(axis).ok()?).copied()
}
