//! The mask of the scores of an attention.

use crate::signature::{Signature, refuse};
use tenon_backend::Refusal;
use tenon_tensor::{DataType, Shape};

/// A mask of the scores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mask {
    /// Whether its elements select keys; else they are added to the scores.
    pub(super) is_bool: bool,
    /// Strides along batch, head and query; 0 where it is broadcast.
    pub(super) strides: [usize; 3],
    /// Stride along the keys: 0 where it is broadcast, else 1.
    pub(super) key: usize,
    /// The number of keys of the mask; later keys are masked.
    pub(super) keys: usize,
}

impl Mask {
    /// The mask in input 3, which shape inference has broadcast to the scores. A mask that `may_be_short`
    /// masks the keys after its last one; another one is broadcast along the keys as well.
    pub(super) fn of(
        signature: &Signature<'_>,
        scores: [usize; 4],
        may_be_short: bool,
    ) -> Result<Option<Self>, Refusal> {
        let Some(ty) = signature.optional(3) else {
            return Ok(None);
        };
        let shape = ty.shape();
        let mut extents = [1; 4];
        let has_no_keys = shape.contains(&0) || may_be_short && shape.is_empty();
        let missing = scores.len().checked_sub(shape.len());
        let missing = missing.filter(|_| !has_no_keys);
        let Some(missing) = missing else {
            return Err(refuse(format!("no kernel for a mask of shape {shape}")));
        };
        extents[missing..].copy_from_slice(shape);
        let keys = extents[3];
        let all = Shape::new(extents).strides();
        let step = |axis: usize| if extents[axis] == 1 { 0 } else { all[axis] };
        let is_broadcast = keys == 1 && !may_be_short;
        Ok(Some(Self {
            is_bool: ty.dtype() == DataType::Bool,
            strides: [step(0), step(1), step(2)],
            key: usize::from(!is_broadcast),
            keys: if is_broadcast { scores[3] } else { keys },
        }))
    }
}
