//! Operators that move elements selected by position: Trilu, OneHot, Compress, ReverseSequence, EyeLike,
//! Range, for every type whose elements are whole bytes.

mod compress;
mod diagonal;
mod one_hot;
mod range;
mod reverse_sequence;
mod triangle;

use super::Kernel;
use crate::signature::Signature;
use tenon_backend::Refusal;

/// Elements below which one thread is used.
const PARALLEL: usize = 1 << 16;

/// The kernel of an operator; `None` for any other operator.
pub(super) fn kernel(signature: &Signature<'_>) -> Option<Result<Box<dyn Kernel>, Refusal>> {
    let build: fn(&Signature<'_>) -> Result<Box<dyn Kernel>, Refusal> = match signature.op.name {
        "Trilu" => triangle::kernel,
        "OneHot" => one_hot::kernel,
        "Compress" => compress::kernel,
        "ReverseSequence" => reverse_sequence::kernel,
        "EyeLike" => diagonal::kernel,
        "Range" => range::kernel,
        _ => return None,
    };
    Some(build(signature))
}

/// The rows of `row` elements of a chunk of `elements`, and whether chunks run in parallel.
fn chunk_of(elements: usize, row: usize) -> (usize, bool) {
    let parallel = elements >= PARALLEL;
    (
        super::chunk_rows(elements.div_ceil(row), parallel),
        parallel,
    )
}
