//! Between numbers and their quantized form.

use crate::cast::greatest;
use crate::elements::{Elements, ElementsMut, Value, known, range};
use crate::kernel::{Build, Kernel, Node, Stop, floats, no_type, no_value};
use crate::nest::Along;
use crate::number::Number;
use tenon_base::Result;
use tenon_tensor::{DataType, converter};

pub(crate) static KERNELS: &[(&str, Build)] = &[
    ("QuantizeLinear", quantize),
    ("DequantizeLinear", dequantize),
    ("DynamicQuantizeLinear", dynamic),
];

/// Which scale and zero point an element has.
#[derive(Debug, Clone, Copy)]
enum Scales {
    One,
    /// One for each position of the axis.
    Axis(Along),
    /// One for each block of so many positions of the axis.
    Blocks(Along, usize),
}

impl Scales {
    fn new(node: &Node<'_>) -> Result<Self> {
        let shape = node.shape(0)?;
        let block = node.attributes.int("block_size", 0)?.max(0) as usize;
        if node.input(1)?.elements() == 1 && block == 0 {
            return Ok(Scales::One);
        }
        let along = Along::new(shape, node.axis("axis", 1, shape.len())?);
        Ok(if block == 0 {
            Scales::Axis(along)
        } else {
            Scales::Blocks(along, block)
        })
    }

    fn at(self, element: usize) -> usize {
        match self {
            Scales::One => 0,
            Scales::Axis(along) => element / along.inner % along.extent,
            Scales::Blocks(along, block) => {
                let (row, column) = (element / along.inner, element % along.inner);
                let blocks = along.extent.div_ceil(block);
                let row = row / along.extent * blocks + row % along.extent / block;
                row * along.inner + column
            }
        }
    }
}

/// Rounds to a floating-point type.
fn rounding(dtype: DataType) -> Result<fn(f64) -> f64, Stop> {
    floats!(dtype, 1, T => Ok(|value| T::from_f64(value).to_f64()))
}

/// The quotient is rounded to the type it is divided in before it is rounded to an integer: halves
/// fall as they do there.
fn quantize(node: &Node<'_>) -> Result<Kernel, Stop> {
    let (x, scale, y) = (node.dtype(0)?, node.dtype(1)?, node.output(0)?.dtype());
    let scales = Scales::new(node)?;
    let zero = node.optional(2).map(|ty| ty.dtype());
    let divided = match node.attributes.string("precision", "")? {
        "" => scale,
        name => name.parse()?,
    };
    let round = rounding(divided).map_err(|_| no_value("precision", divided))?;
    if let Some(greatest) = greatest(y) {
        return to_small_float(node, scales, round, y, greatest);
    }
    let [least, greatest] = range(y).ok_or_else(|| no_value("output_dtype", y))?;
    let count = node.output(0)?.elements();
    if !known(x) {
        return Err(no_type(0, x));
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

/// To a byte with a point, whose zero point is 0: rounded once by the conversion, and held at the
/// greatest number unless told not to.
fn to_small_float(
    node: &Node<'_>,
    scales: Scales,
    round: fn(f64) -> f64,
    y: DataType,
    greatest: f64,
) -> Result<Kernel, Stop> {
    let (x, scale) = (node.dtype(0)?, node.dtype(1)?);
    let saturate = node.attributes.flag("saturate", true)?;
    let write = converter(DataType::F64, y).ok_or_else(|| no_value("output_dtype", y))?;
    if !known(x) {
        return Err(no_type(0, x));
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

/// From a byte with a point, whose zero point is 0.
fn from_small_float(node: &Node<'_>, scales: Scales) -> Result<Kernel, Stop> {
    let (x, scale, y) = (node.dtype(0)?, node.dtype(1)?, node.output(0)?.dtype());
    let read = converter(x, DataType::F64).ok_or_else(|| no_type(0, x))?;
    if !known(y) {
        return Err(no_value("output_dtype", y));
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

fn dequantize(node: &Node<'_>) -> Result<Kernel, Stop> {
    let (x, scale, y) = (node.dtype(0)?, node.dtype(1)?, node.output(0)?.dtype());
    let scales = Scales::new(node)?;
    if greatest(x).is_some() {
        return from_small_float(node, scales);
    }
    let zero = node.optional(2).map(|ty| ty.dtype());
    let count = node.output(0)?.elements();
    if !known(x) {
        return Err(no_type(0, x));
    }
    if !known(y) {
        return Err(no_value("output_dtype", y));
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
fn dynamic(node: &Node<'_>) -> Result<Kernel, Stop> {
    if node.dtype(0)? != DataType::F32 {
        return Err(no_type(0, node.dtype(0)?));
    }
    Ok(Kernel::new(|operands| {
        let (inputs, mut outputs) = operands.split();
        let x = inputs.slice::<f32>(0)?;
        let greatest = x.iter().copied().fold(0f32, f32::max);
        let least = x.iter().copied().fold(0f32, f32::min);
        // All zeros: any scale does.
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
