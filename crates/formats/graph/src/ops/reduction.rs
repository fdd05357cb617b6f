//! Reductions over some dimensions.

use super::rows::*;
use super::shapes::{Inferred, axes, one};
use crate::Inference;
use crate::operator::{AttributeDef, OperandDef};

const DATA: OperandDef = required("data", NUMERIC);
const AXES: OperandDef = known(optional("axes", I64));
const REDUCED: OperandDef = required("reduced", NUMERIC);
const KEEP: AttributeDef = int(
    "keepdims",
    "1: reduced dimensions remain with extent 1; default 1",
);
const NOOP: AttributeDef = int(
    "noop_with_empty_axes",
    "without axes, 1: nothing is reduced, 0: all; default 0",
);

operators! { "reduction"
    /// The sum.
    Compute "ReduceSum" (DATA, AXES) -> (REDUCED) [KEEP, NOOP] reduce;
    /// The mean.
    Compute "ReduceMean" (DATA, AXES) -> (REDUCED) [KEEP, NOOP] reduce;
    /// The maximum; of booleans, the logical or.
    Compute "ReduceMax" (required("data", PLAIN), AXES) -> (required("reduced", PLAIN))
        [KEEP, NOOP] reduce;
    /// The minimum; of booleans, the logical and.
    Compute "ReduceMin" (required("data", PLAIN), AXES) -> (required("reduced", PLAIN))
        [KEEP, NOOP] reduce;
    /// The product.
    Compute "ReduceProd" (DATA, AXES) -> (REDUCED) [KEEP, NOOP] reduce;
    /// The sum of magnitudes.
    Compute "ReduceL1" (DATA, AXES) -> (REDUCED) [KEEP, NOOP] reduce;
    /// The square root of the sum of squares.
    Compute "ReduceL2" (DATA, AXES) -> (REDUCED) [KEEP, NOOP] reduce;
    /// The sum of squares.
    Compute "ReduceSumSquare" (DATA, AXES) -> (REDUCED) [KEEP, NOOP] reduce;
    /// The logarithm of the sum.
    Compute "ReduceLogSum" (DATA, AXES) -> (REDUCED) [KEEP, NOOP] reduce;
    /// The logarithm of the sum of exponentials, computed so that it does not overflow.
    Compute "ReduceLogSumExp" (DATA, AXES) -> (REDUCED) [KEEP, NOOP] reduce;
}

fn reduce(node: &Inference<'_>) -> Inferred {
    let data = node.input(0)?;
    let rank = data.shape().len();
    let given = node.ints(1)?.unwrap_or_default();
    let reduced = if !given.is_empty() {
        axes(&given, rank, "input 'axes'")?
    } else if node.attributes.flag("noop_with_empty_axes", false)? {
        Vec::new()
    } else {
        (0..rank).collect()
    };
    let keep = node.attributes.flag("keepdims", true)?;
    one(data.dtype(), reduced_shape(data.shape(), &reduced, keep))
}

/// `shape` with the `reduced` dimensions 1, or removed.
pub(super) fn reduced_shape(shape: &[usize], reduced: &[usize], keep: bool) -> Vec<usize> {
    let mut gone = vec![false; shape.len()];
    reduced.iter().for_each(|&axis| gone[axis] = true);
    let dims = shape.iter().zip(gone);
    dims.filter(|(_, gone)| keep || !gone)
        .map(|(&dim, gone)| if gone { 1 } else { dim })
        .collect()
}
