//! An operator's attributes as a program stores them (docs/package.md, "program.bef").

use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_bef::Attribute as Stored;
use tenon_executor::KernelAttributes;
use tenon_graph::{Attribute, AttributeKind, Attributes, OperatorDef};

/// The prefix of the names of operator attributes.
const PREFIX: &str = "op.";

/// The attributes of a workload's operator, checked against the operator table; all problems
/// together.
pub(crate) fn operator_attributes(
    op: &OperatorDef,
    kernel: KernelAttributes<'_>,
) -> Result<Attributes> {
    let mut attributes = Attributes::new();
    let mut errors = Vec::new();
    for (name, stored) in kernel.iter() {
        let Some(name) = name.strip_prefix(PREFIX) else {
            continue;
        };
        match read(op, name, stored) {
            Ok(value) => attributes.set(name, value),
            Err(error) => errors.push(error.at(Location::field(format!("{PREFIX}{name}")))),
        }
    }
    Error::from_all(errors).map_or(Ok(attributes), Err)
}

fn read(op: &OperatorDef, name: &str, stored: &Stored) -> Result<Attribute> {
    let def = op.attributes.iter().find(|def| def.name == name);
    let kind = def
        .ok_or_else(|| invalid(format!("{} has no such attribute", op.name)))?
        .kind;
    let value = match (kind, stored) {
        (AttributeKind::Int, Stored::I64(value)) => Some(Attribute::Int(*value)),
        (AttributeKind::Float, Stored::F32(value)) => Some(Attribute::Float(*value)),
        (AttributeKind::String, Stored::String(value)) => {
            Some(Attribute::String(value.to_string()))
        }
        (AttributeKind::Ints, Stored::Array(items)) => list(items, |item| match item {
            Stored::I64(value) => Some(*value),
            _ => None,
        })
        .map(Attribute::Ints),
        (AttributeKind::Floats, Stored::Array(items)) => list(items, |item| match item {
            Stored::F32(value) => Some(*value),
            _ => None,
        })
        .map(Attribute::Floats),
        // BEF encodes an empty list of strings as an empty array, like any other empty list.
        (AttributeKind::Strings, Stored::Aggregate(items) | Stored::Array(items)) => {
            list(items, |item| match item {
                Stored::String(value) => Some(value.to_string()),
                _ => None,
            })
            .map(Attribute::Strings)
        }
        _ => None,
    };
    value.ok_or_else(|| invalid("the attribute has the wrong type").expected(kind))
}

fn list<T>(items: &[Stored], read: impl Fn(&Stored) -> Option<T>) -> Option<Vec<T>> {
    items.iter().map(read).collect()
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidProgram, message)
}
