//! Quantization: values as small integers with a scale and a zero point.

use super::rows::*;
use super::shapes::{
    Inferred, axis_attribute, dtype_attribute, expect_dtype, expect_shape, extent, invalid, one,
};
use crate::operator::AttributeDef;
use crate::{DataType, Inference};
use tenon_base::Result;
use tenon_tensor::{Tensor, TensorType, convert};

const AXIS: AttributeDef = int(
    "axis",
    "the dimension of the scales, when there are several; default 1",
);
const BLOCK: AttributeDef = int(
    "block_size",
    "elements along the axis that share a scale; 0: all; default 0",
);

operators! { "quantize"
    /// x / y_scale + y_zero_point, rounded (ties to even) and saturated to the range of the output
    /// type (an f8 overflows to infinity or NaN, unless `saturate` is set; the zero point of f8 is 0). That type is the zero point's,
    /// or `output_dtype`, or u8. Scales are a scalar, one for each position of the axis, or one for each
    /// block along it.
    Compute "QuantizeLinear"
        (required("x", NUMERIC), required("y_scale", SCALES), optional("y_zero_point", QUANTIZED))
        -> (required("y", QUANTIZED))
        [
            AXIS, BLOCK,
            string("output_dtype", "the element type without a zero point; default u8"),
            string("precision", "the type of the division; default that of the scale, f32 for f8e8m0fnu"),
            int("saturate", "for f8 only; default 1"),
        ] quantize;
    /// (x - x_zero_point) times x_scale, of the scale's type or `output_dtype`.
    Compute "DequantizeLinear"
        (required("x", DEQUANTIZED), required("x_scale", SCALES), optional("x_zero_point", DEQUANTIZED))
        -> (required("y", FLOATS))
        [AXIS, BLOCK, string("output_dtype", "the element type; default that of x_scale")]
        dequantize;
    /// Quantization to u8 with the scale and zero point of the input's range, 0 included.
    Compute "DynamicQuantizeLinear" (required("x", F32))
        -> (required("y", U8), required("y_scale", F32), required("y_zero_point", U8))
        [] dynamic;
}

/// What scales are used for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ScaleUse {
    /// Values are divided by them: positive.
    Divisor,
    /// Integers are multiplied by them: not 0. Quantisers also choose negative ones, so that the greatest magnitude of a block
    /// is its least integer.
    Factor,
    /// The same of blocks, of which some may have zeros alone.
    BlockFactor,
}

/// Checks that scales which are known are finite, and what their use requires.
pub(super) fn expect_scales(
    node: &Inference<'_>,
    index: usize,
    name: &str,
    scale_use: ScaleUse,
) -> Result<()> {
    let Some(tensor) = node.constant(index) else {
        return Ok(());
    };
    let scales = reals(tensor)?;
    let (expected, is_scale): (_, fn(f64) -> bool) = match scale_use {
        ScaleUse::Divisor => ("a positive finite value", |scale| scale > 0.0),
        ScaleUse::Factor => ("a finite value that is not 0", |scale| scale != 0.0),
        ScaleUse::BlockFactor => ("a finite value", |_| true),
    };
    let is_wrong = |scale: &f64| !scale.is_finite() || !is_scale(*scale);
    match scales.iter().position(is_wrong) {
        None => Ok(()),
        Some(at) => Err(
            invalid(format!("input '{name}' has an element that is no scale"))
                .expected(expected)
                .found(format_args!("{} at position {at}", scales[at])),
        ),
    }
}

/// Checks the scales of two inputs, `x` and `w`, and of the output of a product, `y`, with their names: the factors of its sums
/// are finite in f32, which are the product of the scales of the inputs, and its quotient by that of the output.
pub(super) fn expect_scales_of_product(
    node: &Inference<'_>,
    [(x, x_name), (w, w_name), (y, y_name)]: [(usize, &str); 3],
) -> Result<()> {
    expect_scales(node, x, x_name, ScaleUse::Factor)?;
    expect_scales(node, w, w_name, ScaleUse::Factor)?;
    expect_scales(node, y, y_name, ScaleUse::Divisor)?;
    let greatest = |index: usize, of: fn(f64, f64) -> f64| -> Result<Option<f64>> {
        let scales = node.constant(index).map(reals).transpose()?;
        let scales = scales.into_iter().flatten();
        Ok(scales.map(f64::abs).reduce(of))
    };
    let (Some(x), Some(w)) = (greatest(x, f64::max)?, greatest(w, f64::max)?) else {
        return Ok(());
    };
    let y = greatest(y, f64::min)?.unwrap_or(1.0);
    if [x * w, x * w / y]
        .iter()
        .all(|factor| (*factor as f32).is_finite())
    {
        return Ok(());
    }
    Err(invalid("the scale of the sums is not finite in f32")
        .expected("scales whose product, divided by the scale of the output, is finite")
        .found(format_args!("{x} times {w} divided by {y}")))
}

