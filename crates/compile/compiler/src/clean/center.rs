//! CenterCropPad as a Slice of the center and a Pad around it.

use crate::rewrite::{Outcome, Rewriter};
use tenon_base::Result;
use tenon_graph::{Attributes, Node, Tensor, ValueId};

/// The larger half of an odd difference is after the center.
pub(crate) fn crop_pad(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if node.op.name != "CenterCropPad" {
        return Ok(Outcome::Keep);
    }
    let (Some(input), Some(&Some(output))) = (rewriter.input(node, 0), node.outputs.first()) else {
        return Ok(Outcome::Keep);
    };
    let from = rewriter.shape(input)?.to_vec();
    let to = rewriter.shape(output)?.to_vec();
    let extents = || from.iter().zip(&to);
    let kept = || extents().map(|(&from, &to)| from.min(to));
    let starts: Vec<usize> = extents()
        .map(|(&from, &to)| from.saturating_sub(to) / 2)
        .collect();
    let ends: Vec<usize> = starts.iter().zip(kept()).map(|(a, b)| a + b).collect();
    let before: Vec<usize> = extents()
        .map(|(&from, &to)| to.saturating_sub(from) / 2)
        .collect();
    let after = to.iter().zip(kept()).zip(&before);
    let after: Vec<usize> = after
        .map(|((to, kept), before)| to - kept - before)
        .collect();
    let (crops, pads) = (
        !kept().eq(from.iter().copied()),
        !kept().eq(to.iter().copied()),
    );
    let list = |rewriter: &mut Rewriter<'_>, what: &str, list: &[usize]| -> Result<ValueId> {
        let list: Vec<i64> = list.iter().map(|&extent| extent as i64).collect();
        let tensor = Tensor::from_slice([list.len()], &list)?;
        Ok(rewriter.add_constant(&format!("{}.{what}", node.name), tensor))
    };
    let mut value = input;
    if crops {
        let starts = list(rewriter, "starts", &starts)?;
        let ends = list(rewriter, "ends", &ends)?;
        let inputs = vec![Some(input), Some(starts), Some(ends)];
        if !pads {
            return rewriter
                .node_like(node, "Slice", Attributes::new(), inputs)
                .map(Outcome::Replace);
        }
        value = rewriter.emit(&node.name, "Slice", Attributes::new(), &inputs)?;
    }
    if !pads {
        return Ok(Outcome::Forward(vec![Some(value)]));
    }
    let pads = list(rewriter, "pads", &[before, after].concat())?;
    let inputs = vec![Some(value), Some(pads)];
    rewriter
        .node_like(node, "Pad", Attributes::new(), inputs)
        .map(Outcome::Replace)
}
