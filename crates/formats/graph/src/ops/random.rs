//! Random values, by the generator of [`crate::random`].

use super::rows::*;
use super::shapes::{Inferred, dtype_attribute, extent, invalid, one, positive, rank};
use crate::operator::AttributeDef;
use crate::{DataType, Inference};
use tenon_base::Result;

const SEED: AttributeDef = float(
    "seed",
    "the same seed gives the same values in every execution, on every backend; default 0",
);
const SHAPE: AttributeDef = must(ints("shape", "the shape of the output"));
const TYPE: AttributeDef = string("dtype", "the element type; default f32");
const LIKE: AttributeDef = string("dtype", "the element type; default the input's");
const MEAN: AttributeDef = float("mean", "the mean; default 0");
const SCALE: AttributeDef = float("scale", "the standard deviation; default 1");
const LOW: AttributeDef = float("low", "the lower bound; default 0");
const HIGH: AttributeDef = float("high", "the upper bound; default 1");

operators! { "random"
    /// Normally distributed values: element n is a function of the seed and n alone (Philox4x32-10 and
    /// Box-Muller).
    Compute "RandomNormal" () -> (required("output", FLOATS)) [TYPE, MEAN, SCALE, SEED, SHAPE] filled;
    /// Normally distributed values in a tensor of the input's shape.
    Compute "RandomNormalLike" (required("input", ANY)) -> (required("output", FLOATS))
        [LIKE, MEAN, SCALE, SEED] like;
    /// Uniformly distributed values: element n is a function of the seed and n alone (Philox4x32-10).
    Compute "RandomUniform" () -> (required("output", FLOATS)) [TYPE, HIGH, LOW, SEED, SHAPE] filled;
    /// Uniformly distributed values in a tensor of the input's shape.
    Compute "RandomUniformLike" (required("input", ANY)) -> (required("output", FLOATS))
        [LIKE, HIGH, LOW, SEED] like;
    /// 1 with the probability that the input has, else 0.
    Compute "Bernoulli" (required("input", FLOATS)) -> (required("output", PLAIN)) [LIKE, SEED]
        bernoulli;
    /// Indices of classes, [batch, sample_size], drawn with the unnormalised log-probabilities of the
    /// input, [batch, classes].
    Compute "Multinomial" (required("input", FLOATS)) -> (required("output", INDICES))
        [
            string("dtype", "i32 or i64; default i32"),
            int("sample_size", "samples of each row; default 1"),
            SEED,
        ] multinomial;
}

fn float_type(node: &Inference<'_>, default: DataType) -> Result<DataType> {
    output_type(node, default, FLOATS)
}

fn output_type(
    node: &Inference<'_>,
    default: DataType,
    types: crate::operator::Types,
) -> Result<DataType> {
    let dtype = dtype_attribute(node, "dtype", default)?;
    if types.contains(dtype) {
        return Ok(dtype);
    }
    Err(invalid("attribute 'dtype' has an unsuitable type")
        .expected(types)
        .found(dtype))
}

fn filled(node: &Inference<'_>) -> Inferred {
    let shape = node.attributes.ints("shape")?.unwrap_or_default();
    let extents = shape.iter().map(|&dim| extent(dim, "attribute 'shape'"));
    let extents: Vec<usize> = extents.collect::<Result<_>>()?;
    one(float_type(node, DataType::F32)?, extents)
}

fn like(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    one(float_type(node, input.dtype())?, input.shape().clone())
}

fn bernoulli(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    let dtype = output_type(node, input.dtype(), PLAIN)?;
    one(dtype, input.shape().clone())
}

fn multinomial(node: &Inference<'_>) -> Inferred {
    let input = node.input(0)?;
    rank(input, "input", 2..=2)?;
    let samples = positive(
        node.attributes.int("sample_size", 1)?,
        "attribute 'sample_size'",
    )?;
    let &[batch, classes] = &input.shape()[..] else {
        return Err(invalid("input 'input' is not a matrix").found(input));
    };
    if batch > 0 && classes == 0 {
        return Err(invalid("input 'input' has no classes").found(input));
    }
    one(output_type(node, DataType::I32, INDICES)?, [batch, samples])
}
