//! Quantization and dequantization.

use crate::elements::{Elements, ElementsMut, Value, is_numeric};
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, floats, unsupported_type, unsupported_value,
};
use crate::loop_nest::AxisExtents;
use crate::number::Number;
use tenon_base::Result;
use tenon_tensor::{DataType, converter};

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

/// The quotient is rounded to the type of the division before it is rounded to an integer, which
/// decides ties.
fn quantize(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (x, scale, y) = (node.dtype(0)?, node.dtype(1)?, node.output(0)?.dtype());
    let scales = ScaleLayout::new(node)?;
    let zero = node.optional(2).map(|ty| ty.dtype());
    let divided = match node.attributes.string("precision", "")? {
        "" => scale,
        name => name.parse()?,
    };
    let round = rounding(divided).map_err(|_| unsupported_value("precision", divided))?;
    if let Some(greatest) = y.greatest_f8() {
        return to_small_float(node, scales, round, y, greatest);
    }
    let [least, greatest] = y
        .quantized_range()
        .ok_or_else(|| unsupported_value("output_dtype", y))?;
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
            let quotient = round(x.at(at) / scale.at(of)).round_ties_even();
            let value = quotient + zero.map_or(0.0, |zero| zero.at(of));
            to.set(at, Value::Real(value.clamp(least, greatest)));
        }
        Ok(())
    }))
}

/// Quantization to a float8 type, whose zero point is 0: rounded once by the conversion, saturated at the
/// greatest value unless `saturate` is 0.
fn to_small_float(
    node: &Node<'_>,
    scales: ScaleLayout,
    round: fn(f64) -> f64,
    y: DataType,
    greatest: f64,
) -> Result<Kernel, BuildError> {
    let (x, scale) = (node.dtype(0)?, node.dtype(1)?);
    let saturate = node.attributes.flag("saturate", true)?;
    let write = converter(DataType::F64, y).ok_or_else(|| unsupported_value("output_dtype", y))?;
    if !is_numeric(x) {
        return Err(unsupported_type(0, x));
    }
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let x = Elements::new(&inputs, 0, x)?;
        let scale = Elements::new(&inputs, 1, scale)?;
        let to = outputs.slice::<u8>(0)?;
        for (at, to) in to.iter_mut().enumerate() {
            let mut quotient = round(x.at(at) / scale.at(scales.at(at)));
            if saturate {
                quotient = quotient.clamp(-greatest, greatest);
            }
            write(&quotient.to_le_bytes(), std::slice::from_mut(to));
        }
        Ok(())
    }))
}

/// Dequantization from a float8 type, whose zero point is 0.
fn from_small_float(node: &Node<'_>, scales: ScaleLayout) -> Result<Kernel, BuildError> {
    let (x, scale, y) = (node.dtype(0)?, node.dtype(1)?, node.output(0)?.dtype());
    let read = converter(x, DataType::F64).ok_or_else(|| unsupported_type(0, x))?;
    if !is_numeric(y) {
        return Err(unsupported_value("output_dtype", y));
    }
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (x, scale) = (inputs.slice::<u8>(0)?, Elements::new(&inputs, 1, scale)?);
        let mut to = ElementsMut::new(&mut outputs, 0, y)?;
        for (at, byte) in x.iter().enumerate() {
            let mut wide = [0; 8];
            read(std::slice::from_ref(byte), &mut wide);
            let number = f64::from_le_bytes(wide) * scale.at(scales.at(at));
            to.set(at, Value::Real(number));
        }
        Ok(())
    }))
}

fn dequantize(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (x, scale, y) = (node.dtype(0)?, node.dtype(1)?, node.output(0)?.dtype());
    let scales = ScaleLayout::new(node)?;
    if x.greatest_f8().is_some() {
        return from_small_float(node, scales);
    }
    let zero = node.optional(2).map(|ty| ty.dtype());
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
