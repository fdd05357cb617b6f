//! The constants of random decision trees.

use crate::{Choices, Input};
use tenon_base::Result;
use tenon_tensor::{DataType, Tensor, convert};

/// Most nodes of a tree.
const NODES: usize = 12;

/// The inputs of `tenon.TreeEnsemble` after X, of `features` columns.
pub(crate) fn constants(
    features: usize,
    targets: usize,
    dtype: DataType,
    choices: &mut Choices<'_>,
) -> Result<Vec<Option<Input>>> {
    let mut columns = Vec::new();
    let (mut thresholds, mut modes, mut children) = (Vec::new(), Vec::new(), Vec::new());
    let (mut roots, mut leaf_starts, mut members, mut member_starts) =
        (Vec::new(), vec![0], Vec::new(), vec![0]);
    let (mut of_entries, mut weights) = (Vec::new(), Vec::new());
    let one_mode = choices.one_in(2);
    for _ in 0..1 + choices.below(5) {
        let root = columns.len();
        roots.push(root as i32);
        let end = root + 1 + choices.below(NODES);
        for at in root..end {
            columns.push(choices.below(features) as i32);
            thresholds.push(choices.below(257) as f32 / 64.0 - 2.0);
            let mode = if one_mode { 0 } else { choices.below(7) };
            modes.push((mode + if choices.one_in(3) { 8 } else { 0 }) as u8);
            if mode == 6 {
                let set = (0..choices.below(4)).map(|_| choices.below(257) as f32 / 64.0 - 2.0);
                members.extend(set);
                member_starts.push(members.len() as i32);
            }
            for _ in 0..2 {
                if at + 1 < end && !choices.one_in(4) {
                    children.push((at + 1 + choices.below(end - at - 1)) as i32);
                    continue;
                }
                children.push(-(leaf_starts.len() as i32));
                for _ in 0..choices.below(3) {
                    of_entries.push(choices.below(targets) as i32);
                    weights.push(choices.below(257) as f32 / 64.0 - 2.0);
                }
                leaf_starts.push(of_entries.len() as i32);
            }
        }
    }
    let real = |values: &[f32]| convert(&Tensor::from_slice([values.len()], values)?, dtype);
    let ints = |values: &[i32]| Tensor::from_slice([values.len()], values);
    let mut tensors = vec![
        ints(&columns)?,
        real(&thresholds)?,
        Tensor::from_slice([modes.len()], &modes)?,
        Tensor::from_slice([children.len() / 2, 2], &children)?,
        ints(&roots)?,
        ints(&leaf_starts)?,
        ints(&of_entries)?,
        real(&weights)?,
    ];
    if member_starts.len() > 1 {
        tensors.extend([real(&members)?, ints(&member_starts)?]);
    }
    let input = |tensor| {
        Some(Input {
            tensor,
            is_constant: true,
        })
    };
    Ok(tensors.into_iter().map(input).collect())
}
