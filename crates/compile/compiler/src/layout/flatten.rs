//! Flattened images before a matmul: the rows of the constant weights are permuted instead of the image.

use super::channels_last;
use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::{Node, ValueId};

/// A matmul of constant weights with [N, C * H * W], transposed from [N, H, W, C].
pub(crate) fn flattened(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    let columns_first = match node.op.name {
        "MatMul" => false,
        "Gemm" if !node.attributes.flag("transA", false)? => {
            node.attributes.flag("transB", false)?
        }
        _ => return Ok(Outcome::Keep),
    };
    let Some(reshape) = rewriter.sole_producer_of(node, 0, "Reshape") else {
        return Ok(Outcome::Keep);
    };
    let (Some(image), Some(flat), Some(weights)) = (
        rewriter.input(reshape, 0),
        rewriter.input(node, 0),
        rewriter.input(node, 1),
    ) else {
        return Ok(Outcome::Keep);
    };
    let Some(source) = channels_last(rewriter, image)?.filter(|_| rewriter.uses(image) == 1) else {
        return Ok(Outcome::Keep);
    };
    let &[n, c, h, w] = &**rewriter.shape(image)? else {
        return Ok(Outcome::Keep);
    };
    let known = rewriter.constant(Some(weights)).is_some();
    if !known || **rewriter.shape(flat)? != [n, c * h * w] || rewriter.shape(weights)?.len() != 2 {
        return Ok(Outcome::Keep);
    }
    let flat = rewriter.reshape(&format!("{}.flat", node.name), source, &[n, h * w * c])?;
    let mut new = node.clone();
    new.inputs[0] = Some(flat);
    new.inputs[1] = Some(reordered(
        rewriter,
        node,
        weights,
        [c, h, w],
        columns_first,
    )?);
    Ok(Outcome::Replace(new))
}

/// The weights with rows (or columns, for transposed weights) in the order pixels, channels.
fn reordered(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    weights: ValueId,
    [c, h, w]: [usize; 3],
    columns_first: bool,
) -> Result<ValueId> {
    let shape = rewriter.shape(weights)?.to_vec();
    let name = format!("{}.weight", node.name);
    let (split, perm) = if columns_first {
        ([shape[0], c, h, w], [0, 2, 3, 1])
    } else {
        ([c, h, w, shape[1]], [1, 2, 0, 3])
    };
    let apart = rewriter.reshape(&name, weights, &split)?;
    let moved = rewriter.transpose(&name, apart, &perm)?;
    rewriter.reshape(&name, moved, &shape)
}
