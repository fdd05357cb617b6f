//! Loss functions for scores of classes and labels.

use super::rows::*;
use super::shapes::{Inferred, choice, expect_dtype, expect_optional_shape, expect_shape, rank};
use crate::Inference;
use crate::operator::AttributeDef;
use tenon_base::Result;
use tenon_tensor::TensorType;

const IGNORE: AttributeDef = int("ignore_index", "a label without loss; default none");
const REDUCTION: AttributeDef = string(
    "reduction",
    "none: each loss; sum; mean: the sum over the weights of the labels; default mean",
);

operators! { "loss"
    /// The score of each label's class, negated and times the class's weight: input [N, C, ..],
    /// target [N, ..] of classes, weight [C]; [N, ..] or a scalar.
    Compute "NegativeLogLikelihoodLoss"
        (required("input", FLOATS), required("target", INDICES), optional("weight", FLOATS))
        -> (required("loss", FLOATS)) [IGNORE, REDUCTION] likelihood;
    /// NegativeLogLikelihoodLoss of the logarithms of the scores' softmax along C, and these.
    Compute "SoftmaxCrossEntropyLoss"
        (required("scores", FLOATS), required("labels", INDICES), optional("weights", FLOATS))
        -> (required("output", FLOATS), optional("log_prob", FLOATS))
        [IGNORE, REDUCTION] cross_entropy;
}

fn loss(node: &Inference<'_>) -> Result<TensorType> {
    let input = node.input(0)?;
    rank(input, "input", 2..=usize::MAX)?;
    let mut labels = input.shape().to_vec();
    let classes = labels.remove(1);
    // The two operators have other names for the same inputs; these are their positions.
    expect_shape(node.input(1)?, "input 1", &labels)?;
    expect_optional_shape(node, 2, "input 2", &[classes])?;
    let dtype = input.dtype();
    if let Some(weight) = node.optional(2) {
        expect_dtype(weight, "input 2", dtype)?;
    }
    match choice(node, "reduction", "mean", &["none", "sum", "mean"])? {
        "none" => TensorType::new(dtype, labels),
        _ => TensorType::new(dtype, []),
    }
}

fn likelihood(node: &Inference<'_>) -> Inferred {
    Ok(vec![loss(node)?])
}

fn cross_entropy(node: &Inference<'_>) -> Inferred {
    let mut types = vec![loss(node)?, node.input(0)?.clone()];
    types.truncate(node.outputs.max(1));
    Ok(types)
}
