//! Copies: nop, datacopy, ethernet_datacopy, tilizer.

use crate::tensor::Tensor;
use tenon_base::Result;

/// A copy of the input.
pub fn copy(input: &Tensor) -> Result<Tensor> {
    input.try_clone()
}
