//! The attributes of netlist kernels, read by type.

use tenon_base::{Error, ErrorKind, Result};
use tenon_bef::Attribute;
use tenon_executor::KernelAttributes;
use tenon_tile::{DataFormat, Word};

/// An integer operand of a program: a literal or a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operand {
    Number(i64),
    Variable(String),
}

/// A literal or a variable.
pub(super) fn operand(attributes: KernelAttributes<'_>, name: &str) -> Result<Operand> {
    optional_operand(attributes, name)?.ok_or_else(|| wrong(name, "a number or a variable"))
}

pub(super) fn optional_operand(
    attributes: KernelAttributes<'_>,
    name: &str,
) -> Result<Option<Operand>> {
    match attributes.optional(name) {
        None => Ok(None),
        Some(Attribute::I64(value)) => Ok(Some(Operand::Number(*value))),
        Some(Attribute::String(name)) => Ok(Some(Operand::Variable(name.to_string()))),
        Some(_) => Err(wrong(name, "a number or a variable")),
    }
}

/// Sizes: integers of at least 0.
pub(super) fn sizes<const N: usize>(
    attributes: KernelAttributes<'_>,
    name: &str,
) -> Result<[usize; N]> {
    let sizes = attributes.i32s(name)?.into_iter().map(usize::try_from);
    let sizes: Vec<usize> = sizes
        .collect::<Result<_, _>>()
        .map_err(|_| wrong(name, "integers of at least 0"))?;
    <[usize; N]>::try_from(sizes).map_err(|_| wrong(name, &format!("{N} integers")))
}

/// A size; `absent` when the attribute is absent.
pub(super) fn size_or(
    attributes: KernelAttributes<'_>,
    name: &str,
    absent: usize,
) -> Result<usize> {
    match attributes.optional(name) {
        None => Ok(absent),
        Some(_) => usize::try_from(attributes.i64(name)?).map_err(|_| wrong(name, "at least 0")),
    }
}

/// A float; `absent` when the attribute is absent.
pub(super) fn number_or(attributes: KernelAttributes<'_>, name: &str, absent: f32) -> Result<f32> {
    match attributes.optional(name) {
        None => Ok(absent),
        Some(Attribute::F32(value)) => Ok(*value),
        Some(_) => Err(wrong(name, "an f32")),
    }
}

/// A boolean; false when the attribute is absent.
pub(super) fn flag(attributes: KernelAttributes<'_>, name: &str) -> Result<bool> {
    match attributes.optional(name) {
        None => Ok(false),
        Some(Attribute::I1(value)) => Ok(*value),
        Some(_) => Err(wrong(name, "an i1")),
    }
}

/// A string; empty when the attribute is absent.
pub(super) fn text_or_empty<'a>(attributes: KernelAttributes<'a>, name: &str) -> Result<&'a str> {
    match attributes.optional(name) {
        None => Ok(""),
        Some(_) => attributes.string(name),
    }
}

/// A list of names.
pub(super) fn names(attributes: KernelAttributes<'_>, name: &str) -> Result<Vec<String>> {
    let list = attributes.attribute(name)?.as_list();
    let names = list.and_then(|list| {
        let text = |item: &Attribute| item.as_str().map(str::to_owned);
        list.iter().map(text).collect()
    });
    names.ok_or_else(|| wrong(name, "a list of names"))
}

/// A data format.
pub(super) fn format(attributes: KernelAttributes<'_>, name: &str) -> Result<DataFormat> {
    let text = attributes.string(name)?;
    DataFormat::from_word(text)
        .ok_or_else(|| wrong(name, &DataFormat::choices()).found(format_args!("'{text}'")))
}

/// A data format; `None` when the attribute is absent.
pub(super) fn optional_format(
    attributes: KernelAttributes<'_>,
    name: &str,
) -> Result<Option<DataFormat>> {
    match attributes.optional(name) {
        None => Ok(None),
        Some(_) => format(attributes, name).map(Some),
    }
}

/// The error of an attribute whose value is not `expected`.
pub(super) fn wrong(name: &str, expected: &str) -> Error {
    let text = format!("attribute '{name}' has a wrong value");
    Error::new(ErrorKind::InvalidProgram, text).expected(expected)
}
