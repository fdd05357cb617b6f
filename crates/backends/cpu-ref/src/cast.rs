//! Conversions between element types, by the rules of `tenon-tensor`.

use crate::elements::{Elements, ElementsMut, is_numeric};
use crate::kernel::{
    BuildError, BuildKernel, Kernel, Node, unsupported, unsupported_type, unsupported_value,
};
use tenon_backend::Operands;
use tenon_base::Result;
use tenon_tensor::{ConvertFn, DataType, E8m0Rounding, converter};

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[
    ("Cast", cast),
    ("CastLike", cast),
    ("BitCast", |_| Ok(Kernel::new(same_bytes))),
];

fn same_bytes(operands: &mut Operands<'_>) -> Result<()> {
    let (inputs, mut outputs) = operands.split();
    let to = outputs.slice::<u8>(0)?;
    to.copy_from_slice(inputs.slice::<u8>(0)?);
    Ok(())
}

fn cast(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let (from, to) = (node.dtype(0)?, node.output(0)?.dtype());
    let saturate = node.attributes.flag("saturate", true)?;
    if to == DataType::F8E8M0Fnu && from != to {
        return to_exponents(node, from, saturate);
    }
    let greatest = to.greatest_quantized().filter(|_| saturate && from != to);
    if let Some(greatest) = greatest
        && let (Some(read), Some(write)) =
            (converter(from, DataType::F64), converter(DataType::F64, to))
    {
        return Ok(saturating(from.bits() / 8, read, write, greatest));
    }
    if let Some(convert) = converter(from, to) {
        return Ok(Kernel::new(move |operands| {
            let (inputs, mut outputs) = operands.split();
            convert(inputs.slice::<u8>(0)?, outputs.slice::<u8>(0)?);
            Ok(())
        }));
    }
    one_by_one(node, from, to)
}

/// Elements of a conversion step.
const CHUNK: usize = 64;

/// Converts through f64 with saturation. f64 is exact enough: values that it cannot hold exceed `greatest`.
fn saturating(size: usize, read: ConvertFn, write: ConvertFn, greatest: f64) -> Kernel {
    Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (from, to) = (inputs.slice::<u8>(0)?, outputs.slice::<u8>(0)?);
        let mut wide = [0; 8 * CHUNK];
        for (from, to) in from.chunks(size * CHUNK).zip(to.chunks_mut(CHUNK)) {
            let wide = &mut wide[..8 * to.len()];
            read(from, wide);
            for value in wide.as_chunks_mut::<8>().0 {
                *value = f64::from_le_bytes(*value)
                    .clamp(-greatest, greatest)
                    .to_le_bytes();
            }
            write(wide, to);
        }
        Ok(())
    })
}

/// Conversion of single elements, for types of less than a byte.
fn one_by_one(node: &Node<'_>, from: DataType, to: DataType) -> Result<Kernel, BuildError> {
    let count = node.output(0)?.elements();
    if !is_numeric(from) {
        return Err(unsupported_type(0, from));
    }
    if !is_numeric(to) {
        return Err(unsupported(format!("no conversion to type {to}")));
    }
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let from = Elements::new(&inputs, 0, from)?;
        let mut to = ElementsMut::new(&mut outputs, 0, to)?;
        (0..count).for_each(|at| to.set(at, from.value(at)));
        Ok(())
    }))
}

/// Conversion to exponents, through f32.
fn to_exponents(node: &Node<'_>, from: DataType, saturate: bool) -> Result<Kernel, BuildError> {
    let mode = node.attributes.string("round_mode", "up")?;
    let rounding: E8m0Rounding = mode
        .parse()
        .map_err(|_| unsupported_value("round_mode", mode))?;
    if !is_numeric(from) {
        return Err(unsupported_type(0, from));
    }
    Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let from = Elements::new(&inputs, 0, from)?;
        for (at, to) in outputs.slice::<u8>(0)?.iter_mut().enumerate() {
            *to = rounding.code(from.value(at).single(), saturate);
        }
        Ok(())
    }))
}