/// Checks that the quotient of two scalar scales which are known is finite in f32.
pub(super) fn expect_finite_quotient(
    node: &Inference<'_>,
    (x, x_name): (usize, &str),
    (y, y_name): (usize, &str),
) -> Result<()> {
    let scale = |index: usize| -> Result<Option<f64>> {
        let scales = node.constant(index).map(reals).transpose()?;
        Ok(scales.and_then(|scales| scales.first().copied()))
    };
    let (Some(x), Some(y)) = (scale(x)?, scale(y)?) else {
        return Ok(());
    };
    if ((x / y) as f32).is_finite() {
        return Ok(());
    }
    Err(invalid(format!(
        "the quotient of '{x_name}' and '{y_name}' is not finite in f32"
    ))
    .expected("scales whose quotient is finite")
    .found(format_args!("{x} divided by {y}")))
}

fn reals(tensor: &Tensor) -> Result<Vec<f64>> {
    let wide = convert(tensor, DataType::F64)?;
    Ok(wide.as_slice::<f64>().unwrap_or_default().to_vec())
}

/// Checks a scale and a zero point against the input.
fn parameters(node: &Inference<'_>, names: [&str; 2]) -> Result<()> {
    let scale_use = match node.attributes.int("block_size", 0)? {
        _ if names[0] == "y_scale" => ScaleUse::Divisor,
        0 => ScaleUse::Factor,
        _ => ScaleUse::BlockFactor,
    };
    expect_scales(node, 1, names[0], scale_use)?;
    let (x, scale) = (node.input(0)?.shape(), node.input(1)?);
    let block = extent(
        node.attributes.int("block_size", 0)?,
        "attribute 'block_size'",
    )?;
    if block > 0 {
        let axis = axis_attribute(node, 1, x.len())?;
        let mut blocks = x.to_vec();
        blocks[axis] = blocks[axis].div_ceil(block);
        expect_shape(scale, names[0], &blocks)?;
    } else if scale.shape().len() == 1 && scale.elements() != 1 {
        let axis = axis_attribute(node, 1, x.len())?;
        expect_shape(scale, names[0], &x[axis..=axis])?;
    } else if scale.elements() != 1 {
        return Err(invalid(format!("input '{}' has the wrong shape", names[0]))
            .expected("a scalar, or one value for each position of the axis")
            .found(scale.shape()));
    }
    match node.optional(2) {
        Some(zero) if zero.elements() != 1 || scale.elements() != 1 => {
            expect_shape(zero, names[1], scale.shape())
        }
        _ => Ok(()),
    }
}

fn quantize(node: &Inference<'_>) -> Inferred {
    parameters(node, ["y_scale", "y_zero_point"])?;
    let default = node.optional(2).map_or(DataType::U8, TensorType::dtype);
    let dtype = dtype_attribute(node, "output_dtype", default)?;
    if let Some(zero) = node.optional(2) {
        expect_dtype(zero, "y_zero_point", dtype)?;
    }
    if !QUANTIZED.contains(dtype) {
        return Err(invalid("attribute 'output_dtype' is not a quantized type").found(dtype));
    }
    one(dtype, node.input(0)?.shape().clone())
}

fn dequantize(node: &Inference<'_>) -> Inferred {
    parameters(node, ["x_scale", "x_zero_point"])?;
    let x = node.input(0)?;
    if let Some(zero) = node.optional(2) {
        expect_dtype(zero, "x_zero_point", x.dtype())?;
    }
    one(
        dtype_attribute(node, "output_dtype", node.input(1)?.dtype())?,
        x.shape().clone(),
    )
}

fn dynamic(node: &Inference<'_>) -> Inferred {
    Ok(vec![
        TensorType::new(DataType::U8, node.input(0)?.shape().clone())?,
        TensorType::new(DataType::F32, [])?,
        TensorType::new(DataType::U8, [])?,
    ])
}
