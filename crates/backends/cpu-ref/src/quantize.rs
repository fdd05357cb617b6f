//! Quantization and dequantization.

use crate::elements::{Elements, ElementsMut, Value, is_numeric};
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, unsupported_type, unsupported_value,
};
use crate::loop_nest::AxisExtents;
use crate::number::Number;
use tenon_base::Result;
use tenon_tensor::DataType;

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("QuantizeLinear", quantize),
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", dynamic),
];

/// The granularity of scales and zero points.
#[derive(Debug, Clone, Copy)]
enum ScaleLayout {
    /// One per tensor.
    One,
    /// One for each position of the axis.
    Axis(AxisExtents),
    /// One for each block of positions of the axis, of this length.
    Blocks(AxisExtents, usize),
}

impl ScaleLayout {
    fn new(node: &Node<'_>) -> Result<Self> {
        let shape = node.shape(0)?;
        let block = node.attributes.int("block_size", 0)?.max(0) as usize;
        if node.input(1)?.elements() == 1 && block == 0 {
            return Ok(ScaleLayout::One);
        }
        let along = AxisExtents::new(shape, node.axis("axis", 1, shape.len())?);
        Ok(if block == 0 {
            ScaleLayout::Axis(along)
        } else {
            ScaleLayout::Blocks(along, block)
        })
    }

    fn at(self, element: usize) -> usize {
        match self {
            ScaleLayout::One => 0,
            ScaleLayout::Axis(along) => element / along.inner % along.extent,
            ScaleLayout::Blocks(along, block) => {
                let (row, column) = (element / along.inner, element % along.inner);
                let blocks = along.extent.div_ceil(block);
                let row = row / along.extent * blocks + row % along.extent / block;
                row * along.inner + column
            }
        }
    }
}

/// Rounds to a floating-point type.
fn rounding(dtype: DataType) -> Result<fn(f64) -> f64, BuildError> {
    floats!(dtype, 1, T => Ok(|value| T::from_f64(value).to_f64()))
}

fn is_f8(dtype: DataType) -> bool {
    dtype.is_float() && dtype.bits() == 8
}

/// The quotient is rounded to the type of the division before it is rounded to an integer, which
/// decides ties.
fn quantize(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (x, scale, y) = (node.dtype(0)?, node.dtype(1)?, node.output(0)?.dtype());
    let scales = ScaleLayout::new(node)?;
    let zero = node.optional(2).map(|ty| ty.dtype());
    let divided = match node.attributes.string("precision", "")? {
        // Powers of two have no mantissa.
        "" if scale == DataType::F8E8M0Fnu => DataType::F32,
        "" => scale,
        name => name.parse()?,
    };
    let round = rounding(divided).map_err(|_| unsupported_value("precision", divided))?;
    let saturate = node.attributes.flag("saturate", true)?;
    let [least, greatest] = match (y.quantized_range(), y.greatest_quantized()) {
        (Some(range), _) => range,
        (_, Some(greatest)) if saturate => [-greatest, greatest],
        (_, Some(_)) => [f64::NEG_INFINITY, f64::INFINITY],
        _ => return Err(unsupported_value("output_dtype", y)),
    };
    // The zero point of floating-point types of 8 bits is 0.
    let zero = zero.filter(|_| !is_f8(y));
    let count = node.output(0)?.elements();
    if !is_numeric(x) {
        return Err(unsupported_type(0, x));
    }
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, scale) = (
            Elements::new(&inputs, 0, x)?,
            Elements::new(&inputs, 1, scale)?,
        );
        let zero = zero
            .map(|dtype| Elements::new(&inputs, 2, dtype))
            .transpose()?;
        let mut to = ElementsMut::new(&mut outputs, 0, y)?;
        for at in 0..count {
            let of = scales.at(at);
            let quotient = round(x.at(at) / scale.at(of));
            let rounded = if y.is_integer() {
                quotient.round_ties_even()
            } else {
                quotient
            };
            let value = zero.map_or(rounded, |zero| rounded + zero.at(of));
            to.set(at, Value::Real(value.clamp(least, greatest)));
        }
        Ok(())
    }))
}

fn dequantize(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (x, scale, y) = (node.dtype(0)?, node.dtype(1)?, node.output(0)?.dtype());
    let scales = ScaleLayout::new(node)?;
    // The zero point of floating-point types is 0.
    let zero = node.optional(2).map(|ty| ty.dtype());
    let zero = zero.filter(|_| !x.is_float());
    let count = node.output(0)?.elements();
    if !is_numeric(x) {
        return Err(unsupported_type(0, x));
    }
    if !is_numeric(y) {
        return Err(unsupported_value("output_dtype", y));
    }
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, scale) = (
            Elements::new(&inputs, 0, x)?,
            Elements::new(&inputs, 1, scale)?,
        );
        let zero = zero
            .map(|dtype| Elements::new(&inputs, 2, dtype))
            .transpose()?;
        let mut to = ElementsMut::new(&mut outputs, 0, y)?;
        for at in 0..count {
            let of = scales.at(at);
            let zero = zero.map_or(0.0, |zero| zero.at(of));
            to.set(at, Value::Real((x.at(at) - zero) * scale.at(of)));
        }
        Ok(())
    }))
}

/// In single precision throughout, as ONNX defines it.
fn dynamic(node: &Node<'_>) -> Result<Kernel, BuildError> {
    if node.dtype(0)? != DataType::F32 {
        return Err(unsupported_type(0, node.dtype(0)?));
    }
    Ok(Kernel::new(|operands| {
        let (inputs, mut outputs) = operands.split();
        let x = inputs.slice::<f32>(0)?;
        let greatest = x.iter().copied().fold(0f32, f32::max);
        let least = x.iter().copied().fold(0f32, f32::min);
        // All elements are 0: the scale is arbitrary.
        let scale = if greatest == least {
            1.0
        } else {
            (greatest - least) / 255.0
        };
        let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
        if let Some(to) = outputs.optional::<u8>(0)? {
            for (to, x) in to.iter_mut().zip(x) {
                *to = ((x / scale).round_ties_even() + zero).clamp(0.0, 255.0) as u8;
            }
        }
        if let Some(to) = outputs.optional::<f32>(1)? {
            to.fill(scale);
        }
        if let Some(to) = outputs.optional::<u8>(2)? {
            to.fill(zero as u8);
        }
        Ok(())
    }))
}
