//! Conversion of `AttributeProto`.

use crate::proto::{AttributeProto, TensorProto, attribute_type};
use tenon_base::{Error, ErrorKind, Location, Result};
use tenon_graph::Attribute;
use tenon_tensor::Tensor;

/// The value of an attribute; `read` converts tensors.
pub(crate) fn convert(
    proto: &AttributeProto,
    read: impl FnOnce(&TensorProto) -> Result<Tensor>,
) -> Result<Attribute> {
    let value = match kind(proto) {
        attribute_type::FLOAT => Attribute::Float(proto.f.unwrap_or_default()),
        attribute_type::INT => Attribute::Int(proto.i.unwrap_or_default()),
        attribute_type::STRING => Attribute::String(text(proto.s.as_deref().unwrap_or_default())?),
        attribute_type::FLOATS => Attribute::Floats(proto.floats.clone()),
        attribute_type::INTS => Attribute::Ints(proto.ints.clone()),
        attribute_type::STRINGS => {
            let texts = proto.strings.iter().enumerate();
            let texts = texts.map(|(at, bytes)| {
                text(bytes).map_err(|error| error.found(format_args!("element {at}")))
            });
            Attribute::Strings(texts.collect::<Result<_>>()?)
        }
        attribute_type::TENSOR => match &proto.t {
            Some(tensor) => Attribute::Tensor(read(tensor)?),
            None => return Err(invalid("an attribute of type tensor without a tensor")),
        },
        attribute_type::UNDEFINED => return Err(invalid("an attribute without a value")),
        other => return Err(without_form(other)),
    };
    Ok(value)
}

/// The kind of an attribute; files from before 2018 have no `type`, but one nonempty field.
pub(crate) fn kind(proto: &AttributeProto) -> i32 {
    if proto.r#type != attribute_type::UNDEFINED {
        return proto.r#type;
    }
    let filled = [
        (proto.f.is_some(), attribute_type::FLOAT),
        (proto.i.is_some(), attribute_type::INT),
        (proto.s.is_some(), attribute_type::STRING),
        (proto.t.is_some(), attribute_type::TENSOR),
        (proto.g.is_some(), attribute_type::GRAPH),
        (!proto.floats.is_empty(), attribute_type::FLOATS),
        (!proto.ints.is_empty(), attribute_type::INTS),
        (!proto.strings.is_empty(), attribute_type::STRINGS),
    ];
    filled
        .iter()
        .find(|(filled, _)| *filled)
        .map_or(attribute_type::UNDEFINED, |&(_, kind)| kind)
}

/// The memory of the attribute's lists after conversion, in bytes.
pub(crate) fn weight(proto: &AttributeProto) -> usize {
    let strings = proto
        .strings
        .iter()
        .map(|s| s.len() + size_of::<String>())
        .sum::<usize>();
    let text = proto.s.as_ref().map_or(0, |s| s.len());
    proto.ints.len() * 8 + proto.floats.len() * 4 + strings + text + size_of::<Attribute>()
}

fn text(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| invalid("a text that is not UTF-8"))
}

fn without_form(kind: i32) -> Error {
    let what = match kind {
        attribute_type::GRAPH | attribute_type::GRAPHS => {
            "a graph (control flow on values that are known only when running)"
        }
        attribute_type::TENSORS => "a list of tensors",
        attribute_type::SPARSE_TENSOR | attribute_type::SPARSE_TENSORS => "a sparse tensor",
        attribute_type::TYPE_PROTO | attribute_type::TYPE_PROTOS => "a type",
        _ => return invalid(format!("attribute type {kind} does not exist")),
    };
    Error::new(ErrorKind::Unsupported, what)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidModel, message)
}

/// The location of an attribute in errors.
pub(crate) fn place(name: &str) -> Location {
    Location::field(format!("attribute '{name}'"))
}
